//! What fairness and frugality cost each other on measured tables: Zeus' power limits, and Gavel's rates with modelled watts.
//!
//! `cargo test --release -p arles-sim --test watts -- --nocapture` prints the tables of docs/fair-energy.md. Divisible GPUs, unused ones off, twenty tenants with
//! weights 1 to 3 that each run one of the measured workloads; five draws.

#[path = "support/full_power.rs"]
mod full_power;
#[path = "support/zeus.rs"]
mod zeus;

use arles_core::allocate::{
    Allocation, ClassId, Entitlement, Grant, Members, PairPower, PairRates, Power, Problem, User, UserPower,
    find_policy,
};
use arles_core::audit::Audit;
use arles_core::{KindId, Round, TenantId, Time, WorkloadId};
use full_power::at_full_power;
use std::collections::BTreeMap;
use std::path::Path;
use zeus::{Cells, KINDS};

const TENANTS: usize = 20;
const DRAWS: u64 = 5;

/// Everything that is measured of one workload, by mode: rate and watts. Modes are (kind, limit), the kinds as sold first.
struct Measured {
    /// The kind of each mode.
    of: Vec<usize>,
    gpus: Vec<f64>,
    workloads: Vec<Vec<(f64, f64)>>,
    /// By kind, first and second workload: rates and watts of both on one GPU.
    together: BTreeMap<(usize, usize, usize), ([f64; 2], f64)>,
}

/// Numbers from a seed, nothing else.
fn dice(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(1);
    move |sides| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as usize % sides
    }
}

/// Zeus' tables: what every variant that was run on all four kinds did under every limit that all were run under.
fn zeus_measured(folder: &Path) -> Measured {
    let variants = zeus::variants(folder);
    let limits = zeus::limits(&variants);
    let full = (0..KINDS.len()).map(|j| (j, *limits[j].last().expect("some limit")));
    let lower = (0..KINDS.len()).flat_map(|j| limits[j][..limits[j].len() - 1].iter().map(move |&limit| (j, limit)));
    let modes: Vec<(usize, u32)> = full.chain(lower).collect();
    let row = |cells: &Vec<Cells>| modes.iter().map(|(j, limit)| cells[*j][limit]).collect();
    let workloads = variants.values().map(row).collect();
    let of = modes.iter().map(|(j, _)| *j).collect();
    Measured { of, gpus: vec![5.0; 4], workloads, together: BTreeMap::new() }
}

/// Gavel's rates. Nobody measured watts: a workload's activity is drawn between 0.45 and 1, and speed goes with the root of the dynamic watts.
fn gavel(file: &Path) -> Measured {
    let text = std::fs::read_to_string(file).expect("it is there");
    let table: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    const GPUS: [(&str, f64, f64); 3] = [("k80", 150.0, 30.0), ("p100", 250.0, 30.0), ("v100", 300.0, 40.0)];
    const LIMITS: [f64; 3] = [0.75, 0.6, 0.45];
    let rate = |kind: &str, name: &str| table[kind][name]["null"].as_f64().unwrap_or(0.0);
    let mut roll = dice(17);
    let (mut workloads, mut names, mut dynamic) = (Vec::new(), Vec::new(), Vec::new());
    for name in table["v100"].as_object().expect("a table").keys().filter(|name| name.ends_with(", 1)")) {
        if GPUS.iter().any(|(kind, ..)| rate(kind, name) <= 0.0) {
            continue;
        }
        let activity = 0.45 + 0.55 * roll(1000) as f64 / 1000.0;
        let drawn = GPUS.map(|(_, most, idle)| idle + (most - idle) * activity);
        names.push(name);
        dynamic.push(activity);
        let mut row: Vec<(f64, f64)> = (0..3).map(|j| (rate(GPUS[j].0, name), drawn[j])).collect();
        for (j, (kind, most, idle)) in GPUS.iter().enumerate() {
            for limit in LIMITS.map(|part| (part * most).max(idle + 20.0)) {
                let watts = limit.min(drawn[j]);
                row.push((rate(kind, name) * ((watts - idle) / (drawn[j] - idle)).sqrt(), watts));
            }
        }
        workloads.push(row);
    }
    let mut together = BTreeMap::new();
    for (j, (kind, most, idle)) in GPUS.iter().enumerate() {
        for (a, b) in (0..names.len()).flat_map(|a| (0..names.len()).map(move |b| (a, b))) {
            let pair = &table[kind][names[a]][names[b]];
            if let (Some(first), Some(second)) = (pair[0].as_f64(), pair[1].as_f64()) {
                let watts = (idle + (most - idle) * (dynamic[a] + dynamic[b])).min(*most);
                together.insert((j, a, b), ([first, second], watts));
            }
        }
    }
    let of = (0..3).chain((0..3).flat_map(|j| [j; 3])).collect();
    Measured { of, gpus: vec![8.0; 3], workloads, together }
}

