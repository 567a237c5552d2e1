//! Near the least draw without envy for hundreds of users: how near, and that every row is kept.

use arles_lp::Budget;
use arles_lp::families::{Family, Instance, Recipe};
use arles_lp::ways::{NearWorkspace, Nearly, TURNS, Ways, equal_incomes, nearly_least_draw_without_envy};

/// What is left of the draw in each way of a resource.
const MODES: [f64; 4] = [1.0, 0.75, 0.6, 0.45];

/// A problem that owns its numbers.
struct Owned {
    w: Vec<f64>,
    draw: Vec<f64>,
    resource: Vec<usize>,
    weight: Vec<f64>,
    caps: Vec<f64>,
    capacity: Vec<f64>,
}

impl Owned {
    /// Rates rise with draw to a power between 0.2 and 0.8, another for every user and resource.
    fn new(users: usize, resources: usize, seed: u64) -> Self {
        let recipe = Recipe { family: Family::Mixed, users, resources, load: 1.0, uncapped: 1.0, spread: 0.0, seed };
        let instance = Instance::new(&recipe);
        let (mut w, mut draw) = (Vec::new(), Vec::new());
        for (at, rate) in instance.w.iter().enumerate() {
            let (l, j) = (at / resources, at % resources);
            let bend = 0.2 + 0.6 * ((l * 7919 + j * 104_729) % 1000) as f64 / 1000.0;
            let watts = (150.0 + 60.0 * j as f64) * (0.6 + 0.4 * ((l * 31 + j) % 97) as f64 / 97.0);
            for part in MODES {
                w.push(rate * part.powf(bend));
                draw.push(watts * part);
            }
        }
        let resource = (0..MODES.len() * resources).map(|a| a / MODES.len()).collect();
        let weight = (0..users).map(|l| 1.0 + (l * 7 % 4) as f64).collect();
        Self { w, draw, resource, weight, caps: vec![f64::INFINITY; users], capacity: instance.capacity }
    }

    fn ways(&self) -> Ways<'_> {
        let Self { w, draw, resource, weight, caps, capacity } = self;
        Ways { w, draw, resource, weight, caps, capacity }
    }

    /// Everybody's best rates, users × resources.
    fn best(&self) -> Vec<f64> {
        (0..self.weight.len()).flat_map(|l| self.ways().best_rates(l)).collect()
    }

    /// Units of the market in everybody's best ways, users × resources, and what everybody makes of them.
    fn fair(&self) -> (Vec<f64>, Vec<f64>) {
        let k = self.capacity.len();
        let best = self.best();
        let (each, same): (Vec<usize>, _) = ((0..k).collect(), vec![1.0; best.len()]);
        let plain = Ways { w: &best, draw: &same, resource: &each, ..self.ways() };
        let units = equal_incomes(&plain, &[], Budget::default()).expect("a sound problem").x;
        let speed = |(a, x): (&[f64], &[f64])| a.iter().zip(x).map(|(a, x)| a * x).sum();
        (best.chunks(k).zip(units.chunks(k)).map(speed).collect(), units)
    }

    /// Whether a use has everybody's floor, no more of anything than there is, and nobody whose row against another is broken.
    fn keeps_all(&self, x: &[f64], floors: &[f64], part: f64) {
        let (n, k, ways) = (self.weight.len(), self.capacity.len(), self.resource.len());
        let (mut units, mut speeds) = (vec![0.0; n * k], vec![0.0; n]);
        for (at, x) in x.iter().enumerate() {
            units[at / ways * k + self.resource[at % ways]] += x;
            speeds[at / ways] += self.w[at] * x;
        }
        assert!(speeds.iter().zip(floors).all(|(u, f)| *u >= f * (1.0 - 1e-9)));
        for (j, m) in self.capacity.iter().enumerate() {
            assert!(units.iter().skip(j).step_by(k).sum::<f64>() <= m * (1.0 + 1e-9));
        }
        let best = self.best();
        for l in 0..n {
            for i in (0..n).filter(|i| *i != l) {
                let worth: f64 = best[l * k..][..k].iter().zip(&units[i * k..]).map(|(a, x)| a * x).sum();
                let most = speeds[l] / self.weight[l] * (1.0 + 1e-7);
                assert!(part * worth / self.weight[i] <= most, "{l} of {i}");
            }
        }
    }
}

/// The answer is proved to be within a hundredth of the least draw, alone and between other answers.
#[test]
fn near_is_within_a_hundredth() {
    for (users, resources, seeds) in [(66, 3, 8), (100, 5, 8), (200, 5, 4), (400, 10, 2), (1_000, 3, 2), (1_000, 10, 1)]
    {
        for seed in 1..=seeds {
            let problem = Owned::new(users, resources, seed);
            let (speeds, units) = problem.fair();
            let mut workspace = NearWorkspace::default();
            for epsilon in [0.02, 0.25, 0.05, 0.1, 0.15] {
                let floors: Vec<f64> = speeds.iter().map(|u| u * (1.0 - epsilon)).collect();
                let asked = Nearly { floors: &floors, part: 1.0 - epsilon, units: &units, gap: 0.01 };
                let alone = nearly_least_draw_without_envy(&problem.ways(), &asked, TURNS).expect("sound");
                let again = workspace.solve(&problem.ways(), &asked, TURNS).expect("sound");
                for (near, how) in [(alone, "alone"), (again, "again")] {
                    let gap = near.bound.gap();
                    assert!(gap <= 0.01, "{users} x {resources}, seed {seed}, at {epsilon}, {how}: {gap}");
                    problem.keeps_all(&near.x, &floors, 1.0 - epsilon);
                }
            }
        }
    }
}
