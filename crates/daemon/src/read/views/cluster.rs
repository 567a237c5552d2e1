//! Nodes, GPUs, kinds and tenants.

use super::{View, cursor, energy_of, limit};
use crate::Refusal;
use crate::read::book::Book;
use crate::read::views::Page;
use arles_api::{self as api, JobState};
use arles_core::meter::Charge;
use arles_core::{GpuId, JobId, Month, Node, NodeId, Quota, Time};

impl View<'_> {
    /// Hosts, by number of their first GPU.
    ///
    /// # Errors
    /// When the query is invalid.
    pub fn nodes(&self, page: &Page) -> Result<api::Nodes, Refusal> {
        let (limit, beyond) = (limit(page)?, cursor(page.cursor.as_deref())?);
        let first = beyond.map_or(0, |n| usize::try_from(n).unwrap_or(usize::MAX).saturating_add(1));
        Ok(self.book(|book| {
            let present = |(_, node): &(usize, &Node)| !node.removed;
            let mut rest = book.cluster().nodes().iter().enumerate().skip(first).filter(present);
            let shown: Vec<usize> = rest.by_ref().take(limit).map(|(i, _)| i).collect();
            let next = shown.last().filter(|_| rest.next().is_some()).map(usize::to_string);
            let busy = asked_for(book);
            api::Nodes { nodes: shown.into_iter().map(|i| node(book, i, &busy)).collect(), next }
        }))
    }

    /// One host by its name, if it is there.
    pub(crate) fn node(&self, name: &str) -> Option<api::Node> {
        self.book(|book| {
            let id = book.cluster().find(name)?;
            Some(node(book, id.index(), &asked_for(book)))
        })
    }

    /// All GPUs, in columns.
    #[must_use]
    pub fn gpus(&self) -> api::Gpus {
        self.book(|book| {
            let cluster = book.cluster();
            let n = cluster.gpus();
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
                gpus.kind.push(cluster.kind_of(gpu).0);
                // Jobs on a node that is drained are there until they are moved.
                gpus.state.push(if gpu_is_away(book, gpu) && holders.is_empty() || is_down(book, gpu) {
                    3
                } else {
                    holders.len() as u8
                });
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
        self.book(|book| {
            let cluster = book.cluster();
            let kind = |kind: &arles_core::Kind| api::Kind {
                name: kind.name.clone(),
                gpus: 0,
                busy: 0,
                shared: 0,
                away: 0,
                memory_gib: kind.memory_gib,
                idle_watts: kind.idle_watts,
                peak_watts: kind.max_watts,
                watts: 0.0,
            };
            let mut kinds: Vec<api::Kind> = cluster.kinds().iter().map(kind).collect();
            for g in 0..cluster.gpus() {
                let gpu = GpuId(g as u32);
                if cluster.node(cluster.node_of(gpu)).removed {
                    continue;
                }
                let kind = &mut kinds[cluster.kind_of(gpu).index()];
                let holders = book.seats[g].iter().filter(|&&job| job != 0).count();
                kind.gpus += 1;
                kind.busy += u32::from(holders > 0);
                kind.shared += u32::from(holders > 1);
                kind.away += u32::from(gpu_is_away(book, gpu));
                kind.watts += f64::from(book.watts[g]);
            }
            api::Kinds { kinds }
        })
    }

    /// Who is owed a share, and has it.
    #[must_use]
    pub fn tenants(&self) -> api::Tenants {
        self.book(|book| {
            let weights: f64 = book.present_tenants().map(|(_, line)| line.weight).sum();
            let resets_at = Month::of(self.now()).next().begins().seconds();
            let held: f64 = book.tenants.iter().map(|line| line.gpus).sum();
            let tenant = |(i, line): (usize, &crate::read::book::TenantTotals)| {
                let used = book.tenant_uses.get(i);
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
                    quota: used.map(|used| quota(&used.quota)).unwrap_or_default(),
                    month: api::MonthlyUse {
                        gpu_hours: used.map_or(0.0, |used| used.gpu_hours),
                        kwh: used.map_or(0.0, |used| used.kwh),
                        resets_at,
                    },
                }
            };
            let present = self.visible_tenants(book).filter(|(i, _)| !book.has_left(*i));
            api::Tenants { tenants: present.map(tenant).collect() }
        })
    }
}

