//! Stages, and within a stage the turns of master and splits.

use super::ask::{self, Asking};
use super::bound::{Bound, FILLED, Holding, ceiling, prove, prove_two};
use super::crowd::Crowd;
use super::merge::Merged;
use super::stage::{Duals, Menu, Stage, dot};
use super::{Division, EnvyDual, EnvyFree, TOLERANCE, start, two};

/// The most relative envy that a start may have to be an answer.
const ENVY: f64 = 1e-8;
/// Filled users who leave less than this of a resource leave nothing.
const NO_ROOM: f64 = 1e-12;

pub(super) fn solve(asked: &EnvyFree<'_>, last: Option<&Division>, pivots: u32) -> Division {
    let resources = asked.capacity.len();
    let merged = Merged::new(asked);
    let question = merged.question();
    let mut run = Run::new(&question, pivots);
    if let Some((holding, duals)) = two::solve(&question) {
        run.offer(holding);
        (run.duals, run.stages) = (duals, 1);
        return run.finish(&merged, resources);
    }
    if let Some(last) = last.filter(|last| last.prices.len() == resources && last.bundles.len() >= resources) {
        let menu = (last.bundles.len() / resources) as u32;
        let users = [last.holds.len(), last.labels.len()] == [asked.weight.len(); 2];
        let same = users && last.holds.iter().all(|&bundle| bundle < menu);
        let held = |l: usize| if same { last.holds[merged.first[l] as usize] } else { 0 };
        run.begin(merged.compress(&last.bundles, resources), (0..question.weight.len()).map(held).collect());
        let now = |user: u32| merged.of.get(user as usize).copied();
        if last.labels.len() == asked.weight.len() {
            run.labels = merged.first.iter().map(|&user| last.labels[user as usize]).collect();
        }
        run.hints = last.envy.iter().filter_map(|row| Some((now(row.user)?, now(row.other)?))).collect();
    }
    while run.stage() {}
    run.finish(&merged, resources)
}

impl Duals {
    /// What they prove; duals of a search that was cut short may prove less than none, and are then dropped.
    fn prove(&mut self, question: &EnvyFree<'_>, filled: &[bool]) -> f64 {
        if let Some(upper) = prove_two(question, &mut self.prices) {
            return upper;
        }
        let upper = prove(question, filled, &mut self.prices, &self.envy);
        let mut prices = vec![0.0; self.prices.len()];
        let plain = prove(question, filled, &mut prices, &[]);
        if plain < upper {
            *self = Self { prices, ..Self::default() };
        }
        upper.min(plain)
    }
}

/// The stages of one question over distinct users.
struct Run<'a> {
    question: &'a EnvyFree<'a>,
    filled: Vec<bool>,
    holding: Holding,
    objective: f64,
    duals: Duals,
    /// The last partition.
    groups: Option<Vec<Vec<u32>>>,
    /// Rows that are likely to bind.
    hints: Vec<(u32, u32)>,
    /// Per user, the cluster it was last in.
    labels: Vec<u32>,
    stages: u32,
    pivots: u32,
    spent: u32,
}

/// A stage's programme, and what it needs to be read.
struct Scaled {
    stage: Stage,
    /// The users that are in it.
    users: Vec<u32>,
    /// Per resource: the filled user with most of it, who is not in it.
    richest: Vec<Option<u32>>,
    /// `Π`.
    total: f64,
    /// `V`.
    value: f64,
}

impl<'a> Run<'a> {
    fn new(question: &'a EnvyFree<'a>, pivots: u32) -> Self {
        let total: f64 = question.weight.iter().sum();
        let equal: Vec<f64> = question.capacity.iter().map(|m| m / total).collect();
        let n = question.weight.len();
        let filled = vec![false; n];
        let mut holding = Holding { bundles: equal, holds: vec![0; n] };
        let objective = holding.settle(question, &filled);
        let duals = Duals { prices: vec![0.0; question.capacity.len()], ..Duals::default() };
        Self {
            question,
            filled,
            holding,
            objective,
            duals,
            groups: None,
            hints: Vec::new(),
            labels: vec![u32::MAX; n],
            stages: 0,
            pivots,
            spent: 0,
        }
    }

