//! Things drawn at random in stated proportions, and how a user states them: `1:70,2:15,4:10,8:5`.

use crate::rng::Rng;
use arles_core::library::suggestion;
use std::fmt;
use std::str::FromStr;

/// Values with weights; at least one weight is positive.
#[derive(Clone, PartialEq, Debug)]
pub struct Mix<T> {
    values: Vec<T>,
    weights: Vec<f64>,
}

/// Why the text of an option cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct OptionError {
    /// What is wrong, what was expected and what to do.
    pub message: String,
}

impl OptionError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

impl<T> Mix<T> {
    /// A mix of values with weights.
    ///
    /// # Errors
    /// When a weight is negative or not finite, or none is positive.
    pub fn new(entries: impl IntoIterator<Item = (T, f64)>) -> Result<Self, OptionError> {
        let (values, weights): (Vec<T>, Vec<f64>) = entries.into_iter().unzip();
        if let Some(weight) = weights.iter().find(|w| !w.is_finite() || **w < 0.0) {
            return Err(OptionError::new(format!("weight {weight} cannot be used; expected a number, 0 or more")));
        }
        if !weights.iter().any(|w| *w > 0.0) {
            return Err(OptionError::new("no weight of this mix is more than 0, so nothing could be drawn; give one"));
        }
        Ok(Self { values, weights })
    }

    /// A mix written down in the source, where the weights can be seen to be good.
    pub(super) fn of<const N: usize>(entries: [(T, f64); N]) -> Self {
        let (values, weights) = entries.into_iter().unzip();
        Self { values, weights }
    }

    /// Other values in the same proportions.
    pub(super) fn map<U>(&self, value: impl FnMut(&T) -> U) -> Mix<U> {
        Mix { values: self.values.iter().map(value).collect(), weights: self.weights.clone() }
    }

    /// Always the same value.
    pub fn only(value: T) -> Self {
        Self { values: vec![value], weights: vec![1.0] }
    }

    /// The values, in the order given.
    #[must_use]
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// Their weights, in the same order.
    #[must_use]
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// Position of a value, drawn in proportion to its weight.
    pub fn draw_index(&self, rng: &mut Rng) -> usize {
        rng.weighted(&self.weights).unwrap_or_default()
    }

    /// A value, drawn in proportion to its weight.
    pub fn draw(&self, rng: &mut Rng) -> &T {
        &self.values[self.draw_index(rng)]
    }

    /// The weighted mean of a number of each value.
    pub fn mean(&self, number: impl Fn(&T) -> f64) -> f64 {
        let sum: f64 = self.values.iter().zip(&self.weights).map(|(value, weight)| number(value) * weight).sum();
        sum / self.weights.iter().sum::<f64>()
    }
}

/// `value:weight,value:weight,...`; a weight left out is 1.
impl<T: FromStr> FromStr for Mix<T>
where
    T::Err: fmt::Display,
{
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        let mut entries = Vec::new();
        for part in text.split(',').map(str::trim) {
            let (value, weight) = part.rsplit_once(':').unwrap_or((part, "1"));
            if value.is_empty() {
                let message = format!("'{text}' has an empty part; expected value:weight,value:weight,...");
                return Err(OptionError::new(message));
            }
            let value =
                value.trim().parse().map_err(|error| OptionError::new(format!("'{part}' in '{text}': {error}")))?;
            entries.push((value, number(weight, &format!("the weight of '{part}' in '{text}'"), "0 or more", 0.0)?));
        }
        Self::new(entries)
    }
}

/// A finite number not below `least`; `what` and `expected` go into the sentence otherwise.
pub(super) fn number(text: &str, what: &str, expected: &str, least: f64) -> Result<f64, OptionError> {
    match text.trim().parse::<f64>() {
        Ok(number) if number.is_finite() && number >= least => Ok(number),
        _ => Err(OptionError::new(format!("{what} is '{}'; expected a number, {expected}", text.trim()))),
    }
}

/// Takes `name:argument:argument` apart and refuses what is in no `forms` (name, arguments).
pub(super) fn form<'t>(
    text: &'t str,
    forms: &[(&'static str, &str)],
) -> Result<(&'static str, Vec<&'t str>), OptionError> {
    let mut parts = text.split(':').map(str::trim);
    let name = parts.next().unwrap_or_default();
    let arguments: Vec<&str> = parts.collect();
    let usage =
        |(name, args): &(&str, &str)| if args.is_empty() { (*name).to_owned() } else { format!("{name}:{args}") };
    let Some(entry) = forms.iter().find(|(known, _)| *known == name) else {
        let hint = suggestion(name, forms.iter().map(|f| f.0));
        let usages = forms.iter().map(usage).collect::<Vec<_>>().join(", ");
        return Err(OptionError::new(format!("'{text}' is not known{hint}; expected one of {usages}")));
    };
    let expected = if entry.1.is_empty() { 0 } else { entry.1.split(':').count() };
    if arguments.len() != expected {
        let message = format!("'{text}' has {} number(s) after its name; expected {}", arguments.len(), usage(entry));
        return Err(OptionError::new(message));
    }
    Ok((entry.0, arguments))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_are_read_and_drawn_in_proportion() {
        let mix: Mix<u32> = "1:70, 2:15,4:15".parse().unwrap();
        assert_eq!((mix.values(), mix.weights()), (&[1, 2, 4][..], &[70.0, 15.0, 15.0][..]));
        assert!((mix.mean(|&gang| f64::from(gang)) - 1.6).abs() < 1e-12);
        let mut rng = Rng::new(5);
        let ones = (0..10_000).filter(|_| *mix.draw(&mut rng) == 1).count();
        assert!((6_800..7_200).contains(&ones), "{ones}");
        let named: Mix<String> = "LM (batch size 5):3,A3C".parse().unwrap();
        assert_eq!(named.values(), ["LM (batch size 5)", "A3C"]);
    }

    #[test]
    fn wrong_mixes_are_sentences() {
        let check = |text: &str, expected: &str| {
            let error = text.parse::<Mix<u32>>().unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}\n  should start with {expected}");
        };
        check("", "'' has an empty part; expected value:weight");
        check("1:2,", "'1:2,' has an empty part");
        check("one:2", "'one:2' in 'one:2': invalid digit");
        check("1:x", "the weight of '1:x' in '1:x' is 'x'; expected a number, 0 or more");
        check("1:-2", "the weight of '1:-2' in '1:-2' is '-2'; expected a number, 0 or more");
        check("1:NaN", "the weight of '1:NaN' in '1:NaN' is 'NaN'");
        check("1:0", "no weight of this mix is more than 0");
    }
}
