//! What a demand costs, at least, with a slot or without any.
//!
//! Parts are counted in cells of `1/G`, rounded up, so that all costs here are lower bounds. With `v_q` the least price of a
//! slot of `q` cells,
//!
//! ```text
//! S = min( h(∅),  min_q v_q + short_price · (G − q) / G )
//! ```

use super::Cover;

/// G.
pub(super) const GRID: usize = 200;

/// Cells of a part.
pub(super) fn cells(part: f64) -> u8 {
    (part * GRID as f64 - 1e-9).ceil().clamp(1.0, GRID as f64) as u8
}

/// The costs of one class.
#[derive(Clone, Copy, Debug)]
pub(super) struct PatternCost {
    /// What one cell costs that is not covered.
    cell_price: f64,
    /// S: what all of it costs before anything is covered.
    pub(super) base: f64,
}

impl PatternCost {
    /// From the slots of a class, as cells and price.
    pub(super) fn new(cover: &Cover, class: usize, slots: impl Iterator<Item = (u8, f64)>) -> Self {
        let cell_price = cover.classes[class].short_price / GRID as f64;
        let mut costs = Self { cell_price, base: cover.shortage(class, 0.0, 0) };
        for (q, price) in slots {
            costs.base = costs.base.min(price + costs.short(GRID - usize::from(q)));
        }
        costs
    }

    /// What so many cells cost that are not covered.
    pub(super) fn short(&self, lacking: usize) -> f64 {
        self.cell_price * lacking as f64
    }
}