impl Measured {
    fn problem(&self, draw: u64) -> Problem {
        let mut roll = dice(draw + 1);
        let each: Vec<(usize, usize)> = (0..TENANTS).map(|_| (roll(self.workloads.len()), 1 + roll(3))).collect();
        self.problem_of(&each)
    }

    /// Tenants with these workloads and weights.
    fn problem_of(&self, each: &[(usize, usize)]) -> Problem {
        let k = self.of.len();
        let (mut users, mut rates, mut powers) = (Vec::new(), Vec::new(), Vec::new());
        let runs: Vec<usize> = each.iter().map(|one| one.0).collect();
        for i in 0..TENANTS as u32 {
            let row = &self.workloads[runs[i as usize]];
            users.push(User {
                class: ClassId(i),
                tenant: TenantId(i),
                tenant_weight: each[i as usize].1 as f64,
                workload: WorkloadId(i),
                gang: 1,
                jobs: 1000,
                job_weight: 1.0,
                parts: 1,
                floor: None,
                job: None,
                arrived: Time::ZERO,
                attained_gpu_seconds: 0.0,
                steps_done: 0.0,
                steps_left: 1e6,
                held: None,
            });
            rates.extend(row.iter().map(|(rate, _)| *rate));
            powers.push(UserPower {
                watts: row.iter().map(|(_, watts)| *watts).collect(),
                standard_errors: vec![0.0; k],
                held: vec![0; k],
                needed: None,
                restart_seconds: 0.0,
                by_the_clock: false,
            });
        }
        let mut capacity = self.gpus.clone();
        capacity.resize(k, 0.0);
        let sold_as = self.of.iter().map(|&j| KindId(j as u16)).collect();
        let problem = Problem::new(Round(1), capacity, users, rates).expect("a sound problem");
        let mut problem = problem.with_modes(sold_as).expect("sound modes");
        let (mut pairs, mut drawn) = (Vec::new(), Vec::new());
        for (a, b) in (0..TENANTS).flat_map(|a| (a..TENANTS).map(move |b| (a, b))) {
            for j in 0..self.gpus.len() {
                let Some(([rate_a, rate_b], watts)) = self.together.get(&(j, runs[a], runs[b])).copied() else {
                    continue;
                };
                // Two jobs of one tenant are as fast as each other.
                let rate_b = if a == b { rate_a } else { rate_b };
                if rate_a > 0.0 && rate_b > 0.0 {
                    let (a, b) = (WorkloadId(a as u32), WorkloadId(b as u32));
                    pairs.push(PairRates { a, b, kind: KindId(j as u16), rate_a, rate_b });
                    drawn.push(PairPower { watts, standard_error: 0.0 });
                }
            }
        }
        problem = problem.with_pairs(pairs).expect("sound pairs");
        let power = Power { users: powers, pairs: drawn, ..Power::uniform(&problem) };
        problem.with_power(power).expect("sound power")
    }

    /// What a lower limit reaches a higher one reaches too, in rate and in watts, as the study has it.
    fn monotone(mut self) -> Self {
        let sold = self.gpus.len();
        for j in 0..sold {
            // Lower limits stand in their order, the full one before all others.
            let order: Vec<usize> = (sold..self.of.len()).filter(|&mode| self.of[mode] == j).chain([j]).collect();
            for row in &mut self.workloads {
                for pair in order.windows(2) {
                    let ((rate, watts), (next_rate, next_watts)) = (row[pair[0]], row[pair[1]]);
                    row[pair[1]] = (rate.max(next_rate), watts.max(next_watts));
                }
            }
        }
        self
    }

