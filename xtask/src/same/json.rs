//! Just enough JSON to compare the shape of two documents: the keys of objects and the types of values.

use std::collections::BTreeMap;

/// What a value looks like.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Shape {
    /// `null`, or the elements of an empty list: fits everything.
    Any,
    Flag,
    Number,
    Text,
    /// What all elements have in common.
    List(Box<Shape>),
    Map(BTreeMap<String, Shape>),
}

/// The shape of a document.
pub(super) fn shape(text: &str) -> Result<Shape, String> {
    let mut reader = Reader { rest: text.trim() };
    let shape = reader.value()?;
    if reader.rest.trim().is_empty() { Ok(shape) } else { Err(format!("more follows: '{}'", head(reader.rest))) }
}

/// Where two shapes differ, if they do.
pub(super) fn difference(one: &Shape, two: &Shape, at: &str) -> Option<String> {
    match (one, two) {
        (Shape::Any, _) | (_, Shape::Any) => None,
        (Shape::List(one), Shape::List(two)) => difference(one, two, &format!("{at}[]")),
        (Shape::Map(one), Shape::Map(two)) => {
            let missing = |from: &BTreeMap<String, Shape>, of: &BTreeMap<String, Shape>| {
                of.keys().find(|key| !from.contains_key(*key)).cloned()
            };
            if let Some(key) = missing(two, one) {
                return Some(format!("{at}.{key} is gone"));
            }
            if let Some(key) = missing(one, two) {
                return Some(format!("{at}.{key} is new"));
            }
            one.iter().find_map(|(key, shape)| difference(shape, &two[key], &format!("{at}.{key}")))
        }
        _ if one == two => None,
        _ => Some(format!("{at} has another type")),
    }
}

/// A shape that both fit, where there is one; the first otherwise, so that the difference shows.
fn common(one: Shape, two: Shape) -> Shape {
    match (one, two) {
        (Shape::Any, shape) | (shape, Shape::Any) => shape,
        (Shape::List(one), Shape::List(two)) => Shape::List(Box::new(common(*one, *two))),
        (Shape::Map(mut one), Shape::Map(two)) => {
            for (key, shape) in two {
                let known = one.remove(&key);
                one.insert(key, known.map_or(shape.clone(), |known| common(known, shape)));
            }
            Shape::Map(one)
        }
        (one, _) => one,
    }
}

fn head(text: &str) -> String {
    text.chars().take(20).collect()
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn value(&mut self) -> Result<Shape, String> {
        self.rest = self.rest.trim_start();
        for (word, shape) in [("null", Shape::Any), ("true", Shape::Flag), ("false", Shape::Flag)] {
            if let Some(rest) = self.rest.strip_prefix(word) {
                self.rest = rest;
                return Ok(shape);
            }
        }
        match self.rest.chars().next() {
            Some('"') => self.text().map(|_| Shape::Text),
            Some('[') => self.list(),
            Some('{') => self.map(),
            Some(c) if c == '-' || c.is_ascii_digit() => {
                self.rest = self.rest.trim_start_matches(|c: char| c.is_ascii_digit() || "+-.eE".contains(c));
                Ok(Shape::Number)
            }
            _ => Err(format!("no value at '{}'", head(self.rest))),
        }
    }

    /// Whether the next character is this one, which is then taken.
    fn take(&mut self, c: char) -> bool {
        self.rest = self.rest.trim_start();
        self.rest.strip_prefix(c).map(|rest| self.rest = rest).is_some()
    }

    fn text(&mut self) -> Result<String, String> {
        let inside = self.rest.strip_prefix('"').ok_or_else(|| format!("no text at '{}'", head(self.rest)))?;
        let mut escaped = false;
        for (at, c) in inside.char_indices() {
            match c {
                '"' if !escaped => {
                    self.rest = &inside[at + 1..];
                    return Ok(inside[..at].to_owned());
                }
                c => escaped = c == '\\' && !escaped,
            }
        }
        Err("a text does not end".to_owned())
    }

    fn list(&mut self) -> Result<Shape, String> {
        self.take('[');
        let mut shape = Shape::Any;
        if self.take(']') {
            return Ok(Shape::List(Box::new(shape)));
        }
        loop {
            shape = common(shape, self.value()?);
            if self.take(']') {
                return Ok(Shape::List(Box::new(shape)));
            }
            if !self.take(',') {
                return Err(format!("no comma at '{}'", head(self.rest)));
            }
        }
    }

    fn map(&mut self) -> Result<Shape, String> {
        self.take('{');
        let mut map = BTreeMap::new();
        if self.take('}') {
            return Ok(Shape::Map(map));
        }
        loop {
            self.rest = self.rest.trim_start();
            let key = self.text()?;
            if !self.take(':') {
                return Err(format!("no colon after '{key}'"));
            }
            map.insert(key, self.value()?);
            if self.take('}') {
                return Ok(Shape::Map(map));
            }
            if !self.take(',') {
                return Err(format!("no comma at '{}'", head(self.rest)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn differ(one: &str, two: &str) -> Option<String> {
        difference(&shape(one).unwrap(), &shape(two).unwrap(), "")
    }

    #[test]
    fn values_may_differ_and_shapes_may_not() {
        assert_eq!(differ(r#"{"a": 1, "b": ["x\"]", "y"]}"#, r#"{"b": ["z"], "a": -2.5e3}"#), None);
        assert_eq!(differ(r#"{"a": null, "b": []}"#, r#"{"a": "x", "b": [{"c": 1}]}"#), None);
        assert_eq!(differ(r#"{"a": 1}"#, "{}"), Some(".a is gone".to_owned()));
        assert_eq!(differ("[{}]", r#"[{"c": true}]"#), Some("[].c is new".to_owned()));
        assert_eq!(differ(r#"{"a": 1}"#, r#"{"a": "1"}"#), Some(".a has another type".to_owned()));
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for text in ["", "{", "[1 2]", "{\"a\" 1}", "\"x", "nothing", "1 2"] {
            assert!(shape(text).is_err(), "{text}");
        }
    }
}
