//! The packing of gangs into the GPUs of a kind that is worth most.
//!
//! A packing is a knapsack. Where every gang size divides the next (1, 2, 4, 8: as a rule), it is solved exactly by adding two small items to one of
//! twice the size, level by level. For other sizes it is solved by dynamic programming while the kind is small, and by value per GPU beyond.

use crate::allocate::Problem;

/// Most GPUs of a kind for which odd sizes are solved exactly: some milliseconds.
const MOST_EXACT: u32 = 1024;

/// Most steps of the dynamic program over all kinds at once: about a millisecond.
const MOST_STEPS: usize = 1_000_000;
/// Of a job that runs nowhere.
const NOWHERE: u8 = u8::MAX;

/// Gangs of every user on every kind (row-major) whose values add up to most, all kinds at once and no user with more gangs than jobs;
/// `None` where that takes too long.
pub(super) fn best_on_all(problem: &Problem, values: &[f64]) -> Option<Vec<u32>> {
    let kinds = problem.kinds();
    let counts: Vec<usize> = problem.capacity.iter().map(|gpus| gpus.floor() as usize).collect();
    // A state is the number of GPUs in use of each kind, in mixed radix.
    let states = counts.iter().try_fold(1usize, |states, n| states.checked_mul(n + 1))?;
    let most = |u: usize| {
        let user = &problem.users[u];
        let room: usize = counts.iter().map(|n| n / user.gang as usize).sum();
        room.min(user.jobs as usize)
    };
    let jobs: Vec<usize> = (0..problem.users.len()).flat_map(|u| std::iter::repeat_n(u, most(u))).collect();
    if states.checked_mul(kinds)?.checked_mul(jobs.len())? > MOST_STEPS || kinds > usize::from(NOWHERE) {
        return None;
    }
    let strides: Vec<usize> = counts.iter().scan(1, |next, n| Some(std::mem::replace(next, *next * (n + 1)))).collect();
    let (mut best, mut choice) = (vec![0.0f64; states], vec![NOWHERE; jobs.len() * states]);
    let mut without = best.clone();
    for (choice, &u) in choice.chunks_exact_mut(states).zip(&jobs) {
        // What is read is still without this job.
        without.copy_from_slice(&best);
        for (kind, name) in (0..kinds).zip(0..NOWHERE) {
            let (value, shift) = (values[u * kinds + kind], problem.users[u].gang as usize * strides[kind]);
            let span = strides[kind] * (counts[kind] + 1);
            if shift >= span {
                continue;
            }
            // States that differ in this kind and those before it; the first of them have too little room taken for this gang to be part of it.
            let spans = best.chunks_exact_mut(span).zip(choice.chunks_exact_mut(span)).zip(without.chunks_exact(span));
            for ((best, choice), without) in spans {
                for ((best, choice), without) in best[shift..].iter_mut().zip(&mut choice[shift..]).zip(without) {
                    let with = without + value;
                    let better = with > *best;
                    *best = if better { with } else { *best };
                    *choice = if better { name } else { *choice };
                }
            }
        }
    }
    let (mut gangs, mut state) = (vec![0; values.len()], states - 1);
    for (choice, &u) in choice.chunks_exact(states).zip(&jobs).rev() {
        if choice[state] != NOWHERE {
            let kind = usize::from(choice[state]);
            gangs[u * kinds + kind] += 1;
            state -= problem.users[u].gang as usize * strides[kind];
        }
    }
    Some(gangs)
}

/// One gang that could be served.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Item {
    /// GPUs; positive.
    pub(super) size: u32,
    /// What serving it is worth; positive.
    pub(super) value: f64,
}

/// Which of `items` to serve on `gpus` GPUs, so that their values add up to most. Of items that are alike the first are taken.
pub(super) fn best(items: &[Item], gpus: u32) -> Vec<bool> {
    let mut chosen = vec![true; items.len()];
    let demand: u64 = items.iter().map(|item| u64::from(item.size)).sum();
    if demand <= u64::from(gpus) {
        return chosen;
    }
    let mut sizes: Vec<u32> = items.iter().map(|item| item.size).filter(|&size| size <= gpus).collect();
    sizes.sort_unstable();
    sizes.dedup();
    chosen.fill(false);
    if sizes.windows(2).all(|pair| pair[1] % pair[0] == 0) {
        doubling(items, &sizes, gpus, &mut chosen);
    } else if gpus <= MOST_EXACT {
        exact(items, gpus, &mut chosen);
    } else {
        by_density(items, gpus, &mut chosen);
    }
    chosen
}

/// Items of one size, made of one or more of the given ones.
struct Bundle {
    value: f64,
    members: Vec<usize>,
}