    /// Begins with a menu and who held what of it: everybody takes what it likes best, and that is the first partition.
    fn begin(&mut self, bundles: Vec<f64>, holds: Vec<u32>) {
        let mut holding = Holding { bundles, holds };
        holding.settle(self.question, &self.filled);
        let mut groups = vec![Vec::new(); holding.bundles.len() / self.question.capacity.len()];
        holding.holds.iter().enumerate().for_each(|(l, &bundle)| groups[bundle as usize].push(l as u32));
        groups.retain(|group| !group.is_empty());
        self.groups = Some(groups);
        self.offer(holding);
    }

    /// Takes an allocation as the answer so far, if it is a better one.
    fn offer(&mut self, mut holding: Holding) {
        let objective = holding.settle(self.question, &self.filled);
        if objective > self.objective && holding.envy(self.question) <= ENVY {
            (self.holding, self.objective) = (holding, objective);
        }
    }

    /// The answer so far, in the terms of the question as asked, and what its duals prove.
    fn finish(self, merged: &Merged, resources: usize) -> Division {
        let Self { question, holding, mut duals, filled, objective, labels, stages, spent, .. } = self;
        let upper = duals.prove(question, &filled);
        let name = |(l, i, dual): (u32, u32, f64)| EnvyDual {
            user: merged.first[l as usize],
            other: merged.first[i as usize],
            dual,
        };
        Division {
            largest_envy: holding.envy(question),
            holds: merged.of.iter().map(|&at| holding.holds[at as usize]).collect(),
            filled: merged.of.iter().map(|&at| filled[at as usize]).collect(),
            labels: merged.of.iter().map(|&at| labels[at as usize]).collect(),
            bundles: merged.expand(&holding.bundles, resources),
            objective,
            prices: merged.expand(&duals.prices, resources),
            envy: duals.envy.into_iter().map(name).collect(),
            bound: Bound { lower: objective, upper },
            stages,
            iterations: spent,
        }
    }

    /// Solves a stage; true if there is to be another.
    fn stage(&mut self) -> bool {
        self.stages += 1;
        let scaled = self.scale();
        if scaled.users.is_empty() {
            return false;
        }
        let groups = match self.groups.take() {
            Some(groups) => scaled.translate(&groups),
            None => {
                let menu = start::menu(&scaled.stage);
                if !menu.bundles.is_empty() {
                    let holding = self.read(&scaled, &menu);
                    self.offer(holding);
                }
                menu.groups
            }
        };
        let labels = scaled.users.iter().map(|&l| self.labels[l as usize]).collect();
        let mut asking = Asking::new(&scaled.stage, labels, self.pivots, self.spent);
        scaled.hint(&self.hints, &mut asking);
        let answer = turns(&mut asking, groups);
        self.spent = asking.spent;
        scaled.users.iter().zip(&asking.label).for_each(|(&l, &label)| self.labels[l as usize] = label);
        let Some((menu, duals)) = answer else {
            return false;
        };
        let mut holding = self.read(&scaled, &menu);
        let objective = holding.settle(self.question, &self.filled);
        if objective >= self.objective {
            (self.holding, self.objective) = (holding, objective);
        }
        self.duals = scaled.duals(self.question, &duals);
        self.hints = self.duals.envy.iter().map(|&(l, i, _)| (l, i)).collect();
        let by_name = |group: &Vec<u32>| group.iter().map(|&l| scaled.users[l as usize]).collect();
        self.groups = Some(menu.groups.iter().map(by_name).collect());
        self.fill()
    }

