//! Small networks and how they are trained: the only file that has heard of the tensor library.
//!
//! Two shapes, rows of inputs in and two numbers a row out:
//!
//! ```text
//! forward     h₁ = tanh(x·W₁ + b₁),  h₂ = tanh(h₁·W₂ + b₂),  y = h₂·W₃ + b₃
//! recurrent   over steps x₁ … x_n:   r = σ(x·W_r + h·U_r + …),  z = σ(…),  c = tanh(x·W_c + r∘(h·U_c + …))
//!             h ← h + p·(1 − z)∘(c − h),   y = h_n·W + b       p: whether the step is there, its first input
//! ```
//!
//! The last layer starts at zero, so an untrained network says 0 and a caller that adds its answer to a first guess has
//! that guess. Weights come from a generator of our own and batches are drawn by it, so a seed fixes every bit of the result on
//! a given machine: the library's products are split over rows and columns, never over the sum, whatever the threads.

use super::frozen::{Frozen, Layer};
use crate::rng::Rng;
use candle_core::{DType, Device, Result, Tensor, Var};
use candle_nn::{AdamW, Optimizer, ParamsAdamW, ops::sigmoid};
use std::f64::consts::PI;

/// Parameters a network says of a row.
pub(super) const OUT: usize = 2;
/// Width of both hidden layers of the forward shape.
const HIDDEN: usize = 48;
/// Width of the recurrent state.
const STATE: usize = 32;
/// Epochs over a training row at most.
const MOST_TIMES: usize = 80;
/// δ: where the loss turns from square to linear, in logarithms of rates.
const HUBER: f64 = 0.3;

/// How a network is built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shape {
    /// Two hidden layers.
    Forward,
    /// A gated recurrent unit over so many steps.
    Recurrent(usize),
}

/// What a network learns from: rows of inputs x, factors s and wanted numbers y. The loss is the smooth Huber function of
/// s·out − y. A y that is not a number does not count.
#[derive(Default)]
pub(super) struct TrainingRows {
    pub(super) x: Vec<Vec<f32>>,
    pub(super) s: Vec<[f32; OUT]>,
    pub(super) y: Vec<[f32; OUT]>,
}

/// How long and how hard to train.
#[derive(Clone, Copy, Debug)]
pub(super) struct TrainingSchedule {
    pub(super) steps: usize,
    pub(super) batch: usize,
    /// Falls to 0 along a half cosine.
    pub(super) rate: f64,
    /// Decay of weights towards 0.
    pub(super) decay: f64,
}

/// A network with its weights. A copy shares them.
#[derive(Clone)]
pub(super) struct Network {
    shape: Shape,
    /// Whether what it says is kept between −1 and 1.
    bounded: bool,
    weights: Vec<Var>,
}

impl Network {
    /// A network that says 0 to everything, for rows (or steps) of `width` numbers.
    pub(super) fn new(shape: Shape, width: usize, bounded: bool, draw: &mut Rng) -> Result<Self> {
        let sizes = match shape {
            Shape::Forward => [(width, HIDDEN), (1, HIDDEN), (HIDDEN, HIDDEN), (1, HIDDEN), (HIDDEN, OUT), (1, OUT)],
            Shape::Recurrent(_) => {
                [(width, 3 * STATE), (1, 3 * STATE), (STATE, 3 * STATE), (1, 3 * STATE), (STATE, OUT), (1, OUT)]
            }
        };
        let last = sizes.len() - 2;
        let weights = sizes.iter().enumerate().map(|(l, &(rows, columns))| {
            // Glorot's range; biases and the last layer start at 0.
            let range = if rows == 1 || l >= last { 0.0 } else { (6.0 / (rows + columns) as f32).sqrt() };
            let numbers: Vec<f32> = (0..rows * columns).map(|_| range * even(draw)).collect();
            Var::from_vec(numbers, (rows, columns), &Device::Cpu)
        });
        Ok(Self { shape, bounded, weights: weights.collect::<Result<_>>()? })
    }

