//! The frugal policies against brute force: every way to put a few jobs on a few GPUs, priced by code of its own.

use arles_core::allocate::{
    Allocation, ClassId, Grant, Members, PairPower, PairRates, Power, Problem, User, UserPower, find_policy,
};
use arles_core::{JobId, KindId, Round, TenantId, Time, WorkloadId};
use proptest::prelude::*;

/// One job.
#[derive(Clone, Debug)]
struct Draft {
    rates: Vec<f64>,
    watts: Vec<f64>,
    floor: Option<f64>,
    clock: bool,
    held: Option<usize>,
    /// The rate that it still needs, where that is not the promised one.
    needed: Option<f64>,
}

/// A whole cluster: GPUs by kind, jobs, and for every two jobs and kind the parts of their rates that they keep.
#[derive(Clone, Debug)]
struct Scene {
    gpus: Vec<u32>,
    /// The kind whose GPUs each kind takes: modes have none of their own.
    sold_as: Vec<usize>,
    jobs: Vec<Draft>,
    kept: Vec<(f64, f64, f64)>,
    unused_off: bool,
}

const IDLE: f64 = 20.0;
const RESTART_SECONDS: f64 = 30.0;
const STEPS: f64 = 1e5;

fn scene() -> impl Strategy<Value = Scene> {
    (1usize..=3, 1usize..=4).prop_flat_map(|(k, n)| {
        let job = (
            prop::collection::vec(0.5f64..10.0, k),
            prop::collection::vec(30.0f64..300.0, k),
            prop::option::of(0.1f64..1.1),
            any::<bool>(),
            prop::option::of(0..k),
            prop::option::of(0.5f64..2.0),
        );
        let job = job.prop_map(|(rates, watts, floor, clock, held, needed)| {
            let best = rates.iter().copied().fold(0.0, f64::max);
            let floor = floor.map(|part| part * best);
            let needed = needed.filter(|_| !clock).and_then(|part| Some(part * floor?));
            Draft { floor, rates, watts, clock, held, needed }
        });
        let kept = prop::collection::vec((0.3f64..1.0, 0.3f64..1.0, 40.0f64..350.0), n * n * k);
        let gpus = prop::collection::vec((0u32..=2, prop::bool::weighted(0.3)), k);
        (gpus, prop::collection::vec(job, n), kept, any::<bool>()).prop_map(|(gpus, jobs, kept, unused_off)| {
            let is_mode = |j: usize| j > 0 && gpus[j].1;
            Scene {
                gpus: (0..gpus.len()).map(|j| if is_mode(j) { 0 } else { gpus[j].0 }).collect(),
                sold_as: (0..gpus.len()).map(|j| if is_mode(j) { 0 } else { j }).collect(),
                jobs,
                kept,
                unused_off,
            }
        })
    })
}

impl Scene {
    fn pair(&self, a: usize, b: usize, j: usize) -> (f64, f64, f64) {
        let (kept_a, kept_b, watts) = self.kept[(a * self.jobs.len() + b) * self.gpus.len() + j];
        (kept_a * self.jobs[a].rates[j], kept_b * self.jobs[b].rates[j], watts)
    }

