//! Power budgets: what all GPUs together may draw, and what those of a rack may.
//!
//! Names of racks are paths (`row-1/rack-3`), and a budget may be of any part of one, so that budgets are a tree as wide and as deep as the building's wires. All
//! are kept in the same way; only the site's is known to policies, which divide kinds and know nothing of places.
//!
//! A policy that knows about power divides what there is, on average over the rounds; a round's gangs are whole, and other policies know nothing of it. So
//! every plan is looked at once more before it is carried out, by the estimates: as long as it draws too much, gangs are run under the power
//! limits that the cluster has, where that costs least speed for a watt, and when no limit is left gangs are not run at all, those first whose class
//! was owed least. Whoever runs under another limit goes on, whoever has to stop is told to, with a checkpoint, and waits: no work is lost.
//!
//! A budget that falls is kept at once: what runs is looked at as if it were a plan. What cannot be changed now (gangs on silent nodes, gangs that
//! are stopping, idle GPUs that nobody can switch off) is said, and how much is missing.

use super::*;
use crate::Node;
use crate::place::{Plan, Seat};

/// A budget, and what it is for.
struct Scope {
    /// The rack, or what racks stand in; none for all GPUs.
    rack: Option<String>,
    budget: f64,
    /// Which GPUs it counts; empty for all.
    inside: Vec<bool>,
    /// What is drawn there whatever the plan is.
    fixed: f64,
}

impl Scope {
    /// Which part of a gang is inside.
    fn part(&self, gpus: &[GpuId]) -> f64 {
        if self.inside.is_empty() {
            return 1.0;
        }
        gpus.iter().filter(|gpu| self.inside[gpu.index()]).count() as f64 / gpus.len().max(1) as f64
    }

    fn watts(&self, items: &[Item]) -> f64 {
        self.fixed + items.iter().map(|item| item.watts * self.part(&item.gpus)).sum::<f64>()
    }

    fn is_exceeded(&self, items: &[Item]) -> bool {
        self.watts(items) > self.budget * (1.0 + SLACK) + SLACK
    }
}

