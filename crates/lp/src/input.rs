//! What every solver of this crate refuses, and the checks that find it. A solver calls these on its problem before it
//! does anything else; nothing after them may panic on a number.

use crate::ModelError;
use std::fmt;

/// The numbers that are allowed in some place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Domain {
    /// Finite and at least 0.
    NonNegative,
    /// Finite and above 0.
    Positive,
    /// Above 0; infinite for no limit.
    Limit,
    /// Finite and at least 1.
    AtLeastOne,
    /// Above 0 and at most 1.
    Fraction,
    /// Between 1e-60 and 1e60: products of a few of them do not overflow.
    Moderate,
    /// As `Moderate`, or 0.
    ModerateOrZero,
    /// At least 1e-60; infinite for no limit.
    ModerateLimit,
}

/// The least positive number of [`Domain::Moderate`].
const LEAST: f64 = 1e-60;
/// The largest number of [`Domain::Moderate`].
const GREATEST: f64 = 1e60;

impl Domain {
    /// Is the number allowed? Never true of NaN.
    #[inline]
    #[must_use]
    pub fn contains(self, value: f64) -> bool {
        match self {
            Self::NonNegative => value.is_finite() && value >= 0.0,
            Self::Positive => value.is_finite() && value > 0.0,
            Self::Limit => value > 0.0,
            Self::AtLeastOne => value.is_finite() && value >= 1.0,
            Self::Fraction => value > 0.0 && value <= 1.0,
            Self::Moderate => (LEAST..=GREATEST).contains(&value),
            Self::ModerateOrZero => value == 0.0 || (LEAST..=GREATEST).contains(&value),
            Self::ModerateLimit => value >= LEAST,
        }
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NonNegative => "finite and at least 0",
            Self::Positive => "finite and above 0",
            Self::Limit => "above 0, or infinite for no limit",
            Self::AtLeastOne => "finite and at least 1",
            Self::Fraction => "above 0 and at most 1",
            Self::Moderate => "between 1e-60 and 1e60: use other units",
            Self::ModerateOrZero => "0, or between 1e-60 and 1e60: use other units",
            Self::ModerateLimit => "at least 1e-60, or infinite for no limit: use other units",
        })
    }
}

/// Why a problem was refused.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
pub enum InputError {
    /// There are no users (or classes) or no resources.
    #[error("there are no users or no resources; solve only when there is something to divide")]
    Empty,
    /// A list whose length does not fit the others.
    #[error("{what} has {length} numbers where {expected} were expected; give one per user or resource")]
    Shape {
        /// Which list.
        what: &'static str,
        /// Entries that it has.
        length: usize,
        /// The length that fits.
        expected: usize,
    },
    /// A number that is not allowed where it is.
    #[error("{what} {index} is {value}; it must be {domain}")]
    Number {
        /// Which list.
        what: &'static str,
        /// Position in it.
        index: usize,
        /// The number.
        value: f64,
        /// What is allowed.
        domain: Domain,
    },
    /// A list whose numbers differ so much that sums lose the small ones.
    #[error(
        "{what} runs from {least:e} to {greatest:e}; sums lose the small ones beyond a ratio of {widest:e}, so give \
         speed-ups instead of raw rates"
    )]
    Spread {
        /// Which list.
        what: &'static str,
        /// The least positive number in it.
        least: f64,
        /// Inclusive.
        greatest: f64,
        /// The largest ratio that is allowed.
        widest: f64,
    },
    /// A user who cannot use any resource that has capacity: no solution would give it anything.
    #[error("user {user} has no positive rate on any resource with capacity; leave such users out")]
    Unservable {
        /// Its row has no positive rate on a resource that there is.
        user: usize,
    },
    /// More of something than the solver takes.
    #[error("{count} {what} are more than {most}; merge some that are alike")]
    TooMany {
        /// The noun that is counted, in the plural.
        what: &'static str,
        /// How many there are.
        count: u64,
        /// How many are allowed.
        most: u64,
    },
    /// A reference to a class or resource that does not exist, or that may not be referred to here.
    #[error(
        "{what} {index} refers to {value}, which does not exist or takes more than one unit; count classes and \
         resources from 0 and leave such pairs out"
    )]
    Unknown {
        /// What refers to it.
        what: &'static str,
        /// Its position.
        index: usize,
        /// What it refers to.
        value: usize,
    },
    /// Pairs are out of order or repeated.
    #[error(
        "pair {index} is not above the pair before it, or its first class is above its second; sort pairs by first \
         class, second class and resource, and give each once"
    )]
    Order {
        /// The first pair that is not above the one before it.
        index: usize,
    },
    /// A class and resource that are listed twice.
    #[error("{what} {index} is the second of its class and resource; add up what is held")]
    Repeated {
        /// In which list.
        what: &'static str,
        /// Position of the second.
        index: usize,
    },
    /// The numbers are so far apart that scaling them overflows.
    #[error("rates, targets and capacities are too far apart to be scaled; use closer units")]
    Scale(#[source] ModelError),
}

/// Refuses a problem without users or without resources.
pub(crate) fn check_some(users: usize, resources: usize) -> Result<(), InputError> {
    if users == 0 || resources == 0 { Err(InputError::Empty) } else { Ok(()) }
}

/// Refuses a list of the wrong length.
pub(crate) fn check_shape(what: &'static str, length: usize, expected: usize) -> Result<(), InputError> {
    if length == expected { Ok(()) } else { Err(InputError::Shape { what, length, expected }) }
}

/// Refuses more than `most`.
pub(crate) fn check_count(what: &'static str, count: u64, most: u64) -> Result<(), InputError> {
    if count <= most { Ok(()) } else { Err(InputError::TooMany { what, count, most }) }
}

/// Refuses a number outside its domain.
#[inline]
pub(crate) fn check_number(what: &'static str, index: usize, value: f64, domain: Domain) -> Result<(), InputError> {
    if domain.contains(value) { Ok(()) } else { Err(InputError::Number { what, index, value, domain }) }
}

/// Refuses the first number outside its domain.
#[inline]
pub(crate) fn check_numbers(
    what: &'static str,
    values: impl IntoIterator<Item = f64>,
    domain: Domain,
) -> Result<(), InputError> {
    values.into_iter().enumerate().try_for_each(|(index, value)| check_number(what, index, value, domain))
}

/// Refuses the first user without a positive rate on any resource with capacity.
pub(crate) fn check_servable(w: &[f64], capacity: &[f64]) -> Result<(), InputError> {
    let useful = |rates: &[f64]| rates.iter().zip(capacity).any(|(&w, &m)| w > 0.0 && m > 0.0);
    match w.chunks_exact(capacity.len()).position(|rates| !useful(rates)) {
        Some(user) => Err(InputError::Unservable { user }),
        None => Ok(()),
    }
}

/// Refuses a reference to something that is not among `count`.
pub(crate) fn check_known(what: &'static str, index: usize, value: usize, count: usize) -> Result<(), InputError> {
    if value < count { Ok(()) } else { Err(InputError::Unknown { what, index, value }) }
}

/// Refuses pairs `(first class, second class, resource)` that are not strictly increasing with `first ≤ second`.
pub(crate) fn check_pair_order<K: Copy + Ord>(pairs: impl Iterator<Item = (K, K, usize)>) -> Result<(), InputError> {
    let mut last = None;
    for (index, key) in pairs.enumerate() {
        if key.0 > key.1 || last.is_some_and(|last| last >= key) {
            return Err(InputError::Order { index });
        }
        last = Some(key);
    }
    Ok(())
}
