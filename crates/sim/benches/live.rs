//! What a scheduler with very many live jobs costs, step by step: what a daemon waits for.
//!
//! `cargo bench -p arles-sim --bench live [-- JOBS:GPUS:CLASSES [POLICIES]]` (default 100000:10000:200). Times are
//! milliseconds, those of submits, cancels and single explanations microseconds each.

use arles_core::allocate::{Allocation, Policy, find_policy};
use arles_core::estimate::{Estimate, RateQuery, RateRow, Source};
use arles_core::scheduler::{GangEvent, GangReport, ObservedNode, Order, Settings, Survey};
use arles_core::{
    Cluster, Input, JobId, JobSpec, Library, NodeId, Output, Scheduler, Tenant, TenantId, Time, Work, WorkloadId,
};
use std::time::Instant;

const TENANTS: u32 = 20;
const KINDS: [&str; 4] = ["a100", "v100", "p100", "t4"];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let size: Vec<u32> = args.first().map_or("100000:10000:200", String::as_str).split(':').map(number).collect();
    let &[jobs, gpus, classes] = &size[..] else { panic!("sizes are jobs:gpus:classes") };
    let policies = args.get(1).map_or("max-min-fairness,oef-coop,max-min-packed,fifo", String::as_str);
    println!("{jobs} jobs in {classes} classes on {gpus} GPUs");
    for name in policies.split(',') {
        measure(name, jobs, gpus, classes);
    }
}

fn number(text: &str) -> u32 {
    text.parse().expect("a number")
}

/// Runs `what` and returns the milliseconds it took.
fn timed<T>(what: impl FnOnce() -> T) -> (f64, T) {
    let begin = Instant::now();
    let result = what();
    (begin.elapsed().as_secs_f64() * 1e3, result)
}

fn measure(name: &str, jobs: u32, gpus: u32, classes: u32) {
    let entry = find_policy(name).expect("a policy's name");
    let kinds = KINDS.map(|k| Library::builtin().kind(k).expect("in the library").clone());
    let cluster = Cluster::uniform(kinds.to_vec(), &[gpus / 4; 4], 8).expect("a cluster");
    let tenants = (0..TENANTS).map(|t| Tenant { name: format!("t{t}"), weight: 1.0 }).collect();
    let settings = Settings { survey_seconds: 1e9, lease_seconds: 1e9, ..Settings::with_round(60.0) };
    let nodes = (0..cluster.nodes().len() as u32).map(|n| ObservedNode { node: NodeId(n), up: true }).collect();
    let mut scheduler = Scheduler::new(cluster, tenants, entry, settings);
    scheduler.step(Time::ZERO, Input::Surveyed(Survey { at: Time::ZERO, nodes, gangs: Vec::new() }));
    let mut day = Day { scheduler, policy: (entry.make)(), clock: Time::from_seconds(1.0), running: Vec::new() };

    let (submits, ()) = timed(|| (0..jobs).for_each(|i| day.submit(i, classes)));
    println!("{name}: {:.2} us a submit", submits * 1e3 / f64::from(jobs));
    for round in 1..=4 {
        day.round(round);
    }
    let (late, ()) = timed(|| (jobs..jobs + 1000).for_each(|i| day.submit(i, classes)));
    let (ends, ()) = timed(|| day.end(1000));
    let waiting: Vec<JobId> = day.scheduler.waiting().take(1000).collect();
    let (cancels, ()) = timed(|| waiting.iter().for_each(|&job| drop(day.tell(Input::Cancel(job)))));
    println!("  then, each: submit {late:.2} us, end of a running job {ends:.2} us, cancel {cancels:.2} us");
    day.round(5);
    day.round(6);
    let few: Vec<JobId> = day.scheduler.waiting().take(100).collect();
    let (one, _) = timed(|| few.iter().map(|&job| day.scheduler.explain(job)).collect::<Vec<_>>());
    let (all, reasons) = timed(|| day.scheduler.explain_all().count());
    println!("  explain {:.0} us, explain_all {all:.1} ms for {reasons} jobs", one * 10.0);
    let (clone, _) = timed(|| day.scheduler.clone());
    let (write, text) = timed(|| serde_json::to_vec(&day.scheduler).expect("a snapshot"));
    let (read, again) = timed(|| serde_json::from_slice::<Scheduler>(&text).expect("what was written"));
    assert_eq!(again.live_jobs(), day.scheduler.live_jobs());
    println!("  clone {clone:.0} ms, write {write:.0} ms ({:.1} MB), read {read:.0} ms", text.len() as f64 / 1e6);
}