    /// Without what is known of two on a GPU.
    fn alone(&self) -> Self {
        let Self { of, gpus, workloads, .. } = self;
        Self { of: of.clone(), gpus: gpus.clone(), workloads: workloads.clone(), together: BTreeMap::new() }
    }
}

fn ask(policy: &str, problem: &Problem, epsilon: f64, budget_watts: Option<f64>) -> Allocation {
    let power = Power { epsilon, budget_watts, ..problem.power.clone().expect("power is known") };
    let problem = problem.clone().with_power(power).expect("sound power");
    (find_policy(policy).expect("in the table").make)().allocate(&problem).expect("an answer")
}

fn watts(problem: &Problem, grants: &[Grant]) -> f64 {
    let power = problem.power.as_ref().expect("power is known");
    let of = |grant: &Grant| match grant.members {
        Members::One(u) => grant.gangs * power.users[u as usize].watts[grant.kind.index()],
        Members::Two(..) => unreachable!("nobody shares here"),
    };
    grants.iter().map(of).sum()
}

fn audit(problem: &Problem, grants: &[Grant]) -> Audit {
    let k = problem.kinds();
    let mut x = vec![0.0; problem.users.len() * k];
    for grant in grants {
        let Members::One(u) = grant.members else { unreachable!("nobody shares here") };
        x[u as usize * k + grant.kind.index()] += grant.gangs;
    }
    Audit::of_holdings(problem, Entitlement::Tenants, x).expect("sound holdings")
}

/// Means and extremes over the draws.
#[derive(Default)]
struct Column {
    sum: f64,
    worst_envy: f64,
    least_sharing: f64,
    least_kept: f64,
}

fn savings(name: &str, measured: &Measured) -> Vec<f64> {
    println!(
        "{name}: {} workloads, {} modes; watts saved beside oef-coop at full power",
        measured.workloads.len(),
        measured.of.len()
    );
    println!("  epsilon   saved   bound   throughput   worst envy   least of an equal share   least of its own");
    let mut saved = Vec::new();
    for epsilon in [0.0, 0.01, 0.02, 0.05, 0.1, 0.2] {
        let (mut column, mut bound, mut kept) =
            (Column { least_sharing: 9.0, least_kept: 9.0, ..Column::default() }, 0.0, 0.0);
        for draw in 0..DRAWS {
            let problem = measured.problem(draw);
            let fair = at_full_power(&problem);
            let before = audit(&problem, &fair);
            let answer = ask("fair-energy", &problem, epsilon, None);
            let after = audit(&problem, answer.grants());
            let full = watts(&problem, &fair);
            column.sum += 1.0 - watts(&problem, answer.grants()) / full;
            bound += 1.0 + answer.certificate().expect("a bound").upper / full;
            kept += after.utilities().iter().sum::<f64>() / before.utilities().iter().sum::<f64>();
            column.worst_envy = column.worst_envy.max(after.worst_envy().expect("several").ratio - 1.0);
            column.least_sharing = column.least_sharing.min(after.least_sharing().expect("several").1);
            let own = after.utilities().iter().zip(before.utilities()).map(|(a, b)| a / b);
            column.least_kept = own.fold(column.least_kept, f64::min);
            assert!(
                after.worst_envy().expect("several").ratio <= (1.0 + 1e-5) / (1.0 - epsilon),
                "draw {draw} at {epsilon}: {:?} {:?}",
                after.worst_envy(),
                after.least_sharing()
            );
            assert!(
                after.least_sharing().expect("several").1 >= 1.0 - 1e-5,
                "draw {draw} at {epsilon}: {:?} {:?}",
                after.worst_envy(),
                after.least_sharing()
            );
        }
        let mean = |sum: f64| 100.0 * sum / DRAWS as f64;
        println!(
            "  {:>5.0} %  {:>5.1} %  {:>5.1} %   {:>8.3}     {:>8.3}      {:>12.3}              {:>8.3}",
            100.0 * epsilon,
            mean(column.sum),
            mean(bound),
            kept / DRAWS as f64,
            column.worst_envy,
            column.least_sharing,
            column.least_kept
        );
        saved.push(column.sum / DRAWS as f64);
    }
    saved
}

