//! Max-min instances for property tests.

use arles_lp::families::{Family, Instance, Recipe};
use proptest::prelude::*;
use std::ops::Range;

/// Instances of every family and shape, some with ties, lost resources and rates eighteen decades apart.
pub(crate) fn instances(users: Range<usize>, resources: Range<usize>) -> impl Strategy<Value = Instance> {
    let shape = (0..4usize, users, resources, 0..5usize, 0..3usize, 0..2usize, any::<u64>());
    (shape, any::<bool>(), any::<bool>()).prop_map(|((family, users, k, load, uncapped, spread, seed), ties, lost)| {
        let mut instance = Instance::new(&Recipe {
            family: Family::ALL[family],
            users,
            resources: k,
            load: [0.01, 0.1, 0.4, 1.0, 10.0][load],
            uncapped: [0.0, 0.3, 1.0][uncapped],
            spread: [0.0, 9.0][spread],
            seed,
        });
        if ties && spread == 0 {
            instance.w.iter_mut().for_each(|w| *w = w.ceil());
            instance.beta.iter_mut().for_each(|beta| *beta = beta.ceil());
        }
        let servable = |instance: &Instance| instance.w.chunks(k).all(|w| w[1..].iter().any(|&w| w > 0.0));
        if lost && k > 1 && servable(&instance) {
            instance.capacity[0] = 0.0;
        }
        instance
    })
}
