//! `arles profile`: how fast programs are and what they draw, alone, beside each other and under power limits.
//!
//! All programs are started once and then held still (SIGSTOP); each *scene* lets one or two of them run for some seconds, under one power limit, and
//! measures. So what takes long, importing frameworks and warming up, is paid once a program and not once a measurement. What a program did is counted from
//! the lines that it prints, as `arles run` finds them.
//!
//! Must never: leave a program behind, or a card under another power limit than it had.

mod figures;
mod program;
mod scene;
mod shown;

use crate::fault::{Ended, Failed, Hinted, remark};
use crate::output::{self, OutputFlag};
use crate::quantity;
use anyhow::Result;
use arles_engine::{Card, Nvidia, PowerLimit, put_back_left_over, threads_each};
use clap::Args;
use program::{Program, Workload};
use scene::{Measured, Scene, Stage};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  arles profile -- python train.py                             rate and watts alone
  arles profile --limits 700,500,400,300 -- python train.py    under power limits (root)
  arles profile --beside 'python serve.py' -- python train.py  sharing the GPU
  arles profile --workloads jobs.toml --pairs -o csv           a whole table

jobs.toml has a line for each workload: resnet50-b256 = \"python train.py --batch 256\"

Exit codes: 0 success; 1 failure (a program ended or printed no counts of steps); 2 invalid usage or input; 130 interrupted.";

/// Measure how fast programs are and what they draw: alone, beside each other, under power limits
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Profile {
    /// Name of the workload [default: that of the program]
    #[arg(long, value_name = "NAME", conflicts_with = "workloads")]
    name: Option<String>,
    /// Also measure beside this command, NAME=COMMAND or COMMAND; may be given again
    #[arg(long, value_name = "COMMAND", conflicts_with = "workloads")]
    beside: Vec<String>,
    /// Commands by name, from a TOML file
    #[arg(long, value_name = "FILE", conflicts_with = "command")]
    workloads: Option<PathBuf>,
    /// Measure every pair of the file's workloads, too
    #[arg(long, requires = "workloads")]
    pairs: bool,
    /// Also measure under these power limits, in watts (takes root); they are put back at the end
    #[arg(long, value_name = "WATTS,...", value_delimiter = ',', value_parser = limit)]
    limits: Vec<f64>,
    /// The GPU, by number or UUID [default: the first]
    #[arg(long, value_name = "GPU")]
    gpu: Option<String>,
    /// How long each scene is measured
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = quantity::positive_seconds)]
    seconds: f64,
    /// How long programs run before the first scene, counted from their first steps
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = quantity::seconds)]
    warmup: f64,
    /// How long a scene goes on before it is measured
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = quantity::seconds)]
    settle: f64,
    /// How long to wait for a program's first steps
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = quantity::positive_seconds)]
    patience: f64,
    /// Regular expression for progress lines, with a group 'step'
    #[arg(long, value_name = "REGEX")]
    pattern: Option<String>,
    /// Keep what was measured in this catalog; under a limit as cells of that mode, such as h200@400W
    #[arg(long, value_name = "FILE")]
    catalog: Option<PathBuf>,
    #[command(flatten)]
    output: OutputFlag,
    /// The command and its arguments
    #[arg(last = true, value_name = "CMD", required_unless_present = "workloads")]
    command: Vec<String>,
}

fn limit(text: &str) -> Result<f64, String> {
    let watts = text.trim().trim_end_matches(['W', 'w']).trim();
    quantity::number(watts, 1.0, 100_000.0)
        .map_err(|_| format!("'{text}' is no power limit; expected watts, as in 400"))
}

