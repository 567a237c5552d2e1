//! Asks a crowd whether it would pay to come apart, level by level: first its clusters, then, if it does not pay to tell
//! those apart, the users of every cluster by themselves. A cluster that would rather come apart is taken apart, and
//! the level above asked again.

use super::crowd::Crowd;
use super::grouped::{self, Grouped};
use super::stage::Stage;

/// A gain below this, where the whole sum is about 1, is rounding.
pub(super) const GAIN: f64 = 3e-11;
/// Crowds up to this many users are asked user by user.
const SMALL: usize = 24;
/// Users in a cluster, unless that makes more clusters than branches.
const CLUSTER: usize = 8;
const BRANCHES: usize = 48;

/// What a crowd answers.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// `R − R₀`.
    pub(super) gain: f64,
    /// If it pays: who should be told apart.
    pub(super) parts: Vec<Vec<u32>>,
    /// If it does not: the duals of rows inside the crowd, and of outsiders towards its members.
    pub(super) envy: Vec<(u32, u32, f64)>,
}

/// What is shared by all questions of a stage.
#[derive(Debug)]
pub(super) struct Asking<'a> {
    pub(super) stage: &'a Stage,
    /// Per user, others against whom its row was worth something once.
    pub(super) pool: Vec<Vec<u32>>,
    /// Per user, the cluster it was last asked in: users with one label start in one cluster again.
    label: Vec<u32>,
    labels: u32,
    /// Scratch: a user's place in the crowd at hand.
    place: Vec<u32>,
    /// What a gain must exceed to be worth telling users apart.
    pub(super) worthwhile: f64,
    pub(super) pivots: u32,
    pub(super) spent: u32,
}

impl<'a> Asking<'a> {
    pub(super) fn new(stage: &'a Stage, pivots: u32, spent: u32) -> Self {
        let n = stage.users();
        Self {
            stage,
            pool: vec![Vec::new(); n],
            label: vec![u32::MAX; n],
            labels: 0,
            place: vec![u32::MAX; n],
            worthwhile: GAIN,
            pivots,
            spent,
        }
    }

    /// Solves a crowd for a partition.
    pub(super) fn grouped(&mut self, crowd: &Crowd, parts: Vec<Vec<u32>>) -> Grouped {
        for (at, &l) in crowd.members.iter().enumerate() {
            self.place[l as usize] = at as u32;
        }
        let mut hints = Vec::new();
        for (at, &l) in crowd.members.iter().enumerate() {
            let known = self.pool[l as usize].iter().map(|&i| self.place[i as usize]);
            hints.extend(known.filter(|&i| i != u32::MAX).map(|i| (at as u32, i)));
        }
        for &l in &crowd.members {
            self.place[l as usize] = u32::MAX;
        }
        let grouped = grouped::solve(self.stage, crowd, parts, &hints, self.pivots.saturating_sub(self.spent));
        self.spent += grouped.pivots;
        for &(at, h, _) in &grouped.envy {
            let (l, i) = (crowd.members[at as usize], crowd.members[grouped.parts[h as usize][0] as usize]);
            if !self.pool[l as usize].contains(&i) {
                self.pool[l as usize].push(i);
            }
        }
        grouped
    }

    /// Asks; `bundle` is what everybody in the crowd holds. With `deep`, users are told apart inside clusters too, and
    /// there are duals if it does not pay. Where the pivots run out or numbers get in the way, the duals at hand must
    /// do, and `gain` says how much they leave open.
    pub(super) fn ask(&mut self, crowd: &Crowd, bundle: &[f64], deep: bool) -> Answer {
        let held = crowd.value_of(self.stage, bundle);
        let n = crowd.members.len();
        let mut parts: Vec<Vec<u32>> = if n <= SMALL {
            (0..n as u32).map(|at| vec![at]).collect()
        } else {
            crowd.clusters(self.stage, CLUSTER.max(n / BRANCHES), &self.label)
        };
        loop {
            let grouped = self.grouped(crowd, parts);
            let gain = grouped.objective - held;
            if gain > self.worthwhile && grouped.exact {
                return Answer { gain, parts: self.told_apart(crowd, &grouped), envy: Vec::new() };
            }
            if !deep {
                return Answer { gain, ..Answer::default() };
            }
            let (answer, finer) = self.ask_parts(crowd, &grouped, gain);
            if n > SMALL {
                self.remember(crowd, &finer);
            }
            if finer.len() == grouped.parts.len() {
                return answer;
            }
            parts = finer;
        }
    }

