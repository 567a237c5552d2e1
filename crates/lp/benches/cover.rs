//! Covers: time, cost and proved bound, beside HiGHS on the same integer program.
//!
//!     cargo bench -p arles-lp --bench cover -- --python python3 --limit 60
//!
//! where that Python has highspy (`pip install highspy`); without `--python` its columns are empty. A word, as in
//! `-- distinct100x3`, keeps only the rows whose name contains it. One run each, one after the other; seconds are of the
//! processor, so that they mean something on a machine that does other things too.
//!
//! Families (seeded; the numbers are those of `question` below):
//!
//! * Resource `j` of `k` has speed `s_j = 1 … 6`, rising by equal ratios, and draws `40 + 20 s_j` idle and up to `60 + 60 s_j`
//!   more when busy. There are 0.6 units per demand, more slow ones than fast ones.
//! * A demand gains from speed with a power `θ ∈ [0.5, 1]`, its rate is `s_j^θ` times a private factor in `[0.8, 1.25]`, and
//!   it keeps a unit busy by `u ∈ [0.25, 0.95]`. It asks for `0.15 … 0.9` times the rate of a middling resource.
//! * Two on a unit each run at `1 − 0.8 u` of the other (with a private factor in `[0.85, 1.15]`), and the unit is busy by
//!   `min(1, u_a + u_b)`. A part is the rate over what is asked for, at most 1.
//! * Being short costs 3,000 for a whole demand, being unserved 300 on top.
//! * *grouped*: so many classes with equal counts. *distinct*: every demand its own class.

use arles_lp::InputError;
use arles_lp::cover::{self, Alone, Class, Cover, Effort, Pair, Solution};
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Name, classes, demands, resources.
const ROWS: [(&str, usize, usize, usize); 6] = [
    ("distinct", 100, 100, 3),
    ("distinct", 500, 500, 6),
    ("grouped", 12, 500, 6),
    ("grouped", 12, 5_000, 6),
    ("grouped", 26, 20_000, 6),
    ("grouped", 26, 100_000, 6),
];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let after = |name: &str| arguments.iter().position(|a| a == name).and_then(|at| arguments.get(at + 1)).cloned();
    let python = after("--python");
    let limit = after("--limit").and_then(|limit| limit.parse().ok()).unwrap_or(60.0);
    let words: Vec<&String> = arguments.iter().skip(1).filter(|a| a.chars().all(char::is_alphanumeric)).collect();
    println!("                                               ours                                         HiGHS");
    println!(
        "family        classes demands  k  columns   seconds       cost      bound    gap   \
         seconds       cost      bound   over LP   ours above its cost / its bound"
    );
    for (name, classes, demands, k) in ROWS {
        let title = format!("{name}{demands}x{k}");
        if words.iter().any(|word| title.contains(*word)) || words.is_empty() {
            row(name, &question(classes, demands, k, 1), python.as_deref(), limit);
        }
    }
}

fn row(name: &str, question: &Cover, python: Option<&str>, limit: f64) {
    let effort = effort(question);
    let (answer, seconds) = timed(|| cover::solve(question, &effort));
    cover::check(question, &answer).expect("an answer that the checker accepts");
    let demands: u32 = question.classes.iter().map(|class| class.count).sum();
    let columns = question.alone.iter().flatten().count() + question.pairs.len();
    print!(
        "{name:14} {:6} {demands:7} {:2} {columns:8} {seconds:9.3} {:10.1} {:10.1} {:5.2}%{}",
        question.classes.len(),
        question.capacity.len(),
        answer.cost,
        answer.bound,
        100.0 * answer.gap(),
        if answer.complete { "!" } else { " " },
    );
    match python.and_then(|python| highs(python, &Program::new(question), limit)) {
        Some([seconds, cost, bound, lp]) => print!(
            " {seconds:9.2} {cost:10.1} {bound:10.1} {:7.2}% {:+14.2}% {:+7.2}%",
            100.0 * (cost / lp - 1.0),
            100.0 * (answer.cost / cost - 1.0),
            100.0 * (answer.cost / bound - 1.0)
        ),
        None => print!(" {:>9} {:>10} {:>10} {:>8} {:>15} {:>8}", "-", "-", "-", "-", "-", "-"),
    }
    println!();
    let spent = answer.spent;
    println!(
        "    {} programs, {} columns in the last, {} ruins, {} nodes",
        spent.programs, spent.columns, spent.ruins, spent.nodes
    );
}

