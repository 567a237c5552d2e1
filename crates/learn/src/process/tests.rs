//! What a process over cells promises.

use crate::Catalog;
use crate::cells;
use crate::table::{Setting, Subject, find_estimator};
use arles_core::estimate::{Estimate, Estimator, Observation, RateQuery};
use arles_core::{Kind, KindId, Library, Spread, Time, WorkloadId};

/// Rates of two kinds that differ by 1.4, more for what does more arithmetic; with holes.
fn table(second: bool) -> (Catalog, Vec<Kind>) {
    let mut text = "workload,family,batch,params,flops_per_step,kind,rate_steps_per_second\n".to_owned();
    for i in 0..24 {
        let flops = 1e12 * f64::from(1 << (i % 8));
        let known = if i % 3 == 0 { String::new() } else { format!("{flops}") };
        let rate = 2e13 / flops * (1.0 + 0.05 * f64::from(i % 5));
        text += &format!("w{i},f{},32,{},{known},rtx3090,{rate}\n", i / 4, 1e6 * f64::from(i + 1));
        if second {
            let faster = rate * (1.4 + 0.02 * f64::from(i % 8));
            text += &format!("w{i},f{},32,,,rtx4090,{faster}\n", i / 4);
        }
    }
    let read = cells::read(&text, "made.csv", Library::builtin()).unwrap();
    let mut kinds = read.kinds;
    if !second {
        kinds.push(Library::builtin().kind("rtx4090").unwrap().clone());
    }
    (read.catalog, kinds)
}

fn made(name: &str, catalog: &Catalog, kinds: &[Kind], subjects: &[&str]) -> Box<dyn Estimator> {
    let workloads: Vec<Subject> =
        subjects.iter().map(|name| Subject { name: (*name).into(), features: None }).collect();
    let setting = Setting { kinds, workloads: &workloads, catalog, seed: 1, progress: &|_| {} };
    (find_estimator(name).unwrap().make)(&setting).unwrap()
}

fn alone(estimator: &dyn Estimator, workload: u32) -> Vec<Estimate> {
    let ask = RateQuery { workload: WorkloadId(workload), gang: 1, partner: None };
    estimator.estimate(&ask).cells.into_iter().flatten().collect()
}

fn seen(workload: u32, partner: Option<u32>, kind: u16, rate: f64) -> Observation {
    let ask = RateQuery { workload: WorkloadId(workload), gang: 1, partner: partner.map(WorkloadId) };
    let (kind, at) = (KindId(kind), Time::from_seconds(60.0));
    Observation { ask, kind, spread: Spread::Packed, rate, watts: 0.0, at, job: None }
}

#[test]
fn a_kind_that_nobody_measured_keeps_the_models_ratio() {
    let (catalog, kinds) = table(false);
    for name in ["process", "learned", "nearest", "mean"] {
        let estimator = made(name, &catalog, &kinds, &["w1", "w6"]);
        for workload in 0..2 {
            let row = alone(estimator.as_ref(), workload);
            let ratio = row[1].rate / row[0].rate;
            assert!((1.05..2.4).contains(&ratio), "{name}: {ratio}");
            assert!(row[1].standard_error > row[0].standard_error, "{name}");
        }
    }
}

#[test]
fn one_measurement_on_a_second_kind_tells_of_the_others_there() {
    let (catalog, kinds) = table(false);
    let names = ["w1", "w6", "w11", "w20"];
    let mut estimator = made("process", &catalog, &kinds, &names);
    let ratios = |estimator: &dyn Estimator| -> Vec<f64> {
        let rows = (0..names.len() as u32).map(|workload| alone(estimator, workload));
        rows.map(|row| (row[1].rate / row[0].rate).ln()).collect()
    };
    let before = ratios(estimator.as_ref());
    let moved = 0.3;
    estimator.observe(&seen(0, None, 1, alone(estimator.as_ref(), 0)[0].rate * (before[0] + moved).exp()));
    for (after, before) in ratios(estimator.as_ref()).iter().zip(&before).skip(1) {
        let part = (after - before) / moved;
        assert!((0.5..=1.0).contains(&part), "moved by {part} of what was seen");
    }
}

