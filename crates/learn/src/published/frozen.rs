//! A trained network as plain numbers: what estimates are made with.
//!
//! An estimate is one row at a time, where a tensor library spends its time on bookkeeping (some fifty allocations for
//! one answer of the recurrent network). The formulas are those of `net.rs`; a test there holds the two together.

use super::net::{OUT, Shape};

/// A matrix, row after row, with the row that is added to every product.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Layer {
    pub(super) weights: Vec<f32>,
    pub(super) bias: Vec<f32>,
}

impl Layer {
    /// x·W + b.
    fn of(&self, x: &[f32]) -> Vec<f32> {
        let mut y = self.bias.clone();
        for (x, row) in x.iter().zip(self.weights.chunks_exact(y.len())) {
            for (y, w) in y.iter_mut().zip(row) {
                *y += x * w;
            }
        }
        y
    }
}

/// A network that learns no more.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Frozen {
    pub(super) shape: Shape,
    pub(super) bounded: bool,
    pub(super) layers: [Layer; 3],
}

impl Frozen {
    /// What the network says of a row; 0 for what is no number.
    pub(super) fn say(&self, x: &[f32]) -> [f32; OUT] {
        let [first, second, last] = &self.layers;
        let h = match self.shape {
            Shape::Forward => tanh(second.of(&tanh(first.of(x)))),
            Shape::Recurrent(steps) => {
                let mut h = vec![0.0; last.weights.len() / OUT];
                for x in x.chunks_exact(x.len() / steps) {
                    if x[0] != 0.0 {
                        self.step(x, &mut h);
                    }
                }
                h
            }
        };
        let y = last.of(&h);
        [y[0], y[1]].map(|y| if self.bounded { y.tanh() } else { y }).map(|y| if y.is_finite() { y } else { 0.0 })
    }

    fn step(&self, x: &[f32], h: &mut [f32]) {
        let n = h.len();
        let (own, past) = (self.layers[0].of(x), self.layers[1].of(h));
        for u in 0..n {
            let r = sigmoid(own[u] + past[u]);
            let z = sigmoid(own[n + u] + past[n + u]);
            let c = (own[2 * n + u] + r * past[2 * n + u]).tanh();
            h[u] += x[0] * (1.0 - z) * (c - h[u]);
        }
    }
}

fn tanh(mut x: Vec<f32>) -> Vec<f32> {
    x.iter_mut().for_each(|x| *x = x.tanh());
    x
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}
