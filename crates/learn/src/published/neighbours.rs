//! Neighbours: the known workloads from which a new one is predicted, and their measured rates.
//!
//! A *case* is a new workload i beside j on kind a. Its neighbours are the known workloads k most similar to i, those of its own
//! family first, then by distance of Ψ, that were measured beside j on a, both ways: ln T(a,k,{k,j}) and ln T(a,j,{k,j}), each
//! over the rate alone. Where no workload was measured beside j (it is new as well), the workload most similar to j stands in
//! for it, and k itself where i is paired with itself. A rate of zero means "does not fit" and is no evidence.

use crate::evidence::Evidence;
use crate::features::{PSI, Psi, SPEC, Spec, distance2, spec};
use std::collections::BTreeMap;

/// Neighbours used at most.
pub(super) const NEIGHBOURS: usize = 4;
/// Stand-ins tried at most for a partner without measured pairs.
const STAND_INS: usize = 4;
/// Parameters of one neighbour as a network reads them: that there is one, Ψ of the new, of the neighbour (as a difference) and of the
/// partner, the kind, two rates.
pub(super) const WIDTH: usize = 1 + 3 * PSI + SPEC + 2;

/// A new workload i beside j on kind a.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Case {
    pub(super) i: usize,
    pub(super) j: usize,
    pub(super) a: usize,
}

/// A known workload from which a new one is predicted.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Neighbour {
    pub(super) k: usize,
    /// ln of its own rate beside the partner over its rate alone, and of the partner's.
    pub(super) rates: [f64; 2],
}

/// Similarity of workloads and kinds. Who comes later is added at the end.
#[derive(Clone)]
pub(super) struct Likeness {
    pub(super) psi: Vec<Psi>,
    pub(super) spec: Vec<Spec>,
    /// A number for every family; a workload without features is a family of its own.
    pub(super) family: Vec<usize>,
    /// Their names.
    families: BTreeMap<String, usize>,
}

impl Likeness {
    pub(super) fn new(evidence: &Evidence) -> Self {
        let mut likeness = Self { psi: Vec::new(), spec: Vec::new(), family: Vec::new(), families: BTreeMap::new() };
        (0..evidence.kinds().len()).for_each(|_| likeness.add_kind(evidence));
        (0..evidence.workloads().len()).for_each(|t| likeness.add_workload(evidence, t));
        likeness
    }

    /// Takes the next kind in.
    pub(super) fn add_kind(&mut self, evidence: &Evidence) {
        self.spec.push(tame(spec(&evidence.kinds()[self.spec.len()])));
    }

    /// Takes a workload in, or what is known of it now.
    pub(super) fn add_workload(&mut self, evidence: &Evidence, workload: usize) {
        let t = &evidence.workloads()[workload];
        let name = t.features.as_ref().map_or(t.name.as_str(), |w| w.family.as_str());
        let next = self.families.len();
        let family = *self.families.entry(name.to_owned()).or_insert(next);
        // Whoever comes without features is the middle of everybody.
        let psi = t.psi.map_or([0.0; PSI], tame);
        if workload == self.psi.len() {
            self.psi.push(psi);
            self.family.push(family);
        } else {
            (self.psi[workload], self.family[workload]) = (psi, family);
        }
    }

    /// How far one is from another: other families come after all of its own.
    fn far(&self, one: usize, two: usize) -> (bool, f64, usize) {
        (self.family[two] != self.family[one], distance2(&self.psi[one], &self.psi[two]), two)
    }

    /// The most alike first, `most` of them.
    fn ranked(&self, workload: usize, others: impl Iterator<Item = usize>, most: usize) -> Vec<usize> {
        let mut far: Vec<(bool, f64, usize)> =
            others.filter(|&k| k != workload).map(|k| self.far(workload, k)).collect();
        let order = |a: &(bool, f64, usize), b: &(bool, f64, usize)| {
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2))
        };
        if far.len() > most {
            far.select_nth_unstable_by(most, order);
            far.truncate(most);
        }
        far.sort_by(order);
        far.into_iter().map(|(_, _, k)| k).collect()
    }

    /// The neighbours of a case, the most alike first, among those that `visible` lets be seen.
    pub(super) fn neighbours(
        &self,
        evidence: &Evidence,
        case: Case,
        visible: &dyn Fn(usize) -> bool,
    ) -> Vec<Neighbour> {
        let mut found = Vec::new();
        if visible(case.j) && case.j != case.i {
            self.collect(evidence, case, visible, case.j, &mut found);
        }
        if found.is_empty() && case.i == case.j {
            let own = |k: &usize| visible(*k) && evidence.measured_pairs(*k) > 0;
            self.take(evidence, case, (0..evidence.workloads().len()).filter(own), |k| k, &mut found);
        }
        if found.is_empty() {
            let there = |s: &usize| visible(*s) && *s != case.i && evidence.listed(*s) && described(evidence, *s);
            let others = (0..evidence.workloads().len()).filter(there);
            for other in self.ranked(case.j, others, STAND_INS) {
                self.collect(evidence, case, visible, other, &mut found);
                if !found.is_empty() {
                    break;
                }
            }
        }
        found
    }

    /// Those that were measured beside a partner.
    fn collect(
        &self,
        evidence: &Evidence,
        case: Case,
        visible: &dyn Fn(usize) -> bool,
        partner: usize,
        found: &mut Vec<Neighbour>,
    ) {
        let measured = evidence.beside_column(partner, case.a).iter().map(|(k, _)| k).filter(|&k| visible(k));
        self.take(evidence, case, measured, |_| partner, found);
    }

    /// The most alike of some, each beside its partner.
    fn take(
        &self,
        evidence: &Evidence,
        case: Case,
        some: impl Iterator<Item = usize>,
        partner: impl Fn(usize) -> usize,
        found: &mut Vec<Neighbour>,
    ) {
        let rates = |k: usize| [evidence.relative(k, partner(k), case.a), evidence.relative(partner(k), k, case.a)];
        let whole = |k: &usize| described(evidence, *k) && rates(*k).iter().all(|r| r.is_finite());
        for k in self.ranked(case.i, some.filter(whole), NEIGHBOURS) {
            found.push(Neighbour { k, rates: rates(k).map(|r| r.clamp(-7.0, 0.7)) });
        }
    }

    /// A neighbour as a network reads it.
    pub(super) fn read(&self, case: Case, neighbour: &Neighbour) -> [f32; WIDTH] {
        let mut x = [0.0; WIDTH];
        x[0] = 1.0;
        let (new, like, partner) = (&self.psi[case.i], &self.psi[neighbour.k], &self.psi[case.j]);
        for d in 0..PSI {
            x[1 + d] = new[d] as f32;
            x[1 + PSI + d] = (like[d] - new[d]) as f32;
            x[1 + 2 * PSI + d] = partner[d] as f32;
        }
        for d in 0..SPEC {
            x[1 + 3 * PSI + d] = self.spec[case.a][d] as f32;
        }
        x[WIDTH - 2] = scaled(neighbour.rates[0]);
        x[WIDTH - 1] = scaled(neighbour.rates[1]);
        x
    }
}

fn described(evidence: &Evidence, workload: usize) -> bool {
    evidence.workloads()[workload].psi.is_some()
}

/// A ln of a relative rate as a network reads it: about between −3 and 1.
pub(super) fn scaled(ln: f64) -> f32 {
    ((ln + 0.6) / 0.5) as f32
}

/// No feature, however odd, is further out than this.
fn tame<const N: usize>(point: [f64; N]) -> [f64; N] {
    point.map(|x| if x.is_finite() { x.clamp(-8.0, 8.0) } else { 0.0 })
}
