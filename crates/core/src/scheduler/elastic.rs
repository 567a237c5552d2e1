//! Elastic jobs: those that said how few and how many GPUs they can use.
//!
//! Policies and placer never see a range. An elastic job has a size, and it is one of the jobs of its size: a change of size is a change of class, made before a
//! problem is put to the policy. Which sizes serve most is in [`crate::sizing`]; here is who may change. A gang that runs is changed by a restart, so
//!
//!   - it runs for at least a turn between two changes, so that restarts cost a twentieth of the time at most, and is left alone when it is about to end;
//!   - it grows only if the time that its remaining work takes less is worth [`WORTH`] restarts;
//!   - under policies that take nobody's GPUs away it keeps its size.
//!
//! Whoever is left alone keeps its GPUs, and the sizes of the others are chosen around it. Policies that leave GPUs free to save power are not asked what there is: there
//! every job has the size with which it keeps its promise, or half of its best rate if nothing was promised, at the least energy for a step (GOGH's `D_j` is the most that it may have).

use super::*;
use crate::allocate::{Entitlement, FreeGpus};
use crate::place::turn_seconds;
use crate::sizing::{self, Sizable, Supply};

/// Restarts that a larger size must save in time.
const WORTH: f64 = 2.0;

/// Part of its best rate that a job should have which was promised nothing, as in the prices of energy-aware policies.
const UNPROMISED: f64 = 0.5;

/// An elastic job, or another that needs its GPUs too.
struct Wish {
    slot: Slot,
    job: Sizable,
    /// Its size now, by its place in the list, if it holds GPUs.
    held: Option<usize>,
}

impl Scheduler {
    /// Chooses the sizes of elastic jobs for the problem that is asked next.
    pub(super) fn choose_sizes(&mut self, out: &mut Vec<Output>) {
        if !self.jobs.any_elastic() {
            return;
        }
        let usable = self.usable();
        if self.policy.free_gpus == FreeGpus::Kept {
            return self.choose_frugal_sizes(&usable, out);
        }
        let mut wishes = self.wishes(&usable);
        let supply = self.supply(&usable, &wishes);
        let mut chosen = self.chosen(&supply, &wishes);
        // Who does not gain enough by growing keeps its size, and the rest is divided anew.
        let mut stays = false;
        for (wish, &size) in wishes.iter_mut().zip(&chosen) {
            if wish.held.is_some_and(|held| size > held && !self.worth_growing(wish, held, size)) {
                wish.freeze();
                stays = true;
            }
        }
        if stays {
            chosen = self.chosen(&supply, &wishes);
        }
        let sized: Vec<(Slot, u32)> =
            wishes.iter().zip(chosen).map(|(wish, size)| (wish.slot, wish.job.sizes[size])).collect();
        sized.into_iter().for_each(|(slot, gang)| self.resize(slot, gang, out));
    }

    fn chosen(&self, supply: &Supply, wishes: &[Wish]) -> Vec<usize> {
        let jobs: Vec<Sizable> = wishes.iter().map(|wish| wish.job.clone()).collect();
        sizing::choose(supply, &jobs)
    }

    /// Everybody that could be given GPUs now, with the sizes that it may have.
    fn wishes(&self, usable: &[bool]) -> Vec<Wish> {
        let by_tenant = self.policy.entitlement == Entitlement::Tenants;
        let mut wishes = Vec::new();
        for slot in self.jobs.by_submission() {
            let job = self.jobs.get(slot);
            if !(job.may_run() && job.plannable(self.now, usable)) {
                continue;
            }
            let (sizes, rates) = self.sizes_of(job);
            if sizes.is_empty() {
                continue;
            }
            let held_gang = job.phase.held();
            let home = held_gang.map(|gang| self.cluster.sold_as(gang.kind).index());
            let held = held_gang.and_then(|gang| sizes.iter().position(|&size| size as usize == gang.gpus.len()));
            let (tenant, pool) = (job.spec.tenant.index(), wishes.len());
            let pool = if by_tenant { tenant } else { pool };
            let job_sizes = Sizable { pool, tenant, weight: job.spec.weight, sizes, rates, home };
            let mut wish = Wish { slot, job: job_sizes, held };
            if held.is_some() && self.left_alone(job) {
                wish.freeze();
            }
            wishes.push(wish);
        }
        wishes
    }

