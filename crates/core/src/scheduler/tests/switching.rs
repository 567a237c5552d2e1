//! Another policy, other tenants, a restart: what may and may not change by them.

use super::*;

fn switch(bench: &mut Bench, to: &str) -> Vec<Output> {
    bench.tell(Input::Policy(to.into())).to_vec()
}

fn tenant(name: &str, weight: f64) -> Input {
    Input::Tenant(Tenant { name: name.into(), weight })
}

fn problem_of(outputs: &[Output]) -> Option<Arc<Problem>> {
    outputs.iter().find_map(|o| if let Output::Solve(p) = o { Some(Arc::clone(p)) } else { None })
}

#[test]
fn a_policy_nobody_knows_changes_nothing() {
    let mut bench = Bench::new(&[1]);
    bench.round();
    let out = switch(&mut bench, "fairest");
    let [Output::Note(Event::Refused { why })] = &out[..] else { panic!("{out:?}") };
    assert!(why.starts_with("policy 'fairest' is not known; choose one of oef-coop, "), "{why}");
    assert_eq!(bench.scheduler.policy().name, "fifo");
    let out = switch(&mut bench, "fifo");
    assert_eq!(out.len(), 1, "and one that decides already is only named: {out:?}");
    assert!(!bench.scheduler.changed);
}

#[test]
fn what_runs_goes_on_until_the_new_policy_has_answered() {
    let mut bench = Bench::new(&[2]);
    let there = [bench.running(1, 1), bench.running(2, 1)];
    bench.wait(1.0);
    bench.survey(&[0], there.iter().map(seen).collect());
    bench.submit(3, 1);
    bench.wait(ROUND);
    let old = problem_of(bench.tell(Input::Tick)).expect("a job came");
    let out = switch(&mut bench, "max-min-fairness");
    assert_eq!(out, [Output::Note(Event::PolicySwitched { from: "fifo".into(), to: "max-min-fairness".into() })]);
    let late = (find_policy("fifo").unwrap().make)().allocate(&old);
    assert!(bench.tell(Input::Allocated(old.round, late)).is_empty(), "the answer of the old policy is dropped");
    bench.wait(ROUND);
    let first = problem_of(bench.tell(Input::Tick)).expect("the new policy is asked at once");
    assert_eq!((first.users.len(), first.users[0].jobs), (1, 3), "alike jobs are one user now");
    for _ in 0..2 {
        bench.wait(1.0);
        bench.tell(Input::Tick);
        assert!(!bench.out.iter().any(|o| matches!(o, Output::Order(_))), "{:?}", bench.out);
    }
    let answer = (bench.scheduler.policy().make)().allocate(&first);
    bench.tell(Input::Allocated(first.round, answer));
    assert!(!bench.scheduler.unanswered);
    assert_eq!(bench.scheduler.standing(JobId(3))[0].gangs, 2.0);
    let back = switch(&mut bench, "las");
    assert_eq!(back.len(), 1);
    assert_eq!(bench.scheduler.classes.len(), 3, "and every job is its own again");
    bench.round();
}

#[test]
fn a_policy_that_pairs_asks_for_what_it_needs() {
    let mut bench = Bench::new(&[1]);
    bench.submit(1, 1);
    bench.submit(2, 2);
    bench.tell(Input::Submit(JobSpec { workload: WorkloadId(4), ..job(3, 1) }));
    let out = switch(&mut bench, "max-min-packed");
    let pair = |a, b| Output::Estimate(RateQuery { workload: WorkloadId(a), gang: 1, partner: Some(WorkloadId(b)) });
    assert_eq!(out[1..], [pair(0, 0), pair(0, 4), pair(4, 4)]);
    switch(&mut bench, "fifo");
    assert_eq!(switch(&mut bench, "gogh").len(), 1, "what was asked for is not asked for twice");
}

