//! A division, user by user: everybody in turn takes what costs least at given prices while the others have what they have.
//!
//! Rows bind a user that moves from both sides: it needs its floor and what it sees in others' hands, and nobody may come to see more in its hands than it has itself.
//! Out of what is free and its own units it takes what draws least, *each unit at its price*: who could do without a unit that is dear leaves it to others, and of those who
//! could use it only they take it to whom it is worth that much. So users exchange what they hold, through what is free, without a program of several users.
//! What falls from move to move is the draw with what is used at these prices. Prices above those of the program leave something of everything free and let everybody find its place;
//! then they are lowered, round after round, and the last round is without any: that only ever lowers the draw.
//!
//! Every row holds after every move, to rounding.

use super::own::{Asked, Own};
use super::proof::Envy;

/// Where a use leaves everybody, and what is left over.
pub(super) struct Standing {
    pub(super) x: Vec<f64>,
    units: Vec<f64>,
    free: Vec<f64>,
    /// Everybody's speed, in floors.
    has: Vec<f64>,
    /// Who limited everybody when it was last asked.
    limited_by: Vec<Vec<u32>>,
}

impl Standing {
    pub(super) fn new(own: &Own<'_>, x: &[f64], floors: &[f64]) -> Self {
        let (problem, k, n) = (own.problem, own.k, floors.len());
        let units = super::units_of(problem, x);
        let mut free = problem.capacity.to_vec();
        units.iter().enumerate().for_each(|(at, units)| free[at % k] -= units);
        let ways = problem.ways();
        let speed = |l: usize| own.ways_of(l).iter().map(|way| way.2 * x[l * ways + way.0 as usize]).sum::<f64>();
        let has = (0..n).map(|l| speed(l) / floors[l]).collect();
        Self { x: x.to_vec(), units, free, has, limited_by: vec![Vec::new(); n] }
    }

    /// Everybody in turn takes what costs least at these prices.
    pub(super) fn round(&mut self, own: &mut Own<'_>, envy: &Envy<'_>, prices: &[f64]) {
        let (n, k, ways) = (self.has.len(), own.k, own.problem.ways());
        let crowd = envy.crowd(&self.units);
        let mut seen: Vec<f64> = (0..n).map(|l| envy.asked_of(l, &crowd) / envy.floors[l]).collect();
        let mut room = vec![0.0; k];
        for l in 0..n {
            let units = l * k..(l + 1) * k;
            room.iter_mut()
                .zip(self.free.iter().zip(&self.units[units.clone()]))
                .for_each(|(room, (free, own))| *room = f64::max(free + own, 0.0));
            let floor = f64::min(seen[l], self.has[l].max(1.0));
            let asked = Asked {
                prices,
                floor: floor * envy.floors[l],
                most: &self.has,
                room: Some(&room),
                limited_by: &self.limited_by[l],
            };
            if !own.solve(l, &asked) {
                continue;
            }
            let row = &self.x[l * ways..][..ways];
            let cost = |(a, x): (usize, f64)| x * (own.problem.draw[l * ways + a] + prices[own.problem.resource[a]]);
            let before: f64 = row.iter().copied().enumerate().map(cost).sum();
            let after: f64 = own.answer.x.iter().map(|&(a, x)| cost((a as usize, x))).sum();
            self.limited_by[l].clear();
            self.limited_by[l].extend(own.answer.limits.iter().map(|t| t.0));
            if after >= before {
                continue;
            }
            let row = &mut self.x[l * ways..][..ways];
            row.fill(0.0);
            own.answer.x.iter().for_each(|&(a, x)| row[a as usize] = x);
            self.units[units].copy_from_slice(&own.answer.units);
            self.free
                .iter_mut()
                .zip(&room)
                .zip(&own.answer.units)
                .for_each(|((free, room), units)| *free = room - units);
            self.has[l] = own.ways_of(l).iter().map(|way| way.2 * row[way.0 as usize]).sum::<f64>() / envy.floors[l];
            seen.iter_mut().zip(own.seen()).for_each(|(seen, now)| *seen = if *now > *seen { *now } else { *seen });
        }
    }
}
