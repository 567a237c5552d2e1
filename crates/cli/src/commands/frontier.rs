//! `arles frontier`: what less power would cost whom, for a cluster and the jobs of a trace.

use super::simulate::command_line;
use crate::cluster;
use crate::fault::EXIT_CODES;
use crate::files::Draft;
use crate::flags::RunFlags;
use crate::output::{self, Cell, Column, Format, OutputFlag, Table};
use crate::quantity::{percent, shown, watts};
use crate::settings::{SIMULATE, Settings};
use crate::setup::{Loaded, Setup};
use anyhow::{Result, anyhow};
use arles_core::allocate::{ClassId, Power, Problem, User, UserPower};
use arles_core::frontier::Frontier as Curve;
use arles_core::{KindId, Round, TenantId, Time, WorkloadId};
use arles_report::frontier::{FrontierPoint, FrontierRecord};
use arles_report::{self as report, ReportHead};
use arles_sim::trace::Trace;
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;

/// Show what saving power would cost in speed, and whom
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Frontier {
    #[command(flatten)]
    run: RunFlags<SIMULATE>,
    /// What is changed from point to point: the part that everybody may be asked to give up, or the power budget
    #[arg(long, value_enum, value_name = "WHAT", default_value = "epsilon", help_heading = "Results")]
    sweep: Sweep,
    /// Write a self-contained HTML report with the curve and its knee
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    report: Option<PathBuf>,
    /// Write the curve as SVG
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    output: OutputFlag,
}

/// What is swept.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Sweep {
    Epsilon,
    Budget,
}

/// Sacrifices that are tried.
const EPSILONS: [f64; 19] =
    [0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.12, 0.15, 0.18, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5];
/// Budgets that are tried, as parts of what is drawn without one.
const BUDGETS: [f64; 20] = [
    0.98, 0.96, 0.94, 0.92, 0.90, 0.87, 0.84, 0.81, 0.78, 0.75, 0.72, 0.69, 0.66, 0.63, 0.60, 0.56, 0.52, 0.48, 0.44,
    0.40,
];
/// Ratios that differ by less are shown as the same.
const SAME: f64 = 5e-5;
/// A tenant's workload has so many jobs that nothing but its share limits it.
const MANY: u32 = 1_000_000;

/// One line of the answer.
#[derive(Serialize)]
struct Line {
    epsilon: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    budget_watts: Option<f64>,
    watts: f64,
    least_watts: Option<f64>,
    saved_ratio: f64,
    kept_ratio: f64,
    worst_off: String,
    worst_off_kept_ratio: f64,
    worst_envy: f64,
    knee: bool,
}

impl Frontier {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let settings = self.run.settings()?;
        let setup = Setup::new(&settings)?;
        let Loaded { trace, .. } = setup.trace(settings.seed)?;
        let (problem, names) = problem(&setup, &settings, &trace)?;
        let draft = |path: &Option<PathBuf>| path.as_deref().map(Draft::create).transpose();
        let (page, svg) = (draft(&self.report)?, draft(&self.svg)?);
        let curve = match self.sweep {
            Sweep::Epsilon => Curve::of(&problem, &EPSILONS)?,
            Sweep::Budget => Curve::of_budgets(&problem, &BUDGETS)?,
        };
        let knee = curve.knee();
        let line = |(i, point): (usize, &arles_core::frontier::Point)| {
            let (worst, kept) = curve.worst_off(point).unwrap_or((0, 1.0));
            Line {
                epsilon: point.epsilon,
                budget_watts: point.budget_watts,
                watts: point.watts,
                least_watts: point.least_watts,
                saved_ratio: curve.saved(point),
                kept_ratio: curve.kept(point),
                worst_off: names[worst].clone(),
                worst_off_kept_ratio: kept,
                worst_envy: point.envy,
                knee: knee == Some(i),
            }
        };
        let lines: Vec<Line> = curve.points.iter().enumerate().map(line).collect();
        let flat = flat_from(&lines);
        let mut words = words(&curve, &names, self.sweep);
        if let Some(first) = flat.filter(|at| *at > 0).and_then(|at| lines.get(at)) {
            let asked = asked(first, self.sweep);
            words.push_str(&match self.sweep {
                Sweep::Epsilon => format!(" Flat from {asked} given up on: more is not to be had."),
                Sweep::Budget => format!(" Flat from a budget of {asked} down: less is not to be had."),
            });
        }
        // The flat end is one line to people and all of it to programs.
        let seen = &lines[..flat.map_or(lines.len(), |at| at + 1)];
        let record = record(seen, knee, self.sweep, &words);
        if let Some(mut draft) = page {
            let head = ReportHead {
                title: "arles frontier".to_owned(),
                cluster: cluster::in_words(&setup.cluster),
                trace: setup.trace_in_words(&trace),
                command: command_line(),
                seed: settings.seed,
                version: env!("CARGO_PKG_VERSION").to_owned(),
            };
            draft.out().write_all(report::frontier_html(&head, &record).as_bytes())?;
            draft.keep()?;
        }
        if let Some(mut draft) = svg {
            draft.out().write_all(report::frontier_svg(&record).as_bytes())?;
            draft.keep()?;
        }
        let rows = if self.output.output == Format::Table { seen } else { &lines[..] };
        output::print(out, self.output.output, &table(rows, self.sweep, names.len()), &lines)?;
        if self.output.output == Format::Table {
            output::paragraph(out, &words)?;
        }
        Ok(())
    }
}

