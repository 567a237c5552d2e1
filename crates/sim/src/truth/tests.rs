//! Truths that deviate from the model, and one that does not.

use super::*;

fn kinds() -> Vec<Kind> {
    ["v100", "k80", "a100-40gb"].map(|name| Library::builtin().kind(name).unwrap().clone()).to_vec()
}

fn names() -> Vec<String> {
    Library::builtin().workloads().iter().take(40).map(|workload| workload.name.clone()).collect()
}

fn deviating(names: &[String], deviation: Deviation) -> Truth {
    Truth::new(&kinds(), names, None).unwrap().deviating(deviation).unwrap()
}

const SOME: Deviation = Deviation { seed: 7, rate_sd: 0.2, pair_sd: 0.3, watts_sd: 0.1 };

/// ln of truth over model for every rate alone, share beside and active power.
fn logs(truth: &Truth) -> [Vec<f64>; 3] {
    let model = Truth::new(&kinds(), &names(), None).unwrap();
    let mut logs = [const { Vec::new() }; 3];
    let ids = || (0..names().len() as u32).map(WorkloadId);
    for (w, j) in ids().flat_map(|w| (0..3).map(move |j| (w, j))) {
        let (Some(found), Some(said)) = (truth.alone(w, 1)[j], model.alone(w, 1)[j]) else { continue };
        let idle = kinds()[j].idle_watts;
        logs[0].push((found[0].rate / said[0].rate).ln());
        logs[2].push(((found[0].watts - idle) / (said[0].watts - idle)).ln());
        for p in ids() {
            let (there, here) = (truth.together(w, p, KindId(j as u16)), model.together(w, p, KindId(j as u16)));
            assert_eq!(there.is_some(), here.is_some(), "what fits does not depend on speed");
            let (Some(there), Some(here)) = (there, here) else { continue };
            let share = there.first_rate / found[0].rate;
            assert!((0.0499..=1.0 + 1e-12).contains(&share), "{share}");
            logs[1].push((share / (here.first_rate / said[0].rate)).ln());
        }
    }
    logs
}

#[test]
fn no_deviation_is_the_model_to_the_bit() {
    let none = deviating(&names(), Deviation { seed: 99, ..Deviation::default() });
    let model = Truth::new(&kinds(), &names(), None).unwrap();
    for w in (0..40).map(WorkloadId) {
        assert_eq!(none.alone(w, 2), model.alone(w, 2));
        for kind in (0..3).map(KindId) {
            assert_eq!(none.together(w, WorkloadId(3), kind), model.together(w, WorkloadId(3), kind));
        }
    }
}

#[test]
fn a_deviation_is_as_wide_as_asked_and_the_seeds_own() {
    let [rates, shares, watts] = logs(&deviating(&names(), SOME));
    let sd = |values: &[f64]| (values.iter().map(|x| x * x).sum::<f64>() / values.len() as f64).sqrt();
    let near = |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 0.3, "{found} for {expected}");
    near(sd(&rates), 0.2);
    near(sd(&watts), 0.1);
    // Shares are cut off at 1.
    assert!(sd(&shares) > 0.15 && sd(&shares) < 0.33, "{}", sd(&shares));
    assert_ne!(logs(&deviating(&names(), Deviation { seed: 8, ..SOME })), [rates, shares, watts]);
}

#[test]
fn one_part_leaves_the_others_alone() {
    let zero = |values: &[f64]| values.iter().all(|x| x.abs() < 1e-12);
    let parts = |deviation| logs(&deviating(&names(), deviation)).map(|values| zero(&values));
    let none = Deviation { seed: 7, ..Deviation::default() };
    assert_eq!(parts(Deviation { rate_sd: 0.2, ..none }), [false, true, true]);
    assert_eq!(parts(Deviation { pair_sd: 0.2, ..none }), [true, false, true]);
    assert_eq!(parts(Deviation { watts_sd: 0.2, ..none }), [true, true, false]);
}

