//! The words that stand for sources, modes and precisions, the same in every file.

use arles_core::estimate::Source;
use arles_core::{Mode, Precision};

/// Sources, from the least to the most reliable.
pub const SOURCES: [(&str, Source); 4] = [
    ("stated", Source::Stated),
    ("initial", Source::Initial),
    ("refined", Source::Refined),
    ("measured", Source::Measured),
];

pub(super) const MODES: [(&str, Mode); 2] = [("training", Mode::Training), ("inference", Mode::Inference)];

pub(super) const PRECISIONS: [(&str, Precision); 4] =
    [("fp32", Precision::Fp32), ("tf32", Precision::Tf32), ("fp16", Precision::Fp16), ("int8", Precision::Int8)];

/// The word for a value; every value has one.
#[must_use]
pub fn label_of<T: PartialEq>(value: &T, words: &[(&'static str, T)]) -> &'static str {
    words.iter().find(|(_, known)| known == value).map_or("", |(word, _)| word)
}

/// What a word stands for.
#[must_use]
pub fn from_label<T: Copy>(word: &str, words: &[(&str, T)]) -> Option<T> {
    words.iter().find(|(known, _)| *known == word).map(|(_, value)| *value)
}