/// Every workload of every tenant of the trace, as if it had jobs without end; rates and watts as the world has them.
fn problem(setup: &Setup<'_>, settings: &Settings, trace: &Trace) -> Result<(Problem, Vec<String>)> {
    let truth = setup.truth(&trace.workloads)?;
    let kinds = setup.cluster.kinds();
    let pairs: BTreeSet<(u32, u32)> = trace.jobs.iter().map(|job| (job.tenant, job.workload)).collect();
    // With one tenant it goes without saying whose a workload is.
    let alone = pairs.iter().all(|(tenant, _)| pairs.first().is_some_and(|(first, _)| first == tenant));
    let (mut users, mut rates, mut powers, mut names) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (tenant, workload) in pairs {
        let row = truth.alone(WorkloadId(workload), 1);
        let cells: Vec<(f64, f64)> = row.iter().map(|c| c.map_or((0.0, 0.0), |c| (c[0].rate, c[0].watts))).collect();
        if cells.iter().all(|(rate, _)| *rate <= 0.0) {
            continue;
        }
        let workload_name = &trace.workloads[workload as usize];
        names.push(match alone {
            true => workload_name.clone(),
            false => format!("{} ({workload_name})", trace.tenants[tenant as usize].name),
        });
        users.push(User {
            class: ClassId(users.len() as u32),
            tenant: TenantId(tenant),
            tenant_weight: trace.tenants[tenant as usize].weight,
            workload: WorkloadId(workload),
            gang: 1,
            jobs: MANY,
            job_weight: 1.0,
            parts: 1,
            floor: None,
            job: None,
            arrived: Time::ZERO,
            attained_gpu_seconds: 0.0,
            steps_done: 0.0,
            steps_left: 1.0,
            held: None,
        });
        rates.extend(cells.iter().map(|(rate, _)| *rate));
        powers.push(UserPower {
            watts: cells.iter().map(|(_, watts)| *watts).collect(),
            standard_errors: vec![0.0; kinds.len()],
            held: vec![0; kinds.len()],
            needed: None,
            restart_seconds: 0.0,
            by_the_clock: false,
        });
    }
    if users.is_empty() {
        return Err(anyhow!("no job of the trace fits this cluster; add a kind that it fits, with --cluster"));
    }
    let mut capacity: Vec<f64> = setup.cluster.counts().iter().map(|&count| f64::from(count)).collect();
    let sold_as: Vec<KindId> = (0..kinds.len() as u16).map(|j| setup.cluster.sold_as(KindId(j))).collect();
    (0..kinds.len()).filter(|&j| kinds[j].is_mode()).for_each(|j| capacity[j] = 0.0);
    let problem = Problem::new(Round(0), capacity, users, rates)?.with_modes(sold_as)?;
    let power = Power {
        idle_watts: kinds.iter().map(|kind| kind.idle_watts).collect(),
        unused_off: settings.unused_off,
        users: powers,
        ..Power::uniform(&problem)
    };
    Ok((problem.with_power(power)?, names))
}

/// The curve as it is drawn.
fn record(lines: &[Line], knee: Option<usize>, sweep: Sweep, words: &str) -> FrontierRecord {
    let point = |line: &Line| FrontierPoint {
        asked: asked(line, sweep),
        watts: line.watts,
        saved_ratio: line.saved_ratio,
        kept_ratio: line.kept_ratio,
        worst_off_kept_ratio: line.worst_off_kept_ratio,
        envy_ratio: (line.worst_envy - 1.0).max(0.0),
        worst_off: line.worst_off.clone(),
    };
    let swept = match sweep {
        Sweep::Epsilon => "given up",
        Sweep::Budget => "budget",
    };
    FrontierRecord { swept, points: lines.iter().map(point).collect(), knee, words: words.to_owned() }
}

