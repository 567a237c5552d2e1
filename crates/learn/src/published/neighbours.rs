//! Neighbours: the known workloads from which a new one is predicted, and their measured rates.
//!
//! A *case* is a new workload i beside j on kind a. Its neighbours are the known workloads k most similar to i, those of its own
//! family first, then by distance of Ψ, that were measured beside j on a, both ways: ln T(a,k,{k,j}) and ln T(a,j,{k,j}), each
//! over the rate alone. Where no workload was measured beside j (it is new as well), the workload most similar to j stands in
//! for it, and k itself where i is paired with itself. A rate of zero means "does not fit" and is no evidence.

use crate::evidence::Evidence;
use crate::features::{PSI, Psi, SPEC, Spec, distance2, spec};

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

/// Similarity of workloads. It does not change while an estimator lives.
pub(super) struct Likeness {
    pub(super) psi: Vec<Psi>,
    pub(super) spec: Vec<Spec>,
    /// A number for every family; a workload without features is a family of its own.
    pub(super) family: Vec<usize>,
    /// Everybody else with features, the most alike first, by workload.
    ranking: Vec<Vec<u32>>,
}

impl Likeness {
    pub(super) fn new(evidence: &Evidence) -> Self {
        let workloads = evidence.workloads();
        let mut names: Vec<&str> = Vec::new();
        let family: Vec<usize> = workloads
            .iter()
            .map(|t| {
                let name = t.features.as_ref().map_or(t.name.as_str(), |w| w.family.as_str());
                names.iter().position(|n| *n == name).unwrap_or_else(|| {
                    names.push(name);
                    names.len() - 1
                })
            })
            .collect();
        // Whoever comes without features is the middle of everybody.
        let psi: Vec<Psi> = workloads.iter().map(|t| t.psi.map_or([0.0; PSI], tame)).collect();
        let ranking = (0..workloads.len())
            .map(|i| {
                let mut others: Vec<u32> =
                    (0..workloads.len()).filter(|&k| k != i && workloads[k].psi.is_some()).map(|k| k as u32).collect();
                let far = |k: u32| (family[k as usize] != family[i], distance2(&psi[i], &psi[k as usize]));
                others.sort_by(|&one, &two| {
                    let ((f1, d1), (f2, d2)) = (far(one), far(two));
                    f1.cmp(&f2).then(d1.total_cmp(&d2)).then(one.cmp(&two))
                });
                others
            })
            .collect();
        Self { psi, spec: evidence.kinds().iter().map(|k| tame(spec(k))).collect(), family, ranking }
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
            self.collect(evidence, case, visible, &|_| Some(case.j), &mut found);
        }
        if found.is_empty() && case.i == case.j {
            self.collect(evidence, case, visible, &Some, &mut found);
        }
        for &other in
            self.ranking[case.j].iter().filter(|&&s| visible(s as usize) && s as usize != case.i).take(STAND_INS)
        {
            if !found.is_empty() {
                break;
            }
            self.collect(evidence, case, visible, &|_| Some(other as usize), &mut found);
        }
        found
    }

    fn collect(
        &self,
        evidence: &Evidence,
        case: Case,
        visible: &dyn Fn(usize) -> bool,
        partner: &dyn Fn(usize) -> Option<usize>,
        found: &mut Vec<Neighbour>,
    ) {
        for k in self.ranking[case.i].iter().map(|&k| k as usize).filter(|&k| visible(k)) {
            let Some(j) = partner(k) else { continue };
            let rates = [evidence.relative(k, j, case.a), evidence.relative(j, k, case.a)];
            if rates.iter().all(|r| r.is_finite()) {
                found.push(Neighbour { k, rates: rates.map(|r| r.clamp(-7.0, 0.7)) });
                if found.len() == NEIGHBOURS {
                    return;
                }
            }
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

/// A ln of a relative rate as a network reads it: about between −3 and 1.
pub(super) fn scaled(ln: f64) -> f32 {
    ((ln + 0.6) / 0.5) as f32
}

/// No feature, however odd, is further out than this.
fn tame<const N: usize>(point: [f64; N]) -> [f64; N] {
    point.map(|x| if x.is_finite() { x.clamp(-8.0, 8.0) } else { 0.0 })
}
