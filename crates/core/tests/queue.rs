//! Twelve jobs that wait for one GPU, on what was measured on an H200 (docs/data): who `gogh` puts beside whom, and under which power limit,
//! beside all perfect matchings. One job at a time at the card's own limit is 1.

use arles_core::allocate::{ClassId, Members, PairPower, PairRates, Power, Problem, User, UserPower, find_policy};
use arles_core::{JobId, KindId, Round, TenantId, Time, WorkloadId};
use std::collections::{BTreeMap, BTreeSet};

/// Longest time between two decisions.
const ROUND_SECONDS: f64 = 5.0;
/// Seconds that the GPU does nothing useful for each job that had to make room.
const RESTART_SECONDS: f64 = 10.0;

/// Steps per second and watts.
type Cell = (f64, f64);
/// Pairs that have run.
type Tried = BTreeSet<(usize, usize)>;

/// What was measured: alone and under limits by workload and mode, pairs at the card's own limit.
struct Measured {
    names: Vec<String>,
    limits: Vec<u32>,
    alone: BTreeMap<(usize, usize), Cell>,
    pairs: BTreeMap<(usize, usize), Cell>,
    /// Part of the time that each keeps the GPU busy alone.
    busy: Vec<f64>,
    idle_watts: f64,
}

/// Jobs that all come at once.
#[derive(Clone, Copy)]
struct Jobs {
    /// How long each lasts alone.
    seconds: f64,
    /// The part of its speed alone that each was promised while it runs.
    floor: f64,
    /// Whether power limits may be set.
    limits: bool,
    /// Whether pairs are estimated until they have run for a round.
    estimated: bool,
    /// What a start takes, in which whoever is there goes on alone. (Of 0: whoever makes room costs `RESTART_SECONDS`, and starts cost nothing.)
    start_seconds: f64,
}

const JOBS: Jobs = Jobs { seconds: 100.0, floor: 0.0, limits: false, estimated: false, start_seconds: 0.0 };

fn measured() -> Measured {
    let text = include_str!("../../../docs/data/h200-pairs-and-limits.csv");
    let rows: Vec<Vec<&str>> = text.lines().skip(1).map(|line| line.split(',').collect()).collect();
    let (idle, rows): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row[0] == "(idle)");
    let mut names: Vec<String> = rows.iter().map(|row| row[0].to_owned()).collect();
    names.sort();
    names.dedup();
    let number = |text: &str| text.parse::<f64>().expect("a number");
    let limit = |row: &[&str]| row[2].parse::<f64>().ok().map(|watts| watts as u32);
    let mut limits: Vec<u32> = rows.iter().filter_map(|row| limit(row)).collect();
    limits.sort_unstable();
    limits.dedup();
    let at = |name: &str| names.iter().position(|known| known == name).expect("it is there");
    let (mut alone, mut pairs, mut busy) = (BTreeMap::new(), BTreeMap::new(), vec![0.0; names.len()]);
    for row in &rows {
        let cell = (number(row[3]), number(row[6]));
        if row[1] == "-" && limit(row).is_none() {
            busy[at(row[0])] = number(row[9]);
        }
        match (row[1], limit(row)) {
            ("-", None) => alone.insert((at(row[0]), 0), cell),
            ("-", Some(watts)) => {
                let mode = 1 + limits.iter().position(|known| *known == watts).expect("it is there");
                alone.insert((at(row[0]), mode), cell)
            }
            (partner, _) => pairs.insert((at(row[0]), at(partner)), cell),
        };
    }
    Measured { limits, alone, pairs, busy, idle_watts: number(idle[0][6]), names }
}

/// Energy and time by those of one job at a time, how often a job had to make room, and the least part of its speed alone that a job ran at.
struct Run {
    energy: f64,
    time: f64,
    evicted: u32,
    /// Of those, jobs that were alone on the GPU and had less left than two restarts take.
    nearly_done_stopped: u32,
    slowest: f64,
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Run { energy, time, evicted, .. } = self;
        write!(f, "{energy:.3} of the energy, {time:.3} of the time, {evicted} made room")
    }
}

impl Measured {
    /// Speed and power of a pair under a limit: nobody measured that. Both are slowed, and the draw is cut, as the hungrier of the two is alone.
    fn pair(&self, a: usize, b: usize, mode: usize) -> (f64, f64, f64) {
        let (rate_a, watts) = self.pairs[&(a, b)];
        let rate_b = self.pairs[&(b, a)].0;
        if mode == 0 {
            return (rate_a, rate_b, watts);
        }
        let hungry = if self.alone[&(a, 0)].1 >= self.alone[&(b, 0)].1 { a } else { b };
        let (as_sold, limited) = (self.alone[&(hungry, 0)], self.alone[&(hungry, mode)]);
        let slower = (limited.0 / as_sold.0).min(1.0);
        let limit = f64::from(self.limits[mode - 1]);
        (rate_a * slower, rate_b * slower, watts.min(limit).min(watts * (limited.1 / as_sold.1).max(slower)))
    }

