//! From a plan to orders, and from reports back to the state.
//!
//! Orders are the difference between the plan and what is there, stops before starts. A start waits until
//! every GPU it needs is known to be vacated.

use super::*;
use crate::Needs;
use crate::place::{Placement, Seat};

impl Scheduler {
    /// Stops what the plan does not keep, starts what can start, and remembers who waits for which GPU.
    pub(super) fn carry_out(&mut self, placement: Placement, usable: &[bool], out: &mut Vec<Output>) {
        let plan = placement.into_plan();
        let mut stays = vec![false; self.jobs.slots()];
        plan.keep.iter().for_each(|&slot| stays[slot as usize] = true);
        let (retuned, seats): (Vec<Seat>, Vec<Seat>) = plan
            .seats
            .into_iter()
            .partition(|seat| self.jobs.get(seat.job).phase.held().is_some_and(|gang| gang.gpus == seat.gpus));
        retuned.iter().for_each(|seat| stays[seat.job as usize] = true);
        for slot in self.jobs.placed().map(|(slot, _)| slot).collect::<Vec<_>>() {
            for gpu in self.jobs.get_mut(slot).target.take().into_iter().flat_map(|target| target.gpus) {
                self.awaiting[gpu.index()].clear();
            }
        }
        // A gang on a silent node is out of reach: neither stop nor move it until the node speaks or is lost.
        let reachable = |gang: &Gang| gang.gpus.iter().all(|g| usable[g.index()]);
        let leaves = |slot: Slot, job: &Job| !stays[slot as usize] && job.phase.held().is_some_and(reachable);
        let jobs = self.jobs.holding();
        let leaving: Vec<Slot> = jobs.filter(|&(slot, job)| leaves(slot, job)).map(|(slot, _)| slot).collect();
        for slot in leaving {
            self.stop(slot, AfterStop::Wait, out);
        }
        for seat in retuned {
            self.retune(seat.job, seat.kind, out);
        }
        for seat in seats {
            if self.jobs.get(seat.job).phase.held().is_some() {
                continue;
            }
            for gpu in &seat.gpus {
                self.awaiting[gpu.index()].push(seat.job);
            }
            let speed = self.classes[&self.jobs.get(seat.job).class].speed(seat.kind, seat.spread);
            let (kind, gpus, spread) = (seat.kind, seat.gpus, seat.spread);
            let target = Gang { fence: Fence(0), kind, gpus, spread, speed, confirmed_at: None, retuned: None };
            self.jobs.get_mut(seat.job).target = Some(Box::new(target));
            self.try_start(seat.job, out);
        }
    }

    /// Orders a job's gang to go on in another mode. It is the same gang: the order to start it, with its new mode, says how it should be
    /// there, and is sent until somebody says that it is.
    fn retune(&mut self, slot: Slot, kind: KindId, out: &mut Vec<Output>) {
        self.credit(slot);
        let job = &mut *self.jobs.get_mut(slot);
        let (Phase::Starting(gang, _) | Phase::Running(gang)) = &mut job.phase else { return };
        gang.speed = self.classes[&job.class].speed(kind, gang.spread);
        gang.kind = kind;
        if gang.confirmed_at.is_some() {
            gang.retuned = Some(Pending { ordered_at: self.now, tries: 1 });
            self.unconfirmed.insert(slot);
        }
        let order = start_order(job.spec.id, gang, &self.settings);
        out.push(Output::Order(order));
    }

    /// Somebody said that a job's gang is in the mode that it was told to be in, or nobody will: then the next plan tells it again.
    fn settle_mode(&mut self, slot: Slot) {
        if let Phase::Running(gang) = &mut self.jobs.get_mut(slot).phase {
            gang.retuned = None;
            self.unconfirmed.remove(&slot);
        }
    }

    /// Sends a change of mode again that was not confirmed in time. Nothing is lost if it never is: the gang runs as it did.
    fn chase_mode(&mut self, slot: Slot, out: &mut Vec<Output>) {
        let Phase::Running(gang) = &self.jobs.get(slot).phase else { return };
        let reached = !self.silent(gang) && gang.gpus.iter().all(|&gpu| self.takes_gangs(gpu));
        let Some(pending) = gang.retuned else { return };
        if self.now.since(pending.ordered_at) < self.settings.confirm_seconds {
            return;
        }
        if !reached || pending.tries > self.settings.most_tries {
            return self.settle_mode(slot);
        }
        let job = &mut *self.jobs.get_mut(slot);
        let Phase::Running(gang) = &mut job.phase else { return };
        gang.retuned = Some(Pending { ordered_at: self.now, tries: pending.tries + 1 });
        let again = start_order(job.spec.id, gang, &self.settings);
        out.push(Output::Order(again));
    }

