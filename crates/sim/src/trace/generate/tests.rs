//! Tests of the generator: it keeps to its options and its seed.

use super::*;

fn generate(options: GenerateOptions) -> Trace {
    Generator::new(options).unwrap().into_trace()
}

fn share(trace: &Trace, pick: impl Fn(&TraceJob) -> bool) -> f64 {
    trace.jobs.iter().filter(|job| pick(job)).count() as f64 / trace.jobs.len() as f64
}

fn near(found: f64, expected: f64, tolerance: f64) {
    assert!((found - expected).abs() <= tolerance, "{found} is not within {tolerance} of {expected}");
}

#[test]
fn the_seed_decides_every_job() {
    let options = |seed| GenerateOptions { jobs: 200, seed, inference: 0.3, ..GenerateOptions::default() };
    assert_eq!(generate(options(4)), generate(options(4)));
    assert_ne!(generate(options(4)), generate(options(5)));
}

#[test]
fn changing_one_option_leaves_the_other_draws_alone() {
    let base = GenerateOptions { jobs: 200, ..GenerateOptions::default() };
    let wide = GenerateOptions { gangs: Mix::only(16), ..base.clone() };
    for (a, b) in Generator::new(base).unwrap().zip(Generator::new(wide).unwrap()) {
        assert_eq!((a.arrival_seconds, a.length, a.workload), (b.arrival_seconds, b.length, b.workload));
    }
}

#[test]
fn rates_means_and_mixes_are_as_asked() {
    let options = GenerateOptions {
        jobs: 100_000,
        seed: 9,
        arrivals: Arrivals::Poisson { per_hour: 120.0 },
        tenants: submitters("a:1,b:3,c:1:6").unwrap(),
        workloads: "x:1,y:4".parse().unwrap(),
        floors: "none:60,0.5:30,0.8:10".parse().unwrap(),
        inference: 0.2,
        inference_workloads: Some("y:1,z:1".parse().unwrap()),
        ..GenerateOptions::default()
    };
    let trace = generate(options);
    assert_eq!(trace.workloads, ["x", "y", "z"]);
    assert_eq!(trace.tenants[2], Tenant { name: "c".into(), weight: 1.0 });
    let hours = trace.jobs.last().unwrap().arrival_seconds / 3600.0;
    near(trace.jobs.len() as f64 / hours, 120.0, 2.0);
    let seconds = |job: &TraceJob| match job.length {
        Length::Duration(seconds) | Length::Period(seconds) => seconds,
        Length::Steps(_) => panic!("no steps were asked for"),
    };
    near(trace.jobs.iter().map(seconds).sum::<f64>() / 1e5, 7200.0, 360.0);
    near(share(&trace, |j| j.gang == 1), 0.7, 0.01);
    near(share(&trace, |j| j.gang == 8), 0.05, 0.005);
    near(share(&trace, |j| j.tenant == 2), 0.6, 0.01);
    let serves = |j: &TraceJob| matches!(j.length, Length::Period(_));
    near(share(&trace, serves), 0.2, 0.01);
    near(share(&trace, |j| serves(j) && j.workload == 2), 0.1, 0.005);
    near(share(&trace, |j| !serves(j) && j.workload == 1), 0.64, 0.01);
    near(share(&trace, |j| !serves(j) && j.floor == Some(Floor::Fraction(0.8))), 0.08, 0.005);
    assert!(trace.jobs.iter().all(|j| !serves(j) || j.floor == Some(Floor::Fraction(0.5))));
    assert!(trace.jobs.is_sorted_by(|a, b| a.arrival_seconds <= b.arrival_seconds));
}

#[test]
fn days_swing_about_the_mean() {
    let arrivals: Arrivals = "diurnal:100:0.8".parse().unwrap();
    let trace = generate(GenerateOptions { jobs: 240_000, arrivals, ..GenerateOptions::default() });
    let days = trace.jobs.last().unwrap().arrival_seconds / DAY_SECONDS;
    near(trace.jobs.len() as f64 / days, 2400.0, 48.0);
    // The mean of sin over the first half of the day is 2/π.
    let morning = share(&trace, |j| j.arrival_seconds % DAY_SECONDS < DAY_SECONDS / 2.0);
    near(morning, 0.5 + 0.8 / std::f64::consts::PI, 0.01);
}

