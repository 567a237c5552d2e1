//! What an energy-aware policy knows beside rates: what everything draws, how sure that is, and what moving a job would cost.

use super::Problem;
use crate::KindId;
use serde::{Deserialize, Serialize};

/// ε where nobody says: most of what can be saved for little.
pub const EPSILON: f64 = 0.05;

/// Power and what belongs to it. Lists are by kind, by user, or by pair, in the order of the problem.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Power {
    /// Draw of one GPU of each kind with nothing on it.
    pub idle_watts: Vec<f64>,
    /// Whether an unused GPU is switched off, so that using one costs its idle power too.
    pub unused_off: bool,
    /// ε: the part of its fair speed that everybody may be asked to give up so that less is drawn; below 1.
    #[serde(default)]
    pub epsilon: f64,
    /// The most that all GPUs together may draw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_watts: Option<f64>,
    /// By user.
    pub users: Vec<UserPower>,
    /// By pair.
    pub pairs: Vec<PairPower>,
    /// Users whose jobs share a GPU of a kind now, the lesser first; sorted, each once.
    #[serde(rename = "couples")]
    pub sharing_now: Vec<(u32, u32, KindId)>,
}

/// Power of one user, by kind.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct UserPower {
    /// Draw of one GPU of a gang alone, idle power included, by kind; 0 where it does not fit.
    pub watts: Vec<f64>,
    /// Relative standard error of its rates, by kind.
    #[serde(rename = "doubts")]
    pub standard_errors: Vec<f64>,
    /// Gangs that it holds now, by kind.
    pub held: Vec<u32>,
    /// Rate that each needs from now on so that its promise is kept on average to its end; none where that is the promised rate, or nothing was promised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needed: Option<f64>,
    /// Seconds that a gang loses when it moves.
    pub restart_seconds: f64,
    /// Whether it ends after some time whatever its rate is, as a service does; else it ends when its steps are done.
    pub by_the_clock: bool,
}

/// Power of two workloads on one GPU.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct PairPower {
    /// Draw of the GPU with both on it, idle power included.
    pub watts: f64,
    /// Relative standard error of the rates together.
    #[serde(rename = "doubt")]
    pub standard_error: f64,
}

impl Power {
    /// What is assumed where nobody says: every GPU draws the same, 1 W, and nothing stands anywhere yet. Least power is
    /// then fewest GPUs.
    #[must_use]
    pub fn uniform(problem: &Problem) -> Self {
        let k = problem.kinds();
        let user = |_: &_| UserPower {
            watts: vec![1.0; k],
            standard_errors: vec![0.0; k],
            held: vec![0; k],
            needed: None,
            restart_seconds: 0.0,
            by_the_clock: false,
        };
        Self {
            idle_watts: vec![0.0; k],
            unused_off: true,
            epsilon: EPSILON,
            budget_watts: None,
            users: problem.users.iter().map(user).collect(),
            pairs: vec![PairPower { watts: 1.0, standard_error: 0.0 }; problem.pairs.len()],
            sharing_now: Vec::new(),
        }
    }

    /// A sentence about the first thing that does not fit the problem.
    pub(super) fn check(&self, problem: &Problem) -> Result<(), String> {
        let (k, n) = (problem.kinds(), problem.users.len());
        let amount = |x: f64| x.is_finite() && x >= 0.0;
        if self.idle_watts.len() != k || self.users.len() != n || self.pairs.len() != problem.pairs.len() {
            return Err(format!(
                "power is known of {} kinds, {} users and {} pairs; expected {k}, {n} and {}",
                self.idle_watts.len(),
                self.users.len(),
                self.pairs.len(),
                problem.pairs.len()
            ));
        }
        if let Some((j, watts)) = self.idle_watts.iter().enumerate().find(|(_, w)| !amount(**w)) {
            return Err(format!("an idle GPU of kind {j} draws {watts} W; expected 0 or more"));
        }
        if !(0.0..1.0).contains(&self.epsilon) {
            return Err(format!(
                "a part of {} of everybody's speed may be given up; expected 0 or more, below 1",
                self.epsilon
            ));
        }
        if let Some(watts) = self.budget_watts.filter(|watts| !amount(*watts)) {
            return Err(format!("all GPUs together may draw {watts} W; expected 0 or more"));
        }
        for (u, user) in self.users.iter().enumerate() {
            if user.watts.len() != k || user.standard_errors.len() != k || user.held.len() != k {
                return Err(format!("user {u} has power for {} kinds; expected {k}", user.watts.len()));
            }
            let numbers =
                || user.watts.iter().chain(&user.standard_errors).chain([&user.restart_seconds]).chain(&user.needed);
            if let Some(x) = numbers().find(|x| !amount(**x)) {
                return Err(format!(
                    "user {u} has {x} among its watts, standard errors, restart and needed rate; expected 0 or more"
                ));
            }
        }
        if let Some(pair) = self.pairs.iter().find(|p| !(amount(p.watts) && amount(p.standard_error))) {
            return Err(format!(
                "a pair draws {} W with standard error {}; expected 0 or more",
                pair.watts, pair.standard_error
            ));
        }
        if !self.sharing_now.is_sorted_by(|a, b| a < b) {
            return Err("couples are out of order or listed twice; expected them sorted, each once".into());
        }
        Ok(())
    }
}
