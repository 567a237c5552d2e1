//! Covering demands by whole units: which unit serves whom, alone or two at a time, at the least cost.
//!
//! A class `l` has `n_l` demands that are alike. One unit of a resource `j` may serve one demand alone, or a *couple* of
//! two different demands; either way everybody served has a *slot* that covers a part `p ∈ (0, 1]` of its demand. A class
//! of size `u_l > 1` takes `u_l` units for a slot, and is never in a couple. All numbers of units are whole:
//!
//! ```text
//! minimise  Σ_e c_e x_e + Σ_demands h(pattern) − Σ saving_lj · min(held_lj, slots of l on j)
//! Σ_{e on j} u_e x_e ≤ m_j        a demand's pattern has at most D_l slots        x whole
//! h(P) = short_price_l · max(0, 1 − Σ_{s∈P} p_s) + unserved_price_l · [P is empty]
//! ```
//!
//! A demand may hold slots of any mixture of columns, the same one twice included; every slot that is paid for is held by
//! somebody. The two slots of one unit go to two demands, also where both are of one class.
//!
//! # How it is solved
//!
//! 1. *Prices.* A linear program over slots, whose columns come in by price (`cover/master.rs`). It does not know that a
//!    demand holds whole patterns, unless these are single slots. Where classes are large it learns that cut by cut, as the
//!    convex envelope of `h` over the patterns of a class (`cover/cut.rs`); where most demands differ, prices climb before it,
//!    which finds its columns, and on from there without it (`cover/ascent.rs`). What they prove is computed from the
//!    question (`cover/bound.rs`): several percent more than the program over slots does.
//! 2. *Answer.* Large classes take the whole parts of the linear answer (`cover/round.rs`). A search ruins a few units
//!    and builds them anew where the prices say that it costs least (`cover/guide.rs`, `cover/search.rs`).
//! 3. *Proof.* An answer costs the bound plus terms that are not negative: what patterns cost beyond the cheapest, and
//!    units left idle. Enumeration ends where these reach what is to be beaten (`cover/exact.rs`): small questions are solved
//!    to the end.
//!
//! What must never happen here: a cost or bound in an [`Answer`] that [`check`] and [`bound`] do not find again from the
//! question, a clock, or randomness from outside (the search draws from a fixed seed).

mod ascent;
mod bound;
mod columns;
mod cut;
mod exact;
mod guide;
mod ladder;
mod master;
mod round;
mod search;
mod state;
mod verify;

pub use bound::{Prices, bound};
pub use verify::{Flaw, check};

use ascent::Ascent;
use columns::Columns;
use guide::Guide;
use master::Master;
use state::State;
use std::fmt;

/// Demands that are alike.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Class {
    /// n: how many there are.
    pub count: u32,
    /// D: how many slots one demand may hold; at least 1.
    pub most: u32,
    /// u: units that one slot takes; at least 1. Only classes of size 1 are in couples.
    pub size: u32,
    /// What a demand costs of which nothing is covered; in proportion if some of it is.
    pub short_price: f64,
    /// What a demand without any slot costs on top.
    pub unserved_price: f64,
}

/// One demand of a class on one resource.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Alone {
    /// What the slot costs.
    pub cost: f64,
    /// p: which part of the demand it covers; above 0, at most 1.
    pub part: f64,
}

/// Two demands on one unit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Couple {
    /// The class of one...
    pub a: usize,
    /// ...and of the other; no less than `a`.
    pub b: usize,
    /// Where.
    pub resource: usize,
    /// What the unit costs.
    pub cost: f64,
    /// The part of the first demand that is covered...
    pub part_a: f64,
    /// ...and of the second.
    pub part_b: f64,
}

/// Demands that are there already.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Stay {
    /// Whose.
    pub class: usize,
    /// Where.
    pub resource: usize,
    /// How many slots of the class on the resource save something.
    pub held: u32,
    /// What each of them saves.
    pub saving: f64,
}

/// A question. Costs, prices and savings are finite and not negative: a unit that costs something idle is asked about
/// with that much less on every column, in couples and alone.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Cover {
    /// m: units of each resource.
    pub capacity: Vec<u32>,
    /// The classes.
    pub classes: Vec<Class>,
    /// Classes × resources, row by row; `None` where a class cannot be alone.
    pub alone: Vec<Option<Alone>>,
    /// Sorted by `(a, b, resource)`, each once.
    pub couples: Vec<Couple>,
    /// In any order, each class and resource once.
    pub stays: Vec<Stay>,
}