    /// The same before it was tried: each waits for the other for as long as both want the GPU.
    fn estimate(&self, a: usize, b: usize) -> (f64, f64, f64) {
        let slower = 1.0 / (1.0 + self.busy[a] * self.busy[b]);
        let (alone_a, alone_b) = (self.alone[&(a, 0)], self.alone[&(b, 0)]);
        (alone_a.0 * slower, alone_b.0 * slower, alone_a.1.max(alone_b.1))
    }

    fn problem(&self, left: &BTreeMap<usize, f64>, running: &[usize], tried: &Tried, what: Jobs) -> Problem {
        let Jobs { floor, .. } = what;
        let modes = self.modes(what);
        let jobs: Vec<usize> = left.keys().copied().collect();
        let user = |(u, &job): (usize, &usize)| User {
            class: ClassId(u as u32),
            tenant: TenantId(0),
            tenant_weight: 1.0,
            workload: WorkloadId(job as u32),
            gang: 1,
            jobs: 1,
            job_weight: 1.0,
            parts: 1,
            floor: (floor > 0.0).then(|| floor * self.alone[&(job, 0)].0),
            job: Some(JobId(job as u64)),
            arrived: Time::ZERO,
            attained_gpu_seconds: 0.0,
            steps_done: 0.0,
            steps_left: left[&job],
            held: None,
        };
        let users = jobs.iter().enumerate().map(user).collect();
        let rates = jobs.iter().flat_map(|&job| (0..modes).map(move |mode| self.alone[&(job, mode)].0)).collect();
        let mut capacity = vec![0.0; modes];
        capacity[0] = 1.0;
        let (mut pairs, mut watts) = (Vec::new(), Vec::new());
        for (i, &a) in jobs.iter().enumerate() {
            for &b in &jobs[i + 1..] {
                for mode in 0..modes {
                    let known = !what.estimated || tried.contains(&(a, b));
                    let (rate_a, rate_b, drawn) = if known { self.pair(a, b, mode) } else { self.estimate(a, b) };
                    let id = |job: usize| WorkloadId(job as u32);
                    pairs.push(PairRates { a: id(a), b: id(b), kind: KindId(mode as u16), rate_a, rate_b });
                    watts.push(PairPower { watts: drawn, standard_error: if known { 0.0 } else { 0.4 } });
                }
            }
        }
        let draws = |&job: &usize| UserPower {
            watts: (0..modes).map(|mode| self.alone[&(job, mode)].1).collect(),
            standard_errors: vec![0.0; modes],
            held: (0..modes).map(|mode| u32::from(mode == 0 && running.contains(&job))).collect(),
            needed: None,
            restart_seconds: RESTART_SECONDS,
            by_the_clock: false,
        };
        let at = |job: usize| jobs.iter().position(|known| *known == job).expect("it is there") as u32;
        let power = Power {
            idle_watts: vec![self.idle_watts; modes],
            budget_watts: None,
            epsilon: 0.0,
            unused_off: false,
            users: jobs.iter().map(draws).collect(),
            pairs: watts,
            sharing_now: match running {
                [a, b] => vec![(at(*a.min(b)), at(*a.max(b)), KindId(0))],
                _ => Vec::new(),
            },
        };
        let problem = Problem::new(Round(1), capacity, users, rates).expect("sound");
        let problem = problem.with_modes(vec![KindId(0); modes]).expect("sound");
        problem.with_pairs(pairs).expect("sound").with_power(power).expect("sound")
    }

    fn modes(&self, what: Jobs) -> usize {
        if what.limits { 1 + self.limits.len() } else { 1 }
    }

    /// All jobs under `gogh`.
    fn run(&self, what: Jobs) -> Run {
        self.run_of(&(0..self.names.len()).collect::<Vec<_>>(), what)
    }

