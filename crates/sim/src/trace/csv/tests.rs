//! Tests of the trace file: a full example, defaults, exact round trips, every refusal.

use super::*;
use arles_core::Tenant;
use proptest::prelude::*;

const FULL: &str = "\
job_id,tenant,weight,workload,gang,arrival_seconds,steps,duration_seconds,period_seconds,floor_rate,floor_fraction,job_weight,restart_seconds,kinds
7,vision,2,resnet50-b64,4,0,1000,,,,0.5,1,30,v100|a100
3,\"search, ads\",1,bert-b1,1,12.5,,,3600,40,,2,,
4,vision,2,resnet50-b64,1,12.5,,86400,,,,1,0,a100
";

#[test]
fn every_column_is_read_and_written_back() {
    let trace = from_text(FULL, "full.csv").unwrap();
    let tenant = |name: &str, weight| Tenant { name: name.into(), weight };
    assert_eq!(trace.tenants, [tenant("vision", 2.0), tenant("search, ads", 1.0)]);
    assert_eq!(trace.workloads, ["resnet50-b64", "bert-b1"]);
    assert_eq!(trace.kinds, ["v100", "a100"]);
    let served = TraceJob {
        id: 3,
        tenant: 1,
        workload: 1,
        gang: 1,
        arrival_seconds: 12.5,
        length: Length::Period(3600.0),
        floor: Some(Floor::Rate(40.0)),
        weight: 2.0,
        restart_seconds: None,
        before_seconds: None,
        largest_gang: None,
        kinds: vec![],
    };
    assert_eq!(trace.jobs[1], served);
    assert_eq!((trace.jobs[0].kinds.as_slice(), trace.jobs[2].kinds.as_slice()), (&[0, 1][..], &[1][..]));
    let mut written = Vec::new();
    write(&trace, &mut written).unwrap();
    assert_eq!(String::from_utf8(written).unwrap(), FULL);
    assert_eq!(from_reader(FULL.as_bytes(), "full.csv").unwrap(), trace);
}

#[test]
fn columns_may_be_left_out_and_reordered() {
    let trace = from_text("arrival_seconds,workload,job_id,steps\n0,a,1,5\n\n9,a,2,1e3\n", "f.csv").unwrap();
    assert_eq!(trace.tenants, [Tenant { name: "default".into(), weight: 1.0 }]);
    let job = &trace.jobs[1];
    assert_eq!((job.gang, job.weight, job.length), (1, 1.0, Length::Steps(1000.0)));
    assert_eq!((job.floor, job.restart_seconds, job.kinds.len()), (None, None, 0));
}

#[test]
fn an_empty_weight_means_as_above() {
    let text = "job_id,tenant,weight,workload,arrival_seconds,steps\n1,x,3,a,0,5\n2,x,,a,0,5\n3,y,,a,0,5\n";
    let weights: Vec<f64> = from_text(text, "f").unwrap().tenants.iter().map(|t| t.weight).collect();
    assert_eq!(weights, [3.0, 1.0]);
}

#[test]
fn wrong_files_are_refused_with_line_column_and_sentence() {
    let check = |text: &str, expected: &str| {
        let error = from_text(text, "f.csv").unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}\n  should start with {expected}");
    };
    check("", "f.csv: this file is empty; expected a header");
    check(
        "job_id,workload,arival_seconds,steps\n",
        "f.csv:1:17: there is no column 'arival_seconds' (did you mean arrival_seconds?)",
    );
    check("0,a,3\n", "f.csv:1:1: there is no column '0'; expected a header of job_id");
    check("job_id,steps,job_id\n", "f.csv:1:14: column 'job_id' occurs twice");
    check("job_id,arrival_seconds,steps\n", "f.csv:1:24: column 'workload' is missing");
    check("job_id,workload,arrival_seconds\n", "f.csv:1:17: no column says how long a job is");

    let line = |line: &str, expected: &str| {
        let header = "job_id,tenant,weight,workload,gang,arrival_seconds,steps,duration_seconds,period_seconds,\
                      floor_rate,floor_fraction,job_weight,restart_seconds,kinds";
        check(&format!("{header}\n1,t,2,w,1,10,5,,,,,,,\n{line}\n"), &format!("f.csv:3:{expected}"));
    };
    line("2,t,2,w,1,10,5", "1: this line has 7 fields; expected 14");
    line("2,t,2,w,1,10,5,,,,,,,,x", "23: this line has 15 fields; expected 14");
    line("1,t,2,w,1,10,5,,,,,,,", "1: job_id 1 occurs twice");
    line(",t,2,w,1,10,5,,,,,,,", "1: job_id is empty");
    line("x,t,2,w,1,10,5,,,,,,,", "1: job_id is 'x'; expected a whole number");
    line("-1,t,2,w,1,10,5,,,,,,,", "1: job_id is '-1'; expected a whole number, 0 or more");
    line("2,t,3,w,1,10,5,,,,,,,", "5: tenant 't' weighs 3 here but 2 above");
    line("2,t,0,w,1,10,5,,,,,,,", "5: weight is '0'; expected more than 0");
    line("2,t,2,,1,10,5,,,,,,,", "7: workload is empty");
    line("2,t,2,w,0,10,5,,,,,,,", "9: gang is 0; a job holds at least 1 GPU");
    line("2,t,2,w,1.5,10,5,,,,,,,", "9: gang is '1.5'; expected a whole number");
    line(
        "2,t,2,w,1,9,5,,,,,,,",
        "11: job 2 arrives at 9 s, before the job above it (10 s); sort the lines by arrival_seconds",
    );
    line("2,t,2,w,1,NaN,5,,,,,,,", "11: arrival_seconds is 'NaN'; expected a finite number");
    line("2,t,2,w,1,-1,5,,,,,,,", "11: arrival_seconds is '-1'; expected 0 or more");
    line("2,t,2,w,1,,5,,,,,,,", "11: arrival_seconds is empty");
    line("2,t,2,w,1,soon,5,,,,,,,", "11: arrival_seconds is 'soon'; expected a number");
    line("2,t,2,w,1,10,,,,,,,,", "1: this job has no length");
    line("2,t,2,w,1,10,0,,,,,,,", "14: steps is '0'; expected more than 0");
    line("2,t,2,w,1,10,5,60,,,,,,", "16: both steps and duration_seconds are given");
    line("2,t,2,w,1,10,,60,70,,,,,", "18: both duration_seconds and period_seconds are given");
    line("2,t,2,w,1,10,inf,,,,,,,", "14: steps is 'inf'; expected a finite number");
    line("2,t,2,w,1,10,5,,,1,1,,,", "20: both floor_rate and floor_fraction are given");
    line("2,t,2,w,1,10,5,,,-1,,,,", "18: floor_rate is '-1'; expected more than 0");
    line("2,t,2,w,1,10,5,,,,,0,,", "20: job_weight is '0'; expected more than 0");
    line("2,t,2,w,1,10,5,,,,,,-3,", "21: restart_seconds is '-3'; expected 0 or more");
    line("2,t,2,w,1,10,5,,,,,,,a||b", "22: kinds is 'a||b'; expected names such as v100|a100");
    line("2,t,2,w,1,10,5,,,,,,,a|a", "22: kind 'a' is listed twice");
    line("2,t\"x,2,w,1,10,5,,,,,,,", "4: a quote stands inside");
    line("2,\"t,2,w,1,10,5,,,,,,,", "3: this quote is never closed");
}