    /// Orders a job's gang to stop.
    pub(super) fn stop(&mut self, slot: Slot, then: AfterStop, out: &mut Vec<Output>) {
        let pending = Pending { ordered_at: self.now, tries: 1 };
        self.credit(slot);
        let mut job = self.jobs.get_mut(slot);
        job.phase = match std::mem::replace(&mut job.phase, Phase::Waiting) {
            Phase::Starting(gang, _) | Phase::Running(gang) => Phase::Stopping(gang, pending, then),
            holds_nothing => {
                job.phase = holds_nothing;
                return;
            }
        };
        let Some(gang) = job.phase.occupied() else { return };
        out.push(Output::Order(Order::Stop { job: job.spec.id, fence: gang.fence }));
        self.unconfirmed.insert(slot);
    }

    /// Orders a job's target to start if nobody is left on its GPUs.
    pub(super) fn try_start(&mut self, slot: Slot, out: &mut Vec<Output>) {
        let job = self.jobs.get(slot);
        let Some(target) = &job.target else { return };
        let leaving = |slot: Slot| matches!(self.jobs.get(slot).phase, Phase::Stopping(..));
        let strange = |g: GpuId| self.strangers.values().any(|gpus| gpus.contains(&g));
        let free = |g: GpuId| !self.seats.on(g).any(leaving) && self.takes_gangs(g) && !strange(g);
        let vacated = target.gpus.iter().all(|&g| free(g));
        if job.phase != Phase::Waiting || !vacated || !self.quota_has_room(job) {
            return;
        }
        if !self.host_has_room(&job.spec.needs, &target.gpus) {
            return;
        }
        let fence = Fence(self.next_fence);
        self.next_fence += 1;
        let Some(target) = self.take_target(slot) else { return };
        let gang = Gang { fence, ..target };
        let mut job = self.jobs.get_mut(slot);
        self.seats.sit(slot, &gang.gpus);
        self.tenant_states[job.spec.tenant.index()].gpus += gang.gpus.len() as u32;
        out.push(Output::Order(start_order(job.spec.id, &gang, &self.settings)));
        job.phase = Phase::Starting(gang, Pending { ordered_at: self.now, tries: 1 });
        self.unconfirmed.insert(slot);
    }

    /// A job no longer waits for the place that the last plan gave it.
    pub(super) fn drop_target(&mut self, slot: Slot) {
        self.take_target(slot);
    }

    /// The place that the last plan gave a job, which it no longer waits for.
    fn take_target(&mut self, slot: Slot) -> Option<Gang> {
        let target = self.jobs.get_mut(slot).target.take()?;
        for gpu in &target.gpus {
            self.awaiting[gpu.index()].retain(|&waiter| waiter != slot);
        }
        Some(*target)
    }

    /// Frees a job's GPUs and lets those start that waited for them. The job waits, unless it is buried next.
    pub(super) fn vacate(&mut self, slot: Slot, out: &mut Vec<Output>) {
        self.unconfirmed.remove(&slot);
        self.credit(slot);
        let phase = std::mem::replace(&mut self.jobs.get_mut(slot).phase, Phase::Waiting);
        let (Phase::Starting(gang, _) | Phase::Running(gang) | Phase::Stopping(gang, ..)) = phase else { return };
        self.seats.leave(slot, &gang.gpus);
        let state = self.tenant_state(slot);
        state.gpus = state.gpus.saturating_sub(gang.gpus.len() as u32);
        for &gpu in &gang.gpus {
            self.start_waiters(gpu, out);
        }
        if !self.jobs.get(slot).spec.needs.only_gpus() {
            // Others may have waited for its CPUs or its memory.
            let mut nodes: Vec<NodeId> = gang.gpus.iter().map(|&gpu| self.cluster.node_of(gpu)).collect();
            nodes.dedup();
            for gpu in nodes.into_iter().flat_map(|node| self.cluster.node(node).gpu_range()).collect::<Vec<_>>() {
                self.start_waiters(GpuId(gpu), out);
            }
        }
        self.start_waiters_of(self.jobs.get(slot).spec.tenant, out);
        self.try_start(slot, out);
        if self.jobs.get(slot).held {
            self.leave_array(slot);
        }
    }