    fn problem(&self) -> Problem {
        let (n, k) = (self.jobs.len(), self.gpus.len());
        let user = |l: usize| User {
            class: ClassId(l as u32),
            tenant: TenantId(0),
            tenant_weight: 1.0,
            workload: WorkloadId(l as u32),
            gang: 1,
            jobs: 1,
            job_weight: 1.0,
            parts: 1,
            floor: self.jobs[l].floor,
            job: Some(JobId(l as u64)),
            arrived: Time::ZERO,
            attained_gpu_seconds: 0.0,
            steps_done: 0.0,
            steps_left: STEPS,
            held: None,
        };
        let capacity = self.gpus.iter().map(|&m| f64::from(m)).collect();
        let rates = self.jobs.iter().flat_map(|job| job.rates.clone()).collect();
        let (mut pairs, mut power) = (Vec::new(), Vec::new());
        for a in 0..n {
            for b in a + 1..n {
                for j in 0..k {
                    let (rate_a, rate_b, watts) = self.pair(a, b, j);
                    let id = |l: usize| WorkloadId(l as u32);
                    pairs.push(PairRates { a: id(a), b: id(b), kind: KindId(j as u16), rate_a, rate_b });
                    power.push(PairPower { watts, standard_error: 0.0 });
                }
            }
        }
        let draw = |job: &Draft| UserPower {
            watts: job.watts.clone(),
            standard_errors: vec![0.0; k],
            held: (0..k).map(|j| u32::from(job.held == Some(j))).collect(),
            needed: job.needed,
            restart_seconds: RESTART_SECONDS,
            by_the_clock: job.clock,
        };
        let power = Power {
            idle_watts: vec![IDLE; k],
            budget_watts: None,
            epsilon: 0.0,
            unused_off: self.unused_off,
            users: self.jobs.iter().map(draw).collect(),
            pairs: power,
            sharing_now: Vec::new(),
        };
        let problem = Problem::new(Round(1), capacity, (0..n).map(user).collect(), rates).expect("sound");
        let sold_as = self.sold_as.iter().map(|&j| KindId(j as u16)).collect();
        let problem = problem.with_modes(sold_as).expect("sound");
        problem.with_pairs(pairs).expect("sound").with_power(power).expect("sound")
    }

    fn draw(&self, watts: f64) -> f64 {
        (watts - if self.unused_off { 0.0 } else { IDLE }).max(1e-3 * watts)
    }

    fn best(&self, l: usize) -> f64 {
        let room = (0..self.gpus.len()).filter(|&j| self.gpus[self.sold_as[j]] > 0);
        room.map(|j| self.jobs[l].rates[j]).fold(0.0, f64::max)
    }

    fn stretch(&self, l: usize, rate: f64) -> f64 {
        let pace = self.jobs[l].floor.unwrap_or(self.best(l));
        if self.jobs[l].clock { 1.0 } else { pace / rate }
    }

    /// What is missing of a promise, over M; of half the best rate at a twentieth where nothing was promised.
    fn short(&self, l: usize, rate: f64) -> f64 {
        match self.jobs[l].floor {
            Some(floor) if self.jobs[l].clock => 1.0 - (rate / floor).min(1.0),
            Some(floor) => {
                let needed = self.jobs[l].needed.unwrap_or(floor).max(0.92 * floor);
                1.0 - (rate / (1.05 * needed)).min(1.0)
            }
            None => 0.05 * (1.0 - (rate / (0.5 * self.best(l))).min(1.0)),
        }
    }

    /// M of the program.
    fn promise(&self) -> f64 {
        let mut largest = 1.0f64;
        for (l, job) in self.jobs.iter().enumerate() {
            for j in (0..self.gpus.len()).filter(|&j| self.gpus[self.sold_as[j]] > 0) {
                largest = largest.max(self.draw(job.watts[j]) * self.stretch(l, job.rates[j]));
            }
        }
        100.0 * largest
    }

    /// What a set of grants costs, as the head of `gogh.rs` says.
    fn price(&self, grants: &[Grant]) -> f64 {
        let promise = self.promise();
        let (mut cost, mut served) = (0.0, vec![false; self.jobs.len()]);
        let mut seat = |l: usize, rate: f64, watts: f64, j: usize| {
            served[l] = true;
            let job = &self.jobs[l];
            let j = self.sold_as[j];
            let saving = match job.held.map(|held| self.sold_as[held]) == Some(j) {
                true => {
                    let lasts = (STEPS / job.rates[j]).clamp(60.0, 3600.0);
                    let cost = self.draw(job.watts[j]) * self.stretch(l, job.rates[j]);
                    RESTART_SECONDS * job.watts[j].max(IDLE) * 0.5 / lasts + 0.01 * cost
                }
                false => 0.0,
            };
            watts * self.stretch(l, rate) + promise * self.short(l, rate) - saving
        };
        for grant in grants {
            let j = grant.kind.index();
            cost += match grant.members {
                Members::One(l) => {
                    let job = &self.jobs[l as usize];
                    seat(l as usize, job.rates[j], self.draw(job.watts[j]), j)
                }
                Members::Two(a, b) => {
                    let (rate_a, rate_b, watts) = self.pair(a as usize, b as usize, j);
                    let half = self.draw(watts) / 2.0;
                    seat(a as usize, rate_a, half, j) + seat(b as usize, rate_b, half, j)
                }
            };
        }
        for (job, served) in self.jobs.iter().zip(served) {
            if !served {
                cost += promise * if job.floor.is_some() { 1.0 + 0.5 } else { 0.05 + 0.1 };
            }
        }
        cost
    }

