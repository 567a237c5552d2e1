//! Time to allocate against the number of users and of kinds.
//!
//! The exponent is the slope of log t over log n by least squares: 1 is linear. Times are of this machine, on one thread, the
//! least of several; nothing else about the answers is looked at.

use super::Plan;
use super::instance::Instance;
use arles_core::allocate::PolicyEntry;
use arles_report::finding::{Finding, Plot, Series, Sheet, Style, Value};
use arles_sim::rng::Rng;

/// A policy that took longer than this is not asked larger questions.
const PATIENCE_SECONDS: f64 = 8.0;

fn instance(n: usize, k: usize, seed: u64) -> Instance {
    let mut rng = Rng::new(seed).fork("solve time").fork(&format!("{n} × {k}"));
    let mut w = Vec::with_capacity(n * k);
    for _ in 0..n {
        let mut speed = 1.0;
        for j in 0..k {
            speed += if j > 0 { rng.exponential(1.0) } else { 0.0 };
            w.push(speed);
        }
    }
    Instance {
        w,
        m: vec![(n as f64 / k as f64).ceil().max(1.0); k],
        pi: (0..n).map(|_| 1.0 + rng.below(4) as f64).collect(),
    }
}

/// Seconds of one question: the least of three, or of one that took long.
fn seconds(plan: &Plan<'_>, entry: &PolicyEntry, n: usize, k: usize) -> Result<f64, String> {
    let instance = instance(n, k, plan.seed);
    let problem = instance.problem(&instance.w)?;
    let policy = (entry.make)();
    let mut least = f64::INFINITY;
    for _ in 0..3 {
        let begun = (plan.stopwatch)();
        policy.allocate(&problem).map_err(|error| error.to_string())?;
        let took = (plan.stopwatch)() - begun;
        least = least.min(took);
        if took > 0.5 {
            break;
        }
    }
    Ok(least.max(1e-9))
}

/// Slope of log y over log x.
fn exponent(points: &[(f64, f64)]) -> f64 {
    let n = points.len() as f64;
    let (mx, my) = points.iter().fold((0.0, 0.0), |(x, y), p| (x + p.0.ln() / n, y + p.1.ln() / n));
    let (xy, xx) = points.iter().fold((0.0, 0.0), |(xy, xx), p| {
        let (dx, dy) = (p.0.ln() - mx, p.1.ln() - my);
        (xy + dx * dy, xx + dx * dx)
    });
    xy / xx
}

pub(super) fn run(plan: &Plan<'_>) -> Finding {
    let by_users: &[(usize, usize)] =
        if plan.quick { &[(20, 3), (60, 3), (180, 3)] } else { &[(50, 3), (200, 3), (800, 3)] };
    let by_kinds: &[(usize, usize)] =
        if plan.quick { &[(60, 2), (60, 4), (60, 8)] } else { &[(200, 2), (200, 5), (200, 10)] };
    let mut finding = Finding::by(
        "Distinct users with ordered random speed-ups and weights 1 to 4, about one GPU per user. Time from the problem \
            to the verified allocation on one thread of this machine, minimum of three runs. These numbers differ from run \
            to run.",
    );
    let steps = plan.policies.len() * (by_users.len() + by_kinds.len());
    let mut done = 0;
    let mut lines = Vec::new();
    for (name, title, sizes, over_users) in [
        ("by-users", "Against the number of users n", by_users, true),
        ("by-kinds", "Against the number of kinds k", by_kinds, false),
    ] {
        let columns = [
            ("policy", "policy"),
            ("smallest", "smallest_seconds"),
            ("middle", "middle_seconds"),
            ("largest", "largest_seconds"),
            ("exponent", "exponent"),
        ];
        let said: Vec<String> = sizes.iter().map(|(n, k)| format!("{n} × {k}")).collect();
        let mut sheet = Sheet::new(name, format!("{title}: users × kinds = {}", said.join(", ")), &columns);
        for entry in plan.policies {
            let (mut cells, mut points): (Vec<Value>, Vec<(f64, f64)>) = (vec![entry.name.into()], Vec::new());
            for &(n, k) in sizes {
                let tired = points.last().is_some_and(|point| point.1 > PATIENCE_SECONDS);
                match if tired { Ok(f64::NAN) } else { seconds(plan, entry, n, k) } {
                    Ok(took) if took.is_finite() => {
                        points.push((if over_users { n } else { k } as f64, took));
                        cells.push(Value::number(took, Style::Seconds));
                    }
                    Ok(_) => cells.push("not asked".into()),
                    Err(why) => {
                        finding.warn(format!("{} with {n} users and {k} kinds: {why}", entry.name));
                        cells.push(Value::Empty);
                    }
                }
                done += 1;
                (plan.progress)(f64::from(done) / steps as f64);
            }
            let slope = if points.len() > 1 { exponent(&points) } else { f64::NAN };
            cells.push(Value::number(slope, Style::Plain(1)));
            sheet.row(cells);
            if over_users {
                lines.push(Series {
                    name: entry.name.to_owned(),
                    points: points.iter().map(|p| (p.0, p.1, None)).collect(),
                });
            }
        }
        finding.sheets.push(sheet);
    }
    finding.plots.push(Plot::Lines {
        name: "solve-time",
        title: "Time to allocate".to_owned(),
        caption: "Both axes are logarithmic: a straight line is a power law in n.".to_owned(),
        x_label: "users",
        y_label: "time to allocate, 3 kinds",
        log: true,
        lines,
    });
    finding
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_exponent_of_a_square_is_two() {
        let points: Vec<(f64, f64)> = [1.0, 10.0, 100.0].map(|n: f64| (n, 3.0 * n * n)).to_vec();
        assert!((super::exponent(&points) - 2.0).abs() < 1e-12);
    }
}