#[test]
fn order_aliases_gangs_and_sides_do_not_matter() {
    let some = deviating(&["lm-b5".into(), "a3c-b4".into()], SOME);
    let other = deviating(&["A3C".into(), "resnet50-b64".into(), "LM (batch size 5)".into()], SOME);
    assert_eq!(some.alone(WorkloadId(0), 4), other.alone(WorkloadId(2), 4));
    let model = Truth::new(&kinds(), &["lm-b5".into()], None).unwrap();
    let factor = |gang| {
        some.alone(WorkloadId(0), gang)[0].unwrap()[0].rate / model.alone(WorkloadId(0), gang)[0].unwrap()[0].rate
    };
    assert!((factor(1) / factor(8) - 1.0).abs() < 1e-12);
    for kind in (0..3).map(KindId) {
        let (ab, ba) =
            (some.together(WorkloadId(0), WorkloadId(1), kind), some.together(WorkloadId(1), WorkloadId(0), kind));
        let turned = ba.map(|p| PairPace { first_rate: p.second_rate, second_rate: p.first_rate, ..p });
        assert_eq!(ab, turned);
        assert_eq!(ab, other.together(WorkloadId(2), WorkloadId(0), kind));
    }
}

#[test]
fn measured_rates_stay_and_only_watts_deviate() {
    let text = r#"{"v100": {"('A3C', 1)": {"null": 5.0, "('A3C', 1)": [3.0, 3.0]}}}"#;
    let table = || Some(RateTable::from_json(text, "t").unwrap());
    let kinds = &kinds()[..1];
    let plain = Truth::new(kinds, &["A3C".into()], table()).unwrap();
    let moved = Truth::new(kinds, &["A3C".into()], table()).unwrap().deviating(SOME).unwrap();
    let w = WorkloadId(0);
    let (said, found) = (plain.alone(w, 1)[0].unwrap()[0], moved.alone(w, 1)[0].unwrap()[0]);
    assert_eq!(found.rate, said.rate);
    assert_ne!(found.watts, said.watts);
    let (said, found) = (plain.together(w, w, KindId(0)).unwrap(), moved.together(w, w, KindId(0)).unwrap());
    assert_eq!((found.first_rate, found.second_rate), (said.first_rate, said.second_rate));
    assert_ne!(found.watts, said.watts);
}

#[test]
fn a_deviation_that_is_none_gets_a_sentence() {
    for sd in [-0.1, f64::NAN, f64::INFINITY, 3.0] {
        let truth = Truth::new(&kinds(), &names(), None).unwrap();
        let error = truth.deviating(Deviation { pair_sd: sd, ..SOME }).unwrap_err().to_string();
        assert_eq!(error, format!("the deviation pair_sd is {sd}; expected a number from 0 to 2"));
    }
}

#[test]
fn measured_watts_are_the_truth_under_a_limit_too() {
    let v100 = Library::builtin().kind("v100").unwrap().clone();
    let kinds = [v100.clone(), v100.limited_to(200.0).unwrap(), v100.limited_to(150.0).unwrap()];
    let text = r#"{"v100": {"('A3C', 1)": {"null": 5.0, "watts": 250.0}},
                   "v100@200W": {"('A3C', 1)": {"null": 4.9, "watts": 203.0}}}"#;
    let truth = Truth::new(&kinds, &["A3C".into()], Some(RateTable::from_json(text, "t").unwrap())).unwrap();
    let row = truth.alone(WorkloadId(0), 1);
    let [full, measured, modelled] = [0, 1, 2].map(|j| row[j].unwrap()[0]);
    assert_eq!((full.rate, full.watts), (5.0, 250.0));
    assert_eq!((measured.rate, measured.watts), (4.9, 203.0), "what was measured may be above the limit");
    let left = ((150.0 - v100.idle_watts) / (250.0 - v100.idle_watts)).sqrt();
    assert_eq!((modelled.rate, modelled.watts), (5.0 * left, 150.0), "from the draw that was measured without it");
}
