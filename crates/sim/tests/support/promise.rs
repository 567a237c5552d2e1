//! What shares of a frugal policy promise to save, while a run goes on: beside those that `oef-coop` has for the same problems, at full power.

use super::full_power::at_full_power;
use arles_core::Time;
use arles_core::allocate::{Allocation, Grant, Members, Problem};
use arles_sim::scenario::RunObserver;
use arles_sim::world::World;

/// Joules for the work that `oef-coop` would do in the time, as both divide the GPUs. Shares, not gangs: nothing is rounded.
#[derive(Default)]
pub(crate) struct Promise {
    /// Since when, and the watts of both for the speeds of `oef-coop`.
    in_force: Option<(f64, f64, f64)>,
    ours: f64,
    full: f64,
}

impl Promise {
    /// The part that is saved until then.
    pub(crate) fn saved(mut self, until_seconds: f64) -> f64 {
        self.until(until_seconds);
        1.0 - self.ours / self.full
    }

    fn until(&mut self, now: f64) {
        if let Some((since, ours, full)) = self.in_force {
            self.ours += (now - since) * ours;
            self.full += (now - since) * full;
        }
    }
}

impl RunObserver for Promise {
    fn allocated(&mut self, now: Time, problem: &Problem, answer: &Allocation) {
        self.until(now.seconds());
        let (ours, full) = watts_for_the_same_work(problem, answer);
        self.in_force = Some((now.seconds(), ours, full));
    }

    fn decided(&mut self, _: Time, _: &World) -> bool {
        true
    }
}

/// Watts with which everybody would be as fast as under `oef-coop`, at its joules a step under this answer, and under `oef-coop`. Who has nothing under one of them is left out.
fn watts_for_the_same_work(problem: &Problem, answer: &Allocation) -> (f64, f64) {
    let (speed, watts) = used(problem, answer.grants());
    let (full_speed, full_watts) = used(problem, &at_full_power(problem));
    let there = (0..speed.len()).filter(|&u| speed[u] > 0.0 && full_speed[u] > 0.0);
    there.fold((0.0, 0.0), |(ours, full), u| (ours + watts[u] * full_speed[u] / speed[u], full + full_watts[u]))
}

/// Steps per second, and watts, of every user. Two on a GPU draw half of its watts each.
fn used(problem: &Problem, grants: &[Grant]) -> (Vec<f64>, Vec<f64>) {
    let power = problem.power.as_ref().expect("power is known");
    let (mut speed, mut watts) = (vec![0.0; problem.users.len()], vec![0.0; problem.users.len()]);
    for grant in grants {
        let j = grant.kind.index();
        match grant.members {
            Members::One(u) => {
                let u = u as usize;
                speed[u] += grant.gangs * problem.rates(u)[j];
                watts[u] += grant.gangs * f64::from(problem.users[u].gang) * power.users[u].watts[j];
            }
            Members::Two(u, v) => {
                let of = [u, v].map(|u| problem.users[u as usize].workload);
                let known = problem.pairs.iter().zip(&power.pairs).find_map(|(pair, drawn)| {
                    let rates = match (pair.a, pair.b) {
                        _ if pair.kind != grant.kind => return None,
                        pairs if pairs == (of[0], of[1]) => [pair.rate_a, pair.rate_b],
                        pairs if pairs == (of[1], of[0]) => [pair.rate_b, pair.rate_a],
                        _ => return None,
                    };
                    Some((rates, drawn.watts))
                });
                let (rates, drawn) = known.expect("only known pairs are granted");
                for (u, rate) in [u, v].into_iter().zip(rates) {
                    speed[u as usize] += grant.gangs * rate;
                    watts[u as usize] += grant.gangs * drawn / 2.0;
                }
            }
        }
    }
    (speed, watts)
}