/// How much work an answer is worth. All of it is counted, none of it timed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Effort {
    /// Linear programs, where classes are large.
    pub programs: u32,
    /// Steps of prices, where they are not.
    pub steps: u32,
    /// Times that the search ruins a part of the answer.
    pub ruins: u32,
    /// Nodes of the enumeration.
    pub nodes: u32,
    /// The relative gap that is good enough.
    pub gap: f64,
}

impl Default for Effort {
    fn default() -> Self {
        Self { programs: 30, steps: 40, ruins: 100_000, nodes: 200_000, gap: 1e-4 }
    }
}

impl Effort {
    /// About a second for a hundred demands that are all different, some seconds for five hundred.
    #[must_use]
    pub fn for_question(cover: &Cover) -> Self {
        let classes = cover.classes.len();
        let ruins = 2_000 * classes.clamp(50, 220) as u32;
        // One costs as much as there are columns.
        let steps = if classes > 200 { 16 } else { 40 };
        Self { ruins, steps, ..Self::default() }
    }
}

/// A column.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Slot {
    /// Alone on a resource.
    Alone(usize),
    /// The first of a couple, by its position in the question.
    First(usize),
    /// The second of it.
    Second(usize),
}

/// Demands of one class that hold the same slots.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Pattern {
    /// Whose.
    pub class: usize,
    /// Sorted; a slot that is held twice is listed twice. Empty where the demands get nothing.
    pub slots: Vec<Slot>,
    /// How many demands hold these.
    pub demands: u32,
}

/// An answer.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Answer {
    /// Slots alone, classes × resources.
    pub alone: Vec<u32>,
    /// Units per couple.
    pub couples: Vec<u32>,
    /// Who holds what; all demands of all classes.
    pub patterns: Vec<Pattern>,
    /// Per class, the sum of the parts that are not covered.
    pub short: Vec<f64>,
    /// Per class, how many demands have no slot.
    pub unserved: Vec<u32>,
    /// What it all costs.
    pub cost: f64,
    /// No answer costs less.
    pub bound: f64,
    /// The prices behind the bound; [`bound()`] recomputes it, unless `complete`.
    pub prices: Prices,
    /// Whether the enumeration went through all there is: then the bound is the cost.
    pub complete: bool,
    /// What was spent.
    pub spent: Spent,
    /// For [`again`].
    pub warm: Warm,
}

/// Work done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Spent {
    /// Linear programs.
    pub programs: u32,
    /// Ruins.
    pub ruins: u32,
    /// Nodes.
    pub nodes: u32,
    /// Columns in the last program.
    pub columns: usize,
    /// Cuts in the last program.
    pub cuts: usize,
}

impl Answer {
    /// How far the cost may be above the optimum, relative to the cost.
    #[must_use]
    pub fn gap(&self) -> f64 {
        let gap = self.cost - self.bound;
        if gap <= 0.0 { 0.0 } else { gap / self.cost.abs().max(f64::MIN_POSITIVE) }
    }
}

/// Why a question has no answer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Refusal {
    /// There are no classes or no resources.
    Empty,
    /// Slots alone do not fit classes and resources.
    Shape {
        /// How many there are.
        length: usize,
        /// How many there should be.
        expected: usize,
    },
    /// A number that makes no sense where it is.
    Number {
        /// Which.
        what: &'static str,
        /// The class, slot, couple or stay.
        index: usize,
        /// The number.
        value: f64,
    },
    /// A class or resource that does not exist, or a class of more than one unit in a couple.
    Unknown {
        /// Which.
        what: &'static str,
        /// The couple or stay.
        index: usize,
        /// What it names.
        value: usize,
    },
    /// Couples are out of order or repeated.
    Order {
        /// The first couple that is not above the one before it.
        index: usize,
    },
    /// A class and resource with two stays.
    Twice {
        /// The second of them.
        index: usize,
    },
    /// More demands than can be told apart.
    Many {
        /// How many.
        demands: u64,
    },
}

/// Demands are numbered by 32 bits, and each has a place in memory.
const MOST_DEMANDS: u64 = 50_000_000;

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "there are no classes or no resources; ask only when there is something to cover"),
            Self::Shape { length, expected } => write!(
                f,
                "{length} slots alone, but classes times resources are {expected}; give each class one per resource"
            ),
            Self::Number { what, index, value } => write!(
                f,
                "{what} {index} is {value}; costs, prices and savings must be finite and at least 0, parts above 0 and \
                 at most 1, sizes and most slots at least 1"
            ),
            Self::Unknown { what, index, value } => write!(
                f,
                "{what} {index} names {value}, which does not exist or takes more than one unit; count classes and \
                 resources from 0 and leave such couples out"
            ),
            Self::Order { index } => write!(
                f,
                "couple {index} is not above the couple before it, or its first class is above its second; sort \
                 couples by a, b, resource and give each once"
            ),
            Self::Twice { index } => {
                write!(f, "stay {index} is the second of its class and resource; add up what is held")
            }
            Self::Many { demands } => {
                write!(f, "{demands} demands are more than {MOST_DEMANDS}; divide the question")
            }
        }
    }
}