/// What is saved where two jobs may share a GPU.
fn with_pairs(measured: &Measured) {
    println!("Gavel with two jobs on a GPU: watts saved beside oef-coop alone at full power");
    println!("  epsilon   saved   bound   least of its own");
    for epsilon in [0.0, 0.01, 0.02, 0.05, 0.1, 0.2] {
        let (mut saved, mut bound, mut least) = (0.0, 0.0, 9.0f64);
        for draw in 0..DRAWS {
            let problem = measured.problem(draw);
            let alone = measured.alone().problem(draw);
            let fair = at_full_power(&alone);
            let (before, full) = (audit(&alone, &fair), watts(&alone, &fair));
            let answer = ask("fair-energy", &problem, epsilon, None);
            saved += 1.0 - -answer.objective().expect("watts") / full;
            bound += 1.0 + answer.certificate().expect("a bound").upper / full;
            let after = Audit::of(&problem, Entitlement::Tenants, &answer);
            let own = after.utilities().iter().zip(before.utilities()).map(|(a, b)| a / b);
            least = own.fold(least, f64::min);
        }
        let mean = |sum: f64| 100.0 * sum / DRAWS as f64;
        println!("  {:>5.0} %  {:>5.1} %  {:>5.1} %   {least:>8.3}", 100.0 * epsilon, mean(saved), mean(bound));
        assert!(least >= (1.0 - epsilon) * (1.0 - 1e-5), "somebody keeps {least} of its own at {epsilon}");
    }
}

/// The most that a user makes of GPUs, by kind as sold, and watts: the dual has one variable, the price of a watt, in which it is convex.
fn value(problem: &Problem, (l, unit): (usize, f64), gpus: &[f64], watts: f64) -> f64 {
    let (k, power) = (problem.kinds(), problem.power.as_ref().expect("power is known"));
    let rate = |j: usize| problem.rates(l)[j] * unit;
    let at = |price: f64| {
        let unit = |base: usize| {
            let modes = (0..k).filter(|&j| problem.sold_as(j) == base);
            modes.map(|j| rate(j) - price * power.users[l].watts[j]).fold(0.0, f64::max)
        };
        (0..gpus.len()).filter(|&j| gpus[j] > 0.0).map(|j| gpus[j] * unit(j)).sum::<f64>() + price * watts
    };
    let most = (0..k).map(|j| rate(j) / power.users[l].watts[j]).fold(0.0, f64::max);
    let (mut low, mut high) = (0.0, most);
    for _ in 0..60 {
        let (a, b) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
        if at(a) <= at(b) { high = b } else { low = a }
    }
    at(low).min(at(high)).min(at(0.0))
}

/// The strongest envy of another's GPUs and watts, beyond 1, and the least part of what an equal share of GPUs and of the budget would give.
fn fairness(problem: &Problem, grants: &[Grant], budget: f64) -> (f64, f64) {
    let (pi, u) = (Entitlement::Tenants.weights(problem), audit(problem, grants).utilities().to_vec());
    let bases: Vec<usize> = (0..problem.kinds()).filter(|&j| problem.sold_as(j) == j).collect();
    let mut bundles = vec![(vec![0.0; bases.len()], 0.0); u.len()];
    for grant in grants {
        let Members::One(l) = grant.members else { unreachable!("nobody shares here") };
        bundles[l as usize].0[problem.sold_as(grant.kind.index())] += grant.gangs;
        bundles[l as usize].1 += watts(problem, &[*grant]);
    }
    let all: f64 = pi.iter().sum();
    // A step per second in speed-ups: the first kind at its best.
    let (k, w) = (problem.kinds(), problem.speedups());
    let unit = |l: usize| {
        let modes = (0..k).filter(|&j| problem.sold_as(j) == 0);
        (l, w[l * k] / modes.map(|j| problem.rates(l)[j]).fold(0.0, f64::max))
    };
    let (mut envy, mut least) = (0.0f64, f64::INFINITY);
    for l in 0..u.len() {
        let equal: Vec<f64> = bases.iter().map(|&j| problem.capacity[j] * pi[l] / all).collect();
        least = least.min(u[l] / value(problem, unit(l), &equal, budget * pi[l] / all));
        for (i, (gpus, watts)) in bundles.iter().enumerate().filter(|(i, _)| *i != l) {
            let part = pi[l] / pi[i];
            let scaled: Vec<f64> = gpus.iter().map(|gpus| gpus * part).collect();
            let worth = value(problem, unit(l), &scaled, watts * part);
            if worth > 0.0 {
                envy = envy.max(worth / u[l] - 1.0);
            }
        }
    }
    (envy, least)
}

