//! How fast each card is by its kind: found from the rates that single-GPU jobs report ([`arles_learn::card`]).
//!
//! Every rate of an undisturbed stretch is a look, also where a cell was measured a moment ago on another card: comparing cards is the point. What is found is said
//! (an event, `arles nodes`, a metric), and what is expected of jobs on a slow card follows it. What was measured on one is put right before it
//! counts for the kind, so that one bad card does not teach that all are bad. The scheduler is told nothing: an operator drains the card, or
//! gives it a kind of its own.

use super::{Book, CellKey, Record, edit, pairs};
use arles_core::estimate::Observation;
use arles_core::{GpuId, KindId, Time};
use arles_learn::card::{self, Card, LOOKS_PER_RUN, Level, RelativeSpeed};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Seconds of the scheduler's clock between two looks at one run.
const LOOK_EVERY: f64 = super::progress::OBSERVED_EVERY;

/// What is known of cards, and of the cells that they are compared in.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Cards {
    #[serde(with = "pairs")]
    levels: BTreeMap<CellKey, Level>,
    /// By number of the GPU.
    #[serde(with = "pairs")]
    cards: BTreeMap<u32, Card>,
}

/// Looks at the present run of a job.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Looks {
    /// The start that they are of.
    fence: u64,
    count: u8,
    at: Time,
}

impl Looks {
    /// When the last one was, to be moved.
    pub(super) fn time(&mut self) -> &mut Time {
        &mut self.at
    }
}

impl Book {
    /// Takes in a rate that was measured while nothing changed around a job.
    pub(super) fn look_at_card(&mut self, seen: &Observation) {
        let Some(record) = seen.job.and_then(|job| edit(&mut self.jobs, &job)) else { return };
        // Of a gang it cannot be told which of its cards is slow.
        let Some(&[gpu]) = record.held.as_ref().map(|held| held.gpus.as_slice()) else { return };
        let fence = record.last_fence;
        let before = record.looks.filter(|looks| looks.fence == fence);
        if before.is_some_and(|looks| looks.count >= LOOKS_PER_RUN || seen.at.since(looks.at) < LOOK_EVERY) {
            return;
        }
        record.looks = Some(Looks { fence, count: before.map_or(0, |looks| looks.count) + 1, at: seen.at });
        let known = Arc::make_mut(&mut self.cards);
        let key = (seen.ask, seen.kind, seen.spread);
        let (mut level, card) = (known.levels.get(&key).copied(), known.cards.entry(gpu).or_default());
        card::look(&mut level, card, seen.rate, before.is_none());
        known.levels.extend(level.map(|level| (key, level)));
        self.judge_card(seen.at, gpu);
    }

    fn judge_card(&mut self, at: Time, gpu: u32) {
        let cluster = Arc::clone(self.cluster());
        let kind = cluster.kind_of(GpuId(gpu));
        let Some(norm) = self.norm(kind) else { return };
        let card = Arc::make_mut(&mut self.cards).cards.get_mut(&gpu).expect("it was looked at");
        if card.judge(&norm) {
            let speed = card.relative_to(&norm);
            let node = cluster.node(cluster.node_of(GpuId(gpu)));
            let (on_node, name, kind) = (gpu - node.first_gpu.0, &node.name, &cluster.kind(kind).name);
            let text = match card.is_slow() {
                true => format!(
                    "GPU {on_node} of {name} runs at {:.2} of the speed of other {kind} (standard error {:.2}, {} runs): look at its cooling, its clocks and what else runs on it",
                    speed.ratio, speed.standard_error, speed.runs
                ),
                false => format!("GPU {on_node} of {name} is as fast as other {kind} again"),
            };
            self.push_event(at, "slow-gpu", None, text);
        }
    }

    fn norm(&self, kind: KindId) -> Option<card::Norm> {
        let cluster = self.cluster();
        card::norm(
            self.cards.cards.iter().filter(|(gpu, _)| cluster.kind_of(GpuId(**gpu)) == kind).map(|(_, card)| card),
        )
    }

    /// The speed of a card by its kind's, if it is known to be slower.
    pub(crate) fn slow_card(&self, gpu: GpuId) -> Option<RelativeSpeed> {
        let card = self.cards.cards.get(&gpu.0).filter(|card| card.is_slow())?;
        Some(card.relative_to(&self.norm(self.cluster().kind_of(gpu))?))
    }

    /// What estimates are multiplied by on these cards. A gang is as fast as its slowest.
    pub(crate) fn pace(&self, gpus: &[u32]) -> f64 {
        let slow = gpus.iter().filter_map(|&gpu| self.slow_card(GpuId(gpu)));
        slow.map(|speed| speed.ratio).fold(1.0, f64::min)
    }

    /// The rate that a job is expected to have on the cards that it holds.
    pub(crate) fn expected_rate(&self, record: &Record) -> Option<f64> {
        let pace = record.held.as_ref().map_or(1.0, |held| self.pace(&held.gpus));
        record.estimated_rate.map(|rate| rate * pace)
    }

    /// Cards that are known to be slower than their kind.
    pub(crate) fn slow_cards(&self) -> impl Iterator<Item = GpuId> + '_ {
        self.cards.cards.iter().filter(|(_, card)| card.is_slow()).map(|(gpu, _)| GpuId(*gpu))
    }

    /// What an observation says of its kind, whatever card it was made on.
    pub(super) fn of_its_kind(&self, mut seen: Observation) -> Observation {
        let held = seen.job.and_then(|job| self.jobs.get(&job)).and_then(|record| record.held.as_ref());
        if let Some(held) = held {
            seen.rate /= self.pace(&held.gpus);
        }
        seen
    }
}

#[cfg(test)]
mod tests;