#[test]
fn the_offered_load_is_the_one_asked_for() {
    let options = GenerateOptions { jobs: 100_000, ..GenerateOptions::default() }.with_load(108, 0.8);
    let trace = generate(options);
    let work: f64 = trace
        .jobs
        .iter()
        .map(|job| match job.length {
            Length::Duration(seconds) => seconds * f64::from(job.gang),
            _ => 0.0,
        })
        .sum();
    near(work / trace.jobs.last().unwrap().arrival_seconds / 108.0, 0.8, 0.04);
}

#[test]
fn jobs_can_be_written_without_being_kept() {
    let options =
        GenerateOptions { jobs: 50, arrivals: Arrivals::AtOnce, inference: 0.5, ..GenerateOptions::default() };
    let generator = Generator::new(options.clone()).unwrap();
    assert_eq!(generator.size_hint(), (50, Some(50)));
    let names = generator.names().clone();
    let mut text = Vec::new();
    let mut writer = super::super::csv::Writer::new(&mut text, &names).unwrap();
    for job in generator {
        writer.write(&job).unwrap();
    }
    writer.finish().unwrap();
    let read = super::super::csv::from_text(std::str::from_utf8(&text).unwrap(), "generated.csv").unwrap();
    let made = generate(options);
    assert_eq!(read.jobs.len(), 50);
    for (a, b) in read.jobs.iter().zip(&made.jobs) {
        assert_eq!((a.id, a.length, a.floor, a.gang), (b.id, b.length, b.floor, b.gang));
        assert_eq!(read.workloads[a.workload as usize], made.workloads[b.workload as usize]);
    }
}

#[test]
fn wrong_options_are_sentences() {
    let arrivals = |text: &str, expected: &str| {
        let error = text.parse::<Arrivals>().unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}\n  should start with {expected}");
    };
    arrivals(
        "poison:3",
        "'poison:3' is not known (did you mean poisson?); expected one of at-once, poisson:PER_HOUR, ",
    );
    arrivals("poisson", "'poisson' has 0 number(s) after its name; expected poisson:PER_HOUR");
    arrivals("poisson:x", "a part of 'poisson:x' is 'x'; expected a number");
    arrivals("poisson:0", "0 jobs per hour never arrive");
    arrivals("diurnal:5:2", "amplitude 2 of the day's swing cannot be used; expected 0 to 1");

    let tenant = |text: &str, expected: &str| {
        let error = submitters(text).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}\n  should start with {expected}");
    };
    tenant("a:0", "the weight of tenant 'a' is '0'; expected a number, more than 0");
    tenant("a,:2", "tenant ':2' has no name");
    tenant("a:1:2:3", "tenant 'a:1:2:3' has too many parts");
    tenant("a:1:-2", "the demand of tenant 'a' is '-2'; expected a number, 0 or more");
    assert!("0".parse::<Promise>().is_err());

    let refused = |change: fn(&mut GenerateOptions), expected: &str| {
        let mut options = GenerateOptions::default();
        change(&mut options);
        let error = Generator::new(options).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}\n  should start with {expected}");
    };
    refused(|o| o.gangs = Mix::only(0), "a gang of 0 GPUs cannot run");
    refused(|o| o.inference = 1.5, "1.5 of the jobs cannot be inference");
    refused(|o| o.tenants.clear(), "no tenant submits anything");
    refused(|o| o.tenants = submitters("a,b,a").unwrap(), "tenant 'a' occurs twice");
    refused(|o| o.arrivals = Arrivals::Poisson { per_hour: f64::NAN }, "NaN jobs per hour");
    refused(|o| o.durations.mean_seconds = 0.0, "the mean of the durations is 0");
}