impl Profile {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        put_back_left_over().iter().for_each(|sentence| remark(format_args!("{sentence}")));
        let workloads = self.workloads()?;
        let scenes = self.scenes(workloads.len());
        let card = self.card()?;
        if card.is_none() {
            self.without_card()?;
        }
        let kind = card.as_ref().and_then(|(_, card)| card.kind.clone());
        let interrupted = crate::interrupt::catch_interrupts();
        // Dropped last to first: programs end before the limit is put back.
        let power = match (&card, self.limits.is_empty()) {
            (Some((_, card)), false) => Some(PowerLimit::hold(&card.uuid).map_err(Failed)?),
            _ => None,
        };
        let mut stage = Stage {
            programs: Vec::new(),
            card,
            power,
            interrupted,
            seconds: Duration::from_secs_f64(self.seconds),
            settle: Duration::from_secs_f64(self.settle),
        };
        let measured = self.play(&mut stage, &workloads, &scenes);
        drop(stage);
        let measured = measured?;
        if let (Some(path), Some(kind)) = (&self.catalog, &kind) {
            shown::keep(path, kind, &measured)?;
        }
        output::print(out, self.output.output, &shown::table(&measured), &shown::Report::new(kind, &measured))
    }

    fn play(&self, stage: &mut Stage, workloads: &[Workload], scenes: &[Scene]) -> Result<Vec<Measured>> {
        let gpu = stage.card.as_ref().map(|(_, card)| card.uuid.clone());
        let gpus = stage.card.as_ref().map_or(1, |(nvidia, _)| nvidia.cards().len());
        // Alone as it will be when another may come: who has all processors alone loses some of them with the first partner.
        let threads = threads_each(1, gpus, 2);
        for workload in workloads {
            stage.programs.push(Program::start(workload, self.pattern.as_deref(), gpu.as_deref(), threads)?);
        }
        remark(format_args!(
            "warming up: {}",
            workloads.iter().map(|w| w.name.as_str()).collect::<Vec<_>>().join(", ")
        ));
        stage.warm_up(Duration::from_secs_f64(self.warmup), Duration::from_secs_f64(self.patience))?;
        let mut measured = Vec::new();
        for (number, scene) in scenes.iter().enumerate() {
            let result = stage.play(scene)?;
            remark(format_args!("{} of {}: {}", number + 1, scenes.len(), shown::line(&result)));
            measured.push(result);
        }
        Ok(measured)
    }

    fn workloads(&self) -> Result<Vec<Workload>> {
        let mut all = match &self.workloads {
            Some(path) => listed(path)?,
            None => {
                let name = self.name.clone().unwrap_or_else(|| base_name(&self.command[0]));
                vec![Workload { name, command: self.command.clone() }]
            }
        };
        for text in &self.beside {
            let named = text.split_once('=').filter(|(name, _)| !name.is_empty() && !name.contains([' ', '/']));
            let (name, line) = match named {
                Some((name, line)) => (name.to_owned(), line),
                None => (base_name(text.split_whitespace().next().unwrap_or(text)), text.as_str()),
            };
            all.push(Workload { name, command: shell(line) });
        }
        let mut names: Vec<&str> = all.iter().map(|workload| workload.name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            let sentence = format!("two workloads are called '{}'", twice[0]);
            return Err(Hinted::new(sentence, "name them with --name and --beside NAME=COMMAND").into());
        }
        Ok(all)
    }

    /// Nobody, each alone, each alone under each limit, and pairs.
    fn scenes(&self, workloads: usize) -> Vec<Scene> {
        let all = if self.workloads.is_some() { 0..workloads } else { 0..1 };
        let alone = |limit: Option<f64>| all.clone().map(move |w| Scene { running: vec![w], limit });
        let pairs = (0..workloads).flat_map(|a| (a + 1..workloads).map(move |b| (a, b)));
        let wanted = |&(a, _): &(usize, usize)| if self.workloads.is_some() { self.pairs } else { a == 0 };
        let beside = pairs.filter(wanted).map(|(a, b)| Scene { running: vec![a, b], limit: None });
        // Whoever is beside somebody is measured alone first: what it loses is by that.
        let partners = (all.end..workloads).map(|w| Scene { running: vec![w], limit: None });
        let idle = std::iter::once(Scene { running: Vec::new(), limit: None });
        let limited = self.limits.iter().flat_map(|&watts| alone(Some(watts)));
        idle.chain(alone(None)).chain(partners).chain(limited).chain(beside).collect()
    }

    fn card(&self) -> Result<Option<(Nvidia, Card)>> {
        let Ok(nvidia) = Nvidia::open() else { return Ok(None) };
        let by_name =
            |card: &&Card| self.gpu.as_ref().is_none_or(|gpu| card.uuid == *gpu || card.index.to_string() == *gpu);
        let card = nvidia.cards().iter().find(by_name).cloned();
        match (card, &self.gpu) {
            (Some(card), _) => Ok(Some((nvidia, card))),
            (None, Some(gpu)) => {
                let sentence = format!("this machine has no GPU '{gpu}'; it has {}", nvidia.cards().len());
                Err(Hinted::new(sentence, "'arles gpus' lists them").into())
            }
            (None, None) => Ok(None),
        }
    }

    /// Rates can be measured without a card; what needs one is refused.
    fn without_card(&self) -> Result<()> {
        let asked = [
            ("--limits", !self.limits.is_empty()),
            ("--gpu", self.gpu.is_some()),
            ("--catalog", self.catalog.is_some()),
        ];
        if let Some((flag, _)) = asked.iter().find(|(_, asked)| *asked) {
            return Err(Failed(format!("{flag} needs a GPU, and no NVIDIA driver was found on this machine")).into());
        }
        remark(format_args!("no NVIDIA driver was found on this machine: rates are measured, watts are not"));
        Ok(())
    }
}

/// Workloads of a TOML file: `name = "command"`.
fn listed(path: &Path) -> Result<Vec<Workload>> {
    let told = |problem: &dyn std::fmt::Display| {
        let sentence = format!("{}: {problem}", path.display());
        Hinted::new(sentence, "expected lines like: resnet50-b256 = \"python train.py --batch 256\"")
    };
    let text = std::fs::read_to_string(path).map_err(|error| told(&error))?;
    let lines: BTreeMap<String, String> = toml::from_str(&text).map_err(|error| told(&error.message()))?;
    if lines.is_empty() {
        return Err(told(&"there is no workload in it").into());
    }
    Ok(lines.into_iter().map(|(name, line)| Workload { name, command: shell(&line) }).collect())
}

fn shell(line: &str) -> Vec<String> {
    // The shell makes room for what it runs, so that a signal to the group meets the program itself.
    ["sh", "-c"].map(str::to_owned).into_iter().chain([format!("exec {line}")]).collect()
}

fn base_name(program: &str) -> String {
    Path::new(program).file_name().map_or_else(|| program.to_owned(), |name| name.to_string_lossy().into_owned())
}