/// Whether a rack is the one of that name, or stands below it.
fn stands_in(rack: &str, name: &str) -> bool {
    rack.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Rounding in sums of estimates.
const SLACK: f64 = 1e-9;
/// Rounds of advantage of a gang that runs: nobody is stopped for another that is owed little more.
const TURN_ROUNDS: f64 = 4.0;

/// One gang of a plan, and how it could be run with less.
struct Item {
    slot: Slot,
    /// What the plan says, and what it becomes.
    planned: KindId,
    kind: KindId,
    gpus: Vec<GpuId>,
    spread: Spread,
    /// What it draws beyond what its GPUs draw without it.
    watts: f64,
    runs: bool,
    /// Ways to draw less, as (kind, speed, watts).
    modes: Vec<(KindId, f64, f64)>,
    speed: f64,
    /// What it is in now, if it runs already.
    held: Option<KindId>,
    /// The other gang on its GPU, as an index of the list.
    partner: Option<usize>,
    /// What its class is owed, in rounds; more by a turn if it runs already.
    credit: f64,
}

impl Item {
    /// The next mode down that loses least speed for a watt: its place in `modes`, and that loss.
    fn step(&self) -> Option<(usize, f64)> {
        let less = self.modes.iter().enumerate().filter(|(_, mode)| self.runs && mode.2 < self.watts - SLACK);
        let cost = less.map(|(at, mode)| (at, (self.speed - mode.1).max(0.0) / (self.watts - mode.2)));
        cost.min_by(|a, b| a.1.total_cmp(&b.1))
    }
}

/// Runs one gang, of those that a budget is about, under the limit that costs least speed for a watt; false if none of them can draw less.
fn lower(items: &mut [Item], scope: &Scope) -> bool {
    let here = items.iter().enumerate().filter(|(_, item)| scope.part(&item.gpus) > 0.0);
    let steps = here.filter_map(|(i, item)| item.step().map(|(at, cost)| (cost, i, at)));
    // Of equals, whoever is there already: nobody is told to change places.
    let there = |i: usize, at: usize| items[i].held != Some(items[i].modes[at].0);
    let cheaper = |a: &(f64, usize, usize), b: &(f64, usize, usize)| {
        a.0.total_cmp(&b.0).then(there(a.1, a.2).cmp(&there(b.1, b.2))).then(a.1.cmp(&b.1))
    };
    let Some((_, i, at)) = steps.min_by(cheaper) else { return false };
    let item = &mut items[i];
    (item.kind, item.speed, item.watts) = item.modes[at];
    true
}

/// Who is stopped next of those that a budget is about: of those whose class is owed least, whoever draws most.
fn least_owed(items: &[Item], scope: &Scope) -> Option<usize> {
    let order = |&a: &usize, &b: &usize| {
        let (a, b) = (&items[a], &items[b]);
        a.credit.total_cmp(&b.credit).then(b.watts.total_cmp(&a.watts))
    };
    (0..items.len()).filter(|&i| items[i].runs && scope.part(&items[i].gpus) > 0.0).min_by(order)
}

/// Why an amount is no budget.
fn why_no_budget(watts: Option<f64>) -> Option<String> {
    let watts = watts.filter(|watts| !(watts.is_finite() && *watts >= 0.0))?;
    Some(format!("a power budget of {watts} W makes no sense; give 0 or more, or none for no limit"))
}

impl Scheduler {
    /// The most that all GPUs together may draw, in watts.
    #[must_use]
    pub fn power_budget(&self) -> Option<f64> {
        self.power_budget
    }

    pub(super) fn set_power_budget(&mut self, watts: Option<f64>, out: &mut Vec<Output>) {
        if let Some(why) = why_no_budget(watts) {
            return out.push(Output::Note(Event::Refused { why }));
        }
        out.push(Output::Note(Event::PowerBudgetSet { watts, rack: None }));
        self.changed |= self.power_budget != watts;
        self.power_budget = watts;
        self.shed_now(out);
    }

    /// The most that the GPUs of racks may draw, in watts, by the rack's name or what racks stand in.
    #[must_use]
    pub fn rack_budgets(&self) -> &BTreeMap<String, f64> {
        &self.rack_budgets
    }

    pub(super) fn set_rack_budget(&mut self, rack: &str, watts: Option<f64>, out: &mut Vec<Output>) {
        let known = self.cluster.racks().iter().any(|own| stands_in(own, rack));
        // One that was there when its budget was set may be gone when it is lifted.
        let unknown = !known && watts.is_some();
        let why = why_no_budget(watts).or_else(|| {
            unknown.then(|| format!("no node stands in rack '{rack}' or below it; 'arles nodes' shows racks"))
        });
        if let Some(why) = why {
            return out.push(Output::Note(Event::Refused { why }));
        }
        out.push(Output::Note(Event::PowerBudgetSet { watts, rack: Some(rack.to_owned()) }));
        let before = match watts {
            Some(watts) => self.rack_budgets.insert(rack.to_owned(), watts),
            None => self.rack_budgets.remove(rack),
        };
        self.changed |= before != watts;
        self.shed_now(out);
    }

    /// Brings what runs below the budget without waiting for a round.
    fn shed_now(&mut self, out: &mut Vec<Output>) {
        if self.power_budget.is_none() && self.rack_budgets.is_empty() {
            return;
        }
        let usable = self.usable();
        let view = self.view(&usable);
        let holds = |(slot, job): (Slot, &Job)| (job.phase.held().is_some() && view.plannable(slot)).then_some(slot);
        let keep: Vec<Slot> = self.jobs.holding().filter_map(holds).collect();
        let held = keep.len();
        let plan = Plan { keep, seats: Vec::new() };
        let (plan, _) = self.within_budget(plan, &self.placer, &view, out);
        if plan.keep.len() == held {
            return;
        }
        if let Ok(placement) = Placement::check(plan, &view) {
            self.carry_out(placement, &usable, out);
        }
    }

    /// The plan, brought below the budget as far as that goes; and the gangs that it no longer has, with the kinds that they were planned on.
    pub(super) fn within_budget(
        &self,
        plan: Plan,
        placer: &Placer,
        view: &View<'_>,
        out: &mut Vec<Output>,
    ) -> (Plan, Vec<(Slot, KindId)>) {
        let scopes = self.scopes(view);
        if scopes.is_empty() {
            return (plan, Vec::new());
        }
        let mut items = self.items(&plan, placer, view);
        if !scopes.iter().any(|scope| scope.is_exceeded(&items)) {
            return (plan, Vec::new());
        }
        let mut kept_as_far_as_possible = vec![false; scopes.len()];
        // Somebody who has a GPU alone all at once may draw more than before: so a budget that was kept is looked at again.
        let next =
            |items: &[Item], done: &[bool]| (0..scopes.len()).find(|&s| !done[s] && scopes[s].is_exceeded(items));
        while let Some(s) = next(&items, &kept_as_far_as_possible) {
            if lower(&mut items, &scopes[s]) {
                continue;
            }
            match least_owed(&items, &scopes[s]) {
                Some(i) => self.leave_out(&mut items, i),
                None => kept_as_far_as_possible[s] = true,
            }
        }
        for scope in scopes.iter().filter(|scope| scope.is_exceeded(&items)) {
            let (watts, budget, why) = (scope.watts(&items), scope.budget, self.why_over(scope, view));
            out.push(Output::Note(Event::OverBudget { watts, budget, why }));
        }
        self.replanned(items)
    }

    /// All budgets, those of racks first: what is saved there is saved for the site.
    fn scopes(&self, view: &View<'_>) -> Vec<Scope> {
        let racks = self.rack_budgets.iter().map(|(rack, &budget)| {
            let inside = (0..self.cluster.gpus() as u32).map(|gpu| {
                let own = self.cluster.rack_of(self.cluster.node_of(GpuId(gpu)));
                own.is_some_and(|own| stands_in(own, rack))
            });
            Scope { rack: Some(rack.clone()), budget, inside: inside.collect(), fixed: 0.0 }
        });
        let site = self.power_budget.map(|budget| Scope { rack: None, budget, inside: Vec::new(), fixed: 0.0 });
        let scopes = racks.chain(site).map(|scope| Scope { fixed: self.fixed_watts(&scope, view), ..scope });
        scopes.collect()
    }

    /// A gang is not run. Whoever was with it on its GPU has it alone from now on: it draws more than its half was, and may be run under a limit.
    fn leave_out(&self, items: &mut [Item], i: usize) {
        (items[i].runs, items[i].watts) = (false, 0.0);
        if let Some(other) = items[i].partner.take() {
            let Item { slot, kind, spread, .. } = items[other];
            let alone = &mut items[other];
            alone.partner = None;
            if alone.runs {
                alone.watts = self.added_watts(slot, kind, 1, None);
                alone.modes = self.modes_of(slot, kind, spread, 1);
            }
        }
    }

    /// The plan that the items are now.
    fn replanned(&self, items: Vec<Item>) -> (Plan, Vec<(Slot, KindId)>) {
        let (mut plan, mut shed) = (Plan::default(), Vec::new());
        for item in items {
            let here = self.jobs.get(item.slot).phase.held();
            if !item.runs {
                shed.push((item.slot, item.planned));
            } else if here.is_some_and(|gang| gang.kind == item.kind && gang.gpus == item.gpus) {
                plan.keep.push(item.slot);
            } else {
                plan.seats.push(Seat { job: item.slot, kind: item.kind, gpus: item.gpus, spread: item.spread });
            }
        }
        (plan, shed)
    }

    fn items(&self, plan: &Plan, placer: &Placer, view: &View<'_>) -> Vec<Item> {
        let kept = plan.keep.iter().filter_map(|&slot| {
            let gang = self.jobs.get(slot).phase.held()?;
            Some((slot, gang.kind, gang.gpus.clone(), gang.spread))
        });
        let seats = plan.seats.iter().map(|seat| (seat.job, seat.kind, seat.gpus.clone(), seat.spread));
        let all: Vec<_> = kept.chain(seats).collect();
        let mut on: Vec<Vec<usize>> = vec![Vec::new(); view.cluster.gpus()];
        for (i, (_, _, gpus, _)) in all.iter().enumerate() {
            gpus.iter().for_each(|gpu| on[gpu.index()].push(i));
        }
        let slots: Vec<Slot> = all.iter().map(|gang| gang.0).collect();
        let item = |(i, (slot, kind, gpus, spread)): (usize, (Slot, KindId, Vec<GpuId>, Spread))| {
            let held = self.jobs.get(slot).phase.held().filter(|gang| gang.gpus == gpus).map(|gang| gang.kind);
            let owed: f64 = placer.standing(self.jobs.get(slot).class).iter().map(|s| s.credit).sum();
            let partner = gpus.iter().find_map(|gpu| on[gpu.index()].iter().copied().find(|&other| other != i));
            let many = gpus.len() as u32;
            let modes = if partner.is_some() { Vec::new() } else { self.modes_of(slot, kind, spread, many) };
            Item {
                watts: self.added_watts(slot, kind, many, partner.map(|other| slots[other])),
                speed: self.speed(slot, kind, spread, many),
                credit: owed + if held.is_some() { TURN_ROUNDS } else { 0.0 },
                held,
                partner,
                slot,
                planned: kind,
                kind,
                gpus,
                spread,
                runs: true,
                modes,
            }
        };
        all.into_iter().enumerate().map(item).collect()
    }

    /// What a job does on a kind, over its best, times its GPUs.
    fn speed(&self, slot: Slot, kind: KindId, spread: Spread, gpus: u32) -> f64 {
        self.classes[&self.jobs.get(slot).class].speed(kind, spread) * f64::from(gpus)
    }

    /// The modes that the GPUs of a kind have, as far as it is known what the job does there.
    fn modes_of(&self, slot: Slot, kind: KindId, spread: Spread, gpus: u32) -> Vec<(KindId, f64, f64)> {
        let base = self.cluster.sold_as(kind);
        let modes = self.cluster.modes().iter().filter(|(mode, of)| *of == base && *mode != kind);
        let known = modes
            .map(|(mode, _)| (*mode, self.speed(slot, *mode, spread, gpus), self.added_watts(slot, *mode, gpus, None)));
        known.filter(|(_, speed, _)| *speed > 0.0).collect()
    }

    /// What a job's gang on a kind adds to the bill: its estimate, or what the kind draws at most. Of two on a GPU each stands for half of what both draw.
    fn added_watts(&self, slot: Slot, kind: KindId, gang: u32, partner: Option<Slot>) -> f64 {
        let spec = &self.jobs.get(slot).spec;
        let limit = self.cluster.kind(kind).limit_watts();
        let idle = if self.settings.unused_off { 0.0 } else { self.cluster.kind(kind).idle_watts };
        let drawn = |ask: RateQuery| {
            let cell = self.estimates.row(&ask).and_then(|row| row.cells.get(kind.index()).copied().flatten());
            (cell.map_or(limit, |cell| cell.watts) - idle).max(0.0)
        };
        match partner.map(|partner| self.jobs.get(partner).spec.workload) {
            None => drawn(RateQuery { workload: spec.workload, gang, partner: None }) * f64::from(gang),
            // What two draw together is the least sure of all estimates, so their GPU counts for all that it may draw.
            Some(other) => {
                let (a, b) = (spec.workload.min(other), spec.workload.max(other));
                drawn(RateQuery { workload: a, gang: 1, partner: Some(b) }).max(limit - idle) / 2.0
            }
        }
    }

    /// What is drawn whatever the plan is: idle GPUs that stay on, and gangs that no plan moves.
    fn fixed_watts(&self, scope: &Scope, view: &View<'_>) -> f64 {
        let drawn = |(slot, gang): (Slot, &Gang)| {
            self.added_watts(slot, gang.kind, gang.gpus.len() as u32, None) * scope.part(&gang.gpus)
        };
        self.unmoved(scope, view).map(drawn).sum::<f64>() + self.idle_watts(scope)
    }

    /// Gangs that no plan moves.
    fn unmoved<'a>(&'a self, scope: &'a Scope, view: &View<'a>) -> impl Iterator<Item = (Slot, &'a Gang)> {
        let gangs = self.jobs.holding().filter_map(|(slot, job)| Some((slot, job.phase.occupied()?)));
        gangs.filter(move |(slot, gang)| !view.plannable(*slot) && scope.part(&gang.gpus) > 0.0)
    }

    /// What all GPUs draw with nothing on them.
    fn idle_watts(&self, scope: &Scope) -> f64 {
        if self.settings.unused_off {
            return 0.0;
        }
        let idle = |node: &Node| f64::from(node.gpus) * self.cluster.kind(node.kind).idle_watts;
        self.cluster.present().map(|(_, node)| idle(node) * scope.part(&[node.first_gpu])).sum()
    }

    fn why_over(&self, scope: &Scope, view: &View<'_>) -> String {
        let (idle, fixed) = (self.idle_watts(scope), scope.fixed);
        let place = scope.rack.as_ref().map_or(String::new(), |rack| format!("in {rack} "));
        match (idle > 0.0, self.unmoved(scope, view).count()) {
            (true, 0) => format!(
                "{place}{idle:.0} W are drawn by GPUs with nothing on them; remove nodes, or have unused GPUs switched off"
            ),
            (false, jobs) => format!(
                "{place}{jobs} jobs that cannot be moved now draw {fixed:.0} W: they are stopping or their nodes are silent"
            ),
            (true, jobs) => format!(
                "{place}{idle:.0} W are drawn by GPUs with nothing on them, and {:.0} W by {jobs} jobs that cannot be moved now",
                fixed - idle
            ),
        }
    }
}
