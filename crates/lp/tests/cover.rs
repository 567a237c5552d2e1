//! Covers against brute force, against their own checker, and at the edges.

use arles_lp::cover::{self, Alone, Class, Cover, Effort, Pair, Slot, Solution, Stay};
use arles_lp::{Domain, InputError};
use proptest::prelude::*;

const EFFORT: Effort = Effort { programs: 25, ruins: 2_000, nodes: 400_000, gap: 0.0 };

fn class(count: u32) -> Class {
    Class { count, size: 1, short_price: 50.0, unserved_price: 5.0 }
}

fn alone(cost: f64, part: f64) -> Option<Alone> {
    Some(Alone { cost, part })
}

fn pair(a: usize, b: usize, resource: usize, cost: f64, parts: (f64, f64)) -> Pair {
    Pair { a, b, resource, cost, part_a: parts.0, part_b: parts.1 }
}

/// Solves, and looks at the answer with other code.
fn solve(question: &Cover, effort: &Effort) -> Solution {
    let answer = cover::solve(question, effort).unwrap();
    judge(question, &answer);
    answer
}

fn judge(question: &Cover, answer: &Solution) {
    if let Err(flaw) = cover::check(question, answer) {
        panic!("{flaw}\n{question:?}\n{answer:?}");
    }
    let proved = cover::bound(question, &answer.prices);
    let near = 1e-9 * (1.0 + answer.cost.abs());
    if !answer.complete {
        assert!(answer.bound <= proved + near, "{} is above what the prices prove, {proved}", answer.bound);
    }
    assert!(proved <= answer.cost + near, "the prices prove {proved}, yet {} is possible", answer.cost);
}

/// Resource, units, cost, and whom it covers by how much.
type Column = (usize, u32, f64, Vec<(usize, f64)>);

/// Tries all multisets of columns.
struct Walk<'a> {
    question: &'a Cover,
    demands: &'a [usize],
    ways: &'a [Column],
    best: f64,
}

impl Walk<'_> {
    fn cost(&self, chosen: &[usize]) -> f64 {
        let k = self.question.capacity.len();
        let mut covered = vec![(0.0, 0u32); self.demands.len()];
        let mut slots = vec![0u32; self.question.classes.len() * k];
        let mut cost = 0.0;
        for &way in chosen {
            let (j, _, price, sides) = &self.ways[way];
            cost += price;
            for &(d, part) in sides {
                covered[d] = (covered[d].0 + part, covered[d].1 + 1);
                slots[self.demands[d] * k + j] += 1;
            }
        }
        for (d, &l) in self.demands.iter().enumerate() {
            let class = &self.question.classes[l];
            let short = f64::max(0.0, 1.0 - covered[d].0) * class.short_price;
            cost += short + if covered[d].1 == 0 { class.unserved_price } else { 0.0 };
        }
        for stay in &self.question.stays {
            cost -= stay.saving * f64::from(stay.held.min(slots[stay.class * k + stay.resource]));
        }
        cost
    }

    fn go(&mut self, from: usize, chosen: &mut Vec<usize>, free: &mut [u32], room: &mut [u32]) {
        self.best = self.best.min(self.cost(chosen));
        for way in from..self.ways.len() {
            let (j, units, _, sides) = &self.ways[way];
            if free[*j] < *units || sides.iter().any(|side| room[side.0] == 0) {
                continue;
            }
            free[*j] -= units;
            sides.iter().for_each(|side| room[side.0] -= 1);
            chosen.push(way);
            self.go(way, chosen, free, room);
            chosen.pop();
            sides.iter().for_each(|side| room[side.0] += 1);
            free[*j] += units;
        }
    }
}

/// The least cost, by trying all multisets of (column, demands).
fn brute(question: &Cover) -> f64 {
    let k = question.capacity.len();
    let mut demands = Vec::new();
    for (l, class) in question.classes.iter().enumerate() {
        demands.extend(std::iter::repeat_n(l, class.count as usize));
    }
    let mut ways: Vec<Column> = Vec::new();
    for (d, &l) in demands.iter().enumerate() {
        for j in 0..k {
            if let Some(slot) = question.alone[l * k + j] {
                ways.push((j, question.classes[l].size, slot.cost, vec![(d, slot.part)]));
            }
        }
        for (e, &m) in demands.iter().enumerate().filter(|(e, _)| *e != d) {
            for pair in question.pairs.iter().filter(|pair| (pair.a, pair.b) == (l, m)) {
                ways.push((pair.resource, 1, pair.cost, vec![(d, pair.part_a), (e, pair.part_b)]));
            }
        }
    }
    let mut room = vec![1u32; demands.len()];
    let mut free = question.capacity.clone();
    let mut walk = Walk { question, demands: &demands, ways: &ways, best: f64::INFINITY };
    walk.go(0, &mut Vec::new(), &mut free, &mut room);
    walk.best
}