    /// Whoever has reached its ceiling is filled; true if somebody new is.
    fn fill(&mut self) -> bool {
        let k = self.question.capacity.len();
        let mut more = false;
        for l in 0..self.filled.len() {
            if !self.filled[l] && self.question.caps[l] < f64::INFINITY {
                let bundle = &self.holding.bundles[self.holding.holds[l] as usize * k..][..k];
                let has = dot(&self.question.w[l * k..][..k], bundle) * self.question.weight[l];
                if has >= ceiling(self.question, l) * (1.0 - FILLED) {
                    self.filled[l] = true;
                    more = true;
                }
            }
        }
        more
    }

    /// Whether a filled user has no choice, and on what it then is.
    fn settled_on(&self, l: usize) -> Option<usize> {
        let k = self.question.capacity.len();
        let rates = &self.question.w[l * k..][..k];
        let here = |j: &usize| self.question.capacity[*j] > 0.0;
        let top = (0..k).filter(here).map(|j| rates[j]).fold(0.0, f64::max);
        let mut best = (0..k).filter(here).filter(|&j| rates[j] == top);
        let only = best.next();
        if self.filled[l] && best.next().is_none() { only } else { None }
    }

    fn scale(&self) -> Scaled {
        let question = self.question;
        let k = question.capacity.len();
        let total: f64 = question.weight.iter().sum();
        let mut value = 0.0;
        for (l, weight) in question.weight.iter().enumerate() {
            value += weight / total * dot(&question.w[l * k..][..k], question.capacity);
        }
        let mut room: Vec<f64> = question.capacity.iter().map(|&m| if m > 0.0 { 1.0 } else { 0.0 }).collect();
        let (mut richest, mut most) = (vec![None; k], vec![0.0; k]);
        let mut users = Vec::new();
        for l in 0..question.weight.len() {
            let Some(j) = self.settled_on(l) else {
                users.push(l as u32);
                continue;
            };
            room[j] -= question.caps[l] / question.capacity[j];
            let held = question.caps[l] / question.weight[l] * total / question.capacity[j];
            if held > most[j] {
                (most[j], richest[j]) = (held, Some(l as u32));
            }
        }
        room.iter_mut().for_each(|room| *room = if *room > NO_ROOM { *room } else { 0.0 });
        let mut stage = Stage {
            k,
            w: Vec::with_capacity(users.len() * k),
            weight: users.iter().map(|&l| question.weight[l as usize] / total).collect(),
            cap: Vec::new(),
            floor: Vec::new(),
            content: users.iter().map(|&l| self.filled[l as usize]).collect(),
            room,
            unit: question.capacity.iter().map(|m| m / total).collect(),
            top: Vec::new(),
        };
        for &l in &users {
            let l = l as usize;
            let rates = question.w[l * k..][..k].iter().zip(question.capacity);
            stage.w.extend(rates.map(|(w, m)| w * m / value));
            let scaled = &stage.w[stage.w.len() - k..];
            stage.top.push(scaled.iter().copied().fold(0.0, f64::max));
            stage.cap.push(question.caps[l] / question.weight[l]);
            let envied = scaled.iter().zip(&most).map(|(w, b)| w * b).fold(0.0, f64::max);
            let owed = ceiling(question, l) / question.weight[l] * total / value;
            stage.floor.push(if self.filled[l] { owed } else { envied });
        }
        Scaled { stage, users, richest, total, value }
    }

    /// The menu in the question's units, filled users included.
    fn read(&self, scaled: &Scaled, menu: &Menu) -> Holding {
        let k = self.question.capacity.len();
        let unit = &scaled.stage.unit;
        let mut bundles: Vec<f64> = menu.bundles.iter().enumerate().map(|(at, z)| z * unit[at % k]).collect();
        let mut holds = vec![0; self.question.weight.len()];
        for (g, group) in menu.groups.iter().enumerate() {
            group.iter().for_each(|&l| holds[scaled.users[l as usize] as usize] = g as u32);
        }
        for l in 0..holds.len() {
            if let Some(j) = self.settled_on(l) {
                holds[l] = (bundles.len() / k) as u32;
                bundles
                    .extend((0..k).map(|i| if i == j { self.question.caps[l] / self.question.weight[l] } else { 0.0 }));
            }
        }
        Holding { bundles, holds }
    }
}