impl std::error::Error for Refusal {}

fn number(what: &'static str, index: usize, value: f64, good: bool) -> Result<(), Refusal> {
    if good { Ok(()) } else { Err(Refusal::Number { what, index, value }) }
}

fn price(what: &'static str, index: usize, value: f64) -> Result<(), Refusal> {
    number(what, index, value, value.is_finite() && value >= 0.0)
}

fn part(what: &'static str, index: usize, value: f64) -> Result<(), Refusal> {
    number(what, index, value, value > 0.0 && value <= 1.0)
}

impl Cover {
    fn check(&self) -> Result<(), Refusal> {
        let (n, k) = (self.classes.len(), self.capacity.len());
        if n == 0 || k == 0 {
            return Err(Refusal::Empty);
        }
        if self.alone.len() != n * k {
            return Err(Refusal::Shape { length: self.alone.len(), expected: n * k });
        }
        for (index, class) in self.classes.iter().enumerate() {
            price("short price of class", index, class.short_price)?;
            price("unserved price of class", index, class.unserved_price)?;
            number("most slots of class", index, f64::from(class.most), class.most >= 1)?;
            number("size of class", index, f64::from(class.size), class.size >= 1)?;
        }
        for (index, slot) in self.alone.iter().enumerate() {
            if let Some(slot) = slot {
                price("cost of slot", index, slot.cost)?;
                part("part of slot", index, slot.part)?;
            }
        }
        let demands = self.classes.iter().map(|class| u64::from(class.count)).sum();
        if demands > MOST_DEMANDS {
            return Err(Refusal::Many { demands });
        }
        self.check_couples()?;
        self.check_stays()
    }

    fn check_couples(&self) -> Result<(), Refusal> {
        let (n, k) = (self.classes.len(), self.capacity.len());
        let key = |couple: &Couple| (couple.a, couple.b, couple.resource);
        for (index, couple) in self.couples.iter().enumerate() {
            for (what, value) in [("the first of couple", couple.a), ("the second of couple", couple.b)] {
                if value >= n || self.classes[value].size != 1 {
                    return Err(Refusal::Unknown { what, index, value });
                }
            }
            if couple.resource >= k {
                return Err(Refusal::Unknown { what: "the resource of couple", index, value: couple.resource });
            }
            if couple.a > couple.b || (index > 0 && key(&self.couples[index - 1]) >= key(couple)) {
                return Err(Refusal::Order { index });
            }
            price("cost of couple", index, couple.cost)?;
            part("first part of couple", index, couple.part_a)?;
            part("second part of couple", index, couple.part_b)?;
        }
        Ok(())
    }

    fn check_stays(&self) -> Result<(), Refusal> {
        let (n, k) = (self.classes.len(), self.capacity.len());
        let mut seen = vec![false; n * k];
        for (index, stay) in self.stays.iter().enumerate() {
            if stay.class >= n {
                return Err(Refusal::Unknown { what: "the class of stay", index, value: stay.class });
            }
            if stay.resource >= k {
                return Err(Refusal::Unknown { what: "the resource of stay", index, value: stay.resource });
            }
            price("saving of stay", index, stay.saving)?;
            if std::mem::replace(&mut seen[stay.class * k + stay.resource], true) {
                return Err(Refusal::Twice { index });
            }
        }
        Ok(())
    }

    /// h: what a demand of a class costs that is covered by `sum` in `slots` slots.
    fn shortage(&self, class: usize, sum: f64, slots: usize) -> f64 {
        let Class { short_price, unserved_price, .. } = self.classes[class];
        if slots == 0 { short_price + unserved_price } else { short_price * f64::max(0.0, 1.0 - sum) }
    }
}

/// Solves: see the module.
pub fn solve(cover: &Cover, effort: &Effort) -> Result<Answer, Refusal> {
    run(cover, effort, None)
}

/// Solves again after the question changed a little, from what the last answer left. Classes are matched by position, so
/// keep theirs; those that are gone have a count of 0.
pub fn again(cover: &Cover, effort: &Effort, last: &Answer) -> Result<Answer, Refusal> {
    let mut answer = run(cover, effort, Some(&last.warm))?;
    let stale = answer.spent.programs == 0 && answer.gap() > STALE.0 * last.warm.fresh + STALE.1;
    if stale {
        let Spent { ruins, nodes, .. } = answer.spent;
        let afresh = run(cover, effort, None)?;
        if afresh.gap() <= answer.gap() {
            answer = afresh;
        }
        answer.spent.ruins += ruins;
        answer.spent.nodes += nodes;
    }
    Ok(answer)
}

