//! Zeus' measurements of power limits (NSDI '23): shared/data/zeus beside the checkout.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The kinds that were measured.
pub(crate) const KINDS: [&str; 4] = ["v100", "a40", "rtx6000", "p100"];

/// Epochs per second, and watts, by power limit.
pub(crate) type Cells = BTreeMap<u32, (f64, f64)>;

/// What every variant (data set, network, batch size, optimizer) that was run on all kinds did on each, by its name.
pub(crate) fn variants(folder: &Path) -> BTreeMap<String, Vec<Cells>> {
    let mut variants: BTreeMap<String, Vec<Cells>> = BTreeMap::new();
    for (j, kind) in KINDS.iter().enumerate() {
        let text = std::fs::read_to_string(folder.join(format!("summary_power_{kind}.csv"))).expect("it is there");
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split(',').collect();
            let [dataset, network, batch, optimizer, limit, seconds, watts] = fields[..] else { continue };
            let number = |field: &str| field.parse::<f64>().expect("a number");
            let key = format!("{dataset} {network} {batch} {optimizer}");
            let cells = variants.entry(key).or_insert_with(|| vec![Cells::new(); KINDS.len()]);
            cells[j].insert(number(limit) as u32, (1.0 / number(seconds), number(watts)));
        }
    }
    variants.retain(|_, cells| cells.iter().all(|cells| !cells.is_empty()));
    variants
}

/// The limits of each kind under which all variants were run, lowest first.
pub(crate) fn limits(variants: &BTreeMap<String, Vec<Cells>>) -> Vec<Vec<u32>> {
    let common = |j: usize| {
        let some: BTreeSet<u32> = variants.values().flat_map(|cells| cells[j].keys().copied()).collect();
        some.into_iter().filter(|limit| variants.values().all(|cells| cells[j].contains_key(limit))).collect()
    };
    (0..KINDS.len()).map(common).collect()
}