    /// Whether a job that ends when its steps are done misses its promise at this rate, and keeps it alone on that GPU.
    fn breaks_promise(&self, l: usize, j: usize, rate: f64) -> bool {
        let job = &self.jobs[l];
        let alone = job.rates[self.sold_as[j]];
        job.floor.is_some() && !job.clock && self.short(l, rate) > 0.0 && self.short(l, alone) == 0.0
    }

    /// Whether two jobs on one GPU cost less than one GPU for each, or do more than by taking turns, with promises kept.
    fn can_pay(&self, a: usize, b: usize, j: usize) -> bool {
        let (rate_a, rate_b, watts) = self.pair(a, b, j);
        if self.breaks_promise(a, j, rate_a) || self.breaks_promise(b, j, rate_b) {
            return false;
        }
        let (x, y) = (&self.jobs[a], &self.jobs[b]);
        let half = self.draw(watts) / 2.0;
        let together = half * self.stretch(a, rate_a) + half * self.stretch(b, rate_b);
        let alone = |l: usize, job: &Draft| self.draw(job.watts[j]) * self.stretch(l, job.rates[j]);
        rate_a / x.rates[j] + rate_b / y.rates[j] > 1.0 || together < alone(a, x) + alone(b, y)
    }

    /// Whether somebody waits in every cheapest set of grants; none if it is too close to tell.
    fn queues(&self) -> Option<bool> {
        let n = self.jobs.len();
        let least = self.cheapest(0, &mut self.gpus.clone(), &mut Vec::new(), &mut vec![false; n]);
        let served = self.cheapest_of_all_served(0, &mut self.gpus.clone(), &mut Vec::new(), &mut vec![false; n]);
        let close = 2e-3 * least.abs().max(1.0);
        (!(served > least && served <= least + close)).then_some(served > least + close)
    }

    /// The least that grants cost which serve everybody from job `l` on.
    fn cheapest_of_all_served(
        &self,
        l: usize,
        free: &mut Vec<u32>,
        grants: &mut Vec<Grant>,
        taken: &mut Vec<bool>,
    ) -> f64 {
        self.search(l, free, grants, taken, &|scene, grants| {
            let seats: usize =
                grants.iter().map(|grant| if matches!(grant.members, Members::One(_)) { 1 } else { 2 }).sum();
            if seats == scene.jobs.len() { scene.price(grants) } else { f64::INFINITY }
        })
    }

    /// What all work costs in a plan over s rounds, as the head of `gogh/queue.rs` says; jobs that the plan leaves out cost a promise each.
    fn plan_price(&self, grants: &[Grant]) -> f64 {
        let work = |l: usize| {
            let pace = self.jobs[l].floor.unwrap_or(self.best(l));
            (STEPS / pace).clamp(1.0, 7.0 * 86_400.0)
        };
        let n = self.jobs.len();
        let busy = |watts: f64| watts + IDLE;
        let column = |members: Members, j: usize| match members {
            Members::One(l) => {
                let (l, job) = (l as usize, &self.jobs[l as usize]);
                let back = if job.held == Some(j) { RESTART_SECONDS * busy(job.watts[j]) / work(l) } else { 0.0 };
                busy(job.watts[j]) * self.stretch(l, job.rates[j]) + back
            }
            Members::Two(a, b) => {
                let (a, b) = (a as usize, b as usize);
                let (rate_a, rate_b, watts) = self.pair(a, b, j);
                busy(watts) / 2.0 * (self.stretch(a, rate_a) + self.stretch(b, rate_b))
            }
        };
        let mut largest = 1.0f64;
        for j in (0..self.gpus.len()).filter(|&j| self.gpus[j] > 0) {
            for a in 0..n {
                largest = largest.max(column(Members::One(a as u32), j));
                for b in (a + 1..n).filter(|&b| self.pays_in_queue(a, b, j)) {
                    largest = largest.max(column(Members::Two(a as u32, b as u32), j));
                }
            }
        }
        let promise = 100.0 * largest;
        let mut served = vec![false; n];
        let mut cost = 0.0;
        for grant in grants {
            let j = grant.kind.index();
            cost += column(grant.members, j);
            let seats = match grant.members {
                Members::One(l) => vec![(l as usize, self.jobs[l as usize].rates[j])],
                Members::Two(a, b) => {
                    let (rate_a, rate_b, _) = self.pair(a as usize, b as usize, j);
                    vec![(a as usize, rate_a), (b as usize, rate_b)]
                }
            };
            for (l, rate) in seats {
                served[l] = true;
                cost += promise * self.short(l, rate);
            }
        }
        for (l, served) in served.into_iter().enumerate() {
            let all = if self.jobs[l].floor.is_some() { 1.0 } else { 0.05 };
            cost += if served { 0.0 } else { promise * (1.0 + all) };
        }
        cost
    }

