//! Gangs that straddle kinds or nodes: with the placer, and as they would be without.
//!
//! The scheduler never mixes kinds within a gang, so "without the placer" is computed and not run: in every round, the
//! tenants' shares by kind (those the policy granted in this very run) are rounded as OEF rounds them, t = x + dev, largest
//! remainder first; each kind's GPUs are dealt out tenant by tenant, and every tenant fills what it got with its gangs in
//! any order, without a look at kinds or nodes. A gang that has two kinds runs at the pace of the slower.

use super::{Plan, pool};
use arles_core::allocate::{Allocation, Members, Problem};
use arles_core::{Cluster, GpuId, Time};
use arles_report::finding::{Finding, Judgement, Plot, Sheet, Style, Value};
use arles_sim::rng::Rng;
use arles_sim::scenario::{RunHooks, RunObserver};
use arles_sim::world::World;
use std::collections::BTreeSet;

/// Gangs of two or more GPUs, counted once in every round that they run.
#[derive(Clone, Copy, Default)]
struct Count {
    gangs: u64,
    mixed: u64,
    spread: u64,
}

impl Count {
    fn add(&mut self, other: Self) {
        self.gangs += other.gangs;
        self.mixed += other.mixed;
        self.spread += other.spread;
    }

    /// Counts the gang that holds these GPUs.
    fn see(&mut self, cluster: &Cluster, gpus: &[GpuId]) {
        if gpus.len() < 2 {
            return;
        }
        let kinds: BTreeSet<usize> = gpus.iter().map(|&gpu| cluster.kind_of(gpu).index()).collect();
        let nodes: BTreeSet<usize> = gpus.iter().map(|&gpu| cluster.node_of(gpu).index()).collect();
        let largest = |kind: usize| cluster.nodes().iter().filter(|n| n.kind.index() == kind).map(|n| n.gpus).max();
        let room = kinds.iter().filter_map(|&kind| largest(kind)).max().unwrap_or(1).max(1);
        self.gangs += 1;
        self.mixed += u64::from(kinds.len() > 1);
        self.spread += u64::from(nodes.len() > gpus.len().div_ceil(room as usize));
    }
}

/// Counts what runs and what would.
struct GangCounter {
    cluster: Cluster,
    /// GPUs of each kind.
    by_kind: Vec<Vec<GpuId>>,
    /// x and dev, tenants × kinds.
    x: Vec<f64>,
    dev: Vec<f64>,
    /// Gangs that each tenant has jobs for.
    gangs: Vec<Vec<u32>>,
    rng: Rng,
    ours: Count,
    naive: Count,
}

impl GangCounter {
    fn new(cluster: &Cluster, tenants: usize, seed: u64) -> Self {
        let k = cluster.kinds().len();
        let mut by_kind = vec![Vec::new(); k];
        (0..cluster.gpus() as u32).map(GpuId).for_each(|gpu| by_kind[cluster.kind_of(gpu).index()].push(gpu));
        Self {
            cluster: cluster.clone(),
            by_kind,
            x: vec![0.0; tenants * k],
            dev: vec![0.0; tenants * k],
            gangs: vec![Vec::new(); tenants],
            rng: Rng::new(seed).fork("any order"),
            ours: Count::default(),
            naive: Count::default(),
        }
    }