impl Scaled {
    /// A partition of all users as one of those that are in this stage; content users each by themselves.
    fn translate(&self, groups: &[Vec<u32>]) -> Vec<Vec<u32>> {
        let mut at = vec![u32::MAX; groups.iter().flatten().max().map_or(0, |&l| l as usize + 1)];
        self.users.iter().enumerate().for_each(|(here, &l)| at[l as usize] = here as u32);
        let mut translated = Vec::new();
        for group in groups {
            let here = group.iter().map(|&l| at[l as usize]).filter(|&l| l != u32::MAX);
            let (alone, together): (Vec<u32>, Vec<u32>) = here.partition(|&l| self.stage.content[l as usize]);
            translated.extend(alone.into_iter().map(|l| vec![l]));
            translated.extend((!together.is_empty()).then_some(together));
        }
        translated
    }

    /// Passes on which rows are likely to bind.
    fn hint(&self, rows: &[(u32, u32)], asking: &mut Asking<'_>) {
        let here = |l: u32| self.users.binary_search(&l).ok();
        for &(l, i) in rows {
            if let (Some(l), Some(i)) = (here(l), here(i)) {
                asking.pool[l].push(i as u32);
            }
        }
    }

    /// Duals in the question's units. A floor's dual belongs to the row against the filled user that set it.
    fn duals(&self, question: &EnvyFree<'_>, duals: &Duals) -> Duals {
        let k = self.stage.k;
        let prices = duals.prices.iter().zip(question.capacity);
        let prices = prices.map(|(p, m)| if *m > 0.0 { p * self.value / m } else { 0.0 }).collect();
        let name = |l: u32| self.users[l as usize];
        let mut envy: Vec<(u32, u32, f64)> =
            duals.envy.iter().map(|&(l, i, y)| (name(l), name(i), y * self.total)).collect();
        for &(l, y) in duals.floor.iter().filter(|f| !self.stage.content[f.0 as usize]) {
            let worth = |j: &usize| {
                self.richest[*j].map_or(0.0, |i| {
                    let i = i as usize;
                    question.w[name(l) as usize * k + j] * question.caps[i] / question.weight[i]
                })
            };
            let most = (0..k).max_by(|a, b| worth(a).total_cmp(&worth(b)));
            if let Some(i) = most.and_then(|j| self.richest[j]) {
                envy.push((name(l), i, y * self.total));
            }
        }
        Duals { prices, envy, floor: Vec::new() }
    }
}

/// A menu, its crowds, and what is known of its duals.
struct Turn {
    menu: Menu,
    crowds: Vec<Crowd>,
    duals: Duals,
    /// Whether every crowd was asked user by user, and answered.
    proved: bool,
}

/// The best menu found for the stage, and duals; none if not even the first partition was solved. Half of the pivots are
/// kept for the proof: duals of some crowds only prove next to nothing.
fn turns(asking: &mut Asking<'_>, groups: Vec<Vec<u32>>) -> Option<(Menu, Duals)> {
    let pivots = asking.pivots;
    asking.pivots -= pivots.saturating_sub(asking.spent) / 2;
    let best = search(asking, groups);
    asking.pivots = pivots;
    let mut turn = best?;
    if !turn.proved {
        asking.worthwhile = f64::INFINITY;
        turn.duals.envy = Round::ask(asking, &turn.crowds, &turn.menu, true).envy;
    }
    Some((turn.menu, turn.duals))
}

