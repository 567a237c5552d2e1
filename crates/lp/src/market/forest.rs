//! The forest of ties: which users are indifferent between which resources, and what that says about how their
//! value must be divided.
//!
//! A *tie* is a user `e` with a set `M_e` of at least two resources that cost it the same. Resources and ties are the
//! two kinds of nodes of a graph, `j ∈ M_e` its edges; the engine keeps it free of cycles. Then the parts follow from
//! sums. With supply `s_j`, demand `u_j` of the users who are not tied, and value `v_e` of each tie:
//!
//! ```text
//! left(B)  = Σ_{j∈B} (s_j − u_j) − Σ_{e inside B} v_e        B a set of resources closed under ties
//! part_ej  = left(B_ej),    B_ej = what j still reaches when the edge (e, j) is cut
//! ```
//!
//! A component must have `left = 0`, and every part must be ≥ 0; where not, the set of resources concerned is a
//! direction in which prices should move. The parts of one tie add up to its value when its component is balanced,
//! so the part on the largest side is what the others leave: computed directly it would carry the rounding of sums
//! that may be many decades larger than the user.

/// The most resources that take part.
pub(super) const MOST: usize = 32;

/// A violation must exceed this fraction of the sums that it is the difference of.
const TOLERANCE: f64 = 1e-11;

/// A set of resources, one bit each.
pub(super) type Mask = u32;

/// The resources of a set, in order.
pub(super) fn members(mut mask: Mask) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let first = mask.trailing_zeros() as usize;
        mask &= mask.wrapping_sub(1);
        (first < MOST).then_some(first)
    })
}

/// All of `k` resources.
pub(super) fn everything(k: usize) -> Mask {
    if k == MOST { Mask::MAX } else { (1 << k) - 1 }
}

/// A user who is indifferent between several resources.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tie {
    pub(super) user: u32,
    /// M_e
    pub(super) mask: Mask,
    /// v_e
    pub(super) value: f64,
    /// What of the value goes to each resource.
    pub(super) part: [f64; MOST],
}

/// Supply and untied demand of each resource, in value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Balance {
    pub(super) supply: [f64; MOST],
    pub(super) demand: [f64; MOST],
}

/// A set of resources whose prices should move against all others'.
#[derive(Clone, Copy, Debug)]
pub(super) struct Violation {
    pub(super) mask: Mask,
    /// More is demanded of the set than there is: its prices should rise.
    pub(super) over: bool,
    /// The edge (tie, resource) to be cut first.
    pub(super) cut: Option<(usize, usize)>,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Forest {
    pub(super) ties: Vec<Tie>,
}

impl Forest {
    /// Divides every tie's value; returns the largest violation, or nothing if there is none.
    pub(super) fn settle(&mut self, k: usize, balance: &Balance) -> Option<Violation> {
        let mut worst = Worst { size: 0.0, violation: None };
        let mut seen = 0;
        for root in 0..k {
            if seen >> root & 1 == 1 {
                continue;
            }
            let mask = self.reach(1 << root, None);
            seen |= mask;
            let (left, scale) = self.left(balance, mask, None);
            let balanced = left.abs() <= TOLERANCE * scale;
            if !balanced {
                worst.offer(left.abs(), Violation { mask, over: left < 0.0, cut: None });
            }
            for e in 0..self.ties.len() {
                if self.ties[e].mask & mask != 0 {
                    self.divide(e, balance, balanced, &mut worst);
                }
            }
        }
        worst.violation
    }

    /// Everything that ties lead to from `mask`.
    pub(super) fn reach(&self, mut mask: Mask, without: Option<usize>) -> Mask {
        loop {
            let before = mask;
            for (e, tie) in self.ties.iter().enumerate() {
                if tie.mask & mask != 0 && Some(e) != without {
                    mask |= tie.mask;
                }
            }
            if mask == before {
                return mask;
            }
        }
    }

    /// `left(B)`, and the size of what was added up.
    fn left(&self, balance: &Balance, mask: Mask, without: Option<usize>) -> (f64, f64) {
        let (mut supply, mut demand) = (0.0, 0.0);
        for j in members(mask) {
            supply += balance.supply[j];
            demand += balance.demand[j];
        }
        for (e, tie) in self.ties.iter().enumerate() {
            if tie.mask & mask != 0 && Some(e) != without {
                demand += tie.value;
            }
        }
        (supply - demand, supply + demand)
    }

    /// The parts of one tie.
    fn divide(&mut self, e: usize, balance: &Balance, balanced: bool, worst: &mut Worst) {
        let Tie { mask, value, .. } = self.ties[e];
        let mut sides = [(0, 0.0, 0.0); MOST];
        let mut largest = None::<usize>;
        for j in members(mask) {
            let side = self.reach(1 << j, Some(e));
            let (left, scale) = self.left(balance, side, Some(e));
            sides[j] = (side, left, scale);
            if largest.is_none_or(|i| sides[i].2 < scale) {
                largest = Some(j);
            }
        }
        if let (true, Some(j)) = (balanced, largest) {
            let (mut total, mut scales) = (0.0, 0.0);
            for i in members(mask).filter(|&i| i != j) {
                total += sides[i].1;
                scales += sides[i].2;
            }
            (sides[j].1, sides[j].2) = (value - total, scales + value);
        }
        for j in members(mask) {
            let (side, left, scale) = sides[j];
            self.ties[e].part[j] = left;
            if left < -TOLERANCE * scale {
                worst.offer(-left, Violation { mask: side, over: true, cut: Some((e, j)) });
            }
        }
    }
}

/// The largest violation so far.
struct Worst {
    size: f64,
    violation: Option<Violation>,
}

impl Worst {
    fn offer(&mut self, size: f64, violation: Violation) {
        if size > self.size {
            (self.size, self.violation) = (size, Some(violation));
        }
    }
}