    /// Starts those that waited for a GPU, if they can start now.
    fn start_waiters(&mut self, gpu: GpuId, out: &mut Vec<Output>) {
        let mut next = 0;
        while let Some(&waiter) = self.awaiting[gpu.index()].get(next) {
            self.try_start(waiter, out);
            // One that could start is no longer in the list; one that could not is passed over.
            next += usize::from(self.awaiting[gpu.index()].get(next) == Some(&waiter));
        }
    }

    /// Whether the nodes of a gang have the CPUs and the memory for it, beside everybody who is there now: gangs that were told to leave still
    /// use theirs.
    fn host_has_room(&self, needs: &Needs, gpus: &[GpuId]) -> bool {
        if needs.only_gpus() {
            return true;
        }
        let mut nodes: Vec<NodeId> = gpus.iter().map(|&gpu| self.cluster.node_of(gpu)).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes.iter().all(|&id| {
            let node = self.cluster.node(id);
            let there =
                || node.gpu_range().flat_map(|gpu| self.seats.on(GpuId(gpu))).map(|s| &self.jobs.get(s).spec.needs);
            let more = gpus.iter().filter(|&&gpu| self.cluster.node_of(gpu) == id).count() as f64;
            let enough = |has: Option<f64>, of: fn(&Needs) -> f64| {
                has.is_none_or(|has| {
                    of(needs) <= 0.0 || there().map(of).sum::<f64>() + more * of(needs) <= has + 1e-6 * (1.0 + has)
                })
            };
            enough(node.cpus, |needs| needs.cpus_per_gpu) && enough(node.memory_gib, |needs| needs.memory_gib_per_gpu)
        })
    }

    /// A job lost its gang without being told to stop: it waits again, after a pause if it was at fault.
    pub(super) fn requeue(&mut self, slot: Slot, pause_seconds: f64, why: String, out: &mut Vec<Output>) {
        self.drop_target(slot);
        self.vacate(slot, out);
        let mut job = self.jobs.get_mut(slot);
        job.not_before = self.now.after(pause_seconds);
        out.push(Output::Note(Event::Requeued { job: job.spec.id, why }));
        self.changed = true;
    }

    fn backoff_seconds(&self, failures: u32) -> f64 {
        self.settings.backoff_seconds * f64::from(1u32 << failures.saturating_sub(1).min(10))
    }

    /// A job broke, or could not be started: tried again after a pause, or given up.
    fn count_failure(&mut self, slot: Slot, why: String, out: &mut Vec<Output>) {
        let failures = self.jobs.get(slot).failures + 1;
        self.jobs.get_mut(slot).failures = failures;
        if failures >= self.most_failures(slot) {
            let job = self.jobs.get(slot);
            let (class, gang) = (job.class, job.phase.occupied().cloned());
            self.drop_target(slot);
            self.vacate(slot, out);
            let times = if failures == 1 { "once".to_owned() } else { format!("{failures} times in a row") };
            self.give_up(slot, format!("failed {times}, last: {why}"), out);
            if let Some(gang) = gang {
                self.refill(class, gang, out);
            }
        } else {
            self.requeue(slot, self.backoff_seconds(failures), why, out);
        }
    }

    pub(super) fn cancel(&mut self, id: JobId, out: &mut Vec<Output>) {
        let Some(slot) = self.jobs.slot(id) else { return };
        match self.jobs.get(slot).phase {
            Phase::Waiting => {
                self.bury(slot);
                out.push(Output::Note(Event::Cancelled { job: id }));
                self.ended(id, false, out);
            }
            Phase::Stopping(..) => {
                self.then(slot, AfterStop::Leave);
                self.drop_target(slot);
            }
            Phase::Starting(..) | Phase::Running(_) => self.stop(slot, AfterStop::Leave, out),
        }
    }

    /// Changes what happens to a job that is being stopped once its gang is gone.
    pub(super) fn then(&mut self, slot: Slot, after: AfterStop) {
        if let Phase::Stopping(.., then) = &mut self.jobs.get_mut(slot).phase {
            *then = after;
        }
    }

    pub(super) fn reported(&mut self, report: &GangReport, out: &mut Vec<Output>) {
        let known = self
            .jobs
            .slot(report.job)
            .filter(|&slot| self.jobs.get(slot).phase.occupied().is_some_and(|gang| gang.fence == report.fence));
        let Some(slot) = known else {
            // Of a gang that is no longer ours: make sure that it goes.
            if report.event == GangEvent::Started {
                out.push(Output::Order(Order::Stop { job: report.job, fence: report.fence }));
            }
            return;
        };
        if report.exit_code.is_some() {
            self.jobs.get_mut(slot).exit_code = report.exit_code;
        }
        match &report.event {
            GangEvent::Started => {
                self.confirm_start(slot);
                self.settle_mode(slot);
            }
            GangEvent::Stopped(steps) => self.gone(slot, *steps, "stopped without an order", out),
            GangEvent::Finished => self.complete(slot, report.fence, out),
            GangEvent::Failed(steps, why) => self.broke(slot, *steps, &exit_words(report.exit_code, why), out),
        }
    }