    /// The network as plain numbers.
    pub(super) fn freeze(&self) -> Result<Frozen> {
        let layer = |l: usize| -> Result<Layer> {
            let numbers = |l: usize| self.weights[l].flatten_all()?.to_vec1::<f32>();
            Ok(Layer { weights: numbers(l)?, bias: numbers(l + 1)? })
        };
        Ok(Frozen { shape: self.shape, bounded: self.bounded, layers: [layer(0)?, layer(2)?, layer(4)?] })
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let w = &self.weights;
        let layer = |x: &Tensor, l: usize| x.matmul(&w[l])?.broadcast_add(&w[l + 1]);
        let y = match self.shape {
            Shape::Forward => layer(&layer(&layer(x, 0)?.tanh()?, 2)?.tanh()?, 4)?,
            Shape::Recurrent(steps) => {
                let (rows, width) = (x.dim(0)?, x.dim(1)? / steps);
                // All steps' products with the inputs at once.
                let owns = layer(&x.reshape((rows * steps, width))?, 0)?.reshape((rows, steps * 3 * STATE))?;
                let mut h = Tensor::zeros((rows, STATE), DType::F32, &Device::Cpu)?;
                for step in 0..steps {
                    let past = layer(&h, 2)?;
                    let own = |gates: usize, count: usize| owns.narrow(1, (3 * step + gates) * STATE, count * STATE);
                    let rz = sigmoid(&(own(0, 2)? + past.narrow(1, 0, 2 * STATE)?)?)?;
                    let (r, z) = (rz.narrow(1, 0, STATE)?, rz.narrow(1, STATE, STATE)?);
                    let c = (own(2, 1)? + (r * past.narrow(1, 2 * STATE, STATE)?)?)?.tanh()?;
                    let moved = ((1.0 - z)? * (c - &h)?)?;
                    h = (h + moved.broadcast_mul(&x.narrow(1, step * width, 1)?)?)?;
                }
                layer(&h, 4)?
            }
        };
        if self.bounded { y.tanh() } else { Ok(y) }
    }

    /// Trains on the lessons that `take` names; does nothing where there are none.
    pub(super) fn train(
        &self,
        training: &TrainingRows,
        take: &[usize],
        plan: &TrainingSchedule,
        draw: &mut Rng,
    ) -> Result<()> {
        if take.is_empty() {
            return Ok(());
        }
        let params = ParamsAdamW { lr: plan.rate, weight_decay: plan.decay, ..ParamsAdamW::default() };
        let mut adam = AdamW::new(self.weights.clone(), params)?;
        let mut order = take.to_vec();
        let mut at = order.len();
        // Few lessons are learned sooner, and in smaller batches.
        let steps = plan.steps.min(1 + MOST_TIMES * take.len() / plan.batch);
        let batch = plan.batch.min(take.len().div_ceil(3));
        for step in 0..steps {
            if at + batch > order.len() {
                draw.shuffle(&mut order);
                at = 0;
            }
            let rows = &order[at..at + batch];
            at += batch;
            adam.set_learning_rate(plan.rate * 0.5 * (1.0 + (PI * step as f64 / steps as f64).cos()));
            adam.backward_step(&self.loss(training, rows)?)?;
        }
        Ok(())
    }

    /// δ²·(√(1 + (e/δ)²) − 1), the mean over everything that counts.
    fn loss(&self, training: &TrainingRows, rows: &[usize]) -> Result<Tensor> {
        let counts = |y: f32| f32::from(u8::from(y.is_finite()));
        let x = table(rows.iter().map(|&r| training.x[r].as_slice()))?;
        let pairs = |f: &dyn Fn(usize, usize) -> f32| {
            let numbers: Vec<f32> = rows.iter().flat_map(|&r| [f(r, 0), f(r, 1)]).collect();
            Tensor::from_vec(numbers, (rows.len(), OUT), &Device::Cpu)
        };
        let s = pairs(&|r, o| training.s[r][o] * counts(training.y[r][o]))?;
        let y = pairs(&|r, o| if training.y[r][o].is_finite() { training.y[r][o] } else { 0.0 })?;
        let e = ((self.forward(&x)? * s)? - y)?;
        let d2 = HUBER * HUBER;
        (e.sqr()?.affine(1.0 / d2, 1.0)?.sqrt()?.affine(d2, -d2))?.mean_all()
    }
}

