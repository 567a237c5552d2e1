//! Nodes, GPUs, kinds and tenants.

use super::{View, cursor, energy_of, limit};
use crate::Refusal;
use crate::read::book::Book;
use crate::read::views::Page;
use arles_api::{self as api, JobState};
use arles_core::meter::Charge;
use arles_core::{GpuId, JobId, NodeId};

impl View<'_> {
    /// Hosts, by number of their first GPU.
    ///
    /// # Errors
    /// When the query is invalid.
    pub fn nodes(&self, page: &Page) -> Result<api::Nodes, Refusal> {
        let (limit, beyond) = (limit(page)?, cursor(page.cursor.as_deref())?);
        let first = beyond.map_or(0, |n| (n as usize).saturating_add(1));
        let cluster = &self.header().cluster;
        let all = cluster.nodes().len();
        let numbers = first.min(all)..first.saturating_add(limit).min(all);
        let next = (numbers.end < all).then(|| (numbers.end.saturating_sub(1)).to_string());
        let nodes = self.book(|book| {
            let node = |i: usize| {
                let node = &cluster.nodes()[i];
                let range = node.gpu_range().start as usize..node.gpu_range().end as usize;
                api::Node {
                    name: node.name.clone(),
                    kind: cluster.kind(node.kind).name.clone(),
                    first_gpu: node.first_gpu.0,
                    gpus: node.gpus,
                    busy: book.seats[range.clone()].iter().filter(|seats| seats[0] != 0 || seats[1] != 0).count()
                        as u32,
                    state: node_state(book, NodeId(i as u32)).into(),
                    watts: book.watts[range].iter().map(|w| f64::from(*w)).sum(),
                }
            };
            numbers.map(node).collect()
        });
        Ok(api::Nodes { nodes, next })
    }

    /// All GPUs, in columns.
    #[must_use]
    pub fn gpus(&self) -> api::Gpus {
        let cluster = &self.header().cluster;
        let n = cluster.gpus();
        self.book(|book| {
            let mut gpus = api::Gpus {
                kinds: cluster.kinds().iter().map(|kind| kind.name.clone()).collect(),
                tenants: self.visible_tenants(book).map(|(_, line)| line.name.clone()).collect(),
                kind: Vec::with_capacity(n),
                state: Vec::with_capacity(n),
                job: Vec::with_capacity(n),
                partner: Vec::with_capacity(n),
                tenant: Vec::with_capacity(n),
                watts: book.watts.clone(),
            };
            // Number of each tenant among those that the caller may see.
            let mut shown = vec![None; book.tenants.len()];
            for (number, (i, _)) in self.visible_tenants(book).enumerate() {
                shown[i] = Some(number as i32);
            }
            for g in 0..n {
                let gpu = GpuId(g as u32);
                let owner = |job: u64| book.jobs.get(&JobId(job)).and_then(|r| shown[r.spec.tenant.index()]);
                let holders: Vec<u64> = book.seats[g].into_iter().filter(|&job| job != 0).collect();
                let mut visible = holders.iter().copied().filter(|&job| owner(job).is_some());
                let (first, second) = (visible.next().unwrap_or(0), visible.next().unwrap_or(0));
                let away = node_state(book, cluster.node_of(gpu)) != "up";
                gpus.kind.push(cluster.kind_of(gpu).0);
                gpus.state.push(if away { 3 } else { holders.len() as u8 });
                gpus.job.push(first);
                gpus.partner.push(second);
                gpus.tenant.push(owner(first).unwrap_or(-1));
            }
            gpus
        })
    }

    /// The kinds of this cluster.
    #[must_use]
    pub fn kinds(&self) -> api::Kinds {
        let cluster = &self.header().cluster;
        let counts = cluster.counts();
        let mut kinds: Vec<api::Kind> = cluster
            .kinds()
            .iter()
            .zip(counts)
            .map(|(kind, gpus)| api::Kind {
                name: kind.name.clone(),
                gpus,
                busy: 0,
                shared: 0,
                away: 0,
                memory_gib: kind.memory_gib,
                idle_watts: kind.idle_watts,
                peak_watts: kind.max_watts,
                watts: 0.0,
            })
            .collect();
        self.book(|book| {
            for g in 0..cluster.gpus() {
                let gpu = GpuId(g as u32);
                let kind = &mut kinds[cluster.kind_of(gpu).index()];
                let holders = book.seats[g].iter().filter(|&&job| job != 0).count();
                kind.busy += u32::from(holders > 0);
                kind.shared += u32::from(holders > 1);
                kind.away += u32::from(node_state(book, cluster.node_of(gpu)) != "up");
                kind.watts += f64::from(book.watts[g]);
            }
        });
        api::Kinds { kinds }
    }

    /// Who is owed a share, and has it.
    #[must_use]
    pub fn tenants(&self) -> api::Tenants {
        self.book(|book| {
            let weights: f64 = book.tenants.iter().map(|line| line.weight).sum();
            let held: f64 = book.tenants.iter().map(|line| line.gpus).sum();
            let tenant = |(i, line): (usize, &crate::read::book::TenantTotals)| {
                let (charge, gpu_seconds) = book.totals.tenants.get(i).copied().unwrap_or((Charge::default(), 0.0));
                api::Tenant {
                    name: line.name.clone(),
                    weight: line.weight,
                    entitlement_ratio: line.weight / weights.max(f64::MIN_POSITIVE),
                    held_ratio: if held > 0.0 { line.gpus / held } else { 0.0 },
                    gpus: line.gpus,
                    waiting: line.live[JobState::Waiting as usize],
                    running: line.live[1..].iter().sum(),
                    completed: line.completed,
                    gpu_seconds,
                    energy: energy_of(&charge),
                }
            };
            api::Tenants { tenants: self.visible_tenants(book).map(tenant).collect() }
        })
    }
}

/// `up`, `down`, or `silent`.
pub(crate) fn node_state(book: &Book, node: NodeId) -> &'static str {
    match book.nodes.get(node.index()) {
        Some(sight) if sight.up && sight.reachable => "up",
        Some(sight) if sight.up => "silent",
        Some(_) => "down",
        None => "silent",
    }
}