    /// [`can_pay`](Self::can_pay) while jobs wait.
    fn pays_in_queue(&self, a: usize, b: usize, j: usize) -> bool {
        let (rate_a, rate_b, watts) = self.pair(a, b, j);
        if self.breaks_promise(a, j, rate_a) || self.breaks_promise(b, j, rate_b) {
            return false;
        }
        let (x, y) = (&self.jobs[a], &self.jobs[b]);
        let half = (watts + IDLE) / 2.0;
        let together = half * self.stretch(a, rate_a) + half * self.stretch(b, rate_b);
        let alone = |l: usize, job: &Draft| (job.watts[j] + IDLE) * self.stretch(l, job.rates[j]);
        rate_a / x.rates[j] + rate_b / y.rates[j] > 1.0 || together < alone(a, x) + alone(b, y)
    }

    /// The least that a plan costs which has the pairs of `begun`.
    fn best_plan(&self, begun: &[Grant]) -> f64 {
        let n = self.jobs.len();
        let there: u32 = self.gpus.iter().sum();
        let rounds = (n as u32).div_ceil(there.max(1));
        let mut free: Vec<u32> = self.gpus.iter().map(|gpus| gpus * rounds).collect();
        let (mut grants, mut taken) = (Vec::new(), vec![false; n]);
        for grant in begun {
            if let Members::Two(a, b) = grant.members {
                free[grant.kind.index()] -= 1;
                (taken[a as usize], taken[b as usize]) = (true, true);
                grants.push(*grant);
            }
        }
        self.search(0, &mut free, &mut grants, &mut taken, &|scene, grants| scene.plan_price(grants))
    }

    /// The least that any grants cost.
    fn cheapest(&self, l: usize, free: &mut Vec<u32>, grants: &mut Vec<Grant>, taken: &mut Vec<bool>) -> f64 {
        self.search(l, free, grants, taken, &|scene, grants| scene.price(grants))
    }

    /// The least price of all ways to go on from job `l`.
    fn search(
        &self,
        l: usize,
        free: &mut Vec<u32>,
        grants: &mut Vec<Grant>,
        taken: &mut Vec<bool>,
        price: &dyn Fn(&Self, &[Grant]) -> f64,
    ) -> f64 {
        if l == self.jobs.len() {
            return price(self, grants);
        }
        if taken[l] {
            return self.search(l + 1, free, grants, taken, price);
        }
        let mut least = self.search(l + 1, free, grants, taken, price);
        for j in 0..free.len() {
            let base = self.sold_as[j];
            if free[base] == 0 {
                continue;
            }
            free[base] -= 1;
            let kind = KindId(j as u16);
            grants.push(Grant { kind, members: Members::One(l as u32), gangs: 1.0 });
            least = least.min(self.search(l + 1, free, grants, taken, price));
            grants.pop();
            for b in l + 1..self.jobs.len() {
                if taken[b] || !self.can_pay(l, b, j) {
                    continue;
                }
                taken[b] = true;
                grants.push(Grant { kind, members: Members::Two(l as u32, b as u32), gangs: 1.0 });
                least = least.min(self.search(l + 1, free, grants, taken, price));
                grants.pop();
                taken[b] = false;
            }
            free[base] += 1;
        }
        least
    }
}