/// What is kept of the speed under a part of the full draw: (fair-power, one uniform limit, caps job by job on oef-coop's GPUs, GPUs switched off).
fn budgets(name: &str, measured: &Measured) -> Vec<[f64; 4]> {
    println!("{name}: speed kept under a power budget, and the worst envy of it");
    println!(
        "  budget   off   envy  least | uniform limit   envy  least | job by job   envy  least (of its own) | fair-power   envy  least"
    );
    let mut rows = Vec::new();
    for part in [0.9, 0.8, 0.7, 0.6, 0.5] {
        let (mut kept, mut envy, mut share, mut starved) = ([0.0; 4], [0.0f64; 4], [9.0f64; 4], 9.0f64);
        for draw in 0..DRAWS {
            let problem = measured.problem(draw);
            let fair = at_full_power(&problem);
            let before = audit(&problem, &fair);
            let budget = part * watts(&problem, &fair);
            let market = ask("fair-power", &problem, 0.0, Some(budget));
            let ways = [
                market.grants().to_vec(),
                uniform(&problem, budget),
                job_by_job(&problem, &fair, budget),
                switched_off(&problem, budget),
            ];
            for (at, grants) in ways.iter().enumerate() {
                assert!(watts(&problem, grants) <= budget * (1.0 + 1e-6), "way {at} of draw {draw}");
                let after = audit(&problem, grants);
                kept[at] +=
                    after.utilities().iter().sum::<f64>() / before.utilities().iter().sum::<f64>() / DRAWS as f64;
                let (envious, least) = fairness(&problem, grants, budget);
                (envy[at], share[at]) = (envy[at].max(envious), share[at].min(least));
                if at == 2 {
                    let own = after.utilities().iter().zip(before.utilities()).map(|(a, b)| a / b);
                    starved = own.fold(starved, f64::min);
                }
            }
        }
        let told = |at: usize| format!("{:.3} {:>6.2} {:>6.2}", kept[at], envy[at], share[at]);
        println!("  {:>4.0} %   {} | {} | {} ({starved:.2}) | {}", 100.0 * part, told(3), told(1), told(2), told(0));
        assert!(envy[0] <= 1e-5 && share[0] >= 1.0 - 1e-5, "fair-power: envy {}, share {}", envy[0], share[0]);
        rows.push(kept);
    }
    rows
}

/// The largest part of their power at which `oef-coop` on GPUs limited to it fits the budget.
fn uniform(problem: &Problem, budget: f64) -> Vec<Grant> {
    let power = problem.power.as_ref().expect("power is known");
    let most = |base: usize| power.users.iter().map(|user| user.watts[base]).fold(0.0, f64::max);
    let limited = |part: f64| {
        let mut limited = problem.clone();
        let k = problem.kinds();
        for (u, row) in limited.rates.chunks_exact_mut(k).enumerate() {
            for j in 0..k {
                let base = problem.sold_as(j);
                let modes = (0..k).filter(|&i| problem.sold_as(i) == base);
                let slowest = modes.map(|i| power.users[u].watts[i]).fold(f64::INFINITY, f64::min);
                if power.users[u].watts[j] > (part * most(base)).max(slowest) {
                    row[j] = 0.0;
                }
            }
        }
        at_full_power(&limited)
    };
    let fits = |part: f64| watts(problem, &limited(part)) <= budget;
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..20 {
        let middle = (low + high) / 2.0;
        if fits(middle) { low = middle } else { high = middle }
    }
    let grants = limited(low);
    let draws = watts(problem, &grants);
    // What the least limit still draws too much is switched off.
    grants.into_iter().map(|grant| Grant { gangs: grant.gangs * (budget / draws).min(1.0), ..grant }).collect()
}

