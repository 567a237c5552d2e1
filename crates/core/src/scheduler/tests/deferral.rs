//! A job with a deadline waits for a cheaper hour, is let go in time, and a snapshot knows all of it.

use super::*;
use crate::prices::{PriceBand, Prices};

/// Dear until so many seconds from the bench's beginning, cheap from then on.
fn prices(bench: &Bench, cheap_after: f64) -> Prices {
    let band = |from: Time, per_kwh: f64| PriceBand { from, per_kwh, kg_per_kwh: 0.0 };
    Prices::new(vec![band(Time::ZERO, 0.4), band(bench.clock.after(cheap_after), 0.1)]).unwrap()
}

/// A bench under a policy that promises a share, with one job of 600 seconds that must have ended after `before` seconds.
fn bench(cheap_after: f64, before: f64) -> Bench {
    let mut bench = Bench::new(&[2]);
    bench.tell(Input::Policy("oef-coop".into()));
    let prices = prices(&bench, cheap_after);
    bench.tell(Input::Prices(prices));
    bench.submit(7, 2);
    let before = Some(bench.clock.after(before));
    bench.tell(Input::Submit(JobSpec { work: Work::Steps(600.0), before, ..job(1, 1) }));
    bench.submit(8, 1);
    bench.tell(Input::Cancel(JobId(7)));
    bench.tell(Input::Cancel(JobId(8)));
    bench
}

#[test]
fn it_waits_until_the_cheap_hour_begins() {
    let mut bench = bench(3000.0, 20_000.0);
    for _ in 0..10 {
        assert!(bench.round().is_empty());
    }
    let said = bench.scheduler.explain(JobId(1)).to_string();
    assert!(said.contains("waits for cheaper electricity (0.1 a kWh instead of 0.4)"), "{said}");
    let copy: Scheduler = serde_json::from_str(&serde_json::to_string(&bench.scheduler).unwrap()).unwrap();
    assert_eq!(copy.explain(JobId(1)).to_string(), said, "a snapshot knows why it waits");
    assert_eq!(copy.prices(), bench.scheduler.prices());
    bench.wait(3000.0);
    assert_eq!(bench.round().len(), 1, "it is cheap now");
}

#[test]
fn it_is_let_go_while_its_share_still_ends_it_in_time() {
    // It needs 600 s by itself, and 900 with the margin; the cheap hour is too late.
    let mut bench = bench(50_000.0, 3000.0);
    let mut waited = 0;
    while bench.round().is_empty() {
        waited += 1;
        assert!(waited < 100, "it never starts");
    }
    assert!(waited == 0, "a price that never comes in time is not waited for, not for {waited} rounds");
}

#[test]
fn nobody_waits_for_what_cannot_be_promised() {
    let mut bench = bench(3000.0, 20_000.0);
    bench.tell(Input::Submit(JobSpec { work: Work::Open(None), before: Some(bench.clock.after(2e4)), ..job(2, 1) }));
    let started: Vec<u64> = bench.round().iter().map(|start| start.job.0).collect();
    assert_eq!(started, [2], "nobody knows how long that takes");
    bench.tell(Input::Prices(Prices::default()));
    let started: Vec<u64> = bench.round().iter().map(|start| start.job.0).collect();
    assert_eq!(started, [1], "without prices nobody waits");
}

#[test]
fn senseless_prices_change_nothing() {
    let mut bench = bench(3000.0, 20_000.0);
    let wrong: Prices = serde_json::from_str(r#"[{"from": 5, "per_kwh": 1, "kg_per_kwh": -1}]"#).unwrap();
    let out = bench.tell(Input::Prices(wrong)).to_vec();
    assert!(matches!(&out[..], [Output::Note(Event::Refused { .. })]), "{out:?}");
    assert_eq!(bench.scheduler.prices().bands().len(), 2);
}
