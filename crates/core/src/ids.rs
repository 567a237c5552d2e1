//! Names for things, as small numbers, and the time.
//!
//! Ids are indices handed out by whoever owns the thing (a cluster numbers its kinds, nodes and GPUs). They
//! are newtypes so that a node can never be passed where a GPU is meant.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($raw:ty), $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $raw);

        impl $name {
            /// As an index into the owner's list.
            #[must_use]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

id!(
    /// A GPU kind of this cluster.
    KindId(u16), "kind-"
);
id!(
    /// A host.
    NodeId(u32), "node-"
);
id!(
    /// One GPU; a node's GPUs are numbered one after another.
    GpuId(u32), "gpu-"
);
id!(
    /// A rack of this cluster, or whatever its network is fast within.
    RackId(u32), "rack-"
);
id!(
    /// Who is owed a share.
    TenantId(u32), "tenant-"
);
id!(
    /// What runs.
    WorkloadId(u32), "workload-"
);
id!(
    /// One submission.
    JobId(u64), "job-"
);
id!(
    /// One decision of the scheduler, counted from 1.
    Round(u64), "round-"
);

/// A moment, in whole microseconds since the driver's origin.
///
/// Integers, so that moments compare exactly and a journal holds them without loss.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(pub u64);

impl Time {
    /// The driver's origin.
    pub const ZERO: Time = Time(0);

    /// The moment `seconds` after the origin, to the nearest microsecond; negative and NaN become the origin.
    #[must_use]
    pub fn from_seconds(seconds: f64) -> Time {
        Time((seconds.max(0.0) * 1e6).round() as u64)
    }

    /// Seconds since the origin.
    #[must_use]
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// The moment `seconds` later.
    #[must_use]
    pub fn after(self, seconds: f64) -> Time {
        Time(self.0.saturating_add((seconds.max(0.0) * 1e6).round() as u64))
    }

    /// Seconds from `earlier` to here; 0 if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Time) -> f64 {
        self.0.saturating_sub(earlier.0) as f64 / 1e6
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}s", self.seconds())
    }
}