/// Small questions: ties, zeros, nobody, gangs, stays.
fn questions() -> impl Strategy<Value = Cover> {
    let sizes = (1usize..=3, 1usize..=2);
    sizes.prop_flat_map(|(n, k)| {
        let count = if n <= 2 { 0u32..=2 } else { 0u32..=1 };
        let class = (count, prop_oneof![4 => Just(1u32), 1 => Just(2u32)], 0u32..4, 0u32..3).prop_map(
            |(count, size, short, unserved)| Class {
                count,
                size,
                short_price: [0.0, 3.0, 30.0, 300.0][short as usize],
                unserved_price: [0.0, 2.0, 20.0][unserved as usize],
            },
        );
        let part = prop_oneof![Just(1.0), Just(0.5), 0.1f64..1.0];
        let cost = prop_oneof![Just(0.0), Just(4.0), 0.5f64..10.0];
        let slot = proptest::option::weighted(0.8, (cost.clone(), part.clone()));
        let pair = proptest::option::weighted(0.6, (cost, part.clone(), part));
        (
            proptest::collection::vec(0u32..=3, k),
            proptest::collection::vec(class, n),
            proptest::collection::vec(slot, n * k),
            proptest::collection::vec(pair, n * n * k),
            proptest::collection::vec((0u32..3, 0u32..4), n * k),
        )
            .prop_map(move |(capacity, classes, slots, pairs, stays)| build(capacity, classes, &slots, &pairs, &stays))
    })
}

type MaybePair = Option<(f64, f64, f64)>;

fn build(
    capacity: Vec<u32>,
    classes: Vec<Class>,
    slots: &[Option<(f64, f64)>],
    drawn: &[MaybePair],
    stays: &[(u32, u32)],
) -> Cover {
    let (n, k) = (classes.len(), capacity.len());
    let mut pairs = Vec::new();
    for a in 0..n {
        for b in a..n {
            for j in 0..k {
                if let Some((cost, p, q)) = drawn[(a * n + b) * k + j]
                    && classes[a].size == 1
                    && classes[b].size == 1
                {
                    pairs.push(pair(a, b, j, cost, (p, q)));
                }
            }
        }
    }
    let stays = (stays.iter().enumerate().filter(|(_, stay)| stay.1 == 3))
        .map(|(at, &(held, _))| Stay { class: at / k, resource: at % k, held, saving: 1.5 })
        .collect();
    let alone = slots.iter().map(|slot| slot.map(|(cost, part)| Alone { cost, part })).collect();
    Cover { capacity, classes, alone, pairs, stays }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn small_covers_are_as_cheap_as_any(question in questions()) {
        let best = brute(&question);
        let answer = solve(&question, &EFFORT);
        let near = 1e-8 * (1.0 + best.abs());
        prop_assert!(answer.bound <= best + near, "bound {} above the optimum {best}", answer.bound);
        prop_assert!((answer.cost - best).abs() <= near, "{} instead of {best}", answer.cost);
    }

    #[test]
    fn a_budget_of_nothing_is_feasible_and_honest(question in questions(), programs in 0u32..3, ruins in 0u32..3) {
        let best = brute(&question);
        let answer = solve(&question, &Effort { programs, ruins, nodes: 0, gap: 0.0 });
        prop_assert!(answer.bound <= best + 1e-8 * (1.0 + best.abs()));
        let next = solve(&question, &EFFORT);
        prop_assert!(next.cost <= answer.cost + 1e-9 * (1.0 + answer.cost.abs()));
    }
}

#[test]
fn two_share_where_that_is_cheaper() {
    let question = Cover {
        capacity: vec![2],
        classes: vec![class(1), class(1)],
        alone: vec![alone(10.0, 1.0), alone(10.0, 1.0)],
        pairs: vec![pair(0, 1, 0, 12.0, (1.0, 0.9))],
        stays: vec![],
    };
    let answer = solve(&question, &EFFORT);
    assert_eq!(answer.pairs, [1]);
    assert!((answer.cost - (12.0 + 5.0)).abs() < 1e-9, "a tenth of one demand is short, at 50 for all of it");
    assert!(answer.gap() < 1e-9);
}