/// What was asked for, in words.
fn asked(line: &Line, sweep: Sweep) -> String {
    match sweep {
        Sweep::Epsilon => format!("{} %", percent(line.epsilon)),
        Sweep::Budget => line.budget_watts.map_or("no".to_owned(), watts),
    }
}

/// Where the end of the curve begins that is the same all along, if two points or more are.
fn flat_from(lines: &[Line]) -> Option<usize> {
    let last = lines.last()?;
    let same = |line: &&Line| {
        let near = |of: fn(&Line) -> f64| (of(line) - of(last)).abs() <= SAME;
        near(|line| line.saved_ratio)
            && near(|line| line.kept_ratio)
            && near(|line| line.worst_off_kept_ratio)
            && near(|line| line.worst_envy)
    };
    let alike = lines.iter().rev().take_while(same).count();
    (alike > 1).then(|| lines.len() - alike)
}

fn table(lines: &[Line], sweep: Sweep, users: usize) -> Table {
    let (epsilon, budget) = match sweep {
        Sweep::Epsilon => (Column::right("given up\n%", "epsilon"), Column::hidden("budget_watts")),
        Sweep::Budget => (Column::hidden("epsilon"), Column::right("budget\n", "budget_watts")),
    };
    // Alone one is neither worse off than others nor envious of them.
    let beside = |column: Column, name| if users > 1 { column } else { Column::hidden(name) };
    let mut table = Table::new(vec![
        epsilon,
        budget,
        Column::right("power\n", "watts"),
        Column::right("saved\n%", "saved_ratio"),
        Column::right("speed\n%", "kept_ratio"),
        beside(Column::right("worst off\n%", "worst_off_kept_ratio"), "worst_off_kept_ratio"),
        beside(Column::right("envy\n%", "worst_envy"), "worst_envy"),
        beside(Column::left("worst off\nis", "worst_off"), "worst_off"),
        Column::left("", "knee"),
    ]);
    for line in lines {
        table.row(vec![
            Cell::number(percent(line.epsilon), line.epsilon),
            Cell::number(line.budget_watts.map_or("none".to_owned(), watts), line.budget_watts.unwrap_or(f64::NAN)),
            Cell::number(watts(line.watts), line.watts),
            Cell::number(percent(line.saved_ratio), line.saved_ratio),
            Cell::number(percent(line.kept_ratio), line.kept_ratio),
            Cell::number(percent(line.worst_off_kept_ratio), line.worst_off_kept_ratio),
            Cell::number(percent(line.worst_envy - 1.0), line.worst_envy),
            line.worst_off.as_str().into(),
            if line.knee { "knee" } else { "" }.into(),
        ]);
    }
    table
}

/// What the curve says.
fn words(curve: &Curve, names: &[String], sweep: Sweep) -> String {
    let part = |ratio: f64| format!("{} %", shown(100.0 * ratio, 2));
    let most = curve.points.iter().map(|point| curve.saved(point)).fold(0.0, f64::max);
    let hint = match sweep {
        Sweep::Epsilon => {
            "nobody falls below an equal share of the GPUs at full power; power limits (--power-limits) give it more to save"
        }
        Sweep::Budget => "unused GPUs stay on; --unused off switches them off",
    };
    if most < SAME {
        return format!("No power is to be saved, as {hint}.");
    }
    let knee = match curve.knee() {
        Some(at) => {
            let point = &curve.points[at];
            let asked = match (sweep, point.budget_watts) {
                (Sweep::Budget, budget) => {
                    format!("Below a budget of {}", budget.map_or("everything".to_owned(), watts))
                }
                (Sweep::Epsilon, _) => format!("Beyond {} given up", part(point.epsilon)),
            };
            format!(
                "{asked} a watt costs more speed than before; up to there {} of the power is saved.",
                part(curve.saved(point))
            )
        }
        None => "A watt costs much the same speed all along.".to_owned(),
    };
    let tenth = match curve.first_saving(0.1) {
        Some(point) => {
            let (worst, kept) = curve.worst_off(point).unwrap_or((0, 1.0));
            let whom = match names.len() {
                1 => String::new(),
                _ => format!("; most of all {}, which keeps {} of its own", names[worst], part(kept)),
            };
            format!("Ten per cent less power costs {} of all speed{whom}.", part(1.0 - curve.kept(point)))
        }
        None => format!("Ten per cent less power is not to be had: {} is the most, as {hint}.", part(most)),
    };
    format!("{knee} {tenth}")
}
