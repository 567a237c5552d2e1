//! `arles allocate`: a policy as a pure function, JSON in and JSON out.
//!
//! A user of the question becomes one class of single-GPU jobs. Its weight is the class's weight as a whole, however many
//! jobs that makes: a policy sees weight = (weight / jobs) · jobs, so `gpus_max` caps what a user can hold and changes
//! nothing else. A fractional `gpus_max` is made whole by counting everybody's GPUs in tenths, hundredths or
//! thousandths; policies that grant whole GPUs round it down instead, since part of a GPU is nothing to them.

mod question;

use crate::fault::Failed;
use crate::files;
use crate::output::{self, Cell, Column, Format, Table};
use crate::quantity::{percent, shown};
use crate::settings;
use anyhow::{Result, anyhow};
use arles_core::allocate::{Allocation, Certificate, ClassId, Members, PolicyEntry, Problem, Promise, User};
use arles_core::{Round, TenantId, Time, WorkloadId};
use clap::Args;
use question::Question;
use serde::Serialize;
use std::io::{Read, Write};
use std::path::Path;

/// Ask a policy how it would divide GPUs: JSON in, JSON out
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Allocate {
    /// The question; - reads it from stdin
    #[arg(default_value = "-")]
    file: String,
    /// Which policy; 'arles policies' lists them
    #[arg(long, value_name = "NAME", default_value = "max-min-fairness")]
    policy: String,
    /// How to print
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value = "json")]
    output: Format,
}

