//! The properties of fair division, counted over random instances: what holds, what fails, and how badly.
//!
//! Three families of speed-ups, with 2 to 8 users of weight 1 to 4 and 2 to 4 kinds of 1 to 8 GPUs:
//!
//! ```text
//! ordered     w_1 = 1, w_{j+1} = w_j + e,  e exponential      all users order the kinds alike
//! unordered   log-normal, over the slowest                     every user has its own order
//! crossing    w_j = c_j^θ_l, c growing                         users are ordered by speed-up as well (single crossing)
//! ```
//!
//! An inflated report is w' ≥ w, a deflated one 1 ≤ w' ≤ w, each kind but the slowest by a factor of its own. A lie gains
//! if the liar's true utility rises. Adjacency: the kinds that a user holds are consecutive in speed.

use super::instance::{Instance, SLACK, Shares, envies, shortfalls, violations};
use super::{Plan, pool};
use arles_core::allocate::PolicyEntry;
use arles_report::finding::{Finding, Judgement, Sheet, Style, Value};
use arles_sim::rng::Rng;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Family {
    Ordered,
    Unordered,
    Crossing,
}

impl Family {
    fn name(self) -> &'static str {
        match self {
            Self::Ordered => "ordered",
            Self::Unordered => "unordered",
            Self::Crossing => "single crossing",
        }
    }
}

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Property {
    Inflation,
    Deflation,
    Sharing,
    Envy,
    Pareto,
    Adjacent,
    AdjacentCrossing,
}

const PROPERTIES: [(Property, &str); 7] = [
    (Property::Inflation, "strategy-proof, inflated"),
    (Property::Deflation, "strategy-proof, deflated"),
    (Property::Sharing, "sharing incentive"),
    (Property::Envy, "envy-freeness"),
    (Property::Pareto, "Pareto efficiency"),
    (Property::Adjacent, "adjacency, ordered"),
    (Property::AdjacentCrossing, "adjacency, crossing"),
];

/// What is stated of a property.
enum Stated {
    Holds,
    Fails,
    /// This part of the lies gain.
    Gain(f64, f64),
    /// Few of the lies gain.
    Mostly,
    /// Fails, by no more than this.
    FailsBy(f64),
}

fn stated(policy: &str, property: Property) -> Option<(Stated, &'static str)> {
    use Property::{Adjacent, AdjacentCrossing, Deflation, Envy, Inflation, Pareto, Sharing};
    Some(match (policy, property) {
        ("oef-noncoop", Inflation) => (Stated::Holds, "holds (provable)"),
        ("oef-coop", Inflation) => (Stated::Gain(0.10, 0.58), "fails: 10–58 % of lies gain"),
        ("oef-noncoop", Deflation) => (Stated::Gain(0.76, 0.91), "fails: 76–91 % of lies gain"),
        ("oef-coop", Deflation) => (Stated::Mostly, "mostly holds"),
        ("oef-noncoop", Sharing | Envy) => (Stated::Fails, "fails"),
        ("oef-coop" | "ceei", Sharing | Envy) => (Stated::Holds, "holds"),
        ("oef-noncoop" | "ceei", Pareto) => (Stated::Holds, "holds"),
        ("oef-coop", Pareto) => (Stated::FailsBy(0.036), "fails for n, k ≥ 3, by at most 3.6 %"),
        ("oef-noncoop" | "oef-coop", Adjacent) => (Stated::Fails, "fails without single crossing"),
        ("oef-noncoop" | "oef-coop", AdjacentCrossing) => (Stated::Holds, "holds"),
        _ => return None,
    })
}

/// Cases tried, cases that failed, and the worst of them.
#[derive(Clone, Copy, Default, Debug)]
struct Count {
    tried: u64,
    failed: u64,
    worst: f64,
}

impl Count {
    fn add(&mut self, other: Count) {
        self.tried += other.tried;
        self.failed += other.failed;
        self.worst = self.worst.max(other.worst);
    }

    fn one(failed: bool, worst: f64) -> Self {
        Self { tried: 1, failed: u64::from(failed), worst }
    }

    fn of(tried: usize, (failed, worst): (usize, f64)) -> Self {
        Self { tried: tried as u64, failed: failed as u64, worst }
    }

    fn part(self) -> f64 {
        self.failed as f64 / self.tried as f64
    }
}

/// Counts of one policy on one instance, by place in [`PROPERTIES`].
type Counts = [Count; PROPERTIES.len()];