    pub(super) fn confirm_start(&mut self, slot: Slot) {
        let job = &mut *self.jobs.get_mut(slot);
        job.phase = match std::mem::replace(&mut job.phase, Phase::Waiting) {
            Phase::Starting(gang, _) => {
                job.first_started.get_or_insert(self.now);
                job.credited = self.now;
                self.unconfirmed.remove(&slot);
                Phase::Running(Gang { confirmed_at: Some(self.now), ..gang })
            }
            Phase::Stopping(mut gang, pending, then) => {
                gang.confirmed_at.get_or_insert(self.now);
                Phase::Stopping(gang, pending, then)
            }
            other => other,
        };
    }

    /// A gang is known to be gone, its work not done.
    pub(super) fn gone(&mut self, slot: Slot, steps: f64, why: &str, out: &mut Vec<Output>) {
        self.jobs.get_mut(slot).secure(steps);
        let job = self.jobs.get(slot);
        match job.phase {
            Phase::Stopping(_, _, AfterStop::Leave) => {
                let id = job.spec.id;
                self.drop_target(slot);
                self.vacate(slot, out);
                self.bury(slot);
                out.push(Output::Note(Event::Cancelled { job: id }));
                self.ended(id, false, out);
            }
            Phase::Stopping(_, _, AfterStop::Expire) => {
                self.drop_target(slot);
                self.vacate(slot, out);
                self.expire(slot, out);
            }
            Phase::Stopping(_, _, AfterStop::Wait) => self.vacate(slot, out),
            Phase::Stopping(_, _, AfterStop::Replan) => {
                let why = self.why_moved(slot);
                self.requeue(slot, 0.0, why, out);
            }
            _ => self.requeue(slot, 0.0, why.to_owned(), out),
        }
    }

    /// A job's gang of this fence, the one that it holds or its last one, has done all there was to do.
    pub(super) fn complete(&mut self, slot: Slot, fence: Fence, out: &mut Vec<Output>) {
        let job = self.jobs.get(slot);
        let (id, gang) = (job.spec.id, job.phase.occupied().cloned());
        self.drop_target(slot);
        self.vacate(slot, out);
        let class = self.bury(slot).class;
        out.push(Output::Order(Order::Stop { job: id, fence }));
        out.push(Output::Note(Event::Completed { job: id }));
        self.ended(id, true, out);
        if let Some(gang) = gang {
            self.refill(class, gang, out);
        }
    }

    /// A job is over, and its gang's place is its class's until the next plan: the next job of the class takes it, if one waits. The plan stays
    /// what it was, so many gangs of this class on this kind, and nobody's credit changes.
    fn refill(&mut self, class: ClassId, gang: Gang, out: &mut Vec<Output>) {
        let vacant = |gpu: GpuId| {
            self.takes_gangs(gpu) && self.seats.on(gpu).next().is_none() && self.awaiting[gpu.index()].is_empty()
        };
        if !self.settings.refill || !gang.gpus.iter().all(|&gpu| vacant(gpu)) {
            return;
        }
        // Whoever has received least, as in a plan.
        let next = self.jobs.queue(class, self.now).find(|&slot| self.jobs.get(slot).target.is_none());
        let Some(slot) = next else { return };
        for &gpu in &gang.gpus {
            self.awaiting[gpu.index()].push(slot);
        }
        let target = Gang { confirmed_at: None, retuned: None, ..gang };
        self.jobs.get_mut(slot).target = Some(Box::new(target));
        self.try_start(slot, out);
        // A place that it cannot have now is for the next plan.
        self.drop_target(slot);
    }

    pub(super) fn broke(&mut self, slot: Slot, steps: f64, why: &str, out: &mut Vec<Output>) {
        let mut job = self.jobs.get_mut(slot);
        let fence = job.phase.occupied().expect("only a gang can break").fence;
        out.push(Output::Order(Order::Stop { job: job.spec.id, fence }));
        // Progress since the last failure shows that the job can work: count anew.
        if steps > job.steps_done {
            job.failures = 0;
        }
        job.secure(steps);
        drop(job);
        // Nor is it the job's fault if its gang breaks where its node is taken away from it.
        let phase = &self.jobs.get(slot).phase;
        if let Phase::Stopping(_, _, AfterStop::Leave | AfterStop::Replan | AfterStop::Expire) = phase {
            return self.gone(slot, steps, why, out);
        }
        self.count_failure(slot, why.to_owned(), out);
    }