/// Evenly between −1 and 1.
fn even(draw: &mut Rng) -> f32 {
    2.0 * draw.uniform() as f32 - 1.0
}

fn table<'a>(rows: impl ExactSizeIterator<Item = &'a [f32]> + Clone) -> Result<Tensor> {
    let (n, width) = (rows.len(), rows.clone().next().map_or(0, <[f32]>::len));
    Tensor::from_vec(rows.flatten().copied().collect::<Vec<f32>>(), (n, width), &Device::Cpu)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// y₁ = x₁·x₂, y₂ = max(x₁, x₂), in steps of four numbers of which the first says "there".
    fn training(steps: usize) -> TrainingRows {
        let mut draw = Rng::new(5, "lessons");
        let mut training = TrainingRows::default();
        for _ in 0..400 {
            let (a, b) = (even(&mut draw), even(&mut draw));
            let step = [1.0, a, b, 0.3];
            training.x.push(step.repeat(steps));
            training.s.push([1.0; OUT]);
            training.y.push([a * b, a.max(b)]);
        }
        training
    }

    fn trained(shape: Shape, steps: usize, seed: u64) -> Frozen {
        let training = training(steps);
        let mut draw = Rng::new(seed, "weights");
        let net = Network::new(shape, 4, false, &mut draw).unwrap();
        let blank = net.freeze().unwrap();
        assert!(training.x.iter().all(|x| blank.say(x) == [0.0; OUT]));
        let take: Vec<usize> = (0..300).collect();
        let plan = TrainingSchedule { steps: 300, batch: 64, rate: 1e-2, decay: 1e-4 };
        net.train(&training, &take, &plan, &mut draw).unwrap();
        let frozen = net.freeze().unwrap();
        let tensor =
            net.forward(&table(training.x.iter().map(Vec::as_slice)).unwrap()).unwrap().to_vec2::<f32>().unwrap();
        let mut error = 0.0;
        for ((x, y), same) in training.x.iter().zip(&training.y).zip(&tensor).skip(300) {
            let said = frozen.say(x);
            for o in 0..OUT {
                assert!((said[o] - same[o]).abs() < 1e-5, "{shape:?}: {said:?} is not {same:?}");
                error += (said[o] - y[o]).abs() / 200.0;
            }
        }
        assert!(error < 0.08, "{shape:?}: {error}");
        frozen
    }

    #[test]
    fn both_shapes_learn_and_a_seed_fixes_every_bit() {
        for (shape, steps) in [(Shape::Forward, 1), (Shape::Recurrent(3), 3)] {
            let (one, two, other) = (trained(shape, steps, 1), trained(shape, steps, 1), trained(shape, steps, 2));
            let bits = |net: &Frozen| {
                let numbers = |l: &Layer| l.weights.iter().chain(&l.bias).map(|w| w.to_bits()).collect::<Vec<_>>();
                net.layers.iter().flat_map(numbers).collect::<Vec<_>>()
            };
            assert_eq!(bits(&one), bits(&two));
            assert_ne!(bits(&one), bits(&other));
        }
    }

    #[test]
    fn a_step_that_is_not_there_changes_nothing() {
        let net = trained(Shape::Recurrent(2), 2, 3);
        let hidden = [0.0, 7.0, 7.0, 7.0, 1.0, 0.1, 0.2, 0.3];
        let nothing = [0.0, 0.0, 0.0, 0.0, 1.0, 0.1, 0.2, 0.3];
        assert_eq!(net.say(&hidden), net.say(&nothing));
    }
}