/// What an answer leaves for the next question.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Warm {
    prices: Prices,
    /// Which couples there were: prices go by their positions.
    shape: u64,
    /// What the gap was when a linear program had last been solved.
    fresh: f64,
    cuts: Vec<cut::Cut>,
    /// Couples that were in the linear program, by classes and resource.
    couples: Vec<(usize, usize, usize)>,
    /// Units in use: the resource, and for each side the class and the number of the demand in it.
    units: Vec<(usize, [(u32, u32); 2])>,
}

/// Last prices and units are good enough unless the gap is this many times what it was with a linear program, and so
/// much more; then the question is solved afresh.
const STALE: (f64, f64) = (1.1, 2e-3);

impl Warm {
    /// Whether the prices are of use for a question.
    fn fits(&self, cover: &Cover) -> bool {
        self.prices.units.len() == cover.capacity.len() && self.shape == shape(cover)
    }
}

/// Passes in which prices climb class by class.
const CLIMBS: u32 = 10;
/// Passes before the first linear program, and how many of the best columns of each class it begins with.
const FIRST_CLIMBS: u32 = 8;
const SEEDS: usize = 8;
/// By how much of itself a bound may still rise, at a guess.
const HOPE: f64 = 0.03;
/// With more demands than this, the search looks only at those that the rounding hurt, and at some others.
const MANY: usize = 3_000;
/// With more than this many demands per class, the linear answer says how most of them are served.
const CROWD: usize = 4;
/// With more demands than this enumeration is hopeless.
const FEW: usize = 150;

fn run(cover: &Cover, effort: &Effort, warm: Option<&Warm>) -> Result<Answer, Refusal> {
    cover.check()?;
    let columns = Columns::new(cover);
    let mut state = State::new(cover, &columns);
    let demands = state.class_of.len();
    let crowd = demands > CROWD * cover.classes.len();
    let single = cover.classes.iter().all(|class| class.most == 1);
    let mut spent = Spent::default();
    let mut kept = Warm::default();
    let start = Start { columns: &columns, effort, warm, single };
    let prices = if crowd {
        start.crowd(&mut state, &mut spent, &mut kept)
    } else {
        start.distinct(&mut state, &mut spent, &mut kept)
    };
    let proved = bound(cover, &prices);
    let enough = proved + effort.gap * proved.abs();
    let mut guide = Guide::new(cover, &columns, &prices);
    guide.list_ways(cover, search::RELATED, f64::INFINITY);
    let ruins = if warm.is_some() { effort.ruins / 4 } else { effort.ruins };
    // Whatever is good already is not to be melted down.
    let heat = if warm.is_some() || single || crowd { 0.1 } else { 1.0 };
    improve(&mut state, &guide, (ruins, heat), enough, &mut spent);
    let mut complete = false;
    if demands <= FEW
        && state.cost > enough
        && cover.classes.iter().all(|class| class.most as usize <= ladder::MOST_SLOTS)
    {
        complete = finish(&mut state, &columns, &prices, effort, &mut spent);
    }
    let mut answer = state.answer();
    answer.complete = complete;
    answer.bound = if complete { answer.cost } else { proved.min(answer.cost) };
    answer.spent = spent;
    kept.units = state.keep();
    kept.shape = shape(cover);
    kept.fresh = warm.filter(|_| spent.programs == 0).map_or(answer.gap(), |warm| warm.fresh);
    kept.prices = prices.clone();
    answer.warm = kept;
    answer.prices = prices;
    Ok(answer)
}

/// Which couples a question has, in one number.
fn shape(cover: &Cover) -> u64 {
    let mix = |hash: u64, value: usize| (hash ^ value as u64).wrapping_mul(0x0000_0100_0000_01B3);
    cover.couples.iter().fold(0xCBF2_9CE4_8422_2325, |hash, c| mix(mix(mix(hash, c.a), c.b), c.resource))
}

/// How prices and a first answer come about.
struct Start<'a, 'w> {
    columns: &'a Columns,
    effort: &'w Effort,
    warm: Option<&'w Warm>,
    /// Whether nobody may have more than one slot.
    single: bool,
}