/// Whoever is faster than expected on one kind gains less on the next, as models that keep a card busy do.
#[test]
fn a_rate_on_one_kind_tells_of_the_ratio_to_another() {
    let ratio = |pace: f64| 1.4 * (-0.15 * pace).exp();
    let mut text = "workload,family,batch,params,flops_per_step,kind,rate_steps_per_second\n".to_owned();
    for i in 0..36 {
        let pace = 0.5 * f64::from(i % 9 - 4);
        let rate = 20.0 * pace.exp();
        text += &format!("w{i},f{},32,1e7,1e12,rtx3090,{rate}\n", i / 2);
        text += &format!("w{i},f{},32,1e7,1e12,rtx4090,{}\n", i / 2, rate * ratio(pace));
    }
    let read = cells::read(&text, "made.csv", Library::builtin()).unwrap();
    let mut estimator = made("process", &read.catalog, &read.kinds, &["slow", "fast"]);
    let paces = [-1.8_f64, 1.8];
    let told = [0, 1].map(|w| {
        estimator.observe(&seen(w, None, 0, 20.0 * paces[w as usize].exp()));
        let row = alone(estimator.as_ref(), w);
        (row[1].rate / row[0].rate).ln()
    });
    let part = (told[0] - told[1]) / (ratio(paces[0]) / ratio(paces[1])).ln();
    assert!((0.6..1.2).contains(&part), "{part} of the difference is told");
}

#[test]
fn nothing_known_is_answered_by_everybody() {
    let (catalog, kinds) = table(true);
    for name in ["process", "learned", "nearest", "mean", "completion", "model"] {
        let estimator = made(name, &catalog, &kinds, &["unheard-of", "another"]);
        let row = alone(estimator.as_ref(), 0);
        assert_eq!(row.len(), 2, "{name}");
        assert!(row.iter().all(|e| e.rate > 0.0 && e.rate.is_finite() && e.standard_error > 0.3), "{name}: {row:?}");
        let pair = RateQuery { workload: WorkloadId(0), gang: 1, partner: Some(WorkloadId(1)) };
        assert!(estimator.estimate(&pair).cells.iter().all(Option::is_some), "{name}");
    }
}

#[test]
fn another_maker_is_hardly_known() {
    let (catalog, mut kinds) = table(true);
    kinds.push(Library::builtin().kind("mi250").unwrap().clone());
    let row = alone(made("process", &catalog, &kinds, &["w1"]).as_ref(), 0);
    assert!(row[2].standard_error > 0.8, "{row:?}");
}

#[test]
fn the_order_of_observations_does_not_matter_and_each_makes_surer() {
    let (catalog, kinds) = table(true);
    let names = ["new", "w1", "w2", "w3"];
    let told = [
        seen(0, None, 0, 4.0),
        seen(0, Some(1), 0, 2.5),
        seen(1, Some(0), 0, 5.0),
        seen(2, Some(3), 1, 4.0),
        seen(3, Some(2), 1, 2.0),
        seen(0, None, 1, 5.5),
    ];
    let after = |order: &[usize]| {
        let mut estimator = made("process", &catalog, &kinds, &names);
        let mut sure = f64::INFINITY;
        for &at in order {
            estimator.observe(&told[at]);
            let now = alone(estimator.as_ref(), 0).iter().map(|e| e.standard_error).sum::<f64>();
            assert!(now <= sure + 1e-9 || at > 0, "{now} after {sure}");
            sure = now;
        }
        let pair = RateQuery { workload: WorkloadId(0), gang: 1, partner: Some(WorkloadId(3)) };
        let mut cells = alone(estimator.as_ref(), 0);
        cells.extend(estimator.estimate(&pair).cells.into_iter().flatten());
        cells.iter().flat_map(|e| [e.rate.ln(), e.standard_error]).collect::<Vec<f64>>()
    };
    let (one, two) = (after(&[0, 1, 2, 3, 4, 5]), after(&[5, 4, 3, 0, 2, 1]));
    for (a, b) in one.iter().zip(&two) {
        assert!((a - b).abs() < 1e-6, "{one:?} {two:?}");
    }
}