/// About a second for a hundred demands that are all different, some seconds for five hundred.
fn effort(question: &Cover) -> Effort {
    let classes = question.classes.len();
    let ruins = 2_000 * classes.clamp(50, 220) as u32;
    Effort { ruins, ..Effort::default() }
}

/// Seconds of the processor that this thread has had, where the system says so.
fn processor() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse::<f64>().ok().map(|nanoseconds| nanoseconds * 1e-9)
}

fn timed(run: impl FnOnce() -> Result<Solution, InputError>) -> (Solution, f64) {
    let (start, busy) = (Instant::now(), processor());
    let answer = run().expect("a good question");
    let seconds = busy.zip(processor()).map_or(start.elapsed().as_secs_f64(), |(from, to)| to - from);
    (answer, seconds)
}

/// Numbers in [0, 1) that depend on their place only.
fn noise(parts: [usize; 4]) -> f64 {
    let mut z = 0x9E37_79B9_7F4A_7C15u64;
    for part in parts {
        z = (z ^ part as u64).wrapping_add(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
    }
    (z >> 11) as f64 / (1u64 << 53) as f64
}

/// One instance, as the head of this file says.
fn question(classes: usize, demands: usize, k: usize, seed: usize) -> Cover {
    let between = |low: f64, high: f64, at: [usize; 3]| low + (high - low) * noise([seed, at[0], at[1], at[2]]);
    let speed = |j: usize| 6f64.powf(j as f64 / (k as f64 - 1.0).max(1.0));
    let rate = |l: usize, j: usize| speed(j).powf(between(0.5, 1.0, [1, l, 0])) * between(0.8, 1.25, [2, l, j]);
    let busy = |l: usize| between(0.25, 0.95, [3, l, 0]);
    let asks: Vec<f64> = (0..classes).map(|l| between(0.15, 0.9, [4, l, 0]) * rate(l, k / 2)).collect();
    let watts = |j: usize, u: f64| 40.0 + 20.0 * speed(j) + (60.0 + 60.0 * speed(j)) * u.min(1.0);
    let mut question = Cover::default();
    let weights: Vec<f64> = (0..k).map(|j| 1.0 / (1.0 + j as f64).sqrt()).collect();
    for weight in &weights {
        let units = 0.6 * demands as f64 * weight / weights.iter().sum::<f64>();
        question.capacity.push(units.round().max(1.0) as u32);
    }
    for l in 0..classes {
        let count = (demands / classes + usize::from(l < demands % classes)) as u32;
        question.classes.push(Class { count, size: 1, short_price: 3_000.0, unserved_price: 300.0 });
        for j in 0..k {
            let part = f64::min(rate(l, j) / asks[l], 1.0);
            question.alone.push(Some(Alone { cost: watts(j, busy(l)), part }));
        }
    }
    for a in 0..classes {
        for b in a..classes {
            for resource in (0..k).filter(|_| a != b || question.classes[a].count > 1) {
                let part = |l: usize, other: usize| {
                    let left = (1.0 - 0.8 * busy(other)) * between(0.85, 1.15, [5 + l, other, resource]);
                    f64::min(rate(l, resource) * left / asks[l], 1.0)
                };
                let cost = watts(resource, busy(a) + busy(b));
                question.pairs.push(Pair { a, b, resource, cost, part_a: part(a, b), part_b: part(b, a) });
            }
        }
    }
    question
}

/// Columns and their coefficients.
type Terms = Vec<(usize, f64)>;
/// A column and whom it serves: the class, by how much.
type Served = (usize, Vec<(usize, f64)>);

/// An integer program, row by row.
#[derive(Default)]
struct Program {
    costs: Vec<f64>,
    whole: Vec<bool>,
    rows: Vec<(f64, f64, Terms)>,
}

impl Program {
    fn column(&mut self, cost: f64, whole: bool) -> usize {
        self.costs.push(cost);
        self.whole.push(whole);
        self.costs.len() - 1
    }

    /// Columns of the question, with capacity; returns for each its number and its sides.
    fn columns(&mut self, question: &Cover) -> Vec<Served> {
        let k = question.capacity.len();
        let mut columns = Vec::new();
        let mut capacity = vec![Vec::new(); k];
        for (at, slot) in question.alone.iter().enumerate() {
            if let Some(slot) = slot {
                let x = self.column(slot.cost, true);
                capacity[at % k].push((x, f64::from(question.classes[at / k].size)));
                columns.push((x, vec![(at / k, slot.part)]));
            }
        }
        for pair in &question.pairs {
            let x = self.column(pair.cost, true);
            capacity[pair.resource].push((x, 1.0));
            let sides = vec![(pair.a, pair.part_a), (pair.b, pair.part_b)];
            columns.push((x, sides));
        }
        for (terms, &units) in capacity.into_iter().zip(&question.capacity) {
            self.rows.push((f64::NEG_INFINITY, f64::from(units), terms));
        }
        columns
    }

    /// All of it; what is short is its own column.
    fn new(question: &Cover) -> Self {
        let mut program = Self::default();
        let n = question.classes.len();
        let columns = program.columns(question);
        let mut covers = vec![Vec::new(); n];
        let mut slots = vec![Vec::new(); n];
        for (x, sides) in &columns {
            for &(l, part) in sides {
                covers[l].push((*x, part));
                slots[l].push((*x, 1.0));
            }
        }
        for (l, class) in question.classes.iter().enumerate() {
            let short = program.column(class.short_price, false);
            let unserved = program.column(class.unserved_price, true);
            let count = f64::from(class.count);
            covers[l].push((short, 1.0));
            program.rows.push((count, f64::INFINITY, merged(&covers[l])));
            program.rows.push((f64::NEG_INFINITY, count, merged(&slots[l])));
            slots[l].push((unserved, 1.0));
            program.rows.push((count, f64::INFINITY, merged(&slots[l])));
        }
        program
    }
}

/// Each column once.
fn merged(terms: &[(usize, f64)]) -> Vec<(usize, f64)> {
    let mut terms = terms.to_vec();
    terms.sort_by_key(|term| term.0);
    terms.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 += next.1;
        }
        same
    });
    terms
}