/// Everybody keeps its GPUs; modes, or none, where a watt costs least speed.
fn job_by_job(problem: &Problem, fair: &[Grant], budget: f64) -> Vec<Grant> {
    let (k, w) = (problem.kinds(), problem.speedups());
    let power = problem.power.as_ref().expect("power is known");
    let at = |price: f64| -> Vec<Grant> {
        let pick = |grant: &Grant| {
            let Members::One(u) = grant.members else { unreachable!("nobody shares here") };
            let (u, base) = (u as usize, problem.sold_as(grant.kind.index()));
            let full = w[u * k + base]
                / (0..k).filter(|&j| problem.sold_as(j) == base).map(|j| problem.rates(u)[j]).fold(0.0, f64::max);
            let gain = |j: usize| problem.rates(u)[j] * full - price * power.users[u].watts[j];
            let modes = (0..k).filter(|&j| problem.sold_as(j) == base && gain(j) > 0.0);
            let best = modes.max_by(|&a, &b| gain(a).total_cmp(&gain(b)))?;
            Some(Grant { kind: KindId(best as u16), ..*grant })
        };
        fair.iter().filter_map(pick).collect()
    };
    let (mut low, mut high) = (0.0, 1.0);
    while watts(problem, &at(high)) > budget {
        high *= 2.0;
    }
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if watts(problem, &at(middle)) > budget { low = middle } else { high = middle }
    }
    // Between the two prices: as much of the dearer plan as fits.
    let (over, under) = (at(low), at(high));
    let (a, b) = (watts(problem, &over), watts(problem, &under));
    let part = if a > b { ((budget - b) / (a - b)).clamp(0.0, 1.0) } else { 0.0 };
    let scaled = |grants: Vec<Grant>, part: f64| grants.into_iter().map(move |g| Grant { gangs: g.gangs * part, ..g });
    scaled(over, part).chain(scaled(under, 1.0 - part)).collect()
}

/// `oef-coop` on fewer GPUs: of the kind that gives least speed for a watt first.
fn switched_off(problem: &Problem, budget: f64) -> Vec<Grant> {
    let (k, w) = (problem.kinds(), problem.speedups());
    let power = problem.power.as_ref().expect("power is known");
    let worth = |j: usize| (0..TENANTS).map(|u| w[u * k + j] / power.users[u].watts[j]).sum::<f64>();
    let mut kinds: Vec<usize> = (0..k).filter(|&j| problem.sold_as(j) == j).collect();
    kinds.sort_by(|&a, &b| worth(a).total_cmp(&worth(b)));
    let mut left = problem.clone();
    for j in kinds {
        let mut low = left.clone();
        low.capacity[j] = 0.0;
        if watts(problem, &at_full_power(&low)) > budget {
            left = low;
            continue;
        }
        let (mut none, mut all) = (0.0, left.capacity[j]);
        for _ in 0..25 {
            let middle = (none + all) / 2.0;
            let mut tried = left.clone();
            tried.capacity[j] = middle;
            if watts(problem, &at_full_power(&tried)) > budget { all = middle } else { none = middle }
        }
        left.capacity[j] = none;
        break;
    }
    at_full_power(&left)
}

#[test]
fn zeus_savings_and_budgets() {
    let Some(folder) = arles_testing::shared("data/zeus") else { return };
    let measured = zeus_measured(&folder);
    let saved = savings("Zeus", &measured);
    assert!(saved.windows(2).all(|pair| pair[0] <= pair[1] + 1e-6), "{saved:?}");
    assert!(saved[3] > 0.15, "5 % of speed saves {:.3} of the watts", saved[3]);
    let kept = budgets("Zeus", &measured);
    assert!(kept.iter().all(|[market, uniform, _, off]| market >= uniform && market >= off), "{kept:?}");
}

