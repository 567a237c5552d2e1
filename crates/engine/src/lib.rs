//! Engines: what runs the gangs that the scheduler orders.
//!
//! The trait is [`arles_core::engine::Engine`]. Here are its implementations and the [contract] that all of them must pass. This crate keeps
//! sockets, processes and the protocols of other systems away from everybody else. It decides nothing.
//!
//! - [`Virtual`]: the simulator's world behind the trait, in this process;
//! - [`Local`]: this machine, its GPUs and programs as processes;
//! - [`Slurm`] and [`Kubernetes`]: clusters that these run, where arles decides;
//! - [`serve`] puts a virtual cluster into a process of its own, and [`Remote`] is the way there.

pub mod contract;
pub mod intake;
pub mod kubernetes;
mod local;
mod log;
mod metrics;
mod order;
mod remote;
mod serve;
pub mod slurm;
mod virtual_cluster;
mod wire;

pub use kubernetes::{Kubernetes, KubernetesOptions};
pub use local::{
    Card, CardLimits, CardUser, DeviceUser, GpuMeter, GpuReading, GpuTrouble, Inventory, Local, LocalOptions,
    MigLayout, Nominal, Nvidia, OutputLimits, PartOf, PowerLimit, PowerLimiter, Recorded, RecordedReading,
    SHIM_VARIABLE, Sharing, Slices, THREADS_VARIABLE, put_back_left_over, shim, threads_each, unmake_left_over,
};
pub use log::{LogEvent, LogLine};
pub use metrics::{EnergySource, MetricsMeter};
pub use remote::Remote;
pub use serve::serve;
pub use slurm::{Slurm, SlurmOptions};
pub use virtual_cluster::Virtual;
