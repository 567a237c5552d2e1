//! One tenant lies about its speed-ups: what it gains, and what the others lose.
//!
//! The tenants are those of the throughput experiment. One of them reports w' = w(1 + s) on every kind but its slowest, or
//! w' = max(1, w/(1 + s)), with s from 10 to 100 %; the policy believes it, and everybody is valued by the true w.

use super::throughput::{TENANTS, draw};
use super::{Plan, pool};
use arles_core::allocate::PolicyEntry;
use arles_report::MeanInterval;
use arles_report::finding::{Finding, Judgement, Plot, Series, Sheet, Style, Value};

/// Sizes of lies; a negative one deflates.
const SIZES: [f64; 8] = [-1.0, -0.5, -0.2, -0.1, 0.1, 0.2, 0.5, 1.0];
/// Tenants of a draw that lie, one at a time.
const LIARS: usize = 4;

fn told(w: f64, size: f64) -> f64 {
    match (w > 1.0, size > 0.0) {
        (false, _) => w,
        (true, true) => w * (1.0 + size),
        (true, false) => (w / (1.0 - size)).max(1.0),
    }
}

/// What came of one lie: relative changes of the liar's true utility and of all others' together.
#[derive(Clone, Copy)]
struct Outcome {
    own: f64,
    others: f64,
}

/// Outcomes of all lies of one draw, by size and liar.
fn lies(plan: &Plan<'_>, entry: &PolicyEntry, seed: u64, number: usize) -> Result<Vec<[Outcome; LIARS]>, String> {
    let (instance, _) = draw(plan.testbed, seed, number);
    let policy = (entry.make)();
    let k = instance.kinds();
    let honest = instance.utilities(&instance.ask_honestly(policy.as_ref())?);
    let equal = instance.utilities(&instance.equal_split());
    let total: f64 = honest.iter().sum();
    let lie = |size: f64, liar: usize| -> Result<Outcome, String> {
        let mut w = instance.w.clone();
        w[liar * k..(liar + 1) * k].iter_mut().for_each(|w| *w = told(*w, size));
        let after = instance.utilities(&instance.ask(policy.as_ref(), &w)?);
        let rest = total - honest[liar];
        // Whoever honesty leaves with next to nothing is measured against its equal split instead.
        let own = if honest[liar] > 0.01 * equal[liar] { honest[liar] } else { equal[liar] };
        Ok(Outcome {
            own: (after[liar] - honest[liar]) / own,
            others: (after.iter().sum::<f64>() - after[liar]) / rest - 1.0,
        })
    };
    let all_liars = |&size: &f64| -> Result<[Outcome; LIARS], String> {
        let mut outcomes = [Outcome { own: 0.0, others: 0.0 }; LIARS];
        for (liar, outcome) in outcomes.iter_mut().enumerate() {
            *outcome = lie(size, liar)?;
        }
        Ok(outcomes)
    };
    SIZES.iter().map(all_liars).collect()
}