fn draw(family: Family, seed: u64, number: usize) -> (Instance, Rng) {
    let mut rng = Rng::new(seed).fork(family.name()).fork(&format!("instance {number}"));
    let (n, k) = (2 + rng.below(7) as usize, 2 + rng.below(3) as usize);
    let m: Vec<f64> = (0..k).map(|_| 1.0 + rng.below(8) as f64).collect();
    let pi: Vec<f64> = (0..n).map(|_| 1.0 + rng.below(4) as f64).collect();
    let mut c = vec![1.0];
    while c.len() < k {
        c.push(c[c.len() - 1] * (1.1 + rng.exponential(0.6)));
    }
    let mut w = Vec::with_capacity(n * k);
    for _ in 0..n {
        match family {
            Family::Ordered => {
                let mut speed = 1.0;
                w.push(speed);
                w.extend((1..k).map(|_| {
                    speed += rng.exponential(1.0);
                    speed
                }));
            }
            Family::Unordered => {
                let rates: Vec<f64> = (0..k).map(|_| rng.log_normal(0.0, 0.7)).collect();
                w.extend(super::testbed::over_slowest(&rates));
            }
            Family::Crossing => {
                let theta = rng.uniform_in(0.2, 1.5);
                w.extend(c.iter().map(|c| c.powf(theta)));
            }
        }
    }
    (Instance { w, m, pi }, rng)
}

/// The report of a liar: every kind but the slowest inflated by up to 100 %, or brought nearer to the slowest.
fn lie(w: &[f64], inflate: bool, rng: &mut Rng) -> Vec<f64> {
    let mut bend = |w: f64| {
        let part = rng.uniform();
        match (w > 1.0, inflate) {
            (false, _) => w,
            (true, true) => w * (1.0 + part),
            (true, false) => 1.0 + (w - 1.0) * part,
        }
    };
    w.iter().map(|&w| bend(w)).collect()
}

/// Whether somebody holds two kinds and none of a kind between them in speed.
fn has_gap(instance: &Instance, x: &Shares) -> bool {
    let k = instance.kinds();
    (0..instance.users()).any(|l| {
        let held: Vec<usize> = (0..k).filter(|&j| x.0[l * k + j] > 1e-4 * instance.m[j]).collect();
        held.windows(2).any(|pair| pair[1] > pair[0] + 1)
    })
}

/// Lies of each slant on an instance.
const LIES: usize = 3;

fn judge(entry: &PolicyEntry, family: Family, seed: u64, number: usize) -> Result<Counts, String> {
    let (instance, mut rng) = draw(family, seed, number);
    let policy = (entry.make)();
    let x = instance.ask_honestly(policy.as_ref())?;
    let mut counts = Counts::default();
    let mut put = |property: Property, count: Count| {
        let at = PROPERTIES.iter().position(|row| row.0 == property).expect("all properties are listed");
        counts[at].add(count);
    };
    match family {
        Family::Crossing => {
            put(Property::AdjacentCrossing, Count::one(has_gap(&instance, &x), 0.0));
            return Ok(counts);
        }
        Family::Ordered => put(Property::Adjacent, Count::one(has_gap(&instance, &x), 0.0)),
        Family::Unordered => {}
    }
    let audit = instance.audit(&x)?;
    put(Property::Sharing, Count::of(instance.users(), violations(&shortfalls(&audit))));
    put(Property::Envy, Count::of(instance.users(), violations(&envies(&audit))));
    let gap = audit.pareto(Default::default()).gap();
    put(Property::Pareto, Count::one(gap > SLACK, gap));
    let k = instance.kinds();
    for (property, inflate) in [(Property::Inflation, true), (Property::Deflation, false)] {
        for _ in 0..LIES {
            let liar = rng.below(instance.users() as u64) as usize;
            let mut told = instance.w.clone();
            told.splice(liar * k..(liar + 1) * k, lie(instance.w(liar), inflate, &mut rng));
            let after = instance.ask(policy.as_ref(), &told)?;
            let gain = instance.worth(liar, &after, liar) / instance.worth(liar, &x, liar) - 1.0;
            put(property, Count::one(gain > SLACK, gain.max(0.0)));
        }
    }
    Ok(counts)
}