    /// The sizes of which it is known what a job does with them, and its rates, sizes × kinds as sold.
    fn sizes_of(&self, job: &Job) -> (Vec<u32>, Vec<f64>) {
        let sizes = if job.size.is_some() { job.spec.sizes() } else { vec![job.spec.gang] };
        let (mut known, mut rates) = (Vec::new(), Vec::new());
        for gang in sizes {
            let kinds = (0..self.cluster.kinds().len() as u16).map(KindId);
            let as_sold = |kind: KindId| !self.cluster.kind(kind).is_mode();
            let rate =
                |kind: KindId| self.cell(&job.spec, gang, kind).filter(|_| as_sold(kind)).map_or(0.0, |cell| cell.rate);
            let row: Vec<f64> = kinds.map(rate).collect();
            if row.iter().any(|rate| *rate > 0.0) {
                known.push(gang);
                rates.extend(row);
            }
        }
        (known, rates)
    }

    /// What there is to divide, by the weights of tenants or of jobs.
    fn supply(&self, usable: &[bool], wishes: &[Wish]) -> Supply {
        let mut gpus = vec![0; self.cluster.kinds().len()];
        for (gpu, _) in usable.iter().enumerate().filter(|(_, usable)| **usable) {
            gpus[self.cluster.kind_of(GpuId(gpu as u32)).index()] += 1;
        }
        let mut wanted = vec![0.0; self.tenants.len()];
        for wish in wishes {
            wanted[wish.job.tenant] += wish.job.sizes.last().copied().map_or(0.0, f64::from);
        }
        let tenants: Vec<f64> = self.weights(&wanted);
        let weights = match self.policy.entitlement {
            Entitlement::Tenants => tenants,
            Entitlement::Jobs => wishes.iter().map(|wish| wish.job.weight * tenants[wish.job.tenant]).collect(),
        };
        let limits = self.tenant_states.iter().map(|state| state.quota.gpus.unwrap_or(u32::MAX)).collect();
        Supply { gpus, weights, limits }
    }

    /// Whether a gang that runs keeps its size for now.
    fn left_alone(&self, job: &Job) -> bool {
        let Phase::Running(gang) = &job.phase else { return true };
        let turn = turn_seconds(job.spec.restart_seconds, self.settings.round_seconds);
        let young = gang.confirmed_at.is_none_or(|at| self.now.since(at) < turn);
        let class = &self.classes[&job.class];
        let (_, left) = job.progress(class.best_rate());
        let ends_soon = left <= WORTH * job.spec.restart_seconds * gang.speed * class.best_rate();
        young || ends_soon || self.policy.promises(Promise::NonPreemptive)
    }

    /// Whether the time that a job's remaining work takes less with a larger gang pays for restarting it.
    fn worth_growing(&self, wish: &Wish, from: usize, to: usize) -> bool {
        let job = self.jobs.get(wish.slot);
        let (_, left) = job.progress(self.classes[&job.class].best_rate());
        let kinds = self.cluster.kinds().len();
        let best = |size: usize| wish.job.rates[size * kinds..(size + 1) * kinds].iter().copied().fold(0.0, f64::max);
        let at = |size: usize| wish.job.home.map_or(best(size), |home| wish.job.rates[size * kinds + home]);
        let (slow, fast) = (at(from), at(to));
        let fast = if fast > 0.0 { fast } else { best(to) };
        slow > 0.0 && left * (1.0 / slow - 1.0 / fast) > WORTH * job.spec.restart_seconds
    }