    /// Whole GPUs of one kind for every tenant, by largest remainder; keeps dev.
    fn round(&mut self, j: usize) -> Vec<usize> {
        let (k, n) = (self.by_kind.len(), self.gangs.len());
        let t: Vec<f64> = (0..n).map(|l| (self.x[l * k + j] + self.dev[l * k + j]).max(0.0)).collect();
        let all = (self.x.iter().skip(j).step_by(k).sum::<f64>().round() as usize).min(self.by_kind[j].len());
        let mut g: Vec<usize> = t.iter().map(|t| t.floor() as usize).collect();
        let mut order: Vec<usize> = (0..n).filter(|&l| t[l] > 0.0).collect();
        order.sort_by(|&a, &b| t[b].fract().total_cmp(&t[a].fract()).then(a.cmp(&b)));
        let dealt: usize = g.iter().sum();
        if dealt < all {
            order.iter().cycle().take(if order.is_empty() { 0 } else { all - dealt }).for_each(|&l| g[l] += 1);
        }
        let mut over = g.iter().sum::<usize>().saturating_sub(all);
        for &l in order.iter().rev().cycle().take(order.len() * self.by_kind[j].len().max(1)) {
            if over == 0 {
                break;
            }
            if g[l] > 0 {
                g[l] -= 1;
                over -= 1;
            }
        }
        for l in 0..n {
            self.dev[l * k + j] = if self.x[l * k + j] > 0.0 { t[l] - g[l] as f64 } else { 0.0 };
        }
        g
    }

    /// One round without the placer.
    fn fill(&mut self) {
        let mut held: Vec<Vec<GpuId>> = vec![Vec::new(); self.gangs.len()];
        for j in 0..self.by_kind.len() {
            let g = self.round(j);
            let mut free = self.by_kind[j].iter().copied();
            g.iter().zip(&mut held).for_each(|(&g, held)| held.extend(free.by_ref().take(g)));
        }
        for (held, gangs) in held.iter().zip(&self.gangs) {
            let mut gangs = gangs.clone();
            for i in (1..gangs.len()).rev() {
                gangs.swap(i, self.rng.below(i as u64 + 1) as usize);
            }
            let mut rest = held.as_slice();
            for gang in gangs {
                if let Some((gpus, others)) = rest.split_at_checked(gang as usize) {
                    self.naive.see(&self.cluster, gpus);
                    rest = others;
                }
            }
        }
    }
}

impl RunObserver for GangCounter {
    fn allocated(&mut self, _: Time, problem: &Problem, answer: &Allocation) {
        let k = self.by_kind.len();
        self.x.fill(0.0);
        for grant in answer.grants() {
            if let Members::One(u) = grant.members {
                let user = &problem.users[u as usize];
                self.x[user.tenant.index() * k + grant.kind.index()] += grant.gangs * f64::from(user.gang);
            }
        }
        self.gangs.iter_mut().for_each(Vec::clear);
        for user in &problem.users {
            self.gangs[user.tenant.index()].extend(std::iter::repeat_n(user.gang, user.jobs as usize));
        }
    }

    fn decided(&mut self, _: Time, world: &World) -> bool {
        for job in world.holders() {
            if let Some((_, gpus)) = world.held(job) {
                self.ours.see(world.cluster(), gpus);
            }
        }
        self.fill();
        true
    }
}

pub(super) fn run(plan: &Plan<'_>) -> Finding {
    let traces = plan.scenarios;
    let mut finding = Finding::by(format!(
        "The traces of the completion experiment ({}, {} traces). Every gang of two or more GPUs is counted once in \
            each round in which it runs. With the placer: as simulated. Without: computed, not simulated, from the same \
            grants in the same rounds, with each tenant filling its rounded number of GPUs with its gangs in arbitrary \
            order.",
        plan.testbed.title,
        traces.len()
    ));
    let items: Vec<(usize, usize)> =
        (0..plan.policies.len()).flat_map(|p| (0..traces.len()).map(move |t| (p, t))).collect();
    let results = pool::each(plan, &items, |&(p, t)| {
        let scenario = &traces[t];
        let mut seen =
            GangCounter::new(scenario.cluster(), scenario.trace().tenants.len(), plan.seed.wrapping_add(t as u64));
        let run =
            scenario.run(plan.policies[p], RunHooks { observer: Some(&mut seen), ..RunHooks::default() }, &mut |_| {});
        run.map(|_| (seen.ours, seen.naive)).map_err(|error| error.to_string())
    });
    tell(plan, &results, &mut finding);
    finding
}