pub(super) fn run(plan: &Plan<'_>) -> Finding {
    let draws = plan.effort(4, 20);
    let mut finding = Finding::by(format!(
        "The tenants of the throughput experiment ({}, {TENANTS} tenants, {draws} draws for each of {} seeds), of whom \
            {LIARS} misreport, one at a time. Inflating by s reports w(1 + s) on every kind but the slowest, deflating \
            reports w/(1 + s), never below 1. Gains and losses are changes in true utility relative to honest reporting, \
            or relative to an equal split where honest reporting yields less than a hundredth of it.",
        plan.testbed.title, plan.seeds
    ));
    let items: Vec<(usize, u64, usize)> = (0..plan.policies.len())
        .flat_map(|p| plan.seeds().flat_map(move |seed| (0..draws).map(move |i| (p, seed, i))))
        .collect();
    let results = pool::each(plan, &items, |&(p, seed, i)| lies(plan, plan.policies[p], seed, i));
    let columns = [
        ("policy", "policy"),
        ("lie", "lie"),
        ("liar's gain\n(mean)", "own_gain"),
        ("largest", "largest_own_gain"),
        ("who\ngain", "gaining"),
        ("the others\n(mean)", "others_change"),
    ];
    let mut sheet = Sheet::new("lying", "What a lie does", &columns);
    let mut lines = Vec::new();
    for (p, entry) in plan.policies.iter().enumerate() {
        let rows = &results[p * plan.seeds as usize * draws..(p + 1) * plan.seeds as usize * draws];
        for why in rows.iter().filter_map(|row| row.as_ref().err()) {
            finding.warn(format!("{}: {why}", entry.name));
        }
        let (line, best) = row(&mut sheet, entry.name, rows, draws);
        lines.push(line);
        if entry.name == "oef-noncoop" {
            judge(&mut finding, best);
        }
    }
    finding.sheets.push(
        sheet.note(
            "Lie: + inflates, − deflates. Who gain: share of the misreporting tenants that gain more than 0.01 %.",
        ),
    );
    finding.plots.push(Plot::Lines {
        name: "lying",
        title: "What a liar gains".to_owned(),
        caption: "Right: speed-ups overstated; left: understated. Above 0 the misreport pays; values beyond 100 % are drawn at \
            the edge. Mean over draws and misreporting tenants."
            .to_owned(),
        x_label: "size of the lie",
        y_label: "change in true utility relative to honesty",
        log: false,
        lines,
    });
    finding
}

/// What came of all lies of one draw.
type Row = Result<Vec<[Outcome; LIARS]>, String>;

/// Rows of one policy, its line in the chart, and the largest gain by deflating and by inflating.
fn row(sheet: &mut Sheet, name: &str, rows: &[Row], draws: usize) -> (Series, [f64; 2]) {
    let mut points = Vec::new();
    let mut best = [0.0f64; 2];
    for (s, &size) in SIZES.iter().enumerate() {
        let by_seed: Vec<Vec<Outcome>> = rows
            .chunks(draws)
            .map(|rows| rows.iter().filter_map(|row| row.as_ref().ok()).flat_map(|row| row[s]).collect())
            .collect();
        let over_seeds = |of: &dyn Fn(&Outcome) -> f64| {
            let means: Vec<f64> = by_seed
                .iter()
                .map(|outcomes| MeanInterval::of(&outcomes.iter().map(of).collect::<Vec<f64>>()).mean)
                .collect();
            MeanInterval::of(&means)
        };
        let own = over_seeds(&|o| o.own);
        let largest = by_seed.iter().flatten().map(|o| o.own).fold(f64::NEG_INFINITY, f64::max);
        let gaining = over_seeds(&|o| f64::from(u8::from(o.own > 1e-4)));
        best[usize::from(size > 0.0)] = best[usize::from(size > 0.0)].max(largest);
        sheet.row(vec![
            name.into(),
            Style::Change(0).format(size).into(),
            Value::spread(own, Style::Change(2)),
            Value::number(largest, Style::Change(0)),
            Value::spread(gaining, Style::Percent(0)),
            Value::spread(over_seeds(&|o| o.others), Style::Change(2)),
        ]);
        points.push((size, own.mean, own.half_width));
    }
    let zero = points.iter().position(|point| point.0 > 0.0).unwrap_or(points.len());
    points.insert(zero, (0.0, 0.0, None));
    (Series { name: name.to_owned(), points }, best)
}

/// The statements about the non-cooperative program.
fn judge(finding: &mut Finding, best: [f64; 2]) {
    let said = |gain: f64| {
        if gain > 1e-4 { format!("gains up to {}", Style::Change(1).format(gain)) } else { "no lie gains".into() }
    };
    finding.verdict("oef-noncoop: inflating", "never gains", said(best[1]), Judgement::of(best[1] <= 1e-4));
    finding.verdict(
        "oef-noncoop: deflating",
        "gains; the remedy is to use measured rates",
        said(best[0]),
        Judgement::of(best[0] > 1e-4),
    );
}