const AFTER_HELP: &str = "The question:
  {\"kinds\": [{\"name\": \"v100\", \"count\": 2}, {\"name\": \"k80\", \"count\": 2}],
   \"users\": [{\"name\": \"ann\", \"weight\": 2, \"rates\": [4, 1]},
             {\"name\": \"bob\", \"rates\": [2, 1], \"gpus_max\": 1.5}]}
Rates are steps a second on one GPU of each kind, 0 where it does not fit. A weight is 1 unless given.

Exit codes: 0 done; 1 the work failed; 2 wrong usage or input.";

/// The answer; lists stand in the order of the question.
#[derive(Serialize)]
struct Answer {
    policy: &'static str,
    kinds: Vec<String>,
    users: Vec<String>,
    /// GPUs that each user holds of each kind, on average over time.
    shares: Vec<Vec<f64>>,
    /// Σ rate · share, by user.
    utilities: Vec<f64>,
    /// Utility over weight · mean rate of the cluster's GPUs: what max-min-fairness makes as equal as it can.
    normalised_utilities: Vec<f64>,
    /// Utility over what the user's weight in every kind would give it.
    equal_division_ratios: Vec<f64>,
    /// GPUs in use, by kind.
    capacity_used: Vec<f64>,
    /// What the policy maximises, where it maximises something.
    objective: Option<f64>,
    certificate: Option<Bounds>,
}

/// The objective lies between these.
#[derive(Serialize)]
struct Bounds {
    lower: f64,
    upper: f64,
    gap: f64,
}

impl Allocate {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let policy = settings::policy(&self.policy).map_err(|e| anyhow!("--policy: {e}"))?;
        let (text, origin) = match self.file.as_str() {
            "-" => (standard_input()?, "standard input"),
            path => (files::read(Path::new(path), "a question as JSON, or - for stdin")?, path),
        };
        let question = Question::read(&text).map_err(|sentence| anyhow!("{origin}: {sentence}"))?;
        let scale = if policy.promises.contains(&Promise::Whole) { 1.0 } else { question.parts() };
        let problem = problem(&question, scale)?;
        let allocation =
            (policy.make)().allocate(&problem).map_err(|e| Failed(format!("{} found no answer: {e}", policy.name)))?;
        let answer = answer(policy, &question, &allocation, scale);
        output::print(out, self.output, &table(&question, &answer), &answer)?;
        if self.output == Format::Table {
            remarks(out, &question, &answer)?;
        }
        Ok(())
    }
}

fn standard_input() -> Result<String> {
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .map_err(|error| anyhow!("standard input: cannot be read as text ({error}); give the question as JSON"))?;
    Ok(text)
}

/// The question as a policy sees it, with GPUs counted in parts of 1/scale.
fn problem(question: &Question, scale: f64) -> Result<Problem> {
    let all: f64 = question.kinds.iter().map(|kind| f64::from(kind.count)).sum();
    let user = |(i, user): (usize, &question::User)| {
        let jobs = (user.gpus_max.unwrap_or(all).min(all) * scale + 1e-9).floor();
        User {
            class: ClassId(i as u32),
            tenant: TenantId(i as u32),
            tenant_weight: user.weight / jobs.max(1.0),
            workload: WorkloadId(i as u32),
            gang: 1,
            jobs: jobs as u32,
            job_weight: 1.0,
            floor: None,
            job: None,
            arrived: Time::ZERO,
            attained_gpu_seconds: 0.0,
            steps_done: 0.0,
            steps_left: 1000.0,
            held: None,
        }
    };
    // Nobody can be granted anything without a job, and a class without jobs has no weight.
    let users: Vec<User> = question.users.iter().enumerate().map(user).collect();
    let mut rates: Vec<f64> = question.users.iter().flat_map(|user| user.rates.iter().copied()).collect();
    for (rates, user) in rates.chunks_mut(question.kinds.len()).zip(&users) {
        if user.jobs == 0 {
            rates.fill(0.0);
        }
    }
    let capacity = question.kinds.iter().map(|kind| f64::from(kind.count) * scale).collect();
    Ok(Problem::new(Round(0), capacity, users, rates)?)
}

fn answer(policy: &'static PolicyEntry, question: &Question, allocation: &Allocation, scale: f64) -> Answer {
    let k = question.kinds.len();
    let mut shares = vec![vec![0.0; k]; question.users.len()];
    for grant in allocation.grants() {
        // The question has no pairs, so no policy can grant one.
        let (Members::One(user) | Members::Two(user, _)) = grant.members;
        shares[user as usize][grant.kind.index()] += grant.gangs / scale;
    }
    let counts: Vec<f64> = question.kinds.iter().map(|kind| f64::from(kind.count)).collect();
    let all: f64 = counts.iter().sum();
    let weights: f64 = question.users.iter().map(|user| user.weight).sum();
    let worth = |user: &question::User, gpus: &[f64]| user.rates.iter().zip(gpus).map(|(r, x)| r * x).sum::<f64>();
    let utilities: Vec<f64> = question.users.iter().zip(&shares).map(|(user, row)| worth(user, row)).collect();
    let over = |fair: &dyn Fn(&question::User) -> f64| {
        question
            .users
            .iter()
            .zip(&utilities)
            .map(|(user, utility)| utility / (fair(user) * worth(user, &counts)))
            .collect()
    };
    let bounds = |c: Certificate| Bounds { lower: c.lower / scale, upper: c.upper / scale, gap: c.gap() };
    Answer {
        policy: policy.name,
        kinds: question.kinds.iter().map(|kind| kind.name.clone()).collect(),
        users: question.users.iter().map(|user| user.name.clone()).collect(),
        normalised_utilities: over(&|user| user.weight / all),
        equal_division_ratios: over(&|user| user.weight / weights),
        capacity_used: (0..k).map(|j| shares.iter().map(|row| row[j]).sum()).collect(),
        objective: allocation.objective().map(|value| value / scale),
        certificate: allocation.certificate().map(bounds),
        shares,
        utilities,
    }
}

fn table(question: &Question, answer: &Answer) -> Table {
    let mut table = Table::new(vec![
        Column::left("user", "user"),
        Column::right("weight", "weight"),
        Column::left("kind", "kind"),
        Column::right("rate", "rate"),
        Column::right("GPUs", "share"),
        Column::right("utility", "utility"),
        Column::right("normalised\nutility", "normalised_utility"),
        Column::right("of an equal\ndivision, %", "equal_division_ratio"),
    ]);
    for (i, user) in question.users.iter().enumerate() {
        for (j, kind) in question.kinds.iter().enumerate() {
            let first = |text: String| if j == 0 { text } else { String::new() };
            let once = |value: f64| Cell::number(first(shown(value, 4)), value);
            let equal = answer.equal_division_ratios[i];
            table.row(vec![
                Cell::named(&first(user.name.clone()), &user.name),
                Cell::number(first(user.weight.to_string()), user.weight),
                kind.name.as_str().into(),
                user.rates[j].into(),
                Cell::number(shown(answer.shares[i][j], 4), answer.shares[i][j]),
                once(answer.utilities[i]),
                once(answer.normalised_utilities[i]),
                Cell::number(first(percent(equal)), equal),
            ]);
        }
    }
    table
}

fn remarks(out: &mut dyn Write, question: &Question, answer: &Answer) -> Result<()> {
    writeln!(out)?;
    for (kind, used) in question.kinds.iter().zip(&answer.capacity_used) {
        writeln!(out, "{}: {} of {} GPUs in use", kind.name, shown(*used, 4), kind.count)?;
    }
    if let Some(objective) = answer.objective {
        write!(out, "objective {}", shown(objective, 6))?;
        if let Some(Bounds { lower, upper, gap }) = answer.certificate {
            write!(out, ", proved to lie between {} and {} (gap {gap:.1e})", shown(lower, 6), shown(upper, 6))?;
        }
        writeln!(out)?;
    }
    Ok(())
}