#[test]
fn a_demand_is_not_its_own_partner() {
    let mut question = Cover {
        capacity: vec![3],
        classes: vec![class(1)],
        alone: vec![alone(10.0, 0.5)],
        pairs: vec![pair(0, 0, 0, 1.0, (0.5, 0.5))],
        stays: vec![],
    };
    let answer = solve(&question, &EFFORT);
    assert_eq!((answer.alone[0], answer.pairs[0]), (1, 0));
    question.classes[0].count = 2;
    let answer = solve(&question, &EFFORT);
    assert_eq!((answer.alone[0], answer.pairs[0]), (0, 1), "each beside the other");
    assert!(answer.patterns.iter().all(|pattern| pattern.slots.len() == 1));
}

#[test]
fn one_that_is_there_stays() {
    let mut question = Cover {
        capacity: vec![1, 1],
        classes: vec![class(1)],
        alone: vec![alone(10.0, 1.0), alone(9.0, 1.0)],
        pairs: vec![],
        stays: vec![],
    };
    assert_eq!(solve(&question, &EFFORT).alone, [0, 1]);
    question.stays = vec![Stay { class: 0, resource: 0, held: 1, saving: 2.0 }];
    let answer = solve(&question, &EFFORT);
    assert_eq!(answer.alone, [1, 0]);
    assert!((answer.cost - 8.0).abs() < 1e-9);
}

#[test]
fn a_gang_takes_all_its_units() {
    let question = Cover {
        capacity: vec![7],
        classes: vec![Class { size: 4, ..class(2) }],
        alone: vec![alone(10.0, 1.0)],
        pairs: vec![],
        stays: vec![],
    };
    let answer = solve(&question, &EFFORT);
    assert_eq!(answer.alone, [1]);
    assert_eq!(answer.unserved, [1]);
    assert!((answer.cost - 65.0).abs() < 1e-9);
    assert!(answer.gap() < 1e-9);
}

#[test]
fn a_large_class_is_served_by_whole_units() {
    // All of it for 1.9 while there is room, then seven tenths for 1: the other three cost 15.
    let question = Cover {
        capacity: vec![15_000, 30_000],
        classes: vec![class(50_000)],
        alone: vec![alone(1.0, 0.7), alone(1.9, 1.0)],
        pairs: vec![],
        stays: vec![],
    };
    let answer = solve(&question, &EFFORT);
    assert_eq!((answer.alone.as_slice(), answer.unserved[0]), (&[15_000, 30_000][..], 5_000));
    let best = 30_000.0 * 1.9 + 15_000.0 * (1.0 + 15.0) + 5_000.0 * 55.0;
    assert!((answer.cost - best).abs() < 1e-6 * best, "{} instead of {best}", answer.cost);
    assert!(answer.gap() < 1e-5, "{}", answer.gap());
}

/// Hundreds of each class, some of whom stay, some share, and some wait: most of it is settled by the linear program, and the whole
/// still adds up and is near the bound.
#[test]
fn large_classes_are_settled_and_add_up() {
    for count in [150, 1_501, 40_000] {
        let question = Cover {
            capacity: vec![count / 2, count / 3, count / 4],
            classes: vec![class(count), Class { size: 4, ..class(count / 10) }, class(count / 3)],
            alone: vec![
                alone(1.0, 0.7),
                alone(1.9, 1.0),
                None,
                alone(5.0, 0.6),
                alone(9.0, 1.0),
                alone(8.0, 0.9),
                None,
                alone(1.5, 0.8),
                alone(2.5, 1.0),
            ],
            pairs: vec![pair(0, 0, 0, 1.4, (0.6, 0.6)), pair(0, 2, 1, 2.2, (0.8, 0.7)), pair(2, 2, 2, 2.8, (0.9, 0.9))],
            stays: vec![
                Stay { class: 0, resource: 1, held: count / 7, saving: 0.3 },
                Stay { class: 2, resource: 2, held: 2, saving: 0.5 },
            ],
        };
        let answer = solve(&question, &EFFORT);
        assert!(answer.gap() < 2e-3, "{count}: {}", answer.gap());
    }
}

