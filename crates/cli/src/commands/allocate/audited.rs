//! The audit of a question's answer, or of any division of its GPUs.

use super::question::Question;
use super::solve::{Solved, holdings_audit, solve};
use super::{read_question, spelling};
use crate::commands::audit::{lies, verdict};
use crate::files;
use anyhow::{Result, anyhow};
use arles_core::allocate::{PolicyEntry, find_policy};
use arles_core::audit::{Audit, Budget};
use arles_core::library::suggestion;
use arles_report::audit::{AuditRecord, PartyRecord};
use arles_sim::rng::Rng;
use serde_json::Value;
use std::path::Path;

/// What to audit.
pub(in crate::commands) struct Asked<'a> {
    pub(in crate::commands) file: &'a str,
    pub(in crate::commands) gpus: Option<&'a str>,
    pub(in crate::commands) policy: Option<&'static PolicyEntry>,
    pub(in crate::commands) allocation: Option<&'a Path>,
    pub(in crate::commands) most_lies: usize,
    pub(in crate::commands) seed: u64,
}

/// With more users than this no lies are tried: each is a solve.
const MOST_LIARS: usize = 60;
/// Users whose envy of one another is kept.
const MOST_IN_MATRIX: usize = 300;

impl Asked<'_> {
    /// The audit, and the cluster in words.
    pub(in crate::commands) fn audit(&self) -> Result<(AuditRecord, String)> {
        let question = read_question(self.file, self.gpus)?;
        let own = self.policy.map(|policy| solve(policy, &question)).transpose()?;
        let given = self.allocation.map(|path| shares(path, &question)).transpose()?;
        // Without a policy, claims are the tenants'.
        let judge = self.policy.or_else(|| find_policy("oef-coop")).expect("in the table");
        let (audit, held) = match (&given, &own) {
            (Some(shares), _) => (holdings_audit(judge, &question, shares)?, shares.clone()),
            (None, Some(solved)) => (solved.audit.clone(), solved.shares.clone()),
            (None, None) => {
                return Err(anyhow!(
                    "there is nothing to audit; give --policy NAME for its answer, or --allocation FILE"
                ));
            }
        };
        self.check_capacity(&question, &held)?;
        let beside = given.as_ref().and(own.as_ref());
        let mut record = self.record(&question, &audit, &held, beside);
        if let Some(policy) = self.policy.filter(|_| question.users.len() <= MOST_LIARS && question.pairs.is_empty()) {
            self.tell_lies(policy, &question, &mut record)?;
        }
        verdict::judge(&mut record, self.policy, false);
        let counts: Vec<String> = question.kinds.iter().map(|kind| format!("{} × {}", kind.count, kind.name)).collect();
        Ok((record, counts.join(", ")))
    }

    /// Nobody can be given what is not there.
    fn check_capacity(&self, question: &Question, held: &[Vec<f64>]) -> Result<()> {
        if !question.pairs.is_empty() {
            return Ok(());
        }
        for (j, kind) in question.kinds.iter().enumerate() {
            let given: f64 = held.iter().map(|row| row[j]).sum();
            if given > f64::from(kind.count) * (1.0 + 1e-6) + 1e-9 {
                let path = self.allocation.map_or(String::new(), |path| format!("{}: ", path.display()));
                return Err(anyhow!(
                    "{path}it gives away {given} GPUs of kind '{}' and there are {}; give no more than there are",
                    kind.name,
                    kind.count
                ));
            }
        }
        Ok(())
    }

    fn record(&self, question: &Question, audit: &Audit, held: &[Vec<f64>], beside: Option<&Solved>) -> AuditRecord {
        let n = question.users.len();
        let envies = audit.envies();
        let speed =
            |l: usize, held: &[f64]| -> f64 { question.users[l].rates.iter().zip(held).map(|(r, x)| r * x).sum() };
        let party = |l: usize| {
            let worst = envies.get(l).filter(|_| n > 1);
            let sharing = audit.sharing(l);
            PartyRecord {
                name: question.users[l].name.clone(),
                entitlement_ratio: audit.claims().part(l),
                gpus: held[l].clone(),
                sharing_ratio: Some(sharing),
                worst_envy: worst.map(|envy| envy.ratio),
                envied: worst.map(|envy| question.users[envy.envied].name.clone()),
                // Work that is left takes as long as the speed says.
                finish_time_ratio: Some(if sharing > 0.0 { 1.0 / sharing } else { f64::INFINITY }),
                worst_finish_time_ratio: None,
                beside_policy_ratio: beside.map(|own| match (speed(l, &held[l]), own.utilities[l]) {
                    (_, own) if own > 0.0 => speed(l, &held[l]) / own,
                    (has, _) if has > 0.0 => f64::INFINITY,
                    _ => 1.0,
                }),
                best_lie: None,
            }
        };
        let pareto = audit.pareto(Budget::default());
        let what = match (self.allocation, self.policy) {
            (Some(path), _) => format!("{} for {}", path.display(), self.file),
            (None, policy) => format!("the answer of {} to {}", policy.map_or("nobody", |p| p.name), self.file),
        };
        let matrix = || (0..n).map(|l| audit.envy_row(l).map(Some).collect()).collect();
        AuditRecord {
            subject: what,
            policy: self.policy.map(|policy| policy.name.to_owned()),
            kinds: question.kinds.iter().map(|kind| kind.name.clone()).collect(),
            parties: (0..n).map(party).collect(),
            envy: if n <= MOST_IN_MATRIX { matrix() } else { Vec::new() },
            pareto_gap_ratio: Some(pareto.gap()),
            pareto_bound_ratio: Some(pareto.most()),
            jain_index: Some(audit.jain()),
            verdicts: Vec::new(),
            verdict: String::new(),
        }
    }

    /// The best lie of everybody, with all others honest.
    fn tell_lies(&self, policy: &'static PolicyEntry, question: &Question, record: &mut AuditRecord) -> Result<()> {
        if self.most_lies == 0 {
            return Ok(());
        }
        let honest = solve(policy, question)?;
        let rng = Rng::new(self.seed);
        for (l, party) in record.parties.iter_mut().enumerate() {
            let rates = question.users[l].rates.clone();
            let own = honest.utilities[l];
            let mut gain = |factors: &[f64]| {
                let mut told = question.clone();
                told.users[l].rates.iter_mut().zip(factors).for_each(|(rate, factor)| *rate *= factor);
                let answer = solve(policy, &told).ok()?;
                let truth: f64 = rates.iter().zip(&answer.shares[l]).map(|(rate, gpus)| rate * gpus).sum();
                (own > 0.0).then(|| truth / own)
            };
            party.best_lie = Some(lies::search(&rates, self.most_lies, &mut rng.fork(&party.name), &mut gain));
        }
        Ok(())
    }
}

