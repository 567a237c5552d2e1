//! Tenants of tenants, and past use, as a policy is told of them.

use super::*;

impl Bench {
    fn tenant(&mut self, name: &str, weight: f64) {
        self.tell(Input::Tenant(Tenant { name: name.into(), weight }));
    }

    /// What the next question says of every tenant's weight.
    fn weights(&self) -> Vec<(u32, f64)> {
        let users = self.scheduler.problem().users;
        let mut weights: Vec<(u32, f64)> = users.iter().map(|user| (user.tenant.0, user.tenant_weight)).collect();
        weights.dedup();
        weights
    }

    fn take_of(&mut self, tenant: u32, ids: std::ops::Range<u64>) {
        for id in ids {
            self.take(JobSpec { tenant: TenantId(tenant), ..job(id, 1) });
        }
    }
}

#[test]
fn an_idle_team_leaves_its_share_to_its_siblings() {
    let mut bench = Bench::new(&[4]);
    for (name, weight) in [("lab", 3.0), ("lab/vision", 2.0), ("lab/text", 1.0)] {
        bench.tenant(name, weight);
    }
    bench.take_of(0, 1..9);
    bench.take_of(2, 11..19);
    assert_eq!(bench.weights(), [(0, 1.0), (2, 3.0)], "text has no jobs: vision has all of the lab's weight");
    bench.take_of(3, 21..29);
    assert_eq!(bench.weights(), [(0, 1.0), (2, 2.0), (3, 1.0)]);
}

#[test]
fn whoever_used_more_pays_back() {
    let mut bench = Bench::new(&[4]);
    bench.scheduler.settings.half_life_seconds = Some(7.0 * 86_400.0);
    bench.tenant("u", 1.0);
    bench.take_of(0, 1..5);
    for _ in 0..200 {
        bench.obedient_round();
    }
    let accounts: Vec<f64> = bench.scheduler.tenant_states.iter().map(|state| state.account_gpu_seconds).collect();
    assert!(accounts[0] < -1000.0 && (accounts[0] + accounts[1]).abs() < 1e-6, "{accounts:?}");
    assert_eq!(bench.weights()[0].1, 1.0, "nobody is there to be paid back");
    bench.take_of(1, 11..15);
    bench.obedient_round();
    let weights = bench.weights();
    assert!(weights[0].1 < 1.0 && weights[1].1 > 1.0, "{weights:?}");
    assert!((weights[0].1 + weights[1].1 - 2.0).abs() < 1e-9, "{weights:?}");
}