fn quota(quota: &Quota) -> api::Quota {
    let Quota { gpus, jobs, gpu_hours, kwh, submits_per_second } = *quota;
    api::Quota { gpus, jobs, gpu_hours, kwh, submits_per_second }
}

/// CPUs and memory in GiB that the gangs on each node asked for.
fn asked_for(book: &Book) -> Vec<(f64, f64)> {
    let cluster = book.cluster();
    let mut busy = vec![(0.0, 0.0); cluster.nodes().len()];
    for (seats, gpu) in book.seats.iter().zip(0..) {
        for record in seats.iter().filter_map(|&job| book.jobs.get(&JobId(job))) {
            let node = &mut busy[cluster.node_of(GpuId(gpu)).index()];
            node.0 += record.spec.needs.cpus_per_gpu;
            node.1 += record.spec.needs.memory_gib_per_gpu;
        }
    }
    busy
}

fn node(book: &Book, i: usize, asked_for: &[(f64, f64)]) -> api::Node {
    let cluster = book.cluster();
    let node = &cluster.nodes()[i];
    let range = node.gpu_range().start as usize..node.gpu_range().end as usize;
    let status = book.nodes.get(i);
    let drain = status.and_then(|status| status.drain.as_ref()).map(|drain| api::Drain {
        why: drain.why.clone(),
        since: drain.since.seconds(),
        deadline: drain.deadline.map(Time::seconds),
    });
    api::Node {
        name: node.name.clone(),
        kind: cluster.kind(node.kind).name.clone(),
        first_gpu: node.first_gpu.0,
        gpus: node.gpus,
        busy: book.seats[range.clone()].iter().filter(|seats| seats[0] != 0 || seats[1] != 0).count() as u32,
        state: node_state(book, NodeId(i as u32)).into(),
        watts: book.watts[range].iter().map(|w| f64::from(*w)).sum(),
        cpus: node.cpus,
        busy_cpus: asked_for[i].0,
        memory_gib: node.memory_gib,
        busy_memory_gib: asked_for[i].1,
        rack: cluster.rack_of(NodeId(i as u32)).map(str::to_owned),
        drain,
        lost_gpus: status.map_or_else(Vec::new, |status| status.lost_gpus.clone()),
        slow_gpus: node.gpu_range().filter_map(|gpu| slow_gpu(book, node, gpu)).collect(),
    }
}

fn slow_gpu(book: &Book, node: &Node, gpu: u32) -> Option<api::SlowGpu> {
    let speed = book.slow_card(GpuId(gpu))?;
    let (speed_ratio, standard_error, runs) = (speed.ratio, speed.standard_error, speed.runs);
    Some(api::SlowGpu { gpu: gpu - node.first_gpu.0, speed_ratio, standard_error, runs })
}

/// Whether nothing new is started on a GPU.
fn gpu_is_away(book: &Book, gpu: GpuId) -> bool {
    book.is_lost(gpu) || node_state(book, book.cluster().node_of(gpu)) != "up"
}

/// Whether a GPU is not there, as opposed to being left alone.
fn is_down(book: &Book, gpu: GpuId) -> bool {
    let node = book.cluster().node_of(gpu);
    let reachable = book.nodes.get(node.index()).is_some_and(|sight| sight.up && sight.reachable);
    let drained = book.is_drained(node);
    book.cluster().node(node).removed || !reachable && !drained
}

/// `removed`, `drained` or `draining`, `up`, `down`, or `silent`.
pub(crate) fn node_state(book: &Book, node: NodeId) -> &'static str {
    let there = &book.cluster().nodes()[node.index()];
    if there.removed {
        return "removed";
    }
    if book.is_drained(node) {
        let range = there.gpu_range().start as usize..there.gpu_range().end as usize;
        let empty = book.seats[range].iter().all(|seats| *seats == [0; 2]);
        return if empty { "drained" } else { "draining" };
    }
    match book.nodes.get(node.index()) {
        Some(sight) if sight.up && sight.reachable => "up",
        Some(sight) if sight.up => "silent",
        Some(_) => "down",
        None => "silent",
    }
}