/// Seconds, cost, bound, and the optimum of the program without whole numbers.
fn highs(python: &str, program: &Program, limit: f64) -> Option<[f64; 4]> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/cover.py");
    let mut child = Command::new(python).arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
    child.stdin.take()?.write_all(json(program, limit).as_bytes()).ok()?;
    let output = child.wait_with_output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let number = |key: &str| {
        let from = text.find(&format!("\"{key}\": "))? + key.len() + 4;
        let word = text[from..].split([',', '}']).next()?.trim();
        if word == "Infinity" { Some(f64::INFINITY) } else { word.parse::<f64>().ok() }
    };
    let answer = (number("seconds"), number("cost"), number("bound"), number("lp"));
    let (Some(seconds), Some(cost), Some(bound), Some(lp)) = answer else {
        eprintln!("{python} {script} gave no answer: {text}");
        return None;
    };
    Some([seconds, cost, bound, lp])
}

fn json(program: &Program, limit: f64) -> String {
    let list = |values: &mut dyn Iterator<Item = String>| values.collect::<Vec<_>>().join(",");
    let side = |value: f64| if value.is_finite() { value.to_string() } else { "null".to_owned() };
    let mut starts = vec![0];
    program.rows.iter().for_each(|row| starts.push(starts.last().unwrap_or(&0) + row.2.len()));
    let terms = || program.rows.iter().flat_map(|row| row.2.iter());
    let mut text = String::new();
    let _ = write!(
        text,
        "{{\"limit\":{limit},\"gap\":1e-4,\"lp\":1,\"c\":[{}],\"whole\":[{}],\"right\":[{}],\"starts\":[{}],\"at\":[{}],\"a\":[{}]}}",
        list(&mut program.costs.iter().map(f64::to_string)),
        list(&mut program.whole.iter().map(|whole| u8::from(*whole).to_string())),
        list(&mut program.rows.iter().map(|row| format!("[{},{}]", side(row.0), side(row.1)))),
        list(&mut starts.iter().map(usize::to_string)),
        list(&mut terms().map(|term| term.0.to_string())),
        list(&mut terms().map(|term| term.1.to_string())),
    );
    text
}
