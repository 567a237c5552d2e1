//! What reasons are made from. Every number has one meaning and two ways to it: counted for one job, or looked up in an order
//! that was made for all. Both must agree to the bit.

use super::*;
use crate::host::HostRoom;
use crate::place::turn_seconds;

/// What can be counted once for every job that waits.
pub(super) struct Outlook<'s> {
    scheduler: &'s Scheduler,
    /// GPUs by kind: all, those that can be reached, and of these the free ones.
    all: Vec<u32>,
    usable: Vec<u32>,
    free: Vec<u32>,
    /// GPUs by kind on drained nodes, and lost ones elsewhere.
    drained: Vec<u32>,
    lost: Vec<u32>,
    free_by_node: Vec<u32>,
    /// CPUs and memory left now, and the free GPUs by kind that they allow, for all needs that were asked for.
    host: Option<HostRoom>,
    host_free: BTreeMap<[u64; 3], Vec<u32>>,
    orders: Option<Orders>,
    /// When GPUs of these kinds become free: (seconds from now, GPUs by then), for every set of kinds that was asked for.
    ends: BTreeMap<Vec<usize>, Vec<(f64, u64)>>,
    /// Names of the kinds that a class is granted, for every class that was asked for.
    granted: BTreeMap<ClassId, Arc<str>>,
}

/// Where everybody stands.
struct Orders {
    /// By slot: waiting jobs of its class that go first.
    turns: Vec<usize>,
    /// By slot: waiting jobs that came earlier, and the GPUs that they want.
    queue: Vec<(usize, u64)>,
    /// Gangs at once, on average, by class.
    gangs: BTreeMap<ClassId, f64>,
    /// Kinds that a class is granted.
    kinds: BTreeMap<ClassId, Vec<KindId>>,
}

impl<'s> Outlook<'s> {
    /// For a single job.
    pub(super) fn of_one(scheduler: &'s Scheduler) -> Self {
        let (all, ends, granted) = (scheduler.cluster.counts(), BTreeMap::new(), BTreeMap::new());
        let mask = scheduler.usable();
        let mut free_by_node = vec![0; scheduler.cluster.nodes().len()];
        let (mut usable, mut free) = (vec![0; all.len()], vec![0; all.len()]);
        for g in (0..scheduler.cluster.gpus() as u32).map(GpuId).filter(|g| mask[g.index()]) {
            let j = scheduler.cluster.kind_of(g).index();
            usable[j] += 1;
            let is_free = u32::from(scheduler.seats.on(g).next().is_none());
            free[j] += is_free;
            free_by_node[scheduler.cluster.node_of(g).index()] += is_free;
        }
        let (mut drained, mut lost) = (vec![0; all.len()], vec![0; all.len()]);
        for (id, node) in scheduler.cluster.present() {
            let (state, j) = (&scheduler.nodes[id.index()], node.kind.index());
            match state.drain {
                Some(_) => drained[j] += node.gpus,
                None => lost[j] += state.lost_gpus.len() as u32,
            }
        }
        let (host, host_free) = (None, BTreeMap::new());
        Self { scheduler, all, usable, free, drained, lost, free_by_node, host, host_free, orders: None, ends, granted }
    }

    /// For all jobs that wait.
    pub(super) fn of_all(scheduler: &'s Scheduler) -> Self {
        Self { orders: Some(Orders::new(scheduler)), ..Self::of_one(scheduler) }
    }

    /// Why the job in this slot waits.
    pub(super) fn reason(&mut self, slot: Slot) -> Reason {
        let s = self.scheduler;
        let job = s.jobs.get(slot);
        if let Some(reason) = s.not_admitted(job) {
            return reason;
        }
        let class = &s.classes[&job.class];
        let name = |j: usize| s.cluster.kinds()[j].name.clone();
        let as_sold = |j: &usize| !s.cluster.kinds()[*j].is_mode();
        let fitting: Vec<usize> = (0..class.rates.len()).filter(as_sold).filter(|&j| class.rates[j] > 0.0).collect();
        let ask = RateQuery { workload: job.spec.workload, gang: job.gang(), partner: None };
        let gang = job.gang();
        if fitting.is_empty() {
            if s.estimates.row(&ask).is_none() {
                return Reason::NoEstimate;
            }
            let allowed = |j: &usize| job.spec.kinds.is_empty() || job.spec.kinds.contains(&KindId(*j as u16));
            let row = s.estimates.row(&ask);
            let fits = |j: usize| row.is_some_and(|row| row.cells.get(j).copied().flatten().is_some());
            let needed = (0..class.rates.len()).filter(allowed).any(fits);
            let kinds = (0..class.rates.len()).filter(as_sold).filter(allowed).map(name).collect();
            if needed {
                return Reason::NeedsTooMuch { needs: job.spec.needs, kinds };
            }
            return Reason::FitsNoKind { gang, kinds };
        }
        let most_of =
            |counts: &[u32]| fitting.iter().map(|&j| (counts[j], j)).max_by_key(|&(n, j)| (n, std::cmp::Reverse(j)));
        if let Some((most, j)) = most_of(&self.all)
            && most < gang
        {
            return Reason::GangTooLarge { gang, most, kind: name(j) };
        }
        if job.not_before > s.now {
            let seconds = job.not_before.since(s.now);
            return Reason::Pauses { failures: job.failures, most: s.most_failures(slot), seconds };
        }
        if let Some((usable, j)) = most_of(&self.usable)
            && usable < gang
        {
            let sum = |counts: &[u32]| fitting.iter().map(|&j| counts[j]).sum();
            let (drained, lost) = (sum(&self.drained), sum(&self.lost));
            return Reason::NodesAway { gang, usable, kind: name(j), drained, lost };
        }
        if let Some(target) = &job.target {
            let held = target.gpus.iter().filter(|&&g| s.seats.on(g).next().is_some()).count();
            return Reason::PlaceNotVacated { kind: name(target.kind.index()), held };
        }
        self.queue_reason(slot, fitting)
    }

