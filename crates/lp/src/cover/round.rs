//! Rounds the linear solution to whole units. It is nearly whole; the search takes care of the few demands that are left over.

use super::columns::NONE;
use super::state::State;

/// Uses each column as often as its amount says when rounded, the largest first, as far as units and room go.
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
