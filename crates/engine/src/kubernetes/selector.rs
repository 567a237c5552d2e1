//! What a selector of devices picks, as far as it can be told without evaluating it.
//!
//! Selectors of DeviceClasses and claims are programs in CEL. Those that matter here are conjunctions of a few comparisons, and these are read: the driver, the type,
//! and the product or one of several products. Whatever else there is is kept as it is written, for whoever has to say that it was not understood.

use super::claims::{DRIVER, WHOLE};

/// What devices must be to be picked.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Selector {
    /// It says that they are devices of the GPUs' driver.
    pub(super) is_of_gpus: bool,
    /// Products that they may be of; none for all.
    pub(super) products: Option<Vec<String>>,
    /// What was not understood.
    pub(super) odd: Option<String>,
}

impl Selector {
    /// Reads expressions, all of which must be true of a device.
    pub(super) fn read<'e>(expressions: impl Iterator<Item = &'e str>) -> Self {
        expressions.flat_map(terms).fold(Self::default(), |all, term| all.and(Self::of_term(&term)))
    }

    /// Whether it picks all whole GPUs and nothing else.
    pub(super) fn is_plain(&self) -> bool {
        self.is_of_gpus && self.products.is_none() && self.odd.is_none()
    }

    /// Both at once.
    pub(super) fn and(self, other: Self) -> Self {
        let products = match (self.products, other.products) {
            (Some(some), Some(others)) => Some(some.into_iter().filter(|name| others.contains(name)).collect()),
            (some, others) => some.or(others),
        };
        Self { is_of_gpus: self.is_of_gpus || other.is_of_gpus, products, odd: self.odd.or(other.odd) }
    }

    fn of_term(term: &str) -> Self {
        let attribute = |name: &str| {
            [format!("device.attributes['{DRIVER}'].{name}=="), format!("device.attributes[\"{DRIVER}\"].{name}==")]
        };
        let equals = |text: &str, names: &[String]| {
            let value = names.iter().find_map(|name| text.strip_prefix(name.as_str()))?;
            quoted(value).map(str::to_owned)
        };
        if equals(term, &["device.driver==".to_owned()]).as_deref() == Some(DRIVER) {
            return Self { is_of_gpus: true, ..Self::default() };
        }
        if equals(term, &attribute("type")).as_deref() == Some(WHOLE) {
            return Self::default();
        }
        let alternatives: Option<Vec<String>> =
            bare(term).split("||").map(|part| equals(part, &attribute("productName"))).collect();
        if alternatives.is_some() {
            return Self { products: alternatives, ..Self::default() };
        }
        let is_of_gpus = term.starts_with("device.attributes") && term.contains(DRIVER);
        Self { is_of_gpus, odd: Some(term.to_owned()), ..Self::default() }
    }
}

/// The parts of a conjunction, without spaces outside of texts.
fn terms(expression: &str) -> Vec<String> {
    let (mut quote, mut text) = (None, String::new());
    for c in expression.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            None if c == '\'' || c == '"' => quote = Some(c),
            None if c.is_whitespace() => continue,
            _ => {}
        }
        text.push(c);
    }
    let parts = bare(&text).split("&&");
    parts.filter(|part| !part.is_empty() && *part != "true").map(str::to_owned).collect()
}

/// Without parentheses around all of it.
fn bare(text: &str) -> &str {
    let inner = text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
    inner.filter(|inner| !inner.contains(['(', ')'])).unwrap_or(text)
}

/// What is between quotes.
fn quoted(text: &str) -> Option<&str> {
    let mut chars = text.chars();
    let quote = chars.next().filter(|c| matches!(c, '\'' | '"'))?;
    let inner = text[1..].strip_suffix(quote)?;
    (!inner.contains(quote)).then_some(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_picks_gpus_or_products_is_understood_and_nothing_else() {
        let gpus = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'";
        let product = |name: &str| format!("device.attributes[\"gpu.nvidia.com\"].productName == \"{name}\"");
        let (a100, h100) = (product("NVIDIA A100-SXM4-40GB"), product("NVIDIA H100 80GB HBM3"));
        let both = format!("({a100} || {h100})");
        let large = "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('40Gi')) >= 0";
        let slice = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'";
        for (expressions, is_of_gpus, products, is_odd) in [
            (vec![gpus], true, None, false),
            (vec!["device.driver == \"gpu.nvidia.com\""], true, None, false),
            (vec![gpus, a100.as_str()], true, Some(vec!["NVIDIA A100-SXM4-40GB"]), false),
            (vec![both.as_str()], false, Some(vec!["NVIDIA A100-SXM4-40GB", "NVIDIA H100 80GB HBM3"]), false),
            (vec![both.as_str(), h100.as_str()], false, Some(vec!["NVIDIA H100 80GB HBM3"]), false),
            (vec![gpus, large], true, None, true),
            (vec![slice], true, None, true),
            (vec!["device.driver == 'dra.example.org'"], false, None, true),
            (vec![], false, None, false),
        ] {
            let found = Selector::read(expressions.iter().copied());
            let products = products.map(|names| names.into_iter().map(str::to_owned).collect::<Vec<_>>());
            assert_eq!(
                (found.is_of_gpus, found.products, found.odd.is_some()),
                (is_of_gpus, products, is_odd),
                "{expressions:?}"
            );
        }
    }
}