#[test]
fn far_apart_numbers_do_no_harm() {
    for scale in [1e-9, 1e9] {
        let question = Cover {
            capacity: vec![2, 1],
            classes: vec![
                Class { short_price: 50.0 * scale, unserved_price: 0.0, ..class(2) },
                Class { short_price: 70.0 * scale, unserved_price: 0.0, ..class(1) },
            ],
            alone: vec![alone(scale, 0.6), alone(2.0 * scale, 1.0), alone(3.0 * scale, 1e-9), alone(scale, 1.0)],
            pairs: vec![pair(0, 1, 0, 2.0 * scale, (0.5, 1.0))],
            stays: vec![],
        };
        let best = brute(&question);
        let answer = solve(&question, &EFFORT);
        assert!((answer.cost - best).abs() <= 1e-8 * best, "{} instead of {best}", answer.cost);
    }
}

#[test]
fn the_same_question_has_the_same_answer() {
    let question = Cover {
        capacity: vec![4, 3],
        classes: (0..6).map(|l| class(1 + l % 2)).collect(),
        alone: (0..12).map(|at| alone(3.0 + f64::from(at % 5), 0.4 + 0.05 * f64::from(at))).collect(),
        pairs: (0..6).flat_map(|a| (a..6).map(move |b| pair(a, b, (a + b) % 2, 6.0, (0.5, 0.6)))).collect(),
        stays: vec![],
    };
    let effort = Effort { nodes: 10_000, ..EFFORT };
    assert_eq!(solve(&question, &effort), solve(&question, &effort));
}

#[test]
fn checks_find_what_is_wrong() {
    let question = Cover {
        capacity: vec![2],
        classes: vec![class(1), class(1)],
        alone: vec![alone(10.0, 1.0), alone(10.0, 1.0)],
        pairs: vec![pair(0, 1, 0, 12.0, (1.0, 1.0))],
        stays: vec![],
    };
    let answer = solve(&question, &EFFORT);
    let wrong = |change: &dyn Fn(&mut Solution)| {
        let mut answer = answer.clone();
        change(&mut answer);
        cover::check(&question, &answer).unwrap_err().to_string()
    };
    assert!(wrong(&|a| a.cost = 11.0).starts_with("11 is written where 12 was found"));
    assert!(wrong(&|a| a.bound = 13.0).starts_with("the bound is above the cost"));
    assert!(wrong(&|a| a.pairs[0] = 3).starts_with("3 units of resource 0"));
    assert!(wrong(&|a| a.alone[0] = 1).contains("is held by more or fewer"));
    assert!(wrong(&|a| a.patterns[0].slots.push(Slot::Alone(0))).starts_with("a demand of class 0 holds more"));
    assert!(wrong(&|a| a.patterns[0].demands = 2).contains("class 0"));
}

#[test]
fn nonsense_is_refused() {
    let good = Cover {
        capacity: vec![2],
        classes: vec![class(1), class(1)],
        alone: vec![alone(10.0, 1.0), None],
        pairs: vec![pair(0, 1, 0, 12.0, (1.0, 1.0))],
        stays: vec![Stay { class: 0, resource: 0, held: 1, saving: 1.0 }],
    };
    let refuse = |change: &dyn Fn(&mut Cover)| {
        let mut question = good.clone();
        change(&mut question);
        cover::solve(&question, &EFFORT).unwrap_err()
    };
    assert_eq!(refuse(&|q| q.classes.clear()), InputError::Empty);
    assert_eq!(refuse(&|q| q.capacity.push(1)), InputError::Shape { what: "alone", length: 2, expected: 4 });
    assert_eq!(refuse(&|q| q.pairs.push(q.pairs[0])), InputError::Order { index: 1 });
    assert_eq!(
        refuse(&|q| q.classes[1].size = 2),
        InputError::Unknown { what: "the second class of pair", index: 0, value: 1 }
    );
    assert_eq!(refuse(&|q| q.stays.push(q.stays[0])), InputError::Repeated { what: "stay", index: 1 });
    assert_eq!(
        refuse(&|q| q.pairs[0].resource = 7),
        InputError::Unknown { what: "the resource of pair", index: 0, value: 7 }
    );
    assert_eq!(
        refuse(&|q| q.classes[0].count = u32::MAX),
        InputError::TooMany { what: "demands", count: u64::from(u32::MAX) + 1, most: 50_000_000 }
    );
    let refusal = refuse(&|q| q.alone[0] = alone(-1.0, 1.0));
    assert_eq!(
        refusal,
        InputError::Number { what: "cost of slot", index: 0, value: -1.0, domain: Domain::NonNegative }
    );
    assert!(refusal.to_string().starts_with("cost of slot 0 is -1;"));
    let refusal = refuse(&|q| q.pairs[0].part_b = 1.5);
    assert_eq!(
        refusal,
        InputError::Number { what: "second part of pair", index: 0, value: 1.5, domain: Domain::Fraction }
    );
}
