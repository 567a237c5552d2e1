//! A fleet of regions under a broker, beside one market for everything.

use arles_core::fleet::{FOOTHOLD, Fleet, FleetError};
use proptest::prelude::*;

/// A fleet in which tenants differ in what they are good at and in where they may run.
fn fleets() -> impl Strategy<Value = Fleet> {
    (1_usize..=4, 1_usize..=3, 1_usize..=6).prop_flat_map(|(regions, kinds, tenants)| {
        let cells = regions * kinds;
        let capacity = prop::collection::vec(1_u32..50, cells);
        let speed = prop::collection::vec(0.1_f64..4.0, tenants * kinds);
        let open = prop::collection::vec(prop::bool::weighted(0.7), tenants * regions);
        let income = prop::collection::vec(0.5_f64..3.0, tenants);
        (capacity, speed, open, income).prop_map(move |(capacity, speed, mut open, income)| {
            // Everybody has a home.
            (0..tenants).for_each(|l| open[l * regions + l % regions] = true);
            let rate = |l: usize, r: usize, j: usize| if open[l * regions + r] { speed[l * kinds + j] } else { 0.0 };
            let rates = (0..tenants)
                .flat_map(|l| (0..regions).flat_map(move |r| (0..kinds).map(move |j| (l, r, j))))
                .map(|(l, r, j)| rate(l, r, j))
                .collect();
            let capacity = capacity.into_iter().map(f64::from).collect();
            Fleet::new(kinds, capacity, rates, income).expect("it makes sense")
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Every update raises the welfare, never beyond that of one market, and it comes there as fast as is proven.
    #[test]
    fn updates_come_to_what_one_market_gives(fleet in fleets()) {
        let regions = fleet.regions();
        let best = fleet.welfare(&fleet.together().expect("an answer").0).ln();
        let incomes: Vec<f64> = fleet.first_weights().chunks_exact(regions).map(|of| of.iter().sum()).collect();
        let income: f64 = incomes.iter().sum();
        let first = fleet.first_weights();
        let (mut weights, mut last, mut gaps) = (first.clone(), f64::NEG_INFINITY, Vec::new());
        for _ in 0..200 {
            let division = fleet.divide(&weights).expect("an answer");
            let welfare = fleet.welfare(&division.totals(regions)).ln();
            prop_assert!(welfare >= last - 2.0 * FOOTHOLD, "an update lost: {last} -> {welfare}");
            prop_assert!(welfare <= best + 1e-6, "{welfare} is above the best, {best}");
            gaps.push(best - welfare);
            last = welfare;
            weights = fleet.rebalance(&division.speeds);
            for (of, income) in weights.chunks_exact(regions).zip(&incomes) {
                prop_assert!((of.iter().sum::<f64>() - income).abs() < 1e-9 * income, "incomes are spent whole");
            }
        }
        // Where it ends stands for the best weights in the bound's divergence; the foothold costs its part.
        let far = weights.iter().zip(&first).filter(|(b, _)| **b > 0.0).map(|(b, b0)| b * (b / b0).ln()).sum::<f64>();
        for (t, gap) in gaps.iter().enumerate().skip(1) {
            let proven = far / income / t as f64 + 0.01 / t as f64 + 4.0 * FOOTHOLD;
            prop_assert!(*gap <= proven, "after {t} updates {gap}, proven {proven}");
        }
    }

    /// What the market of each region gives is fair there: at least an equal part by weights of everything, nearly, once it has settled.
    #[test]
    fn nobody_is_below_an_equal_division_of_the_fleet(fleet in fleets()) {
        let regions = fleet.regions();
        let mut weights = fleet.first_weights();
        for _ in 0..400 {
            weights = fleet.rebalance(&fleet.divide(&weights).expect("an answer").speeds);
        }
        let totals = fleet.divide(&weights).expect("an answer").totals(regions);
        for (has, due) in totals.iter().zip(fleet.equal_division()) {
            prop_assert!(*has >= 0.97 * due, "{has} is below an equal division, {due}");
        }
    }
}

/// Where regions are alike and everybody may run everywhere, the first weights are the last, and nothing is lost by dividing region by region.
#[test]
fn alike_regions_need_no_broker() {
    let (kinds, regions, tenants) = (2, 5, 3);
    let capacity: Vec<f64> = (0..regions).flat_map(|_| [40.0, 60.0]).collect();
    let rates: Vec<f64> = (0..tenants).flat_map(|l| (0..regions).flat_map(move |_| [1.0 + l as f64, 1.0])).collect();
    let fleet = Fleet::new(kinds, capacity, rates, vec![1.0, 2.0, 1.0]).expect("it makes sense");
    let totals = fleet.divide(&fleet.first_weights()).expect("an answer").totals(regions);
    for (apart, together) in totals.iter().zip(fleet.together().expect("an answer").0) {
        assert!((apart - together).abs() < 1e-6 * together, "{apart} {together}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_a_sentence() {
    let says = |made: Result<Fleet, FleetError>, part: &str| {
        let why = made.expect_err("it makes no sense").to_string();
        assert!(why.contains(part), "{why}");
    };
    says(Fleet::new(2, vec![1.0; 3], vec![], vec![]), "cannot be divided into regions");
    says(Fleet::new(1, vec![1.0; 2], vec![1.0; 3], vec![1.0]), "expected 2: tenants × regions × kinds");
    says(Fleet::new(1, vec![f64::NAN], vec![1.0], vec![1.0]), "NaN is neither");
    says(Fleet::new(1, vec![1.0], vec![1.0], vec![0.0]), "expected more than 0");
    says(Fleet::new(1, vec![1.0, 0.0], vec![0.0, 1.0], vec![1.0]), "tenant 0 cannot run anywhere");
}