    /// Gives every elastic job the size with which it keeps its promise at the least energy.
    fn choose_frugal_sizes(&mut self, usable: &[bool], out: &mut Vec<Output>) {
        let mut sized = Vec::new();
        for (slot, job) in self.jobs.iter().filter(|(_, job)| job.size.is_some() && job.may_run()) {
            if !job.plannable(self.now, usable) || (job.phase.held().is_some() && self.left_alone(job)) {
                continue;
            }
            let sizes = job.spec.sizes();
            let floor = job.spec.floor.unwrap_or(UNPROMISED * self.best_rate(&job.spec));
            let cells = sizes.iter().map(|&gang| self.frugal_cell(&job.spec, gang, floor));
            let (rates, joules): (Vec<f64>, Vec<f64>) = cells.unzip();
            sized.push((slot, sizes[sizing::most_frugal(&rates, &joules, floor)]));
        }
        sized.into_iter().for_each(|(slot, gang)| self.resize(slot, gang, out));
    }

    /// What a job does with the size and on the kind where it is fastest.
    fn best_rate(&self, spec: &JobSpec) -> f64 {
        let kinds = || (0..self.cluster.kinds().len() as u16).map(KindId);
        let cells =
            spec.sizes().into_iter().flat_map(|gang| kinds().filter_map(move |kind| self.cell(spec, gang, kind)));
        cells.map(|cell| cell.rate).fold(0.0, f64::max)
    }

    /// The rate of a gang, and its joules for a step, on the kind where it keeps its promise with the fewest.
    fn frugal_cell(&self, spec: &JobSpec, gang: u32, floor: f64) -> (f64, f64) {
        let counts = self.cluster.counts();
        let (mut rates, mut joules) = (Vec::new(), Vec::new());
        for (j, kind) in self.cluster.kinds().iter().enumerate() {
            let enough = counts[self.cluster.sold_as(KindId(j as u16)).index()] >= gang;
            let Some(cell) = self.cell(spec, gang, KindId(j as u16)).filter(|_| enough) else { continue };
            let idle = if self.settings.unused_off { 0.0 } else { kind.idle_watts };
            rates.push(cell.rate);
            joules.push(f64::from(gang) * (cell.watts - idle).max(0.0) / cell.rate);
        }
        match rates.is_empty() {
            true => (0.0, 0.0),
            false => {
                let best = sizing::most_frugal(&rates, &joules, floor);
                (rates[best], joules[best])
            }
        }
    }

    /// Gives an elastic job another size: it is one of another class from now on, and behind none of those that are there.
    fn resize(&mut self, slot: Slot, gang: u32, out: &mut Vec<Output>) {
        let job = self.jobs.get(slot);
        let from = job.gang();
        if job.size.is_none() || from == gang {
            return;
        }
        self.credit(slot);
        self.drop_target(slot);
        let job = self.jobs.get(slot).clone();
        let before = self.classes[&job.class].best_rate();
        self.leave_class(&job);
        let class = self.class_for(&job.spec, gang);
        let level = self.classes.get_mut(&class).expect("just made").jobs.level(&self.jobs);
        // Service is counted in seconds on the fastest kind, and that is faster or slower now.
        let scale = before / self.classes[&class].best_rate().max(f64::MIN_POSITIVE);
        let scale = if scale.is_finite() && scale > 0.0 { scale } else { 1.0 };
        let mut resized = self.jobs.get_mut(slot);
        resized.class = class;
        resized.size = Some(gang);
        resized.virtual_seconds = level;
        resized.served_seconds *= scale;
        if let Phase::Starting(gang, _) | Phase::Running(gang) | Phase::Stopping(gang, ..) = &mut resized.phase {
            gang.speed *= scale;
        }
        drop(resized);
        self.classes.get_mut(&class).expect("just made").jobs.join(job.joined, slot, &self.jobs);
        out.push(Output::Note(Event::Resized { job: job.spec.id, from, to: gang }));
        self.changed = true;
    }
}

impl Wish {
    /// It keeps the size that it has.
    fn freeze(&mut self) {
        let Some(held) = self.held else { return };
        let kinds = self.job.rates.len() / self.job.sizes.len();
        self.job.sizes = vec![self.job.sizes[held]];
        self.job.rates = self.job.rates[held * kinds..(held + 1) * kinds].to_vec();
        self.held = Some(0);
    }
}