fn allocate(name: &str, problem: &Problem) -> Allocation {
    let entry = find_policy(name).expect("in the table");
    (entry.make)().allocate(problem).expect("an answer")
}

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: 20_000, ..ProptestConfig::with_cases(400) })]

    /// Where everybody is served, the program's answer is the best there is, and its objective is what its grants cost.
    #[test]
    fn gogh_is_as_cheap_as_brute_force(scene in scene()) {
        prop_assume!(scene.queues() == Some(false));
        let problem = scene.problem();
        let answer = allocate("gogh", &problem);
        let cost = scene.price(answer.grants());
        let n = scene.jobs.len();
        let least = scene.cheapest(0, &mut scene.gpus.clone(), &mut Vec::new(), &mut vec![false; n]);
        prop_assert!((-answer.objective().expect("it minimises") - cost).abs() <= 1e-6 * cost.abs().max(1.0));
        prop_assert!(cost <= least + 1e-3 * least.abs().max(1.0), "{cost} W, and {least} W is possible: {:?}", answer.grants());
        let bound = answer.certificate().expect("a bound");
        prop_assert!(-bound.upper <= least + 1e-6 * least.abs().max(1.0), "the bound {} is above {least}", -bound.upper);
    }

    /// Where jobs wait, the pairs that it runs now are those of a best plan for the whole queue. (Which mode a bundle is in is decided bundle by
    /// bundle, so plans are compared where there are none.)
    #[test]
    fn gogh_begins_with_pairs_of_a_best_plan(scene in scene()) {
        prop_assume!(scene.queues() == Some(true));
        prop_assume!(scene.sold_as.iter().enumerate().all(|(j, base)| j == *base));
        let answer = allocate("gogh", &scene.problem());
        let (least, ours) = (scene.best_plan(&[]), scene.best_plan(answer.grants()));
        prop_assert!(ours <= least * 1.006, "a plan costs {least}, and {ours} with {:?}", answer.grants());
    }

    /// Looking ahead never costs more than taking one job after another, where nobody has to wait.
    #[test]
    fn gogh_is_no_dearer_than_greed(scene in scene()) {
        prop_assume!(scene.queues() == Some(false));
        let problem = scene.problem();
        let (program, greed) = (allocate("gogh", &problem), allocate("energy-greedy", &problem));
        let (program, greed) = (scene.price(program.grants()), scene.price(greed.grants()));
        prop_assert!(program <= greed + 1e-3 * greed.abs().max(1.0), "{program} W against {greed} W");
    }
}

/// A promise that only company breaks keeps two jobs apart, and one that allows it brings them together.
#[test]
fn promises_decide_about_company() {
    let scene = |floor: f64| Scene {
        gpus: vec![2],
        sold_as: vec![0],
        jobs: vec![
            Draft { rates: vec![10.0], watts: vec![100.0], floor: Some(floor), clock: false, held: None, needed: None },
            Draft { rates: vec![10.0], watts: vec![100.0], floor: Some(floor), clock: false, held: None, needed: None },
        ],
        kept: vec![(0.9, 0.9, 120.0); 4],
        unused_off: true,
    };
    let together = |floor: f64| {
        let answer = allocate("gogh", &scene(floor).problem());
        answer.grants().iter().any(|g| matches!(g.members, Members::Two(..)))
    };
    assert!(together(5.0));
    assert!(!together(9.0));
}

/// A job that has waited is run faster than promised until it has made up for it, and one that is ahead stays where a rate a hair too low was measured.
#[test]
fn what_is_still_needed_decides_and_not_what_was_promised() {
    let on_the_frugal_kind = |needed: Option<f64>, clock: bool| {
        let job =
            Draft { rates: vec![10.0, 5.0], watts: vec![300.0, 60.0], floor: Some(4.99), clock, held: None, needed };
        let scene = Scene {
            gpus: vec![1, 1],
            sold_as: vec![0, 1],
            jobs: vec![job],
            kept: vec![(0.9, 0.9, 320.0); 2],
            unused_off: true,
        };
        allocate("gogh", &scene.problem()).grants()[0].kind == KindId(1)
    };
    assert!(!on_the_frugal_kind(None, false), "no room for a restart");
    assert!(on_the_frugal_kind(Some(4.6), false), "ahead");
    assert!(!on_the_frugal_kind(Some(5.5), false), "late");
    assert!(on_the_frugal_kind(None, true), "a service makes up for nothing, and needs no room");
}

