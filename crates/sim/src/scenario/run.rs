//! A run: brings trace, world, estimator, policy and scheduler together and lets time pass.
//!
//! Events happen in order of time; at one moment ends come before node events, these before arrivals, and the round's tick comes last.
//! Orders are carried out and answered at once; `faults` has the driver in which none of this can be relied upon.

use super::{BudgetEvent, NodeEvent, Options, RunHooks, RunObserver, Scenario};
use crate::journal::Journal;
use crate::measure::Learner;
use crate::recorder::RunRecorder;
use crate::truth::Oracle;
use crate::world::World;
use arles_core::allocate::{PolicyEntry, Problem};
use arles_core::drive::{self, RecordingSite, Site, Solution, Solver};
use arles_core::engine::OrderReply;
use arles_core::estimate::{Estimator, RateQuery, RateRow};
use arles_core::scheduler::{Event, Order, Settings};
use arles_core::{Cluster, Input, JobId, Output, Scheduler, Time};
use arles_report::record::RunRecord;
use std::io::{self, Write};
use std::sync::Arc;

/// Rounds between two surveys: nothing gets lost here, so a rare look is enough.
const ROUNDS_PER_SURVEY: u64 = 10;

fn settings(options: &Options) -> Settings {
    let mut settings = Settings::with_round(options.round_seconds);
    settings.survey_seconds = options.round_seconds * ROUNDS_PER_SURVEY as f64;
    settings.lease_seconds = 4.0 * settings.survey_seconds;
    settings.unused_off = options.world_options.unused_off;
    settings.epsilon = options.epsilon;
    settings.half_life_seconds = options.half_life_seconds;
    settings.refill = options.refill;
    settings
}

/// [`Scenario::run`].
pub(super) fn run<'a>(
    scenario: &'a Scenario,
    policy: &'static PolicyEntry,
    hooks: RunHooks<'a>,
    progress: &mut dyn FnMut(u64),
) -> io::Result<RunRecord> {
    let RunHooks { journal, observer, estimator } = hooks;
    let (settings, cluster, tenants) = (settings(&scenario.options), &scenario.cluster, &scenario.trace.tenants);
    let journal = match journal {
        Some(out) => Some(Journal::begin(out, policy.name, cluster, tenants, settings)?),
        None => None,
    };
    let mut run = Run {
        scenario,
        scheduler: Scheduler::new(cluster.clone(), tenants.clone(), policy, settings),
        site: VirtualSite {
            now: Time::ZERO,
            world: World::new(cluster.clone(), Arc::clone(&scenario.truth), scenario.options.world_options),
            recorder: RunRecorder::new(policy.name, cluster, &scenario.trace, scenario.options.keep_details),
            oracle: Oracle(Arc::clone(&scenario.truth)),
            learner: estimator.map(Learner::new),
            solver: Solver::default(),
            journal,
            observer,
        },
    };
    run.until_all_is_done(progress)?;
    let VirtualSite { now, world, recorder, learner, journal, .. } = run.site;
    if let Some(journal) = journal {
        journal.finish()?;
    }
    let (name, observations) = learner.as_ref().map_or(("oracle", 0), |l| (l.name(), l.observations()));
    Ok(recorder.finish(now, world, name, observations))
}

struct Run<'a> {
    scenario: &'a Scenario,
    scheduler: Scheduler,
    site: VirtualSite<'a>,
}

/// Everything around the scheduler, all of which answers at once.
struct VirtualSite<'a> {
    now: Time,
    world: World,
    recorder: RunRecorder,
    oracle: Oracle,
    learner: Option<Learner>,
    solver: Solver,
    journal: Option<Journal<&'a mut dyn Write>>,
    observer: Option<&'a mut dyn RunObserver>,
}

