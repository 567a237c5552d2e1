//! Lies worth trying: what a user may say of its own rates so that a policy gives it more.
//!
//! First the plain ones, each kind and all fast kinds inflated or deflated by several factors; then mixed ones drawn by seed; then the best of
//! them is bent a little in every direction while that pays. Nothing is proved by finding none: it is a search.

use arles_report::audit::LieRecord;
use arles_sim::rng::Rng;

const FACTORS: [f64; 8] = [0.9, 1.1, 0.7, 1.4, 0.5, 2.0, 0.25, 4.0];
/// By how much the best lie is bent, round by round.
const BENDS: [f64; 4] = [1.3, 1.1, 1.03, 1.01];

/// The best lie of one user. `gain` says what comes of the rates of the kinds times these factors, over what honesty brings; nothing where the
/// policy has no answer. At most `most` lies are tried.
pub(crate) fn search(
    rates: &[f64],
    most: usize,
    rng: &mut Rng,
    gain: &mut dyn FnMut(&[f64]) -> Option<f64>,
) -> LieRecord {
    let usable: Vec<usize> = (0..rates.len()).filter(|&j| rates[j] > 0.0).collect();
    let mut best: (f64, Vec<f64>) = (1.0, Vec::new());
    let mut tried = 0;
    let mut attempt = |factors: Vec<f64>, best: &mut (f64, Vec<f64>)| {
        if tried >= most {
            return;
        }
        tried += 1;
        if let Some(gain) = gain(&factors).filter(|gain| *gain > best.0) {
            *best = (gain, factors);
        }
    };
    // A user of one kind has nothing to say of it: only ratios count.
    if usable.len() > 1 {
        for factors in plain(rates, &usable) {
            attempt(factors, &mut best);
        }
        for _ in 0..most / 4 {
            let draw = |rng: &mut Rng, j: usize| if rates[j] > 0.0 { rng.uniform_in(-1.4, 1.4).exp() } else { 1.0 };
            let factors = (0..rates.len()).map(|j| draw(rng, j)).collect();
            attempt(factors, &mut best);
        }
        for bend in BENDS {
            let from = if best.1.is_empty() { vec![1.0; rates.len()] } else { best.1.clone() };
            for &j in &usable {
                for turn in [bend, 1.0 / bend] {
                    let mut factors = from.clone();
                    factors[j] *= turn;
                    attempt(factors, &mut best);
                }
            }
        }
    }
    let slant = if best.1.is_empty() { "none" } else { slant(rates, &best.1) };
    LieRecord { gain: best.0, slant: slant.to_owned(), factors: best.1, tried }
}

/// Every kind by itself, and all but the slowest together, the mildest first.
fn plain(rates: &[f64], usable: &[usize]) -> Vec<Vec<f64>> {
    let slowest = usable.iter().copied().min_by(|a, b| rates[*a].total_cmp(&rates[*b]));
    let one = |j: usize, factor: f64| (0..rates.len()).map(|i| if i == j { factor } else { 1.0 }).collect();
    let fast = |factor: f64| {
        (0..rates.len()).map(|i| if rates[i] > 0.0 && Some(i) != slowest { factor } else { 1.0 }).collect()
    };
    let mut lies: Vec<Vec<f64>> = Vec::new();
    for factor in FACTORS {
        lies.push(fast(factor));
        if usable.len() > 2 {
            lies.extend(usable.iter().map(|&j| one(j, factor)));
        }
    }
    lies
}

/// Which way a lie leans, on the speed-ups over the slowest kind.
pub(crate) fn slant(rates: &[f64], factors: &[f64]) -> &'static str {
    let row = |rates: Vec<f64>| -> Vec<f64> {
        let slowest = rates.iter().copied().filter(|&r| r > 0.0).fold(f64::INFINITY, f64::min);
        rates.into_iter().map(|r| r / slowest).collect()
    };
    let (honest, told) = (row(rates.to_vec()), row(rates.iter().zip(factors).map(|(r, f)| r * f).collect()));
    let apart = |a: f64, b: f64| (a - b).abs() > 1e-9 * a.max(b);
    let more = honest.iter().zip(&told).any(|(h, t)| t > h && apart(*h, *t));
    let less = honest.iter().zip(&told).any(|(h, t)| t < h && apart(*h, *t));
    match (more, less) {
        (true, false) => "inflated",
        (false, true) => "deflated",
        (true, true) => "mixed",
        (false, false) => "none",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_finds_a_planted_lie_and_is_the_same_for_the_same_seed() {
        // Whoever says that the second kind is 0.8 as fast gains most.
        let gain = |factors: &[f64]| Some(1.2 - (factors[1] / factors[0] - 0.8).abs());
        let found = search(&[1.0, 2.0, 3.0], 200, &mut Rng::new(7), &mut |factors| gain(factors));
        assert!(found.gain > 1.19, "{found:?}");
        assert_eq!(found, search(&[1.0, 2.0, 3.0], 200, &mut Rng::new(7), &mut |factors| gain(factors)));
        let honest = search(&[1.0, 2.0], 50, &mut Rng::new(7), &mut |_| Some(0.9));
        // 8 plain ones, 12 drawn, 16 bent.
        assert_eq!((honest.gain, honest.factors.len(), honest.tried), (1.0, 0, 8 + 12 + 16));
        assert_eq!(search(&[5.0, 0.0], 50, &mut Rng::new(7), &mut |_| Some(9.0)).tried, 0, "one kind has no speed-ups");
    }

    #[test]
    fn slants_are_of_speedups() {
        assert_eq!(slant(&[1.0, 2.0], &[1.0, 1.5]), "inflated");
        assert_eq!(slant(&[1.0, 2.0], &[1.5, 1.0]), "deflated");
        assert_eq!(slant(&[1.0, 2.0, 3.0], &[1.0, 0.9, 1.1]), "mixed");
        assert_eq!(slant(&[1.0, 2.0], &[2.0, 2.0]), "none");
    }
}