    /// Some of them.
    fn run_of(&self, jobs: &[usize], what: Jobs) -> Run {
        let policy = find_policy("gogh").expect("in the table");
        let work = |job: usize| (job, what.seconds * self.alone[&(job, 0)].0);
        let mut left: BTreeMap<usize, f64> = jobs.iter().copied().map(work).collect();
        let (mut joules, mut seconds, mut evicted, mut running) = (0.0, 0.0, 0, Vec::<usize>::new());
        let (mut slowest, mut tried, mut nearly_done_stopped) = (f64::INFINITY, Tried::new(), 0);
        while !left.is_empty() {
            let jobs: Vec<usize> = left.keys().copied().collect();
            let problem = self.problem(&left, &running, &tried, what);
            let answer = (policy.make)().allocate(&problem).expect("an answer");
            let [grant] = answer.grants() else { panic!("one GPU, {:?}", answer.grants()) };
            let mode = grant.kind.index();
            let (chosen, rates, watts) = match grant.members {
                Members::One(u) => {
                    let (rate, watts) = self.alone[&(jobs[u as usize], mode)];
                    (vec![jobs[u as usize]], vec![rate], watts)
                }
                Members::Two(u, v) => {
                    let (a, b) = (jobs[u as usize], jobs[v as usize]);
                    let (rate_a, rate_b, watts) = self.pair(a, b, mode);
                    (vec![a, b], vec![rate_a, rate_b], watts)
                }
            };
            let gave_way = running.iter().filter(|job| !chosen.contains(job)).count() as u32;
            evicted += gave_way;
            if let [job] = running[..] {
                let nearly_done = left[&job] / self.alone[&(job, 0)].0 <= 2.0 * RESTART_SECONDS;
                nearly_done_stopped += u32::from(nearly_done && gave_way > 0);
            }
            if what.start_seconds > 0.0 {
                if chosen.iter().any(|job| !running.contains(job)) {
                    let here = chosen.iter().copied().find(|job| running.contains(job));
                    joules += self.while_others_start(here, mode, what.start_seconds, &mut left);
                    seconds += what.start_seconds;
                }
            } else {
                let restart_seconds = RESTART_SECONDS * f64::from(gave_way);
                (seconds, joules) = (seconds + restart_seconds, joules + restart_seconds * watts);
            }
            let lasts = chosen.iter().zip(&rates).map(|(job, rate)| left[job] / rate).fold(ROUND_SECONDS, f64::min);
            (seconds, joules) = (seconds + lasts, joules + lasts * watts);
            for (job, rate) in chosen.iter().zip(&rates) {
                slowest = slowest.min(rate / self.alone[&(*job, 0)].0);
                *left.get_mut(job).expect("it is there") -= lasts * rate;
            }
            if let [a, b] = chosen[..] {
                tried.insert((a.min(b), a.max(b)));
            }
            left.retain(|job, steps| *steps > 1e-6 * work(*job).1);
            running = chosen.into_iter().filter(|job| left.contains_key(job)).collect();
        }
        let alone: f64 = jobs.iter().map(|&job| what.seconds * self.alone[&(job, 0)].1).sum();
        Run {
            energy: joules / alone,
            time: seconds / (what.seconds * jobs.len() as f64),
            evicted,
            nearly_done_stopped,
            slowest,
        }
    }

    /// Joules of a start, in which whoever is there already works alone.
    fn while_others_start(
        &self,
        here: Option<usize>,
        mode: usize,
        seconds: f64,
        left: &mut BTreeMap<usize, f64>,
    ) -> f64 {
        let Some(job) = here else { return seconds * self.idle_watts };
        let (rate, watts) = self.alone[&(job, mode)];
        let steps = left.get_mut(&job).expect("it is there");
        let busy = (*steps / rate).min(seconds);
        *steps -= busy * rate;
        busy * watts + (seconds - busy) * self.idle_watts
    }

    /// Energy and time of the best perfect matching by energy. A pair runs until one of the two is done; the other goes on alone.
    fn best_matching(&self) -> (f64, f64) {
        let n = self.names.len();
        let cost = |a: usize, b: usize| {
            let (rate_a, rate_b, watts) = self.pair(a, b, 0);
            let ends = [(a, rate_a), (b, rate_b)].map(|(job, rate)| JOBS.seconds * self.alone[&(job, 0)].0 / rate);
            let together = ends[0].min(ends[1]);
            let (last, rate) = if ends[0] < ends[1] { (b, rate_b) } else { (a, rate_a) };
            let after = JOBS.seconds - together * rate / self.alone[&(last, 0)].0;
            (together * watts + after * self.alone[&(last, 0)].1, together + after)
        };
        // Least energy of the jobs in each set, and the time of that matching.
        let mut best = vec![(f64::INFINITY, 0.0); 1 << n];
        best[0] = (0.0, 0.0);
        for set in 1..1usize << n {
            let a = set.trailing_zeros() as usize;
            for b in (a + 1..n).filter(|b| set >> b & 1 == 1) {
                let (joules, seconds) = cost(a, b);
                let rest = best[set & !(1 << a) & !(1 << b)];
                if rest.0 + joules < best[set].0 {
                    best[set] = (rest.0 + joules, rest.1 + seconds);
                }
            }
        }
        let alone: f64 = (0..n).map(|job| JOBS.seconds * self.alone[&(job, 0)].1).sum();
        (best[(1 << n) - 1].0 / alone, best[(1 << n) - 1].1 / (JOBS.seconds * n as f64))
    }
}

