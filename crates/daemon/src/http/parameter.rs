//! Types of path, query and header parameters.
//!
//! One value says it to the reader of requests and to the OpenAPI file, so the file is as strict as the server.

use serde_json::json;

/// How a parameter is written, checked and described.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ParameterType {
    /// A whole number in decimal digits.
    Integer {
        /// Minimum.
        least: u64,
        /// Maximum.
        most: u64,
    },
    /// A decimal number, never infinite.
    Number {
        /// Minimum.
        least: f64,
        /// Maximum.
        most: f64,
    },
    /// 1 to `most` characters.
    Text {
        /// Maximum length.
        most: usize,
    },
    /// 1 to `most` printable ASCII characters, no spaces: what every header can hold.
    Visible {
        /// Maximum length.
        most: usize,
    },
    /// One of these words.
    Choice(&'static [&'static str]),
    /// One or more of these words, each once, separated by commas.
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

impl ParameterType {
    /// The value, if the text has this kind.
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

    /// What was expected, as part of a message.
    pub(super) fn expected(self) -> String {
        match self {
            Self::Integer { least, most } => format!("expected a whole number from {least} to {most}"),
            Self::Number { least, most } => format!("expected a number from {least} to {most}"),
            Self::Text { most } => format!("expected 1 to {most} characters"),
            Self::Visible { most } => format!("expected 1 to {most} printable ASCII characters without spaces"),
            Self::Choice(all) => format!("expected one of {}", all.join(", ")),
            Self::Choices(all) => {
                format!("expected one or more of {}, separated by commas, each once", all.join(", "))
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
        let limit = ParameterType::Integer { least: 1, most: 1000 };
        assert_eq!(limit.read("7"), Some(Value::Integer(7)));
        for wrong in ["", "0", "1001", "+7", "-7", "7.0", "7e0", " 7", "99999999999999999999999", "seven", "٧"] {
            assert_eq!(limit.read(wrong), None, "{wrong}");
        }
        let moment = ParameterType::Number { least: 0.0, most: 1e12 };
        assert_eq!(moment.read("1.5e3"), Some(Value::Number(1500.0)));
        for wrong in ["", "inf", "-inf", "nan", "NaN", "-1", "1e13", "1e400", "0x10", "1,5"] {
            assert_eq!(moment.read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn text_is_counted_in_characters_and_choices_are_closed() {
        assert!(ParameterType::Text { most: 3 }.read("äöü").is_some());
        assert!(ParameterType::Text { most: 3 }.read("äöüß").is_none());
        assert!(ParameterType::Visible { most: 9 }.read("a b").is_none());
        let choices = ParameterType::Choices(&["a", "b"]);
        assert_eq!(choices.read("b,a"), Some(Value::Choices(vec!["b", "a"])));
        for wrong in ["", "a,", "a,a", "c", "A"] {
            assert_eq!(choices.read(wrong), None, "{wrong}");
        }
    }
}
