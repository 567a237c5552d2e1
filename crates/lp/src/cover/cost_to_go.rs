//! The least cost of completing a pattern, by dynamic programming: a table per class.
//!
//! Parts are counted in cells of `1/G`, rounded up, so that all costs here are lower bounds. With `v_q` the least price of a
//! slot of `q` cells, a demand that lacks `g` cells and may still have `i` slots costs at least
//!
//! ```text
//! F_0(g) = short_price · g / G         F_i(g) = min( F_0(g),  min_q v_q + F_{i−1}(max(0, g − q)) )
//! S = min( h(∅),  min_q v_q + F_{D−1}(G − q) )
//! ```

use super::Cover;

/// G.
pub(super) const GRID: usize = 200;
/// Tables stop growing after so many slots; demands that may have more are not enumerated.
pub(super) const MOST_SLOTS: usize = 32;

/// Cells of a part.
pub(super) fn cells(part: f64) -> u8 {
    (part * GRID as f64 - 1e-9).ceil().clamp(1.0, GRID as f64) as u8
}

/// F and S of one class.
#[derive(Clone, Debug, Default)]
pub(super) struct CostToGo {
    rest: Vec<f64>,
    layers: usize,
    /// S of the formula above.
    pub(super) base: f64,
    /// Slots that are cheaper than all larger ones: cells, price, and whose it is.
    pub(super) frontier: Vec<(u8, f64, u32)>,
}

impl CostToGo {
    /// From the slots of a class, as cells, price and a number of their own.
    pub(super) fn rebuild(&mut self, cover: &Cover, class: usize, slots: impl Iterator<Item = (u8, f64, u32)>) {
        let mut best = [(f64::INFINITY, 0u32); GRID + 1];
        for (q, price, whose) in slots {
            let best = &mut best[usize::from(q)];
            if price < best.0 {
                *best = (price, whose);
            }
        }
        self.frontier.clear();
        let mut least = f64::INFINITY;
        for q in (1..=GRID).rev() {
            if best[q].0 < least {
                least = best[q].0;
                self.frontier.push((q as u8, least, best[q].1));
            }
        }
        let most = (cover.classes[class].most as usize).min(MOST_SLOTS);
        let short = cover.classes[class].short_price / GRID as f64;
        self.layers = most;
        self.rest.clear();
        self.rest.extend((0..=GRID).map(|g| short * g as f64));
        for i in 1..most {
            self.rest.extend_from_within(..=GRID);
            let (before, now) = self.rest.split_at_mut(i * (GRID + 1));
            let before = &before[(i - 1) * (GRID + 1)..];
            for &(q, price, _) in &self.frontier {
                let q = usize::from(q);
                let whole = price + before[0];
                now[..q].iter_mut().for_each(|rest| *rest = rest.min(whole));
                for (now, before) in now[q..].iter_mut().zip(before) {
                    *now = now.min(price + before);
                }
            }
        }
        self.base = cover.shortage(class, 0.0, 0);
        for &(q, price, _) in &self.frontier {
            self.base = self.base.min(price + self.rest(most - 1, GRID - usize::from(q)));
        }
    }

    /// F: the least cost to come, with so many slots left and so many cells lacking.
    pub(super) fn rest(&self, slots: usize, lacking: usize) -> f64 {
        self.rest[slots.min(self.layers - 1) * (GRID + 1) + lacking]
    }

    /// The numbers of the slots of a cheapest pattern.
    pub(super) fn cheapest(&self, mut each: impl FnMut(u32)) {
        let Some(&(q, _, whose)) = (self.frontier.iter())
            .find(|(q, price, _)| price + self.rest(self.layers - 1, GRID - usize::from(*q)) <= self.base)
        else {
            return;
        };
        each(whose);
        let mut lacking = GRID - usize::from(q);
        for slots in (1..self.layers).rev() {
            let here = self.rest(slots, lacking);
            let on = |q: u8| lacking.saturating_sub(usize::from(q));
            if here >= self.rest(0, lacking) {
                return;
            }
            match self.frontier.iter().find(|(q, price, _)| price + self.rest(slots - 1, on(*q)) <= here) {
                Some(&(q, _, whose)) => {
                    each(whose);
                    lacking = on(q);
                }
                None => return,
            }
        }
    }
}