pub(super) fn run(plan: &Plan<'_>) -> Finding {
    let instances = plan.effort(60, 500);
    let mut finding = Finding::by(format!(
        "{} random instances, half with speed-ups ordered alike for all users and half unordered, and {instances} more \
            with single crossing for adjacency; 2 to 8 users of weight 1 to 4, 2 to 4 kinds of 1 to 8 GPUs; {LIES} \
            inflated and {LIES} deflated reports on each. Differences below {SLACK:e} are attributed to the solvers and \
            ignored.",
        2 * instances
    ));
    let families = [Family::Ordered, Family::Unordered, Family::Crossing];
    let items: Vec<(usize, Family, usize)> = (0..plan.policies.len())
        .flat_map(|p| families.into_iter().flat_map(move |family| (0..instances).map(move |i| (p, family, i))))
        .collect();
    let results = pool::each(plan, &items, |&(p, family, i)| judge(plan.policies[p], family, plan.seed, i));
    let columns = [
        ("policy", "policy"),
        ("property", "property"),
        ("", "holds"),
        ("failed", "failed"),
        ("of", "tried"),
        ("part", "failed_part"),
        ("worst", "worst"),
    ];
    let mut sheet = Sheet::new("properties", "Properties", &columns);
    let lies =
        [("policy", "policy"), ("speed-ups", "family"), ("inflated", "inflated_gain"), ("deflated", "deflated_gain")];
    let mut by_family = Sheet::new("lies", "Lies that gain, by family of speed-ups", &lies);
    for (p, entry) in plan.policies.iter().enumerate() {
        let of = |wanted: Option<Family>| {
            let mut sum = Counts::default();
            for (item, result) in items.iter().zip(&results).filter(|(item, _)| item.0 == p) {
                if let Ok(counts) = result
                    && wanted.is_none_or(|family| family == item.1)
                {
                    sum.iter_mut().zip(counts).for_each(|(sum, count)| sum.add(*count));
                }
            }
            sum
        };
        for (item, why) in items.iter().zip(&results).filter_map(|(item, r)| Some((item, r.as_ref().err()?))) {
            if item.0 == p {
                finding.warn(format!("{} on an instance of the {} family: {why}", entry.name, item.1.name()));
            }
        }
        for ((property, name), count) in PROPERTIES.iter().zip(of(None)) {
            row(&mut sheet, entry.name, name, count);
            verdict(&mut finding, entry.name, (*property, name), count);
        }
        for family in [Family::Ordered, Family::Unordered] {
            let counts = of(Some(family));
            let part = |i: usize| Value::number(counts[i].part(), Style::Percent(0));
            by_family.row(vec![entry.name.into(), family.name().into(), part(0), part(1)]);
        }
    }
    finding.sheets.push(sheet.note(
        "Counts: misreports that gain, users below their equal split, users that envy, instances that can be improved \
            for all, and instances in which a user holds kinds that are not adjacent. Worst: the largest relative gain of \
            a misreport, shortfall, envy, or increase in total utility with nobody worse off.",
    ));
    finding.sheets.push(by_family);
    finding
}

fn row(sheet: &mut Sheet, policy: &str, name: &str, count: Count) {
    let worst = if count.worst > SLACK { Value::number(count.worst, Style::Percent(1)) } else { Value::Empty };
    sheet.row(vec![
        policy.into(),
        name.into(),
        if count.failed == 0 { "holds" } else { "fails" }.into(),
        Value::Count(count.failed),
        Value::Count(count.tried),
        Value::number(count.part(), Style::Percent(1)),
        worst,
    ]);
}

fn verdict(finding: &mut Finding, policy: &str, (property, name): (Property, &str), count: Count) {
    let Some((stated, words)) = stated(policy, property).filter(|_| count.tried > 0) else { return };
    let part = count.part();
    let agrees = match stated {
        Stated::Holds => count.failed == 0,
        Stated::Fails => count.failed > 0,
        Stated::Gain(low, high) => (low..=high).contains(&part),
        Stated::Mostly => part < 0.2,
        Stated::FailsBy(most) => count.failed > 0 && count.worst <= most,
    };
    let measured = match count.failed {
        0 => format!("holds in all {}", count.tried),
        failed if count.worst > SLACK => format!(
            "fails in {failed} of {} ({}), by up to {}",
            count.tried,
            Style::Percent(1).format(part),
            Style::Percent(1).format(count.worst)
        ),
        failed => format!("fails in {failed} of {} ({})", count.tried, Style::Percent(1).format(part)),
    };
    finding.verdict(format!("{policy}: {name}"), words, measured, Judgement::of(agrees));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lies_lean_the_way_they_should() {
        let mut rng = Rng::new(1);
        for number in 0..50 {
            let (instance, _) = draw(Family::Unordered, 0, number);
            let w = instance.w(0);
            assert!(lie(w, true, &mut rng).iter().zip(w).all(|(told, w)| told >= w));
            assert!(lie(w, false, &mut rng).iter().zip(w).all(|(told, w)| (1.0..=*w).contains(told)));
        }
    }

    #[test]
    fn a_gap_is_a_kind_left_out() {
        let instance = Instance { w: vec![1.0, 2.0, 3.0], m: vec![1.0; 3], pi: vec![1.0] };
        assert!(has_gap(&instance, &Shares(vec![1.0, 0.0, 1.0])));
        assert!(!has_gap(&instance, &Shares(vec![0.0, 1.0, 1.0])));
    }
}