#[test]
fn a_queue_is_paired_as_well_as_by_the_best_matching() {
    let measured = measured();
    let run = measured.run(JOBS);
    let (least, its_time) = measured.best_matching();
    println!("gogh {run}; best matching {least:.3}, {its_time:.3}");
    let Run { energy, time, .. } = run;
    assert!(energy <= 1.02 * least && time <= 1.06 * its_time, "{energy} and {time}; {least} and {its_time}");
}

/// A pair was dearer to keep than to bring together, so two pairs took turns, and each turn cost a restart: of 400 s each, jobs made room 41 times.
#[test]
fn long_jobs_do_not_take_turns() {
    let measured = measured();
    let short = measured.run(JOBS);
    let long = measured.run(Jobs { seconds: 600.0, ..JOBS });
    println!("jobs of 600 s {long}; of 100 s {short}");
    assert!(long.evicted <= 2 && long.energy <= short.energy && long.time <= short.time, "{long}; {short}");
}

#[test]
fn pairs_and_limits_together_save_a_quarter_with_floors_kept_and_no_time_lost() {
    let measured = measured();
    for floor in [0.0, 0.3, 0.4, 0.5, 0.6, 0.7] {
        let run = measured.run(Jobs { floor, limits: true, ..JOBS });
        let Run { energy, time, slowest, .. } = run;
        println!("gogh with limits, floors of {floor}: {run}, slowest {slowest:.2}");
        assert!(slowest >= floor, "a job ran at {slowest} of its speed alone, and was promised {floor}");
        assert!(energy <= 0.75 && time <= 1.0, "{energy} and {time} with floors of {floor}");
    }
}

#[test]
fn pairs_that_are_only_estimated_cost_little_more() {
    let measured = measured();
    for seconds in [12.0, 25.0, 50.0, 100.0, 400.0] {
        let known = measured.run(Jobs { seconds, ..JOBS });
        let found = measured.run(Jobs { seconds, estimated: true, ..JOBS });
        println!("jobs of {seconds} s, pairs known {known}; estimated {found}");
        assert!(found.energy <= 1.05 * known.energy && found.time <= 1.05 * known.time, "{found}; {known}");
    }
}

/// `reinforcement` makes a twentieth of its steps beside `decoding-large`, which loses nothing; nobody knew that beforehand.
#[test]
fn nobody_is_stopped_because_its_partner_turned_out_slow() {
    let measured = measured();
    let at = |name: &str| measured.names.iter().position(|known| known == name).expect("it is there");
    let mut here = [at("decoding-large"), at("reinforcement")];
    here.sort_unstable();
    let what = Jobs { seconds: 14.0, estimated: true, ..JOBS };
    let left = (0..measured.names.len()).map(|job| (job, what.seconds * measured.alone[&(job, 0)].0)).collect();
    let problem = measured.problem(&left, &here, &Tried::from([here.into()]), what);
    let answer = (find_policy("gogh").expect("in the table").make)().allocate(&problem).expect("an answer");
    let [grant] = answer.grants() else { panic!("one GPU, {:?}", answer.grants()) };
    assert_eq!(grant.members, Members::Two(here[0] as u32, here[1] as u32));
}

/// Sixty draws of six to twelve of the jobs, so short that starts take a third to four fifths of their work.
#[test]
fn whoever_is_nearly_done_is_not_stopped() {
    let measured = measured();
    let (mut state, mut sums) = (7u64, [(0.0, 0.0); 2]);
    for case in 0..60 {
        let mut jobs: Vec<usize> = (0..measured.names.len()).collect();
        while jobs.len() > 6 + case % 7 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            jobs.remove((state >> 33) as usize % jobs.len());
        }
        let what = Jobs { seconds: 10.0 + 2.0 * (case % 8) as f64, start_seconds: 8.0, ..JOBS };
        for (sum, estimated) in sums.iter_mut().zip([false, true]) {
            let run = measured.run_of(&jobs, Jobs { estimated, ..what });
            assert!(
                run.nearly_done_stopped == 0,
                "{run}: {:?}",
                jobs.iter().map(|&job| &measured.names[job]).collect::<Vec<_>>()
            );
            *sum = (sum.0 + run.energy / 60.0, sum.1 + run.time / 60.0);
        }
    }
    let [known, estimated] = sums;
    println!(
        "starts of 8 s: pairs known {:.3} of the energy and {:.3} of the time; estimated {:.3} and {:.3}",
        known.0, known.1, estimated.0, estimated.1
    );
}
