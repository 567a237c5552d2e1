//! Heavy-tailed lengths with a stated mean.
//!
//! The body is log-normal, X = exp(μ + σN). A share p of jobs comes from a Pareto tail that begins at the body's
//! ninth decile x₀ = exp(μ + 1.2816 σ): P(X > x) = (x₀/x)^α. Everything is cut at a cap c. Given σ, p, α and c, the
//! scale μ is chosen so that the mean after the cut is the one asked for:
//!
//! ```text
//! E[min(body, c)] = exp(μ + σ²/2) Φ((ln c − μ − σ²)/σ) + c Φ((μ − ln c)/σ)
//! E[min(tail, c)] = x₀ + x₀ ((c/x₀)^(1−α) − 1) / (1−α),    x₀ (1 + ln(c/x₀)) for α = 1,    c for x₀ ≥ c
//! ```
//!
//! Both grow with μ, so bisection finds it. So an offered load holds for any shape of the distribution.

use super::super::mix::{OptionError, number};
use crate::rng::Rng;
use arles_core::library::suggestion;
use std::str::FromStr;

/// How long jobs are. As text: `mean=7200,sigma=1.5,tail=0.05,alpha=1.5,cap=604800`, each part optional.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Durations {
    /// Mean, after the cut.
    pub mean_seconds: f64,
    /// Spread of the body: deviation of the logarithm.
    pub sigma: f64,
    /// Share of jobs from the tail, 0 to 1.
    pub tail: f64,
    /// Exponent of the tail; the smaller, the heavier.
    pub alpha: f64,
    /// Longest job.
    pub cap_seconds: f64,
}

impl Default for Durations {
    fn default() -> Self {
        Self { mean_seconds: 7_200.0, sigma: 1.5, tail: 0.05, alpha: 1.5, cap_seconds: 604_800.0 }
    }
}

impl FromStr for Durations {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        const KEYS: [&str; 5] = ["mean", "sigma", "tail", "alpha", "cap"];
        let mut durations = Self::default();
        for part in text.split(',').map(str::trim) {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let target = match key.trim() {
                "mean" => &mut durations.mean_seconds,
                "sigma" => &mut durations.sigma,
                "tail" => &mut durations.tail,
                "alpha" => &mut durations.alpha,
                "cap" => &mut durations.cap_seconds,
                other => {
                    let hint = suggestion(other, KEYS);
                    let message = format!("'{other}' in '{text}' is not known{hint}; expected {}", KEYS.join(", "));
                    return Err(OptionError::new(message));
                }
            };
            *target = number(value, &format!("{key} in '{text}'"), "0 or more", 0.0)?;
        }
        durations.check().map(|()| durations)
    }
}

impl Durations {
    pub(super) fn check(&self) -> Result<(), OptionError> {
        let refuse = |what: &str, value: f64, expected: &str| {
            Err(OptionError::new(format!("{what} of the durations is {value}; expected {expected}")))
        };
        let positive = |x: f64| x > 0.0 && x.is_finite();
        match self {
            d if !positive(d.mean_seconds) => refuse("the mean", d.mean_seconds, "seconds, more than 0"),
            d if !(0.0..=10.0).contains(&d.sigma) => refuse("sigma", d.sigma, "0 to 10"),
            d if !(0.0..=1.0).contains(&d.tail) => refuse("the share in the tail", d.tail, "0 to 1"),
            d if !positive(d.alpha) => refuse("alpha", d.alpha, "more than 0"),
            d if !(positive(d.cap_seconds) && d.cap_seconds > d.mean_seconds) => {
                refuse("the cap", d.cap_seconds, &format!("seconds, more than the mean of {}", d.mean_seconds))
            }
            _ => Ok(()),
        }
    }

    /// Ready to draw: with the scale μ that gives the mean.
    pub(super) fn sampler(self) -> Sampler {
        let reach = 40.0 * (1.0 + self.sigma);
        let (mut low, mut high) = (self.mean_seconds.ln() - reach, self.cap_seconds.ln() + reach);
        // 100 halvings exhaust the digits of any f64.
        for _ in 0..100 {
            let mu = f64::midpoint(low, high);
            if self.mean_at(mu) < self.mean_seconds {
                low = mu;
            } else {
                high = mu;
            }
        }
        Sampler { shape: self, mu: f64::midpoint(low, high) }
    }

    /// Mean after the cut, if the body's scale is μ.
    fn mean_at(&self, mu: f64) -> f64 {
        let (sigma, c) = (self.sigma, self.cap_seconds);
        let body = if sigma == 0.0 {
            mu.exp().min(c)
        } else {
            (mu + sigma * sigma / 2.0).exp() * normal_cdf((c.ln() - mu - sigma * sigma) / sigma)
                + c * normal_cdf((mu - c.ln()) / sigma)
        };
        (1.0 - self.tail) * body + self.tail * self.tail_mean(tail_start(mu, sigma))
    }