impl Run<'_> {
    fn until_all_is_done(&mut self, progress: &mut dyn FnMut(u64)) -> io::Result<()> {
        let round = Time::from_seconds(self.scenario.options.round_seconds).0.max(1);
        let mut arrivals = 0..self.scenario.trace.jobs.len();
        let mut script = self.scenario.options.script.clone();
        script.sort_by(|a, b| b.at_seconds.total_cmp(&a.at_seconds));
        let mut budgets = self.scenario.options.power_budget.clone();
        budgets.sort_by(|a, b| b.at_seconds.total_cmp(&a.at_seconds));
        let (mut next_tick, mut ticks) = (Time::ZERO, 0u64);
        if !self.scenario.options.prices.is_empty() {
            self.tell(Input::Prices(self.scenario.options.prices.clone()))?;
        }
        self.survey()?;
        loop {
            let arrival =
                arrivals.clone().next().map(|i| Time::from_seconds(self.scenario.trace.jobs[i].arrival_seconds));
            if self.scheduler.live_jobs() == 0 {
                // Nothing to decide until somebody comes: skip the empty rounds in between.
                let Some(arrival) = arrival else { break };
                self.site.recorder.granted(self.site.now, None);
                next_tick = next_tick.max(Time(arrival.0.div_ceil(round) * round));
            }
            let node_event = script.last().map(|e| Time::from_seconds(e.at_seconds));
            let budget_event = budgets.last().map(|e| Time::from_seconds(e.at_seconds));
            // What is drawn is paid at the price of its moment, so no stretch of time reaches over a change of price.
            let price = self.scenario.options.prices.next_change(self.site.now);
            let events = [self.site.world.next_event(), node_event, budget_event, price, arrival];
            let next = events.into_iter().flatten().min();
            let before = self.site.now;
            self.site.now = next.map_or(next_tick, |t| t.min(next_tick)).max(before);
            while let Some(report) = self.site.world.advance(self.site.now) {
                self.tell(Input::Reported(report))?;
            }
            self.site.recorder.pay(before, self.site.now, &self.site.world, &self.scenario.options.prices);
            if self.site.play(&mut script) {
                self.survey()?;
            }
            self.set_budget(&mut budgets)?;
            while let Some(i) = arrivals.clone().next()
                && Time::from_seconds(self.scenario.trace.jobs[i].arrival_seconds) <= self.site.now
            {
                arrivals.next();
                if let Some(spec) = self.scenario.submission(i) {
                    self.site.world.admit(spec.clone());
                    self.tell(Input::Submit(spec))?;
                }
            }
            if self.site.now >= next_tick {
                ticks += 1;
                if ticks.is_multiple_of(ROUNDS_PER_SURVEY) {
                    self.survey()?;
                }
                self.learn()?;
                self.tell(Input::Tick)?;
                self.sample();
                progress(self.site.recorder.over());
                if self.site.observer_ends_it() {
                    break;
                }
                next_tick = Time(next_tick.0 + round);
            }
        }
        Ok(())
    }

    /// Tells the scheduler what may be drawn from now on, if that is another than before (the next is the last of `budgets`).
    fn set_budget(&mut self, budgets: &mut Vec<BudgetEvent>) -> io::Result<()> {
        while let Some(event) = budgets.pop_if(|e| Time::from_seconds(e.at_seconds) <= self.site.now) {
            self.tell(Input::PowerBudget(event.watts))?;
        }
        Ok(())
    }

    /// Measures what ran undisturbed in the latter half of the round that ends, and tells the scheduler what that changes.
    fn learn(&mut self) -> io::Result<()> {
        // Half a round is long enough, and leaves time for a restart before it.
        let half = Time::from_seconds(self.scenario.options.round_seconds / 2.0).0;
        let since = Time(self.site.now.0.saturating_sub(half));
        let Some(learner) = &mut self.site.learner else { return Ok(()) };
        let rows = learner.measure(self.site.now, since, &self.site.world);
        if rows.is_empty() { Ok(()) } else { self.tell(Input::Estimated(rows)) }
    }

    fn sample(&mut self) {
        let VirtualSite { now, world, recorder, learner, .. } = &mut self.site;
        let truth = &self.scenario.truth;
        match learner {
            Some(learner) => recorder.sample(*now, world, Some(&|| learner.sample(*now, truth))),
            None => recorder.sample(*now, world, None),
        }
    }

    fn survey(&mut self) -> io::Result<()> {
        let survey = self.site.world.survey(self.site.now, |_| true);
        self.tell(Input::Surveyed(survey))
    }

    fn tell(&mut self, input: Input) -> io::Result<()> {
        drive::run(&mut self.scheduler, self.site.now, input, &mut self.site)
    }
}

impl VirtualSite<'_> {
    /// Lets nodes fail and return that are due (the next event is the last of `script`); `true` if any did.
    fn play(&mut self, script: &mut Vec<NodeEvent>) -> bool {
        let mut any = false;
        while let Some(event) = script.pop_if(|e| Time::from_seconds(e.at_seconds) <= self.now) {
            any = true;
            match event.up {
                true => self.world.restore_node(self.now, event.node),
                false => self.world.fail_node(self.now, event.node),
            }
        }
        any
    }

    fn observer_ends_it(&mut self) -> bool {
        self.observer.as_mut().is_some_and(|observer| !observer.decided(self.now, &self.world))
    }
}

impl RecordingSite for VirtualSite<'_> {
    type Error = io::Error;

    fn record(&mut self, input: &Input, outputs: &[Output]) -> io::Result<()> {
        self.journal.as_mut().map_or(Ok(()), |journal| journal.record(self.now, input, outputs))
    }
}

impl Site for VirtualSite<'_> {
    fn solve(&mut self, problem: &Arc<Problem>, policy: &'static PolicyEntry) -> Option<Solution> {
        let solution = self.solver.solve(problem, policy);
        if let Ok(allocation) = &solution {
            self.recorder.granted(self.now, Some((problem, allocation)));
            if let Some(observer) = &mut self.observer {
                observer.allocated(self.now, problem, allocation);
            }
        }
        Some(solution)
    }

    fn estimate(&mut self, query: &RateQuery) -> Option<RateRow> {
        Some(match &mut self.learner {
            Some(learner) => learner.answer(query),
            None => self.oracle.estimate(query),
        })
    }

    fn apply(&mut self, order: &Order) -> OrderReply {
        self.recorder.before_order(self.now, order, &self.world);
        self.world.apply(self.now, order).into()
    }

    fn cluster_changed(&mut self, cluster: &Arc<Cluster>) {
        for kind in &cluster.kinds()[self.world.cluster().kinds().len()..] {
            self.oracle.add_kind(kind);
            if let Some(learner) = &mut self.learner {
                learner.add_kind(kind);
            }
        }
        // What it tells, surveys tell too.
        if let Err(why) = self.world.set_cluster(self.now, cluster) {
            panic!("the cluster cannot become what the scheduler says: {why}");
        }
    }

    fn job_over(&mut self, job: JobId, completed: bool) {
        if let Some(sim_job) = self.world.dismiss(job) {
            self.recorder.over_with(self.now, &sim_job, completed);
        }
    }

    fn note(&mut self, event: &Event) {
        match event {
            Event::BadPlan { round, why } => panic!("the placer broke a rule in {round}: {why}"),
            Event::NoAllocation { .. } => self.recorder.no_allocation(),
            _ => {}
        }
    }
}