    /// A job that could run, if only it were given GPUs.
    fn queue_reason(&mut self, slot: Slot, fitting: Vec<usize>) -> Reason {
        let s = self.scheduler;
        let job = s.jobs.get(slot);
        let gang = job.gang();
        let free = fitting.iter().any(|&j| self.free[j] >= gang);
        if free && !s.changed && !self.host_fits(&job.spec, gang, &fitting) {
            return Reason::HostsFull { needs: job.spec.needs, gang };
        }
        let kept = |&j: &usize| self.free[j] >= gang && s.placer.keeps_free(KindId(j as u16));
        if !s.changed && s.policy.free_gpus == FreeGpus::KeptOnAverage && fitting.iter().any(kept) {
            let free = fitting.iter().map(|&j| self.free[j]).sum();
            let seconds = self.standing_reason(slot, fitting).seconds();
            return Reason::KeptFree { gang, free, seconds };
        }
        if s.changed || free {
            let elapsed = s.now.since(s.last_tick);
            return Reason::NextRound { seconds: (s.settings.round_seconds - elapsed).max(0.0) };
        }
        self.standing_reason(slot, fitting)
    }

    /// About how long a job that is told to go waits until it is back, by the shares in force: what the next round decides is not known.
    pub(super) fn seconds_away(&mut self, slot: Slot) -> Option<f64> {
        let s = self.scheduler;
        let rates = &s.classes[&s.jobs.get(slot).class].rates;
        let fits = |j: &usize| !s.cluster.kinds()[*j].is_mode() && rates[*j] > 0.0;
        match self.standing_reason(slot, (0..rates.len()).filter(fits).collect()) {
            Reason::Turns { seconds, .. } => Some(seconds),
            Reason::Queued { seconds, .. } => seconds,
            _ => None,
        }
    }

    /// Whose turn it is, or who came earlier.
    fn standing_reason(&mut self, slot: Slot, fitting: Vec<usize>) -> Reason {
        let s = self.scheduler;
        let job = s.jobs.get(slot);
        let gang = job.gang();
        let gangs = self.gangs(job.class);
        let jobs = s.classes[&job.class].jobs.len();
        if gangs > 0.0 && (jobs > 1 || gangs < 1.0) {
            let ahead = self.ahead_in_class(slot);
            // Each of the gangs at a time is passed on once in a turn.
            let turn = turn_seconds(job.spec.restart_seconds, s.settings.round_seconds);
            let seconds = (ahead as f64 + 1.0) / gangs * turn;
            return Reason::Turns { gangs, jobs, ahead, kinds: self.granted(job.class), seconds };
        }
        let (ahead, wanted) = self.queue(slot);
        let free: u32 = fitting.iter().map(|&j| self.free[j]).sum();
        let wanted = (wanted + u64::from(gang)).saturating_sub(u64::from(free));
        Reason::Queued { ahead, gang, free, seconds: self.forecast(fitting, wanted) }
    }

    /// Whether nodes with free GPUs of these kinds have the CPUs and the memory for a gang now.
    fn host_fits(&mut self, spec: &JobSpec, gang: u32, fitting: &[usize]) -> bool {
        if spec.needs.only_gpus() {
            return true;
        }
        let s = self.scheduler;
        let room = self.host.get_or_insert_with(|| HostRoom::beside_all(&s.cluster, &s.seats, &s.jobs));
        let free = &self.free_by_node;
        let by_kind = self.host_free.entry(spec.needs.bits()).or_insert_with(|| {
            let mut by_kind = vec![0; s.cluster.kinds().len()];
            for (id, node) in s.cluster.present() {
                by_kind[node.kind.index()] += free[id.index()].min(room.gpus(id, &spec.needs));
            }
            by_kind
        });
        fitting.iter().any(|&j| by_kind[j] >= gang)
    }