/// A scheduler and an engine that does at once what it is ordered.
struct Day {
    scheduler: Scheduler,
    policy: Box<dyn Policy>,
    clock: Time,
    running: Vec<GangReport>,
}

impl Day {
    fn tell(&mut self, input: Input) -> Vec<Output> {
        self.scheduler.step(self.clock, input)
    }

    fn submit(&mut self, i: u32, classes: u32) {
        let class = i % classes;
        let spec = JobSpec {
            id: JobId(u64::from(i)),
            tenant: TenantId(class % TENANTS),
            workload: WorkloadId(class / TENANTS),
            gang: [1, 1, 1, 2][(class / TENANTS % 4) as usize],
            work: Work::Steps(1e6 + f64::from(i)),
            floor: None,
            weight: 1.0,
            restart_seconds: 30.0,
            kinds: Vec::new(),
            arrived: Time(u64::from(i)),
            ..JobSpec::default()
        };
        let rows: Vec<RateRow> = self
            .tell(Input::Submit(spec))
            .into_iter()
            .filter_map(|o| if let Output::Estimate(ask) = o { Some(row(&ask)) } else { None })
            .collect();
        if !rows.is_empty() {
            self.tell(Input::Estimated(rows));
        }
    }

    fn round(&mut self, number: u32) {
        self.clock = self.clock.after(60.0);
        let (tick, mut outputs) = timed(|| self.scheduler.step(self.clock, Input::Tick));
        let (mut solve, mut place) = (0.0, 0.0);
        let question = outputs.iter().find_map(|o| if let Output::Solve(p) = o { Some(p.clone()) } else { None });
        if let Some(problem) = question {
            let answer: Result<Allocation, _>;
            (solve, answer) = timed(|| self.policy.allocate(&problem));
            let followed;
            (place, followed) = timed(|| self.scheduler.step(self.clock, Input::Allocated(problem.round, answer)));
            outputs.extend(followed);
        }
        let (mut starts, mut stops) = (0, 0);
        let (obey, ()) = timed(|| {
            while let Some(output) = outputs.pop() {
                let Output::Order(order) = output else { continue };
                let report = match order {
                    Order::Start(start) => {
                        starts += 1;
                        let report = GangReport::new(start.job, start.fence, GangEvent::Started);
                        self.running.push(report.clone());
                        report
                    }
                    Order::Stop { job, fence } => {
                        stops += 1;
                        GangReport::new(job, fence, GangEvent::Stopped(0.0))
                    }
                };
                outputs.extend(self.scheduler.step(self.clock, Input::Reported(report)));
            }
        });
        println!(
            "  round {number}: tick {tick:.1} ms, solve {solve:.1} ms, place {place:.1} ms; {starts} starts and {stops} \
             stops, reports {obey:.1} ms"
        );
    }

    /// Ends running jobs.
    fn end(&mut self, most: usize) {
        for _ in 0..most {
            let Some(report) = self.running.pop() else { return };
            self.tell(Input::Reported(GangReport { event: GangEvent::Finished, ..report }));
        }
    }
}

/// Rates that differ by workload and kind.
fn row(ask: &RateQuery) -> RateRow {
    let cell = |j: u16| {
        let rate = (4.0 - f64::from(j)) * (1.0 + f64::from((ask.workload.0 * 7 + u32::from(j) * 5) % 11) / 10.0);
        let factor = if ask.partner.is_some() { 0.6 } else { 1.0 };
        Some(Estimate {
            rate: rate * factor * f64::from(ask.gang),
            spread_rate: 0.8 * rate * factor * f64::from(ask.gang),
            racks_rate: 0.0,
            partner_rate: if ask.partner.is_some() { rate * 0.55 } else { 0.0 },
            watts: 200.0,
            standard_error: 0.1,
            source: Source::Initial,
        })
    };
    RateRow { ask: *ask, cells: (0..KINDS.len() as u16).map(cell).collect() }
}