#[test]
fn names_the_format_cannot_hold_are_not_written() {
    let mut trace = from_text(FULL, "full.csv").unwrap();
    trace.kinds[0] = "a|b".into();
    assert_eq!(write(&trace, io::sink()).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    trace.kinds[0] = String::new();
    assert!(write(&trace, io::sink()).unwrap_err().to_string().contains("empty name"));
}

/// A job as anybody might write it, before names become indices.
type Loose = (String, String, u32, f64, Length, Option<Floor>, f64, Option<f64>, Vec<String>);

fn positive() -> impl Strategy<Value = f64> {
    prop_oneof![
        (1u32..1000).prop_map(f64::from),
        any::<f64>().prop_map(f64::abs).prop_filter("finite", |x| *x > 0.0 && x.is_finite())
    ]
}

fn loose() -> impl Strategy<Value = Loose> {
    let name = "[a-c,\"\n\r|é ]{1,4}";
    let kind = "[a-c,\" ]{1,2}";
    let length = (0..3usize, positive())
        .prop_map(|(which, x)| [Length::Steps(x), Length::Duration(x), Length::Period(x)][which]);
    let floor =
        (0..3usize, positive()).prop_map(|(which, x)| [None, Some(Floor::Rate(x)), Some(Floor::Fraction(x))][which]);
    let restart = proptest::option::of(positive());
    (name, name, 1..9u32, positive(), length, floor, positive(), restart, proptest::collection::vec(kind, 0..3))
}

/// Puts loose jobs into a trace in order of first use, as a reader would.
fn trace_of(loose: Vec<Loose>) -> Trace {
    let mut draft = Draft::default();
    let mut arrival_seconds = 0.0f64;
    for (i, (tenant, workload, gang, gap, length, floor, weight, restart_seconds, kinds)) in
        loose.into_iter().enumerate()
    {
        arrival_seconds = (arrival_seconds + gap).min(f64::MAX);
        let mut ids: Vec<u16> = kinds.iter().filter_map(|kind| draft.kind(kind)).collect();
        let mut seen = HashSet::new();
        ids.retain(|id| seen.insert(*id));
        let tenant_weight = 1.0 + tenant.len() as f64 / 3.0;
        let job = TraceJob {
            id: (i as u64) * 7 % 1009,
            tenant: draft.tenant(&tenant, Some(tenant_weight)).unwrap(),
            workload: draft.workload(&workload),
            gang,
            arrival_seconds,
            length,
            floor,
            weight,
            restart_seconds,
            kinds: ids,
            before_seconds: i.is_multiple_of(3).then_some(arrival_seconds + 60.0),
            largest_gang: None,
        };
        draft.push(job);
    }
    draft.finish()
}

proptest! {
    #[test]
    fn writing_and_reading_gives_the_same_trace(jobs in proptest::collection::vec(loose(), 0..20)) {
        let trace = trace_of(jobs);
        let mut written = Vec::new();
        write(&trace, &mut written).unwrap();
        let text = String::from_utf8(written).unwrap();
        prop_assert_eq!(from_text(&text, "f.csv").unwrap(), trace, "{}", text);
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "(job_id|workload|arrival_seconds|steps|[0-9]|[,\"\n\r|é -]){0,60}") {
        let _ = from_text(&text, "f.csv");
    }
}