/// GPUs by user and kind: what `arles allocate -o json` prints, or a CSV with a line for each user and a column for each kind.
fn shares(path: &Path, question: &Question) -> Result<Vec<Vec<f64>>> {
    let text = files::read(path, "an allocation: the JSON of 'arles allocate', or a CSV of user and GPUs by kind")?;
    let rows = match spelling(&path.display().to_string(), &text) {
        super::Spelling::Json => json_rows(&text),
        super::Spelling::Csv => csv_rows(&text),
    };
    let rows = rows.and_then(|rows| arranged(rows, question));
    rows.map_err(|sentence| anyhow!("{}: {sentence}", path.display()))
}

/// Users, kinds, and GPUs row by row.
type Rows = (Vec<String>, Vec<String>, Vec<Vec<f64>>);

fn json_rows(text: &str) -> Result<Rows, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| format!("this is not JSON ({error})"))?;
    let names = |field: &str| -> Result<Vec<String>, String> {
        let list = value.get(field).and_then(Value::as_array);
        let list = list.ok_or_else(|| format!("there is no list '{field}'; expected users, kinds and shares"))?;
        list.iter()
            .map(|name| name.as_str().map(str::to_owned).ok_or_else(|| format!("{field} has {name}; expected a name")))
            .collect()
    };
    let rows = value
        .get("shares")
        .and_then(Value::as_array)
        .ok_or("there is no list 'shares'; expected users, kinds and shares")?;
    let row = |row: &Value| -> Result<Vec<f64>, String> {
        let cells = row.as_array().ok_or_else(|| format!("shares has {row}; expected a list of numbers"))?;
        cells.iter().map(|x| x.as_f64().ok_or_else(|| format!("shares has {x}; expected a number"))).collect()
    };
    Ok((names("users")?, names("kinds")?, rows.iter().map(row).collect::<Result<_, _>>()?))
}

fn csv_rows(text: &str) -> Result<Rows, String> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let header: Vec<&str> = lines.next().unwrap_or("").split(',').map(str::trim).collect();
    if header.first() != Some(&"user") {
        return Err("the header does not begin with 'user'; expected user and then the kinds".into());
    }
    let (mut users, mut rows) = (Vec::new(), Vec::new());
    for line in lines {
        let mut fields = line.split(',').map(str::trim);
        users.push(fields.next().unwrap_or("").to_owned());
        let number = |text: &str| match text {
            "" => Ok(0.0),
            text => text.parse::<f64>().map_err(|_| format!("'{text}' is no number of GPUs")),
        };
        rows.push(fields.map(number).collect::<Result<Vec<f64>, _>>()?);
    }
    Ok((users, header[1..].iter().map(|kind| (*kind).to_owned()).collect(), rows))
}

/// The rows in the order of the question's users and kinds.
fn arranged((users, kinds, rows): Rows, question: &Question) -> Result<Vec<Vec<f64>>, String> {
    let place = |what: &str, name: &str, names: Vec<&str>| {
        let near = suggestion(name, names.iter().copied());
        names
            .iter()
            .position(|other| *other == name)
            .ok_or_else(|| format!("there is no {what} '{name}' in the question{near}"))
    };
    let mut held = vec![vec![0.0; question.kinds.len()]; question.users.len()];
    if users.len() != rows.len() {
        return Err(format!(
            "there are {} users and {} rows of shares; expected a row for each",
            users.len(),
            rows.len()
        ));
    }
    for (user, row) in users.iter().zip(&rows) {
        let l = place("user", user, question.users.iter().map(|u| u.name.as_str()).collect())?;
        if row.len() != kinds.len() {
            return Err(format!("user '{user}' has {} numbers for {} kinds", row.len(), kinds.len()));
        }
        for (kind, gpus) in kinds.iter().zip(row) {
            let j = place("kind", kind, question.kinds.iter().map(|k| k.name.as_str()).collect())?;
            if !(gpus.is_finite() && *gpus >= 0.0) {
                return Err(format!("user '{user}' holds {gpus} of kind '{kind}'; expected 0 or more"));
            }
            held[l][j] += gpus;
        }
    }
    Ok(held)
}
