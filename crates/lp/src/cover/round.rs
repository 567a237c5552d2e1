//! Rounds the linear solution to whole units, where classes are large.
//!
//! Each class divides its slots into patterns (`cover/cut.rs`), takes the whole parts of their amounts, and gives its
//! demands wishes: slots of columns. Of a pair as many units come about as both sides wish for. What is lost by the
//! rounding is a few demands per class; the search takes care of them.

use super::columns::NONE;
use super::cut;
use super::state::State;

/// Amounts below this part of a unit are none.
const NOTHING: f64 = 1e-6;
/// Parts closer than this are one.
const SAME: f64 = 1e-9;

/// Serves demands as the amounts `x` of columns say.
pub(super) fn round(state: &mut State<'_>, x: &[(u32, f64)]) {
    let n = state.cover.classes.len();
    let mut slots: Vec<Vec<(f64, u32, usize, f64)>> = vec![Vec::new(); n];
    for &(column, x) in x.iter().filter(|x| x.1 > NOTHING) {
        let activity = &state.columns[column as usize];
        for (side, (class, part)) in activity.sides().enumerate() {
            slots[class].push((part, column, side, x));
        }
    }
    let mut wishes: Vec<(u32, usize, u32)> = Vec::new();
    for (class, slots) in slots.iter_mut().enumerate() {
        slots.sort_unstable_by(|x, y| x.0.total_cmp(&y.0).then((x.1, x.2).cmp(&(y.1, y.2))));
        wish(state, class, slots, &mut wishes);
    }
    grant(state, wishes);
}

/// Uses each column as often as its amount says when rounded, the largest first, as far as units and room go. Good where
/// every demand has one slot: the linear solution is nearly whole.
pub(super) fn nearest(state: &mut State<'_>, x: &[(u32, f64)]) {
    let mut order: Vec<(u32, f64)> = x.iter().copied().filter(|x| x.1 > 0.5).collect();
    order.sort_unstable_by(|x, y| y.1.total_cmp(&x.1).then(x.0.cmp(&y.0)));
    let mut next = state.starts.clone();
    for (column, x) in order {
        let activity = state.columns[column as usize];
        for _ in 0..x.round() as u32 {
            let mut demands = [NONE; 2];
            for (side, (class, _)) in activity.sides().enumerate() {
                if next[class] < state.starts[class + 1] {
                    demands[side] = next[class];
                    next[class] += 1;
                }
            }
            let all = demands[0] != NONE && (activity.is_alone() || demands[1] != NONE);
            if !all || state.free[activity.resource as usize] < activity.units {
                // Whoever was picked waits for another column.
                activity
                    .sides()
                    .enumerate()
                    .for_each(|(side, (class, _))| next[class] -= u32::from(demands[side] != NONE));
                break;
            }
            state.add(column, demands);
        }
    }
}

/// Divides a class's slots into patterns, and these among its demands.
fn wish(state: &State<'_>, class: usize, slots: &[(f64, u32, usize, f64)], wishes: &mut Vec<(u32, usize, u32)>) {
    let count = state.cover.classes[class].count;
    if count == 0 {
        return;
    }
    let mut parts: Vec<(f64, f64)> = Vec::new();
    let mut pools: Vec<Vec<(u32, usize, f64)>> = Vec::new();
    for &(part, column, side, x) in slots {
        if parts.last().is_none_or(|last| part - last.0 > SAME) {
            parts.push((part, 0.0));
            pools.push(Vec::new());
        }
        let at = parts.len() - 1;
        parts[at].1 += x / f64::from(count);
        pools[at].push((column, side, x));
    }
    let mut demand = state.starts[class];
    let end = state.starts[class + 1];
    for (pattern, y) in cut::patterns(state.cover, class, &parts) {
        let times = (y * f64::from(count) + NOTHING).floor() as u32;
        for _ in 0..times.min(end - demand) {
            let mut some = false;
            for &s in &pattern {
                // The slot of which most is left: sides of a pair keep step.
                let pool = &mut pools[s as usize];
                if let Some(most) = pool.iter_mut().max_by(|x, y| x.2.total_cmp(&y.2))
                    && most.2 > 1.0 - 1e-3
                {
                    most.2 -= 1.0;
                    wishes.push((most.0, most.1, demand));
                    some = true;
                }
            }
            demand += u32::from(some);
        }
    }
}

/// Brings the sides of pairs together, as far as units and both sides go.
fn grant(state: &mut State<'_>, mut wishes: Vec<(u32, usize, u32)>) {
    wishes.sort_unstable();
    for alike in wishes.chunk_by(|x, y| x.0 == y.0) {
        let column = alike[0].0;
        let activity = state.columns[column as usize];
        let sides = alike.partition_point(|wish| wish.1 == 0);
        let (first, second) = alike.split_at(sides);
        // Sides of one class are the same demands in the same order: begin elsewhere in one of the lists.
        let shift = if activity.class[0] == activity.class[1] { second.len() / 2 } else { 0 };
        for (at, &(_, _, demand)) in first.iter().enumerate() {
            let partner = if activity.is_alone() {
                NONE
            } else if at < second.len() {
                second[(at + shift) % second.len()].2
            } else {
                break;
            };
            if state.free[activity.resource as usize] < activity.units {
                break;
            }
            let room = |d: u32| d == NONE || state.has_room(d);
            if partner != demand && room(demand) && room(partner) {
                state.add(column, [demand, partner]);
            }
        }
    }
}