    fn tail_mean(&self, x0: f64) -> f64 {
        let (c, beta) = (self.cap_seconds, 1.0 - self.alpha);
        if x0 >= c {
            c
        } else if beta.abs() < 1e-9 {
            x0 * (1.0 + (c / x0).ln())
        } else {
            x0 * (1.0 + ((c / x0).powf(beta) - 1.0) / beta)
        }
    }
}

/// Where the tail begins: nine tenths of the body lie below.
fn tail_start(mu: f64, sigma: f64) -> f64 {
    (mu + 1.2816 * sigma).exp()
}

/// Draws lengths.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Sampler {
    shape: Durations,
    mu: f64,
}

impl Sampler {
    /// Seconds of the next job.
    pub(super) fn draw(&self, rng: &mut Rng) -> f64 {
        let Durations { sigma, tail, alpha, cap_seconds, .. } = self.shape;
        let seconds = if rng.chance(tail) {
            tail_start(self.mu, sigma) * (1.0 - rng.uniform()).powf(-1.0 / alpha)
        } else {
            rng.log_normal(self.mu, sigma)
        };
        // A length of exactly 0 would be no job at all.
        seconds.clamp(f64::MIN_POSITIVE, cap_seconds)
    }
}

/// Φ, the normal distribution, to 1e-7 (by the error function of Abramowitz and Stegun, 7.1.26).
fn normal_cdf(x: f64) -> f64 {
    let z = x.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * z);
    let coefficients = [1.061_405_429, -1.453_152_027, 1.421_413_741, -0.284_496_736, 0.254_829_592];
    let polynomial = coefficients.iter().fold(0.0, |sum, a| (sum + a) * t);
    let upper = 0.5 * polynomial * (-z * z).exp();
    if x < 0.0 { upper } else { 1.0 - upper }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_the_one_asked_for() {
        let check = |text: &str| {
            let durations: Durations = text.parse().unwrap();
            let sampler = durations.sampler();
            let mut rng = Rng::new(11);
            let n = 400_000;
            let mean = (0..n).map(|_| sampler.draw(&mut rng)).sum::<f64>() / f64::from(n);
            assert!((mean / durations.mean_seconds - 1.0).abs() < 0.03, "{text}: {mean}");
        };
        check("mean=7200");
        check("mean=600,sigma=0.5,tail=0,cap=1e6");
        check("mean=600,sigma=0,tail=0");
        check("mean=3600,sigma=2,tail=0.2,alpha=1,cap=100000");
        check("mean=3600,sigma=1,tail=1,alpha=0.8,cap=100000");
        check("mean=90000,cap=100000");
    }

    #[test]
    fn the_tail_is_heavy_and_the_cap_holds() {
        let draw = |text: &str| {
            let sampler = text.parse::<Durations>().unwrap().sampler();
            let mut rng = Rng::new(2);
            let mut drawn: Vec<f64> = (0..100_000).map(|_| sampler.draw(&mut rng)).collect();
            drawn.sort_by(f64::total_cmp);
            (drawn[50_000], drawn[99_900], drawn[99_999])
        };
        let (median, high, longest) = draw("mean=3600,sigma=1,tail=0.1,alpha=1.2,cap=1e6");
        let (light_median, light_high, _) = draw("mean=3600,sigma=1,tail=0,cap=1e6");
        assert!(high / median > 3.0 * light_high / light_median);
        assert!(longest <= 1e6);
    }

    #[test]
    fn the_normal_distribution_is_known_at_its_landmarks() {
        for (x, expected) in [(0.0, 0.5), (1.0, 0.841_344_746), (-1.959_964, 0.025), (-8.0, 0.0), (8.0, 1.0)] {
            assert!((normal_cdf(x) - expected).abs() < 2e-7, "{x}");
        }
    }

    #[test]
    fn wrong_durations_are_sentences() {
        let check = |text: &str, expected: &str| {
            let error = text.parse::<Durations>().unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}\n  should start with {expected}");
        };
        check("", "'' in '' is not known; expected mean");
        check("men=3", "'men' in 'men=3' is not known (did you mean mean?); expected mean");
        check("mean=soon", "mean in 'mean=soon' is 'soon'; expected a number");
        check("mean", "mean in 'mean' is ''; expected a number");
        check("mean=0", "the mean of the durations is 0; expected seconds, more than 0");
        check("tail=2", "the share in the tail of the durations is 2; expected 0 to 1");
        check("alpha=0", "alpha of the durations is 0; expected more than 0");
        check("sigma=11", "sigma of the durations is 11; expected 0 to 10");
        check("cap=60", "the cap of the durations is 60; expected seconds, more than the mean of 7200");
    }
}