impl<'a> Start<'a, '_> {
    /// Where classes are large: by the linear program, and from its whole parts.
    fn crowd(&self, state: &mut State<'a>, spent: &mut Spent, kept: &mut Warm) -> Prices {
        let mut master = Master::new(state.cover, self.columns, true, self.warm);
        master.seed();
        master.solve(self.effort, true);
        if self.single {
            round::nearest(state, &master.x);
        } else {
            round::round(state, &master.x);
        }
        spent.programs = master.programs;
        (spent.columns, spent.cuts) = master.size();
        (kept.cuts, kept.couples) = master.keep();
        master.prices
    }

    /// Where most demands differ: by an ascent, and a linear program on the way, unless the last prices still fit.
    fn distinct(&self, state: &mut State<'a>, spent: &mut Spent, kept: &mut Warm) -> Prices {
        let cover = state.cover;
        let last = self.warm.filter(|warm| warm.fits(cover));
        let mut ascent = Ascent::new(cover, self.columns, last.map(|warm| &warm.prices));
        let mut known = last.map(|warm| warm.prices.clone()).unwrap_or_default();
        if last.is_none() {
            ascent.climb(FIRST_CLIMBS);
            let mut master = Master::new(cover, self.columns, false, self.warm);
            let mut guide = Guide::new(cover, self.columns, &ascent.prices());
            guide.list_ways(cover, SEEDS, f64::INFINITY);
            guide.ways.iter().flatten().for_each(|way| master.admit(way.column as usize));
            master.solve(self.effort, false);
            if self.single {
                round::nearest(state, &master.x);
            }
            spent.programs = master.programs;
            (spent.columns, spent.cuts) = master.size();
            (kept.cuts, kept.couples) = master.keep();
            if master.bound > ascent.value {
                ascent.restart(&master.prices);
            }
            known = if self.single && master.bound < ascent.value { ascent.prices() } else { master.prices };
        } else if let Some(warm) = last {
            (kept.cuts, kept.couples) = (warm.cuts.clone(), warm.couples.clone());
        }
        if let Some(warm) = self.warm {
            state.resume(self.columns, &warm.units);
        }
        self.climb(state, &mut ascent, known)
    }

    /// Better prices than those known, and a first answer.
    fn climb(&self, state: &mut State<'a>, ascent: &mut Ascent<'a>, known: Prices) -> Prices {
        let proved = bound(state.cover, &known);
        // With one slot each, the linear program knows all patterns.
        if self.single || state.cost <= proved + self.effort.gap * proved.abs() {
            return known;
        }
        ascent.climb(CLIMBS);
        let guide = Guide::new(state.cover, self.columns, &ascent.prices());
        let lacking: Vec<u32> = (0..state.class_of.len() as u32).filter(|&d| state.shortage(d) > 0.0).collect();
        search::Search::new(state, &guide).build(&lacking);
        let target = state.cost.min(ascent.value + HOPE * ascent.value.abs());
        ascent.follow(self.effort.steps, target);
        let better = ascent.prices();
        // Climbing starts from other prices of stays.
        if bound(state.cover, &better) > proved { better } else { known }
    }
}

/// Searches from where the state is.
fn improve<'a>(state: &mut State<'a>, guide: &Guide<'a>, (ruins, heat): (u32, f64), enough: f64, spent: &mut Spent) {
    let demands = state.class_of.len();
    let lacking: Vec<u32> = (0..demands as u32).filter(|&d| state.shortage(d) > 0.0).collect();
    let mut search = search::Search::new(state, guide);
    search.build(&lacking);
    search.wander = demands <= CROWD * search.state.cover.classes.len();
    if demands > MANY {
        let others = (2 * lacking.len()).clamp(200, MANY);
        let mut active = lacking;
        active.extend((0..demands as u32).step_by((demands / others).max(1)));
        spent.ruins = search.run(&active, ruins, 0.0, enough);
    } else {
        let active: Vec<u32> = (0..demands as u32).collect();
        spent.ruins = search.run(&active, ruins, heat, enough);
    }
}

/// Enumerates what may be better, if that can be done; returns whether all of it was.
fn finish<'a>(
    state: &mut State<'a>,
    columns: &'a Columns,
    prices: &Prices,
    effort: &Effort,
    spent: &mut Spent,
) -> bool {
    let mut guide = Guide::new(state.cover, columns, prices);
    guide.list_ways(state.cover, usize::MAX, state.cost - guide.bound);
    let mut empty = State::new(state.cover, columns);
    let exact::Found { units, nodes, complete } = exact::enumerate(&mut empty, &guide, state.cost, effort.nodes);
    spent.nodes = nodes;
    if let Some(units) = units {
        units.iter().for_each(|&(column, demands)| {
            empty.add(column, demands);
        });
        std::mem::swap(state, &mut empty);
    }
    complete
}