/// For sizes of which each divides the next. `room` is in units of the present size: what does not fill a larger unit is for the best
/// items of this size and nobody else, and the others are bundled up to the next size.
fn doubling(items: &[Item], sizes: &[u32], gpus: u32, chosen: &mut [bool]) {
    let mut bundles: Vec<Bundle> = Vec::new();
    let mut left = gpus;
    for (level, &size) in sizes.iter().enumerate() {
        let own = items.iter().enumerate().filter(|(_, item)| item.size == size);
        bundles.extend(own.map(|(i, item)| Bundle { value: item.value, members: vec![i] }));
        // Stable: alike items stay in their order.
        bundles.sort_by(|a, b| b.value.total_cmp(&a.value));
        let now = match sizes.get(level + 1) {
            Some(next) => left % next / size,
            None => left / size,
        };
        let taken = bundles.drain(..bundles.len().min(now as usize));
        taken.flat_map(|bundle| bundle.members).for_each(|i| chosen[i] = true);
        if let Some(next) = sizes.get(level + 1) {
            left -= left % next;
            let mut larger: Vec<Bundle> = Vec::with_capacity(bundles.len().div_ceil((next / size) as usize));
            let mut rest = bundles.into_iter();
            while let Some(mut bundle) = rest.next() {
                for other in rest.by_ref().take((next / size) as usize - 1) {
                    bundle.value += other.value;
                    bundle.members.extend(other.members);
                }
                larger.push(bundle);
            }
            bundles = larger;
        }
    }
}

/// Any sizes: the best value of every number of GPUs, item after item.
fn exact(items: &[Item], gpus: u32, chosen: &mut [bool]) {
    let states = gpus as usize + 1;
    let mut best = vec![0.0f64; states];
    let mut taken = vec![false; items.len() * states];
    for (i, item) in items.iter().enumerate() {
        // From full to empty, so that what is read is still without this item.
        for used in (item.size as usize..states).rev() {
            let with = best[used - item.size as usize] + item.value;
            if with > best[used] {
                best[used] = with;
                taken[i * states + used] = true;
            }
        }
    }
    let mut used = states - 1;
    for (i, item) in items.iter().enumerate().rev() {
        if taken[i * states + used] {
            chosen[i] = true;
            used -= item.size as usize;
        }
    }
}

fn by_density(items: &[Item], gpus: u32, chosen: &mut [bool]) {
    let mut order: Vec<usize> = (0..items.len()).collect();
    let density = |i: &usize| items[*i].value / f64::from(items[*i].size);
    order.sort_by(|a, b| density(b).total_cmp(&density(a)).then(a.cmp(b)));
    let mut left = gpus;
    for i in order {
        if items[i].size <= left {
            left -= items[i].size;
            chosen[i] = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn worth(items: &[Item], chosen: &[bool]) -> (u32, f64) {
        let picked = items.iter().zip(chosen).filter(|(_, chosen)| **chosen).map(|(item, _)| *item);
        picked.fold((0, 0.0), |(size, value), item| (size + item.size, value + item.value))
    }

    /// The best of all subsets.
    fn by_force(items: &[Item], gpus: u32) -> f64 {
        let subsets = (0..1u32 << items.len()).map(|set| {
            let chosen: Vec<bool> = (0..items.len()).map(|i| set >> i & 1 == 1).collect();
            worth(items, &chosen)
        });
        subsets.filter(|(size, _)| *size <= gpus).map(|(_, value)| value).fold(0.0, f64::max)
    }

    fn items(sizes: &'static [u32]) -> impl Strategy<Value = Vec<Item>> {
        let item = (prop::sample::select(sizes), 0.01..5.0f64).prop_map(|(size, value)| Item { size, value });
        prop::collection::vec(item, 0..11)
    }

    proptest! {
        #[test]
        fn sizes_that_divide_each_other_are_packed_best(items in items(&[1, 2, 4, 8]), gpus in 0..24u32) {
            let (size, value) = worth(&items, &best(&items, gpus));
            prop_assert!(size <= gpus);
            prop_assert!((value - by_force(&items, gpus)).abs() < 1e-9);
        }

        #[test]
        fn other_sizes_too(items in items(&[1, 2, 3, 5, 6]), gpus in 0..24u32) {
            let (size, value) = worth(&items, &best(&items, gpus));
            prop_assert!(size <= gpus);
            prop_assert!((value - by_force(&items, gpus)).abs() < 1e-9);
        }

        #[test]
        fn nothing_is_oversold_where_only_density_counts(items in items(&[1, 3, 4]), gpus in 0..24u32) {
            let mut chosen = vec![false; items.len()];
            by_density(&items, gpus, &mut chosen);
            prop_assert!(worth(&items, &chosen).0 <= gpus);
        }
    }
}