#[test]
fn tenants_come_and_weights_change() {
    let mut bench = Bench::new(&[1]);
    bench.submit(1, 1);
    bench.round();
    for (wrong, sentence) in [
        (tenant("t", 0.0), "tenant 't' is given weight 0; a weight is a positive number"),
        (tenant("t", f64::NAN), "tenant 't' is given weight NaN; a weight is a positive number"),
        (tenant("", 1.0), "a tenant has no name; give it one"),
    ] {
        let out = bench.tell(wrong).to_vec();
        assert_eq!(out, [Output::Note(Event::Refused { why: sentence.into() })]);
    }
    assert!(!bench.scheduler.changed);
    let out = bench.tell(tenant("u", 3.0)).to_vec();
    assert_eq!(out, [Output::Note(Event::TenantSet { name: "u".into(), weight: 3.0 })]);
    bench.tell(tenant("t", 2.0));
    assert!(bench.scheduler.changed);
    let weights: Vec<f64> = bench.scheduler.tenants().iter().map(|t| t.weight).collect();
    assert_eq!(weights, [2.0, 3.0]);
    bench.tell(Input::Submit(JobSpec { tenant: TenantId(1), ..job(2, 1) }));
    assert_eq!(bench.scheduler.live_jobs(), 2);
    bench.wait(ROUND);
    let problem = problem_of(bench.tell(Input::Tick)).expect("weights have changed");
    let weights: Vec<f64> = problem.users.iter().map(|u| u.tenant_weight).collect();
    assert_eq!(weights, [2.0, 3.0]);
}

#[test]
fn everything_open_is_asked_and_ordered_again() {
    let mut bench = Bench::new(&[2, 1]);
    assert!(bench.scheduler.again().is_empty());
    let one = bench.running(1, 1);
    bench.submit(2, 2);
    let two = bench.round().pop().expect("there is room");
    bench.tell(Input::Cancel(JobId(1)));
    let ask = RateQuery { workload: WorkloadId(0), gang: 3, partner: None };
    bench.tell(Input::Submit(job(3, 3)));
    bench.wait(ROUND / 2.0);
    let problem = problem_of(bench.tell(Input::Tick)).expect("a job left");
    let open = [
        Output::Order(Order::Stop { job: JobId(1), fence: one.fence }),
        Output::Order(Order::Start(two)),
        Output::Estimate(ask),
        Output::Solve(problem),
    ];
    assert_eq!(bench.scheduler.again(), open);
    let text = serde_json::to_string(&bench.scheduler).unwrap();
    let restored: Scheduler = serde_json::from_str(&text).unwrap();
    assert_eq!(restored.again(), open);
}

#[test]
fn damaged_snapshots_are_refused_with_a_sentence() {
    let mut bench = Bench::new(&[2, 1]);
    bench.running(1, 1);
    let text = serde_json::to_string(&bench.scheduler).unwrap();
    for (from, to, sentence) in [
        ("\"arles_snapshot\":1", "\"arles_snapshot\":9", "the snapshot has version 9, this arles reads version 1"),
        ("\"policy\":\"fifo\"", "\"policy\":\"best\"", "policy 'best' of the snapshot is not known to this arles"),
        ("\"next_joined\":1", "\"next_joined\":0", "job-1 of the snapshot is newer than its counters"),
        ("\"gpus\":[0]", "\"gpus\":[7]", "job-1 of the snapshot is on gpu-7; the cluster has 3"),
        ("\"gpus\":[0]", "\"gpus\":[0,1]", "the gang of job-1 in the snapshot is not what the job asks for"),
        ("\"tenant\":0", "\"tenant\":5", "job 1 belongs to an unknown tenant (tenant-5)"),
        ("\"free\":[]", "\"free\":[0]", "the snapshot's free slots are not those without a job"),
    ] {
        let from = if text.contains(from) { from.to_owned() } else { from.replace("[0]", "[2]") };
        assert!(text.contains(&from), "{from} in {text}");
        let error = serde_json::from_str::<Scheduler>(&text.replace(&from, to)).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains(sentence), "{error}");
    }
}
