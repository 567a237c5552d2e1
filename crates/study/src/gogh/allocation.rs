//! Allocation efficiency: work done for every GPU hour, of those that were held and of all there were.
//!
//! GOGH's authors claim 27.6 % more of it than conventional strategies, and what they call by that name was not available. Here it is, openly:
//!
//! ```text
//! work      Σ_jobs GPUs · steps / best rate     GPU hours that the jobs take alone on the kind that is fastest for each, the same for every policy;
//!                                               of a service, the part of its time that its promised rate is of its best
//! held      GPU hours in which a GPU had a job, two on one GPU counting once
//! cluster   GPU hours from the first arrival to the last end, all GPUs
//! ```
//!
//! *Work per GPU hour held* is above 1 only where GPUs are shared; slow kinds lower it. *Work per GPU hour of the cluster* also counts GPUs that stand idle, and says
//! how early everything was done. Less power is a third thing: a slow and frugal GPU saves energy and lowers both.

use super::energy::BASELINES;
use super::runs::Outcome;
use super::{GoghSetup, Runs, UNUSED_GPUS};
use arles_report::MeanInterval;
use arles_report::finding::{Finding, Judgement, Sheet, Style, Value};

/// What is said to be gained.
const STATED_GAIN: f64 = 0.276;

const NAMES: [&str; 3] = ["low-allocation", "middle-allocation", "high-allocation"];

/// Work per GPU hour held, and per GPU hour of the cluster.
const OF: [fn(&Outcome) -> f64; 2] = [
    |run| run.work_gpu_hours / (run.summary.utilisation_ratio * run.cluster_gpu_hours()),
    |run| run.work_gpu_hours / run.cluster_gpu_hours(),
];

impl Outcome {
    fn cluster_gpu_hours(&self) -> f64 {
        self.gpus * self.summary.makespan_seconds / 3600.0
    }
}

fn gain(runs: &Runs, load: usize, own: usize, base: usize, of: fn(&Outcome) -> f64) -> MeanInterval {
    MeanInterval::of(&runs.beside((load, 0), (own, base), |own, base| of(own) / of(base) - 1.0))
}

/// Every run beside every other.
pub(super) fn sheet(setup: &GoghSetup<'_>, runs: &Runs, load: usize) -> Sheet {
    let columns = [
        ("run", "run"),
        ("work per GPU\nhour held", "work_per_held_ratio"),
        ("against\nfifo", "held_against_fifo"),
        ("against\nmax-min", "held_against_max_min_fairness"),
        ("work per GPU\nhour in all", "work_per_cluster_ratio"),
        ("against\nfifo", "cluster_against_fifo"),
        ("against\nmax-min", "cluster_against_max_min_fairness"),
    ];
    let title = format!("Allocation efficiency, {}, unused GPUs {}", setup.loads[load].title, UNUSED_GPUS[0]);
    let mut sheet = Sheet::new(NAMES[load], title, &columns);
    for c in setup.there(load, 0) {
        let mut cells: Vec<Value> = vec![setup.name(c).into()];
        for of in OF {
            cells.push(Value::number(MeanInterval::of(&runs.each(load, 0, c, of)).mean, Style::Plain(2)));
            for base in BASELINES.map(|name| setup.rival(name)) {
                let gain = base.filter(|base| *base != c).map(|base| gain(runs, load, c, base, of));
                let gain = gain.filter(|gain| gain.mean.is_finite());
                cells.push(gain.map_or(Value::Empty, |gain| Value::spread(gain, Style::Change(1))));
            }
        }
        sheet.row(cells);
    }
    sheet.note(
        "Work: GPU hours that the jobs take alone on the kind that is fastest for each. Held: GPU hours in which a GPU had a job, shared or not. In all: GPUs of \
            the cluster times the time until the last end.",
    )
}

/// The claim beside what was measured.
pub(super) fn verdicts(setup: &GoghSetup<'_>, runs: &Runs, load: usize, finding: &mut Finding) {
    let Some(own) = setup.learner() else { return };
    for name in BASELINES {
        let Some(base) = setup.rival(name) else { continue };
        let [held, all] = OF.map(|of| gain(runs, load, own, base, of));
        if held.mean.is_nan() {
            continue;
        }
        finding.verdict(
            format!("{}, allocation efficiency against {name}, {}", setup.name(own), setup.loads[load].title),
            format!("+{} (its definition was not available)", Style::Percent(1).format(STATED_GAIN)),
            format!(
                "{} for each GPU hour held, {} for each of the cluster",
                Value::spread(held, Style::Change(1)),
                Value::spread(all, Style::Change(1))
            ),
            Judgement::of(held.mean >= STATED_GAIN),
        );
    }
}