/// A service that was never measured on a frugal kind is tried there where it may well keep its promise and will be there for long, and stays if it does.
#[test]
fn a_service_is_tried_where_its_promise_is_likely_kept() {
    let moves = |floor: f64, hours: f64, standard_error: f64| {
        let job = Draft {
            rates: vec![10.0, 5.0],
            watts: vec![300.0, 60.0],
            floor: Some(floor),
            clock: true,
            held: Some(0),
            needed: None,
        };
        let scene = Scene {
            gpus: vec![1, 1],
            sold_as: vec![0, 1],
            jobs: vec![job],
            kept: vec![(0.9, 0.9, 320.0); 2],
            unused_off: true,
        };
        let mut problem = scene.problem();
        problem.users[0].steps_left = hours * 3600.0 * floor;
        let mut power = problem.power.take().unwrap();
        power.users[0].standard_errors[1] = standard_error;
        let problem = problem.with_power(power).unwrap();
        allocate("gogh", &problem).grants()[0].kind == KindId(1)
    };
    assert!(moves(4.5, 10.0, 0.2), "30 % likely to fail, and much to gain");
    assert!(!moves(4.5, 0.2, 0.2), "it would be over before that pays");
    assert!(!moves(9.0, 10.0, 0.2), "hopeless");
    assert!(moves(4.8, 10.0, 0.03), "measured, and kept");
    assert!(!moves(4.95, 10.0, 0.03), "measured, and kept by less than the measurement may be wrong by");
}

/// A kind with a large standard error that looks slightly worse is tried once, by one job, where there is time to profit from it.
#[test]
fn doubt_is_worth_a_trial() {
    let trial = |steps_left: f64, standard_error: f64| {
        let job = Draft {
            rates: vec![10.0, 9.0],
            watts: vec![100.0, 100.0],
            floor: None,
            clock: false,
            held: Some(0),
            needed: None,
        };
        let scene = Scene {
            gpus: vec![2, 2],
            sold_as: vec![0, 1],
            jobs: vec![job],
            kept: vec![(0.1, 0.1, 120.0); 2],
            unused_off: true,
        };
        let mut problem = scene.problem();
        problem.users[0].steps_left = steps_left;
        let mut power = problem.power.clone().expect("set");
        power.users[0].standard_errors[1] = standard_error;
        let problem = problem.with_power(power).expect("sound");
        allocate("gogh", &problem).grants()[0].kind == KindId(1)
    };
    assert!(trial(1e5, 0.5));
    assert!(!trial(1e5, 0.01), "nothing to learn");
    assert!(!trial(3e3, 0.5), "no time to profit");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Beside a partner nobody finds out how fast it is alone: two that share a GPU best on the kind that is known are not drawn to the one that is not,
    /// where they would be credited round after round for a trial that tells nothing.
    #[test]
    fn nobody_is_paid_for_finding_out_in_company(standard_error in 0.05f64..0.4, held in prop::option::of(0usize..2)) {
        let job = Draft { rates: vec![10.0, 9.0], watts: vec![100.0, 100.0], floor: None, clock: false, held, needed: None };
        let scene = Scene {
            gpus: vec![1, 1],
            sold_as: vec![0, 1],
            jobs: vec![job.clone(), job],
            kept: [(0.9, 0.9, 110.0), (0.9, 0.9, 110.0)].repeat(4),
            unused_off: true,
        };
        let problem = scene.problem();
        let mut power = problem.power.clone().expect("set");
        power.users.iter_mut().for_each(|user| user.standard_errors[1] = standard_error);
        let known = allocate("gogh", &problem);
        let doubted = allocate("gogh", &problem.with_power(power).expect("sound"));
        let shared = |answer: &Allocation| -> Vec<KindId> {
            answer.grants().iter().filter(|g| matches!(g.members, Members::Two(..))).map(|g| g.kind).collect()
        };
        prop_assert_eq!(shared(&known), shared(&doubted));
    }
}