/// Turns of master and crowds, until no crowd would rather come apart.
fn search(asking: &mut Asking<'_>, mut groups: Vec<Vec<u32>>) -> Option<Turn> {
    let stage = asking.stage;
    let everybody = Crowd::all(stage);
    let mut best = None;
    let mut last = 0.0;
    loop {
        let grouped = asking.grouped(&everybody, groups);
        if !grouped.exact {
            return best;
        }
        let class_of = ask::classes(stage, &everybody, &grouped);
        let count = class_of.iter().max().map_or(0, |&c| c as usize + 1);
        let crowds = everybody.children(&grouped, &class_of, count);
        let mut bundles = vec![0.0; count * stage.k];
        for (g, &class) in class_of.iter().enumerate() {
            let bundle = &grouped.bundles[g * stage.k..][..stage.k];
            bundles[class as usize * stage.k..][..stage.k].copy_from_slice(bundle);
        }
        let menu = Menu { groups: crowds.iter().map(|crowd| crowd.members.clone()).collect(), bundles };
        // While the sum rises, users with the same bundle start together again; when it does not (the duals were
        // not the only ones), parts stay apart, so that the partition must become finer.
        let before = if grouped.objective > last * (1.0 + TOLERANCE) { &menu.groups } else { &grouped.parts };
        let near = TOLERANCE * grouped.objective;
        let (round, finer) = Round::ask_all(asking, &crowds, &menu, before, near);
        last = grouped.objective;
        let answered = asking.spent < asking.pivots && round.part.iter().all(|&part| part == 0);
        let proved = finer.is_none() && answered;
        let duals = Duals { prices: grouped.prices, envy: round.envy, floor: grouped.floor };
        best = Some(Turn { menu, crowds, duals, proved });
        match finer {
            Some(finer) => groups = finer,
            None => return best,
        }
    }
}

/// What the crowds of a menu answered.
struct Round {
    gain: f64,
    envy: Vec<(u32, u32, f64)>,
    /// Per user, a number: users of one bundle with different numbers should be told apart.
    part: Vec<u32>,
}

impl Round {
    /// Asks the crowds of a menu: clusters first; user by user only if it pays nowhere to tell clusters apart. Returns
    /// the finer partition to go on with, if there is one.
    fn ask_all(
        asking: &mut Asking<'_>,
        crowds: &[Crowd],
        menu: &Menu,
        before: &[Vec<u32>],
        near: f64,
    ) -> (Self, Option<Vec<Vec<u32>>>) {
        let mut round = Self::ask(asking, crowds, menu, false);
        let mut finer = refine(before, &round.part);
        if round.gain <= near || finer.len() == before.len() {
            round = Self::ask(asking, crowds, menu, true);
            finer = refine(before, &round.part);
        }
        let further = round.gain > near && finer.len() > before.len() && asking.spent < asking.pivots;
        (round, further.then_some(finer))
    }

    fn ask(asking: &mut Asking<'_>, crowds: &[Crowd], menu: &Menu, deep: bool) -> Self {
        let k = asking.stage.k;
        let mut round = Self { gain: 0.0, envy: Vec::new(), part: vec![0; asking.stage.users()] };
        for (class, crowd) in crowds.iter().enumerate() {
            if let [only] = crowd.members[..] {
                round.envy.extend(crowd.inflow.iter().map(|&(i, y)| (i, only, y)));
                continue;
            }
            let answer = asking.ask(crowd, menu.bundle(k, class), deep);
            round.gain += answer.gain.max(0.0);
            for (number, members) in answer.parts.iter().enumerate() {
                members.iter().for_each(|&at| round.part[crowd.members[at as usize] as usize] = number as u32);
            }
            round.envy.extend(answer.envy);
        }
        round
    }
}

/// The groups, told apart by the number of their members' parts.
fn refine(groups: &[Vec<u32>], part: &[u32]) -> Vec<Vec<u32>> {
    let mut refined = Vec::new();
    for group in groups {
        let mut members = group.clone();
        members.sort_by_key(|&l| (part[l as usize], l));
        refined.extend(members.chunk_by(|&a, &b| part[a as usize] == part[b as usize]).map(<[u32]>::to_vec));
    }
    refined
}
