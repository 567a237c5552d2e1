//! Shared maps in snapshots: as the lists that they were before they were shared.

/// Jobs and their values.
pub(super) mod pairs {
    use arles_core::{JobId, SharedMap};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<V, S>(map: &SharedMap<V>, out: S) -> Result<S::Ok, S::Error>
    where
        V: Serialize + Clone,
        S: Serializer,
    {
        out.collect_seq(map.iter())
    }

    pub(crate) fn deserialize<'de, V, D>(input: D) -> Result<SharedMap<V>, D::Error>
    where
        V: Deserialize<'de> + Clone,
        D: Deserializer<'de>,
    {
        Ok(Vec::<(JobId, V)>::deserialize(input)?.into_iter().collect())
    }
}

/// Jobs alone.
pub(super) mod numbers {
    use arles_core::{JobId, SharedMap};
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(map: &SharedMap<()>, out: S) -> Result<S::Ok, S::Error> {
        out.collect_seq(map.ids())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<SharedMap<()>, D::Error> {
        Ok(Vec::<JobId>::deserialize(input)?.into_iter().map(|job| (job, ())).collect())
    }
}
