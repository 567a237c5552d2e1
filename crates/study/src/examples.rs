//! Worked examples, small enough to check by hand: expected and computed side by side.

use super::Plan;
use super::instance::Instance;
use arles_core::allocate::{Policy, PolicyEntry};
use arles_report::finding::{Finding, Judgement, Sheet, Style, Value};

/// A pair of users, or three of them, and what is known of the answer.
struct Example {
    policy: &'static str,
    what: &'static str,
    w: &'static [f64],
    m: &'static [f64],
    /// Speed-ups as reported; the true ones if empty.
    told: &'static [f64],
    expect: Expect,
}

enum Expect {
    /// GPUs by user and kind.
    Shares(&'static [f64]),
    /// True utilities of all users.
    Utilities(&'static [f64]),
    /// Sum of all utilities, where several optima have the same.
    Total(f64),
    /// True utility of one user.
    Utility(usize, f64),
}

const PAIR: &[f64] = &[1.0, 2.0, 1.0, 3.0];
const ONE_EACH: &[f64] = &[1.0, 1.0];
const TRIO: &[f64] = &[1.0, 1.0, 3.0, 1.0, 5.0, 5.0, 1.0, 5.0, 6.0];
const TWO_EACH: &[f64] = &[2.0, 2.0, 2.0];

const EXAMPLES: &[Example] = &[
    example("oef-noncoop", "shares of (1,2), (1,3)", PAIR, ONE_EACH, &[], Expect::Shares(&[1.0, 0.4, 0.0, 0.6])),
    example("oef-noncoop", "utilities", PAIR, ONE_EACH, &[], Expect::Utilities(&[1.8, 1.8])),
    example("oef-noncoop", "user 2 says 4, has", PAIR, ONE_EACH, &[1.0, 2.0, 1.0, 4.0], Expect::Utility(1, 1.5)),
    example("oef-noncoop", "user 2 says 2.5, has", PAIR, ONE_EACH, &[1.0, 2.0, 1.0, 2.5], Expect::Utility(1, 2.0)),
    example("oef-coop", "shares of (1,2), (1,3)", PAIR, ONE_EACH, &[], Expect::Shares(&[1.0, 0.25, 0.0, 0.75])),
    example("oef-coop", "utilities", PAIR, ONE_EACH, &[], Expect::Utilities(&[1.5, 2.25])),
    example(
        "oef-coop",
        "total of (1,1,3), (1,5,5), (1,5,6)",
        TRIO,
        TWO_EACH,
        &[],
        Expect::Total(10.0 / 3.0 + 80.0 / 9.0 + 29.0 / 3.0),
    ),
];

const fn example(
    policy: &'static str,
    what: &'static str,
    w: &'static [f64],
    m: &'static [f64],
    told: &'static [f64],
    expect: Expect,
) -> Example {
    Example { policy, what, w, m, told, expect }
}

/// Figures agree to a ten-thousandth.
const NEAR: f64 = 1e-4;

impl Example {
    /// Expected and computed numbers.
    fn numbers(&self, policy: &dyn Policy) -> Result<(Vec<f64>, Vec<f64>), String> {
        let users = self.w.len() / self.m.len();
        let instance = Instance { w: self.w.to_vec(), m: self.m.to_vec(), pi: vec![1.0; users] };
        let x = instance.ask(policy, if self.told.is_empty() { self.w } else { self.told })?;
        Ok(match &self.expect {
            Expect::Shares(shares) => (shares.to_vec(), x.0),
            Expect::Utilities(utilities) => (utilities.to_vec(), instance.utilities(&x)),
            Expect::Total(total) => (vec![*total], vec![instance.total(&x)]),
            Expect::Utility(user, utility) => (vec![*utility], vec![instance.utilities(&x)[*user]]),
        })
    }
}

/// Numbers to four decimals, without the zeros at their ends.
fn said(numbers: &[f64]) -> String {
    let short = |v: &f64| {
        let text = format!("{v:.4}");
        text.trim_end_matches('0').trim_end_matches('.').replace("-0", "0")
    };
    numbers.iter().map(short).collect::<Vec<_>>().join(", ")
}

/// All examples under the policies there are.
pub(super) fn run(plan: &Plan<'_>) -> Finding {
    let mut finding = Finding::by(
        "Small divisible instances with known solutions, given to the policies in the form that the scheduler uses. \
            Utility is w·x, where w are the true speed-ups relative to the slowest kind.",
    );
    let columns = [
        ("policy", "policy"),
        ("example", "example"),
        ("expected", "expected"),
        ("computed", "computed"),
        ("off by", "largest_difference"),
    ];
    let mut sheet = Sheet::new("examples", "Expected and computed", &columns);
    let (mut right, mut all) = (0, 0);
    for example in EXAMPLES {
        let Some(entry) = plan.policies.iter().find(|entry| entry.name == example.policy) else { continue };
        let entry: &PolicyEntry = entry;
        match example.numbers((entry.make)().as_ref()) {
            Err(why) => finding.warn(format!("{} on '{}': {why}", entry.name, example.what)),
            Ok((expected, computed)) => {
                let off = expected.iter().zip(&computed).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                all += 1;
                right += u32::from(off < NEAR);
                sheet.row(vec![
                    entry.name.into(),
                    example.what.into(),
                    said(&expected).into(),
                    said(&computed).into(),
                    Value::number(off, Style::Plain(4)),
                ]);
            }
        }
    }
    finding.verdict(
        "worked examples",
        format!("{all} solutions derived by hand"),
        format!("{right} of {all} found"),
        Judgement::of(right == all && all > 0),
    );
    finding.sheets.push(sheet.note(
        "The last example (2 GPUs of each kind) has several optima with the same total; the one derived by hand has \
            utilities 10/3, 80/9, 29/3.",
    ));
    finding
}