    fn gangs(&self, class: ClassId) -> f64 {
        match &self.orders {
            Some(orders) => orders.gangs.get(&class).copied().unwrap_or(0.0),
            None => self.scheduler.placer.standing(class).iter().map(|standing| standing.gangs).sum(),
        }
    }

    fn granted(&mut self, class: ClassId) -> Arc<str> {
        let (s, orders) = (self.scheduler, &self.orders);
        let names = self.granted.entry(class).or_insert_with(|| {
            let mut kinds: Vec<KindId> = match orders {
                Some(orders) => orders.kinds.get(&class).cloned().unwrap_or_default(),
                None => s.placer.standing(class).iter().map(|standing| standing.kind).collect(),
            };
            kinds.sort_unstable();
            kinds.dedup();
            let names: Vec<&str> = kinds.iter().map(|&kind| s.cluster.kind(kind).name.as_str()).collect();
            names.join(", ").into()
        });
        Arc::clone(names)
    }

    fn ahead_in_class(&self, slot: Slot) -> usize {
        if let Some(orders) = &self.orders {
            return orders.turns[slot as usize];
        }
        let jobs = &self.scheduler.jobs;
        let job = jobs.get(slot);
        let sooner = |&other: &Slot| {
            let theirs = jobs.get(other);
            theirs.queues() && (theirs.virtual_seconds, other) < (job.virtual_seconds, slot)
        };
        self.scheduler.classes[&job.class].jobs.iter().filter(sooner).count()
    }

    fn queue(&self, slot: Slot) -> (usize, u64) {
        if let Some(orders) = &self.orders {
            return orders.queue[slot as usize];
        }
        let job = self.scheduler.jobs.get(slot);
        let earlier = |j: &Job| (j.spec.arrived, j.spec.id) < (job.spec.arrived, job.spec.id);
        let queue = self.scheduler.jobs.iter().filter(|(_, j)| j.queues() && earlier(j));
        queue.fold((0, 0), |(n, gpus), (_, j)| (n + 1, gpus + u64::from(j.gang())))
    }

    /// When running jobs on the kinds `fitting` will have freed `wanted` GPUs, by their estimated rates.
    fn forecast(&mut self, fitting: Vec<usize>, wanted: u64) -> Option<f64> {
        let s = self.scheduler;
        let ends = self.ends.entry(fitting).or_insert_with_key(|fitting| ends(s, fitting));
        let at = ends.partition_point(|&(_, freed)| freed < wanted);
        ends.get(at).map(|&(seconds, _)| seconds)
    }
}

/// When running jobs on some kinds end, soonest first, and how many GPUs are free by then.
fn ends(s: &Scheduler, kinds: &[usize]) -> Vec<(f64, u64)> {
    let mut ends: Vec<(f64, u64)> = Vec::new();
    for (_, job) in s.jobs.iter() {
        let Phase::Running(gang) = &job.phase else { continue };
        if !kinds.contains(&s.cluster.sold_as(gang.kind).index()) {
            continue;
        }
        let rate = s.classes[&job.class].rate(gang.kind, Spread::Packed);
        let seconds = match job.spec.work {
            Work::Steps(steps) if rate > 0.0 => (steps - job.steps_done).max(0.0) / rate,
            Work::Steps(_) => continue,
            Work::Period(period) => (period - job.run_seconds()).max(0.0),
            Work::Open(Some(expected)) if rate > 0.0 => (expected - job.served_seconds).max(0.0),
            Work::Open(_) => continue,
        };
        ends.push((seconds, gang.gpus.len() as u64));
    }
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut freed = 0;
    for end in &mut ends {
        freed += end.1;
        end.1 = freed;
    }
    ends
}

impl Orders {
    fn new(s: &Scheduler) -> Self {
        let mut turns = vec![0; s.jobs.slots()];
        let mut members: Vec<(f64, Slot)> = Vec::new();
        for class in s.classes.values().filter(|class| class.jobs.len() > 1) {
            let waiting = class.jobs.iter().filter(|&slot| s.jobs.get(slot).queues());
            members.clear();
            members.extend(waiting.map(|slot| (s.jobs.get(slot).virtual_seconds, slot)));
            members.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            for (ahead, &(_, slot)) in members.iter().enumerate() {
                turns[slot as usize] = ahead;
            }
        }
        let waiting = s.jobs.iter().filter(|(_, job)| job.queues());
        let mut arrivals: Vec<(Time, JobId, Slot, u32)> =
            waiting.map(|(slot, job)| (job.spec.arrived, job.spec.id, slot, job.gang())).collect();
        arrivals.sort_unstable();
        let (mut queue, mut wanted) = (vec![(0, 0); s.jobs.slots()], 0);
        for (ahead, &(_, _, slot, gang)) in arrivals.iter().enumerate() {
            queue[slot as usize] = (ahead, wanted);
            wanted += u64::from(gang);
        }
        Self { turns, queue, gangs: s.placer.gangs_by_class(), kinds: s.placer.kinds_by_class() }
    }
}
