//! How far apart the GPUs of a gang are, beyond what its size needs.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The level at which a gang is spread. A gang of eight on nodes of four needs two nodes: there it is packed.
///
/// Written as `false`, `true` and `"racks"`: the first two are what journals say that were written when there were no racks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Spread {
    /// As few nodes as it needs, in as few racks as it needs.
    #[default]
    Packed,
    /// More nodes than it needs, in as few racks as it needs.
    Nodes,
    /// More racks than it needs. (Whatever the nodes of a rack share, a switch or an NVLink domain, is not between these.)
    Racks,
}

impl Spread {
    /// All levels, from near to far.
    pub const ALL: [Self; 3] = [Self::Packed, Self::Nodes, Self::Racks];

    /// Its place in [`Spread::ALL`].
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }

    /// Whether the gang is farther apart than it needs to be.
    #[must_use]
    pub fn apart(self) -> bool {
        self != Self::Packed
    }
}

impl Serialize for Spread {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Packed => serializer.serialize_bool(false),
            Self::Nodes => serializer.serialize_bool(true),
            Self::Racks => serializer.serialize_str("racks"),
        }
    }
}

impl<'de> Deserialize<'de> for Spread {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Spread;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("false, true or \"racks\"")
            }

            fn visit_bool<E: de::Error>(self, apart: bool) -> Result<Spread, E> {
                Ok(if apart { Spread::Nodes } else { Spread::Packed })
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<Spread, E> {
                match word {
                    "racks" => Ok(Spread::Racks),
                    _ => Err(E::invalid_value(de::Unexpected::Str(word), &self)),
                }
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read_back_and_old_journals_understood() {
        for level in Spread::ALL {
            let text = serde_json::to_string(&level).expect("plain data");
            assert_eq!(serde_json::from_str::<Spread>(&text).expect("just written"), level);
        }
        assert_eq!(serde_json::from_str::<Spread>("true").expect("as it was written"), Spread::Nodes);
        assert!(serde_json::from_str::<Spread>("\"rows\"").is_err());
    }
}