/// A rate beside somebody says something of the rate alone, and nothing is left of that once it was measured alone.
#[test]
fn seen_beside_somebody_and_then_alone_is_as_if_alone_at_once() {
    let (catalog, kinds) = table(true);
    for name in ["process", "stacked"] {
        let pair = [seen(0, Some(1), 0, 2.5), seen(1, Some(0), 0, 5.0)];
        let after = |told: &[Observation]| {
            let mut estimator = made(name, &catalog, &kinds, &["w30", "w1", "w2"]);
            told.iter().for_each(|o| drop(estimator.observe(o)));
            alone(estimator.as_ref(), 0).iter().flat_map(|e| [e.rate.ln(), e.standard_error]).collect::<Vec<f64>>()
        };
        let late = after(&[pair[0], pair[1], seen(0, None, 0, 4.0)]);
        let soon = after(&[seen(0, None, 0, 4.0), pair[0], pair[1]]);
        for (a, b) in late.iter().zip(&soon) {
            // Nothing but its pace, which is what was seen first.
            assert!((a - b).abs() < 1e-3, "{name}: {late:?} {soon:?}");
        }
        let (never, company) = (after(&[]), after(&pair));
        assert!(company[1] < 0.8 * never[1] && company[1] > 0.05, "{name}: {never:?} {company:?}");
    }
}

#[test]
fn a_measurement_that_is_surer_now_is_as_if_it_had_been_so_at_once() {
    use super::gaussian::{Covariance, Kernel, Posterior, Variances};
    use crate::evidence::Evidence;
    #[derive(Clone, Copy, PartialEq)]
    struct At(f64, f64);
    struct Line;
    impl Covariance for Line {
        type Cell = At;
        fn terms(&self, _: &Evidence, one: &At, two: &At, out: &mut [f64]) {
            out[0] = (-(one.0 - two.0).powi(2)).exp();
        }
        fn group(&self, _: &At) -> usize {
            0
        }
        fn noise(&self, cell: &At) -> f64 {
            cell.1
        }
    }
    let (catalog, kinds) = table(false);
    let evidence =
        Evidence::new(&Setting { kinds: &kinds, workloads: &[], catalog: &catalog, seed: 1, progress: &|_| {} });
    let variances = Variances::new(&[1.0], 0.01, 1, false);
    let mut kernel = Kernel::new(&Line, &evidence, &variances);
    let cells =
        |noise: f64| (0..9).map(|i| At(0.4 * f64::from(i), if i == 3 { noise } else { 0.02 })).collect::<Vec<_>>();
    let y = |third: f64| (0..9).map(|i| if i == 3 { third } else { f64::from(i).cos() }).collect::<Vec<f64>>();
    for (before, after) in [(0.3, 0.0), (0.0, 0.3), (0.1, 0.1)] {
        let mut changed = Posterior::new(&mut kernel, &cells(before), &y(1.0));
        changed.correct_noise(3, cells(after)[3], -0.5, after - before);
        let anew = Posterior::new(&mut kernel, &cells(after), &y(-0.5));
        let mut answer = |posterior: &Posterior<At>| {
            let mut v = Vec::new();
            posterior.solve(&mut kernel, &At(1.5, 0.0), &mut v);
            posterior.answer(&v)
        };
        let (one, two) = (answer(&changed), answer(&anew));
        assert!((one.0 - two.0).abs() < 1e-9 && (one.1 - two.1).abs() < 1e-9, "{one:?} {two:?}");
    }
}

#[test]
fn features_with_holes_always_give_a_covariance() {
    use super::gaussian::Inverse;
    use crate::rng::Rng;
    use crate::traits::{Metric, Traits};
    for missing in [0.0, 0.1, 0.5, 1.0] {
        let mut random = Rng::new(7, "holes");
        let mut part = |most: f64| (random.uniform() >= missing).then(|| random.uniform() * most + 1e-3);
        let points: Vec<_> = (0..120)
            .map(|_| {
                Traits {
                    params: part(1e9),
                    batch: part(512.0),
                    flops_per_step: part(1e12),
                    gpu_utilisation: part(0.9),
                    ..Traits::default()
                }
                .point()
            })
            .collect();
        let metric = Metric::new(&points.iter().collect::<Vec<_>>());
        let n = points.len();
        let mut all = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..n {
                all[i * n + j] = if i == j { 1.0 + 1e-4 } else { metric.alike(&points[i], &points[j]) };
            }
        }
        assert!(!Inverse::new(all, &vec![1.0; n]).broken, "{missing}");
    }
}

