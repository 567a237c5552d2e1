//! `arles allocate`: a policy as a pure function, with an audit of what it says.

mod answer;
pub(super) mod audited;
mod explain;
mod question;
mod solve;

use crate::files;
use crate::output::{self, Format};
use crate::settings;
use answer::Answer;
use anyhow::{Result, anyhow};
use clap::Args;
use question::{Question, Spelling};
use std::io::{Read, Write};
use std::path::Path;

/// Ask a policy how it would divide GPUs, and audit its answer
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Allocate {
    /// The question; - reads it from stdin
    #[arg(default_value = "-")]
    file: String,
    /// Which policy; 'arles policies' lists them
    #[arg(long, value_name = "NAME", default_value = "max-min-fairness")]
    policy: String,
    /// GPUs of each kind, for instance v100:8,k80:8, instead of the question's
    #[arg(long, value_name = "COUNTS")]
    gpus: Option<String>,
    /// Say why each user got what it got; of some users only with --explain=ann,bob
    #[arg(long, value_name = "USERS", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    explain: Option<String>,
    /// Say how long the policy took
    #[arg(long)]
    time: bool,
    /// How to print
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value = "json")]
    output: Format,
}

const AFTER_HELP: &str = "The question as JSON:
  {\"kinds\": [{\"name\": \"v100\", \"count\": 2}, {\"name\": \"k80\", \"count\": 2}],
   \"users\": [{\"name\": \"ann\", \"weight\": 2, \"rates\": [4, 1]},
             {\"name\": \"bob\", \"rates\": [2, 1], \"gpus_max\": 1.5}]}

The same as CSV, where 'gpus' is the line of counts (or give --gpus v100:2,k80:2):
  user,weight,gpus_max,v100,k80
  gpus,,,2,2
  ann,2,,4,1
  bob,,1.5,2,1

Rates are steps a second on one GPU of each kind, 0 where it does not fit. All else is optional: tenant (users of one tenant \
share its weight equally), weight (1), gpus_max (most GPUs at once), gang (GPUs of one job, 1), jobs (how many), floor (steps a \
second promised to the user), steps_left, and hourly_cost of a kind (1). In JSON, what is known of two single-GPU jobs on one GPU, for \
policies that share GPUs: \"pairs\": [{\"users\": [\"ann\", \"bob\"], \"kind\": \"v100\", \"rates\": [3, 1.5]}]. Energy-aware policies (gogh, energy-greedy) take what a GPU draws from its kind's
specification; theirs is a cost, so their objective is below 0.

Exit codes: 0 done; 1 the work failed; 2 wrong usage or input.";

impl Allocate {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let policy = settings::policy(&self.policy).map_err(|e| anyhow!("--policy: {e}"))?;
        let question = read_question(&self.file, self.gpus.as_deref())?;
        let explained = self.explain.as_deref().map(|users| explain::asked(users, &question)).transpose()?;
        let solved = solve::solve(policy, &question)?;
        let mut answer = Answer::new(policy, &question, &solved);
        answer.solve_seconds = self.time.then_some(solved.seconds);
        if let Some(users) = explained {
            answer.explanations = Some(explain::explain(policy, &question, &solved, &users)?);
        }
        output::print(out, self.output, &answer.table(&question), &answer)?;
        if self.output == Format::Table {
            answer.remarks(out, &question, &solved)?;
        }
        Ok(())
    }
}

/// The question of a file, or of stdin where that is `-`.
fn read_question(file: &str, gpus: Option<&str>) -> Result<Question> {
    let (text, origin) = match file {
        "-" => (standard_input()?, "standard input"),
        path => (files::read(Path::new(path), "a question as JSON or CSV, or - for stdin")?, path),
    };
    // What is wrong with a flag is not said of the file.
    let from = |sentence: String| if sentence.starts_with("--") { sentence } else { format!("{origin}: {sentence}") };
    Question::read(&text, spelling(origin, &text), gpus).map_err(|sentence| anyhow!(from(sentence)))
}

fn standard_input() -> Result<String> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(|error| {
        anyhow!("standard input: cannot be read as text ({error}); give the question as JSON or CSV")
    })?;
    Ok(text)
}

/// By the file's name, else by how it begins.
fn spelling(origin: &str, text: &str) -> Spelling {
    let name = origin.to_ascii_lowercase();
    match text.trim_start().chars().next() {
        _ if name.ends_with(".csv") => Spelling::Csv,
        _ if name.ends_with(".json") => Spelling::Json,
        Some('{' | '[') | None => Spelling::Json,
        Some(_) => Spelling::Csv,
    }
}
