//! What may stand in a path, a query string or a header, besides bodies.
//!
//! One value says it to the reader of requests and to the OpenAPI file, so the file is as strict as the server.

use serde_json::json;

/// What a parameter looks like.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Shape {
    /// A whole number in decimal digits.
    Integer {
        /// At least this.
        least: u64,
        /// At most this.
        most: u64,
    },
    /// A decimal number, never infinite.
    Number {
        /// At least this.
        least: f64,
        /// At most this.
        most: f64,
    },
    /// 1 to `most` characters.
    Text {
        /// At most so many.
        most: usize,
    },
    /// 1 to `most` visible ASCII characters, no blanks: what a header holds without doubt.
    Visible {
        /// At most so many.
        most: usize,
    },
    /// One of these.
    Choice(&'static [&'static str]),
    /// Some of these, each once, with commas between them.
    Choices(&'static [&'static str]),
}

/// A parameter that was read.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Value {
    Integer(u64),
    Number(f64),
    Text(String),
    Choice(&'static str),
    Choices(Vec<&'static str>),
}

impl Shape {
    /// The value, if the text has this shape.
    pub(super) fn read(self, text: &str) -> Option<Value> {
        match self {
            Self::Integer { least, most } => {
                let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
                let value = text.parse().ok().filter(|_| digits)?;
                (least..=most).contains(&value).then_some(Value::Integer(value))
            }
            Self::Number { least, most } => {
                // Rust would also read "inf" and "nan".
                let plain = text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
                let value = text.parse().ok().filter(|_| plain)?;
                (least..=most).contains(&value).then_some(Value::Number(value))
            }
            Self::Text { most } => {
                let fits = !text.is_empty() && (text.len() <= most || text.chars().count() <= most);
                fits.then(|| Value::Text(text.to_owned()))
            }
            Self::Visible { most } => {
                let fits = !text.is_empty() && text.len() <= most && text.bytes().all(|b| b.is_ascii_graphic());
                fits.then(|| Value::Text(text.to_owned()))
            }
            Self::Choice(all) => one_of(all, text).map(Value::Choice),
            Self::Choices(all) => {
                let mut chosen = Vec::new();
                for word in text.split(',') {
                    let word = one_of(all, word)?;
                    if chosen.contains(&word) {
                        return None;
                    }
                    chosen.push(word);
                }
                Some(Value::Choices(chosen))
            }
        }
    }

    /// What was expected, for people.
    pub(super) fn words(self) -> String {
        match self {
            Self::Integer { least, most } => format!("expected a whole number from {least} to {most}"),
            Self::Number { least, most } => format!("expected a number from {least} to {most}"),
            Self::Text { most } => format!("expected 1 to {most} characters"),
            Self::Visible { most } => format!("expected 1 to {most} visible ASCII characters without blanks"),
            Self::Choice(all) => format!("expected one of {}", all.join(", ")),
            Self::Choices(all) => {
                format!("expected some of {}, each once, with commas between them", all.join(", "))
            }
        }
    }

    /// As JSON Schema.
    pub(super) fn schema(self) -> serde_json::Value {
        match self {
            Self::Integer { least, most } => json!({"type": "integer", "minimum": least, "maximum": most}),
            Self::Number { least, most } => json!({"type": "number", "minimum": least, "maximum": most}),
            Self::Text { most } => json!({"type": "string", "minLength": 1, "maxLength": most}),
            Self::Visible { most } => {
                json!({"type": "string", "minLength": 1, "maxLength": most, "pattern": "^[!-~]+$"})
            }
            Self::Choice(all) => json!({"type": "string", "enum": all}),
            Self::Choices(all) => json!({
                "type": "array", "items": {"type": "string", "enum": all},
                "minItems": 1, "maxItems": all.len(), "uniqueItems": true,
            }),
        }
    }
}

fn one_of(all: &'static [&'static str], word: &str) -> Option<&'static str> {
    all.iter().copied().find(|known| *known == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_plain_and_within_limits() {
        let limit = Shape::Integer { least: 1, most: 1000 };
        assert_eq!(limit.read("7"), Some(Value::Integer(7)));
        for wrong in ["", "0", "1001", "+7", "-7", "7.0", "7e0", " 7", "99999999999999999999999", "seven", "٧"] {
            assert_eq!(limit.read(wrong), None, "{wrong}");
        }
        let moment = Shape::Number { least: 0.0, most: 1e12 };
        assert_eq!(moment.read("1.5e3"), Some(Value::Number(1500.0)));
        for wrong in ["", "inf", "-inf", "nan", "NaN", "-1", "1e13", "1e400", "0x10", "1,5"] {
            assert_eq!(moment.read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn text_is_counted_in_characters_and_choices_are_closed() {
        assert!(Shape::Text { most: 3 }.read("äöü").is_some());
        assert!(Shape::Text { most: 3 }.read("äöüß").is_none());
        assert!(Shape::Visible { most: 9 }.read("a b").is_none());
        let choices = Shape::Choices(&["a", "b"]);
        assert_eq!(choices.read("b,a"), Some(Value::Choices(vec!["b", "a"])));
        for wrong in ["", "a,", "a,a", "c", "A"] {
            assert_eq!(choices.read(wrong), None, "{wrong}");
        }
    }
}