/// The study's six draws, by its generator: what each tenant runs, by the place among the variants in order of their names, and its weight.
const STUDY: [[(usize, usize); TENANTS]; 6] = [
    [
        (7, 2),
        (36, 3),
        (34, 3),
        (35, 3),
        (10, 3),
        (37, 3),
        (27, 2),
        (21, 3),
        (7, 2),
        (33, 3),
        (13, 1),
        (32, 1),
        (13, 2),
        (3, 3),
        (10, 3),
        (11, 1),
        (11, 3),
        (36, 2),
        (28, 3),
        (30, 2),
    ],
    [
        (12, 1),
        (13, 2),
        (37, 1),
        (18, 2),
        (11, 2),
        (11, 2),
        (29, 3),
        (34, 3),
        (30, 3),
        (1, 2),
        (0, 2),
        (37, 1),
        (22, 1),
        (9, 3),
        (20, 2),
        (18, 2),
        (29, 2),
        (15, 1),
        (29, 3),
        (5, 1),
    ],
    [
        (2, 1),
        (29, 2),
        (24, 3),
        (19, 3),
        (20, 2),
        (34, 3),
        (7, 3),
        (8, 1),
        (11, 2),
        (0, 3),
        (27, 3),
        (2, 2),
        (17, 3),
        (21, 2),
        (7, 2),
        (23, 1),
        (31, 3),
        (17, 3),
        (35, 2),
        (0, 1),
    ],
    [
        (30, 1),
        (25, 2),
        (6, 3),
        (9, 3),
        (31, 3),
        (4, 2),
        (8, 1),
        (29, 1),
        (28, 2),
        (14, 1),
        (30, 3),
        (17, 2),
        (18, 3),
        (27, 3),
        (30, 2),
        (5, 2),
        (23, 1),
        (19, 3),
        (5, 2),
        (27, 1),
    ],
    [
        (19, 2),
        (22, 1),
        (13, 1),
        (12, 1),
        (26, 3),
        (1, 1),
        (26, 1),
        (0, 3),
        (29, 3),
        (30, 3),
        (1, 2),
        (4, 3),
        (9, 2),
        (36, 3),
        (22, 1),
        (34, 1),
        (3, 3),
        (3, 2),
        (22, 3),
        (37, 3),
    ],
    [
        (21, 3),
        (0, 2),
        (8, 2),
        (36, 2),
        (2, 2),
        (36, 3),
        (4, 3),
        (1, 2),
        (31, 3),
        (28, 2),
        (20, 1),
        (5, 1),
        (3, 1),
        (19, 2),
        (13, 1),
        (5, 2),
        (13, 1),
        (22, 3),
        (13, 3),
        (15, 1),
    ],
];
/// The budgets of the study as parts of the draw, and what it found `fair-power` to keep: mean, least and most.
const STUDY_KEPT: [(f64, [f64; 3]); 5] = [
    (0.9, [0.986, 0.971, 0.991]),
    (0.8, [0.969, 0.955, 0.975]),
    (0.7, [0.942, 0.929, 0.951]),
    (0.6, [0.899, 0.877, 0.913]),
    (0.5, [0.803, 0.765, 0.821]),
];

/// On what the study drew, with what it defined, `fair-power` keeps what it found.
#[test]
fn zeus_on_the_draws_of_the_study() {
    let Some(folder) = arles_testing::shared("data/zeus") else { return };
    let measured = zeus_measured(&folder).monotone();
    println!("Zeus, the study's draws, rates made monotone: speed kept by fair-power (study)");
    let mut missed = Vec::new();
    for (part, found) in STUDY_KEPT {
        let mut kept = Vec::new();
        for each in STUDY {
            let problem = measured.problem_of(&each);
            let fair = at_full_power(&problem);
            // Its full draw is that of the highest limit, also where a lower one is as fast.
            let full: Vec<Grant> =
                fair.iter().map(|g| Grant { kind: KindId(problem.sold_as(g.kind.index()) as u16), ..*g }).collect();
            let before: f64 = audit(&problem, &fair).utilities().iter().sum();
            let answer = ask("fair-power", &problem, 0.0, Some(part * watts(&problem, &full)));
            kept.push(audit(&problem, answer.grants()).utilities().iter().sum::<f64>() / before);
        }
        let mean = kept.iter().sum::<f64>() / kept.len() as f64;
        let (least, most) = kept.iter().fold((9.0f64, 0.0f64), |(a, b), kept| (a.min(*kept), b.max(*kept)));
        println!(
            "  {:>3.0} %  {mean:.3} [{least:.3}, {most:.3}]  ({:.3} [{:.3}, {:.3}])",
            100.0 * part,
            found[0],
            found[1],
            found[2]
        );
        if [mean, least, most].iter().zip(found).any(|(ours, study)| (ours - study).abs() > 0.001) {
            missed.push(part);
        }
    }
    assert!(missed.is_empty(), "not what the study found at {missed:?}");
}

#[test]
fn gavel_savings() {
    let Some(file) = arles_testing::shared("data/gavel/simulation_throughputs.json") else { return };
    let measured = gavel(&file);
    with_pairs(&measured);
    let saved = savings("Gavel, modelled watts", &measured.alone());
    assert!(saved.windows(2).all(|pair| pair[0] <= pair[1] + 1e-6), "{saved:?}");
}