#[test]
fn hiding_a_block_in_closed_form_is_really_leaving_it_out() {
    use super::calibrate::Hidden;
    use super::gaussian::Inverse;
    let n = 12;
    let covariance = |i: usize, j: usize| {
        let gap = (i as f64 - j as f64) / 3.0;
        (-0.5 * gap * gap).exp() + if i == j { 0.1 } else { 0.0 }
    };
    let matrix =
        |of: &[usize]| of.iter().flat_map(|&i| of.iter().map(move |&j| covariance(i, j))).collect::<Vec<f64>>();
    let y: Vec<f64> = (0..n).map(|i| (i as f64).sin()).collect();
    let (all, block): (Vec<usize>, Vec<usize>) = ((0..n).collect(), vec![4, 5, 6]);
    let hidden = Hidden::new(&Inverse::new(matrix(&all), &y), &block);
    let rest: Vec<usize> = all.iter().copied().filter(|i| !block.contains(i)).collect();
    let known = Inverse::new(matrix(&rest), &rest.iter().map(|&i| y[i]).collect::<Vec<f64>>());
    for (at, (error, _)) in hidden.given(&[], 0..3).into_iter().enumerate() {
        let said: f64 = rest.iter().zip(&known.alpha).map(|(&j, a)| covariance(block[at], j) * a).sum();
        assert!((y[block[at]] - said - error).abs() < 1e-6);
    }
}

/// Workloads on one kind, known by their counters; pairs of the first `paired` of them.
fn by_counters(counters: &[(f64, f64)], paired: usize) -> (Catalog, Vec<Kind>) {
    let mut text = "workload,gpu_utilisation,bandwidth_utilisation,kind,partner,rate_steps_per_second\n".to_owned();
    for (i, (gpu, memory)) in counters.iter().enumerate() {
        text += &format!("w{i},{gpu},{memory},h200,,10\n");
        for (j, (other, _)) in counters.iter().enumerate().take(paired).filter(|(j, _)| i < paired && *j != i) {
            text += &format!("w{i},,,h200,w{j},{}\n", 10.0 / (1.0 + gpu * other));
        }
    }
    let read = cells::read(&text, "made.csv", Library::builtin()).unwrap();
    (read.catalog, read.kinds)
}

fn beside(estimator: &dyn Estimator, workload: u32, other: u32) -> Estimate {
    let ask = RateQuery { workload: WorkloadId(workload), gang: 1, partner: Some(WorkloadId(other)) };
    estimator.estimate(&ask).cells[0].unwrap()
}

#[test]
fn counters_tell_who_leaves_little_before_any_pair_was_measured() {
    let (catalog, kinds) = by_counters(&[(0.95, 0.6), (0.95, 0.5), (0.1, 0.05), (0.12, 0.02)], 0);
    for name in ["process", "stacked", "learned", "mean", "model"] {
        let estimator = made(name, &catalog, &kinds, &["w0", "w1", "w2", "w3"]);
        let rate = |i, j| beside(estimator.as_ref(), i, j).rate;
        assert!(
            rate(0, 1) < 0.7 * rate(0, 2) && rate(2, 3) > 9.0,
            "{name}: {} {} {}",
            rate(0, 1),
            rate(0, 2),
            rate(2, 3)
        );
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(12))]
    #[test]
    fn pairs_by_counters_are_always_told(
        counters in proptest::collection::vec((0.0..1.0f64, 0.0..1.0f64), 4..10), paired in 0usize..10,
    ) {
        let (catalog, kinds) = by_counters(&counters, paired);
        let names: Vec<String> = (0..counters.len()).map(|i| format!("w{i}")).chain(["unheard-of".into()]).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        for name in ["process", "stacked"] {
            let estimator = made(name, &catalog, &kinds, &names);
            for i in 0..names.len() as u32 {
                for j in 0..names.len() as u32 {
                    let said = beside(estimator.as_ref(), i, j);
                    proptest::prop_assert!(said.rate.is_finite() && said.rate > 0.0, "{name}: {said:?}");
                    proptest::prop_assert!(said.standard_error.is_finite() && said.standard_error >= 0.0);
                }
            }
        }
    }
}
