//! A few users at once: the least draw of a group while all others have what they have, and nobody comes to envy anybody. What one user alone cannot do, as the
//! resource that it would rather have is sold out, several can: they exchange.

use super::proof::Envy;
use super::{PIVOTS, Standing, Turns};
use crate::Status;
use crate::simplex::Simplex;

/// Users in a group.
const SIZE: usize = 12;
/// Times that rows are added for a group.
const ROUNDS: usize = 40;
/// A row inside a group is broken if it is exceeded by this part.
const BROKEN: f64 = 1e-9;

/// A column: its user, by its place in the group, way, resource, rate and draw.
type Column = (usize, usize, usize, f64, f64);

impl Turns<'_> {
    /// A use that draws no more than `x`, which keeps every row: group after group takes what draws least for it. Another `sweep` has other groups.
    pub(super) fn by_groups(&self, x: &[f64], envy: &Envy<'_>, sweep: usize) -> Vec<f64> {
        let (problem, k, ways, n) = (self.problem, self.k, self.problem.ways(), self.problem.users());
        let (mut now, mut worth) = (Standing::new(self, x, envy), vec![0.0; n]);
        // Members stand as far from each other as they can, another distance in every sweep.
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by_key(|l| ((l + 1).wrapping_mul(0x9E37_79B9 + 2 * sweep * 0x1000_0001) & 0xFFFF_FFFF, *l));
        for group in order.chunks(SIZE) {
            let room = now.room(group);
            // What those outside have asks of everybody inside.
            let mut without = now.held.clone();
            group.iter().for_each(|&l| without.set(l, &vec![0.0; k], 0.0));
            let asked = |&l: &usize| envy.asked_of(l, &without, &mut worth).min(now.has[l] * self.asked.floors[l]);
            let floors: Vec<f64> = group.iter().map(asked).collect();
            let Some(own) = self.of_group(group, envy, &floors, &room, &now.has) else { continue };
            let before: f64 = group.iter().map(|&l| now.draw_of(l, &now.x[l * ways..][..ways])).sum();
            let after: f64 = group.iter().zip(own.chunks_exact(ways)).map(|(&l, x)| now.draw_of(l, x)).sum();
            if after >= before {
                continue;
            }
            now.free = room;
            for (&l, own) in group.iter().zip(own.chunks_exact(ways)) {
                let mut units = vec![0.0; k];
                own.iter().enumerate().for_each(|(a, x)| units[problem.resource[a]] += x);
                now.give(l, own, &units);
            }
        }
        now.x
    }

    /// The group's uses, by user and way.
    fn of_group(
        &self,
        group: &[usize],
        envy: &Envy<'_>,
        floors: &[f64],
        room: &[f64],
        has: &[f64],
    ) -> Option<Vec<f64>> {
        let (problem, k, weight) = (self.problem, self.k, self.problem.weight);
        let columns: Vec<Column> = group
            .iter()
            .enumerate()
            .flat_map(|(g, &l)| problem.useful(l).map(move |(a, j, w, p)| (g, a, j, w, p)))
            .collect();
        let mut simplex = with_floors_and_room(&columns, floors, room);
        let mut outside: Vec<Vec<u32>> = vec![Vec::new(); group.len()];
        let mut inside: Vec<(usize, usize)> = Vec::new();
        let most = |i: usize| if group.contains(&i) { f64::INFINITY } else { has[i] };
        let mut news: Vec<Vec<u32>> = group
            .iter()
            .map(|&l| self.found.limited_by[l].iter().copied().filter(|i| !group.contains(&(*i as usize))).collect())
            .collect();
        for _ in 0..ROUNDS {
            for (g, news) in news.iter().enumerate() {
                for &i in news {
                    let sight = &self.sight[i as usize * k..][..k];
                    let of = |c: &Column| if c.0 == g { sight[c.2] / weight[group[g]] } else { 0.0 };
                    simplex.add_row(&terms(&columns, &of), has[i as usize]);
                    outside[g].push(i);
                }
            }
            if simplex.solve(PIVOTS * group.len() as u32) != Status::Optimal {
                return None;
            }
            let (x, units, speeds) = uses(&columns, simplex.values(), group.len(), problem.ways(), k);
            news = (0..group.len()).map(|g| self.broken(group[g], &units[g * k..][..k], &most, &outside[g])).collect();
            let mut found = news.iter().any(|news| !news.is_empty());
            for (a, &l) in group.iter().enumerate() {
                let best = &envy.best[l * k..][..k];
                for (b, &i) in group.iter().enumerate().filter(|(b, _)| *b != a) {
                    let factor = self.asked.part * weight[l] / weight[i];
                    let seen: f64 = factor * best.iter().zip(&units[b * k..]).map(|(a, x)| a * x).sum::<f64>();
                    if seen <= speeds[a] * (1.0 + BROKEN) || inside.contains(&(a, b)) {
                        continue;
                    }
                    let of = |c: &Column| match c.0 {
                        g if g == a => -c.3,
                        g if g == b => factor * best[c.2],
                        _ => 0.0,
                    };
                    simplex.add_row(&terms(&columns, &of), 0.0);
                    inside.push((a, b));
                    found = true;
                }
            }
            if !found {
                return Some(x);
            }
        }
        None
    }
}

/// What of every column stands in a row.
fn terms(columns: &[Column], of: &dyn Fn(&Column) -> f64) -> Vec<(u32, f64)> {
    let all = columns.iter().enumerate().map(|(c, column)| (c as u32, of(column)));
    all.filter(|(_, value)| *value != 0.0).collect()
}

/// The least draw with which everybody in the group has its floor, within what is left of every resource.
fn with_floors_and_room(columns: &[Column], floors: &[f64], room: &[f64]) -> Simplex {
    let mut simplex = Simplex::new(&columns.iter().map(|column| -column.4).collect::<Vec<f64>>());
    for (g, floor) in floors.iter().enumerate() {
        simplex.add_row(&terms(columns, &|c| if c.0 == g { -c.3 } else { 0.0 }), -floor);
    }
    for (j, room) in room.iter().enumerate() {
        let of = terms(columns, &|c| if c.2 == j { 1.0 } else { 0.0 });
        if !of.is_empty() {
            simplex.add_row(&of, *room);
        }
    }
    simplex
}

/// What values of columns mean: uses by user and way, units by user and resource, speeds.
fn uses(columns: &[Column], values: &[f64], group: usize, ways: usize, k: usize) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let (mut x, mut units, mut speeds) = (vec![0.0; group * ways], vec![0.0; group * k], vec![0.0; group]);
    for (column, v) in columns.iter().zip(values) {
        let v = v.max(0.0);
        x[column.0 * ways + column.1] = v;
        units[column.0 * k + column.2] += v;
        speeds[column.0] += column.3 * v;
    }
    (x, units, speeds)
}