    pub(super) fn refused(&mut self, order: &Order, why: &str, out: &mut Vec<Output>) {
        let Order::Start(start) = order else { return };
        let Some(slot) = self.jobs.slot(start.job) else { return };
        let phase = &self.jobs.get(slot).phase;
        match phase {
            Phase::Starting(gang, _) if gang.fence == start.fence => self.count_failure(slot, why.to_owned(), out),
            Phase::Stopping(gang, ..) if gang.fence == start.fence => self.gone(slot, 0.0, why, out),
            _ => {}
        }
    }

    /// Everything that is still open, asked and ordered again: for a driver that was restarted and does not know what
    /// reached whom. Orders carry their old fences, so whoever did them already does nothing. No start is sent to a silent
    /// node, as ever.
    #[must_use]
    pub fn again(&self) -> Vec<Output> {
        let (mut stops, mut starts) = (Vec::new(), Vec::new());
        for &(job, fence) in self.strangers.keys() {
            stops.push(Output::Order(Order::Stop { job, fence }));
        }
        for &slot in &self.unconfirmed {
            let job = self.jobs.get(slot);
            match &job.phase {
                Phase::Stopping(gang, ..) => {
                    stops.push(Output::Order(Order::Stop { job: job.spec.id, fence: gang.fence }));
                }
                Phase::Starting(gang, _) | Phase::Running(gang) if !self.silent(gang) => {
                    starts.push(Output::Order(start_order(job.spec.id, gang, &self.settings)));
                }
                _ => {}
            }
        }
        let estimates = self.asked.keys().map(|&ask| Output::Estimate(ask));
        let solve = self.outstanding.iter().map(|problem| Output::Solve(Arc::clone(problem)));
        stops.into_iter().chain(starts).chain(estimates).chain(solve).collect()
    }

    /// Whether a node that a gang is on has not been heard of lately.
    fn silent(&self, gang: &Gang) -> bool {
        !gang.gpus.iter().all(|&g| self.within_reach(self.cluster.node_of(g)))
    }

    /// Sends orders again that were not confirmed in time; gives up starts that were sent often enough.
    pub(super) fn chase_orders(&mut self, out: &mut Vec<Output>) {
        let slots: Vec<Slot> = self.unconfirmed.iter().copied().collect();
        for slot in slots {
            self.chase_mode(slot, out);
            let gang = self.jobs.get(slot).phase.occupied();
            let silent = gang.is_some_and(|gang| self.silent(gang));
            let mut job = self.jobs.get_mut(slot);
            let id = job.spec.id;
            let (Phase::Starting(gang, pending) | Phase::Stopping(gang, pending, _)) = &mut job.phase else { continue };
            if self.now.since(pending.ordered_at) < self.settings.confirm_seconds {
                continue;
            }
            pending.ordered_at = self.now;
            pending.tries = pending.tries.saturating_add(1);
            let (tries, fence) = (pending.tries, gang.fence);
            let again = Output::Order(start_order(id, gang, &self.settings));
            drop(job);
            match self.jobs.get(slot).phase {
                // Whether it runs is not known: it must be stopped before the job may go elsewhere. Nothing is sent
                // to start on a silent node, lest it arrives when the node is given up.
                Phase::Starting(..) if silent || tries > self.settings.most_tries => {
                    self.stop(slot, AfterStop::Wait, out);
                }
                Phase::Starting(..) => out.push(again),
                _ => out.push(Output::Order(Order::Stop { job: id, fence })),
            }
        }
    }
}

/// Why a gang failed, with what its program ended with.
fn exit_words(code: Option<i32>, why: &str) -> String {
    match code.map(|code| format!("exit code {code}")) {
        None => why.to_owned(),
        Some(code) if why.contains(&code) => why.to_owned(),
        Some(code) if why.is_empty() => code,
        Some(code) => format!("{code}: {why}"),
    }
}

fn start_order(job: JobId, gang: &Gang, settings: &Settings) -> Order {
    Order::Start(Start {
        job,
        fence: gang.fence,
        kind: gang.kind,
        gpus: gang.gpus.clone(),
        spread: gang.spread,
        lease_seconds: settings.lease_seconds,
    })
}