fn tell(plan: &Plan<'_>, results: &[Result<(Count, Count), String>], finding: &mut Finding) {
    let columns = [
        ("policy", "policy"),
        ("placer", "placer"),
        ("gangs of 2+\nGPU", "gangs"),
        ("on mixed\nkinds", "mixed"),
        ("part", "mixed_part"),
        ("on too many\nnodes", "spread"),
        ("part", "spread_part"),
    ];
    let mut sheet = Sheet::new("gangs", "Gangs over kinds and nodes", &columns);
    let mut bars = Vec::new();
    for (entry, rows) in plan.policies.iter().zip(results.chunks(plan.scenarios.len().max(1))) {
        let (mut ours, mut naive) = (Count::default(), Count::default());
        for row in rows {
            match row {
                Ok((with, without)) => {
                    ours.add(*with);
                    naive.add(*without);
                }
                Err(why) => finding.warn(format!("{}: {why}", entry.name)),
            }
        }
        for (placer, count) in [("with", ours), ("without", naive)] {
            let part = |of: u64| of as f64 / count.gangs as f64;
            sheet.row(vec![
                entry.name.into(),
                placer.into(),
                Value::Count(count.gangs),
                Value::Count(count.mixed),
                Value::number(part(count.mixed), Style::Percent(1)),
                Value::Count(count.spread),
                Value::number(part(count.spread), Style::Percent(1)),
            ]);
            bars.push((format!("{}, {placer}", entry.name), part(count.mixed), None));
        }
        if entry.name.starts_with("oef-") {
            let part = naive.mixed as f64 / naive.gangs as f64;
            let measured = format!(
                "{} of {} gangs; {} without the placer",
                ours.mixed,
                ours.gangs,
                Style::Percent(0).format(part)
            );
            finding.verdict(
                format!("{}: mixed gangs", entry.name),
                "the placer avoids them",
                measured,
                Judgement::of(ours.mixed == 0 && naive.mixed > 0),
            );
        }
    }
    finding.sheets.push(sheet.note(
        "Without the placer, a gang larger than its tenant's rounded share in a round does not run in that round and \
            accumulates no claim, so fewer gangs are counted.",
    ));
    finding.plots.push(Plot::Bars {
        name: "gangs",
        title: "Gangs on mixed kinds".to_owned(),
        caption:
            "Share of all gangs of two or more GPUs, counted in every round. Values without the placer are computed, not \
                simulated."
                .to_owned(),
        unit: "share of gangs on more than one kind",
        style: Style::Percent(1),
        base: 0.0,
        bars,
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use arles_core::Library;

    fn straddlers(x: &[f64]) -> GangCounter {
        let kinds = ["v100", "k80"].map(|name| Library::builtin().kind(name).unwrap().clone()).to_vec();
        let cluster = Cluster::uniform(kinds, &[4, 4], 2).unwrap();
        let mut straddlers = GangCounter::new(&cluster, x.len() / 2, 0);
        straddlers.x.copy_from_slice(x);
        straddlers
    }

    #[test]
    fn rounding_gives_away_everything_and_forgets_nothing() {
        let mut s = straddlers(&[1.5, 0.5, 1.2, 3.5, 1.3, 0.0]);
        let mut held = [0usize; 3];
        for _ in 0..100 {
            let g = s.round(0);
            assert_eq!(g.iter().sum::<usize>(), 4);
            held.iter_mut().zip(g).for_each(|(held, g)| *held += g);
        }
        for (held, x) in held.iter().zip([1.5, 1.2, 1.3]) {
            assert!((*held as f64 - 100.0 * x).abs() <= 1.0, "{held} of {x}");
        }
        assert_eq!(s.round(1).iter().sum::<usize>(), 4);
    }

    #[test]
    fn gangs_without_a_placer_straddle() {
        let mut s = straddlers(&[2.0, 2.0, 2.0, 2.0]);
        s.gangs = vec![vec![4], vec![2, 2]];
        s.fill();
        // The gang of four has both kinds; the two of two happen to fit.
        assert_eq!((s.naive.gangs, s.naive.mixed), (3, 1));
    }
}