    /// Asks every part by itself; returns the duals of them all, and the parts, finer where that would pay.
    fn ask_parts(&mut self, crowd: &Crowd, grouped: &Grouped, gain: f64) -> (Answer, Vec<Vec<u32>>) {
        let k = self.stage.k;
        let own: Vec<u32> = (0..grouped.parts.len() as u32).collect();
        let children = crowd.children(grouped, &own, own.len());
        let mut answer = Answer { gain, ..Answer::default() };
        let mut parts = Vec::new();
        for (g, child) in children.iter().enumerate() {
            if let [only] = child.members[..] {
                answer.envy.extend(child.inflow.iter().map(|&(i, y)| (i, only, y)));
                parts.push(grouped.parts[g].clone());
                continue;
            }
            let inner = self.ask(child, &grouped.bundles[g * k..][..k], true);
            if !inner.parts.is_empty() {
                // The child's members are the part's, in the same order.
                let of = |at: u32| grouped.parts[g][at as usize];
                parts.extend(inner.parts.iter().map(|part| part.iter().map(|&at| of(at)).collect()));
            } else {
                parts.push(grouped.parts[g].clone());
                answer.gain += inner.gain.max(0.0);
                answer.envy.extend(inner.envy);
            }
        }
        (answer, parts)
    }

    fn remember(&mut self, crowd: &Crowd, parts: &[Vec<u32>]) {
        for part in parts {
            part.iter().for_each(|&at| self.label[crowd.members[at as usize] as usize] = self.labels);
            self.labels += 1;
        }
    }

    /// The crowd by bundle.
    fn told_apart(&self, crowd: &Crowd, grouped: &Grouped) -> Vec<Vec<u32>> {
        let class_of = classes(self.stage, crowd, grouped);
        let count = class_of.iter().max().map_or(0, |&c| c as usize + 1);
        let mut parts = vec![Vec::new(); count];
        for (part, class) in grouped.parts.iter().zip(class_of) {
            parts[class as usize].extend_from_slice(part);
        }
        parts
    }
}

/// A number per part: equal for parts with equal bundles, content users excepted, who are never held to others'.
pub(super) fn classes(stage: &Stage, crowd: &Crowd, grouped: &Grouped) -> Vec<u32> {
    let k = stage.k;
    let scale = grouped.bundles.iter().fold(1e-300, |a: f64, b| a.max(*b));
    let cell = |g: usize| -> Vec<i64> {
        grouped.bundles[g * k..][..k].iter().map(|b| (b / scale * 1e9).round() as i64).collect()
    };
    let cells: Vec<Vec<i64>> = (0..grouped.parts.len()).map(cell).collect();
    let content = |g: usize| stage.content[crowd.members[grouped.parts[g][0] as usize] as usize];
    let mut order: Vec<usize> = (0..grouped.parts.len()).collect();
    order.sort_by(|&a, &b| content(a).cmp(&content(b)).then_with(|| cells[a].cmp(&cells[b])).then(a.cmp(&b)));
    let mut class_of = vec![0; grouped.parts.len()];
    let mut class = 0;
    for (a, b) in order.iter().zip(&order[1..]) {
        let near = cells[*a].iter().zip(&cells[*b]).all(|(a, b)| (a - b).abs() <= 1);
        class += u32::from(!near || content(*a) || content(*b));
        class_of[*b] = class;
    }
    class_of
}
