//! The part of arles that decides.
//!
//! `core` turns inputs into decisions and nothing else: it has no clock, no IO, no threads and no
//! randomness of its own. Whoever drives it (a simulation, the daemon, a dry run: see [`drive`]) brings the time with
//! every input and carries out what comes back, so the same decisions can be replayed from a journal.

pub mod allocate;
pub mod audit;
pub mod cluster;
pub mod delimited;
pub mod drive;
pub mod engine;
pub mod estimate;
pub mod fingerprint;
pub mod fleet;
pub mod frontier;
pub mod hierarchy;
mod host;
pub mod ids;
pub mod job;
pub mod kind;
pub mod library;
mod live;
pub mod meter;
pub mod model;
pub mod name;
pub mod place;
pub mod prices;
pub mod program;
pub mod quota;
pub mod scheduler;
pub mod shared_map;
pub mod sizing;
pub mod spread;
mod wanted;
pub mod workload;

pub use cluster::{Applied, Cluster, ClusterChange, ClusterError, Node, NodeSpec};
pub use fingerprint::Fingerprint;
pub use ids::{GpuId, JobId, KindId, NodeId, RackId, Round, TenantId, Time, WorkloadId};
pub use job::{ArrayTask, Dependency, JobSpec, Needs, Outcome, Tenant, Work};
pub use kind::{BadLimit, Kind};
pub use library::Library;
pub use prices::{PriceBand, Prices};
pub use program::{Program, Script};
pub use quota::{Month, Quota};
pub use scheduler::{Input, Output, Scheduler};
pub use shared_map::SharedMap;
pub use spread::Spread;
pub use workload::{Mode, Precision, Profile, Workload};
