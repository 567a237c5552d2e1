//! The contract, kept by every engine there is. A further engine is a further [`Bed`].

#[path = "support/engine.rs"]
mod support;

use arles_core::engine::{Engine, LiveJob};
use arles_core::{Cluster, Time};
use arles_engine::Remote;
use arles_engine::contract::{CASES, Testbed};
use arles_sim::world::WorldOptions;
use std::time::{Duration, Instant};
use support::{BOOT, at, cluster, job, program, remote, served, world};

/// Stops take no time, or some.
const SAVING_SECONDS: [f64; 2] = [0.0, 4.0];

type Make = fn(WorldOptions) -> Box<dyn Engine>;

/// A clock that goes on only when somebody waits.
struct VirtualBed {
    make: Make,
    options: WorldOptions,
    now: Time,
}

impl Testbed for VirtualBed {
    fn engine(&mut self) -> Box<dyn Engine> {
        (self.make)(self.options)
    }

    fn job(&self, id: u64, gang: u32, seconds: f64) -> LiveJob {
        job(id, gang, seconds)
    }

    fn cluster(&self) -> Cluster {
        cluster()
    }

    fn program(&self, id: u64, gang: u32, seconds: f64, exit_code: i32) -> LiveJob {
        program(id, gang, seconds, exit_code)
    }

    fn now(&self) -> Time {
        self.now
    }

    fn wait(&mut self, seconds: f64) {
        self.now = self.now.after(seconds);
    }

    fn exact(&self) -> bool {
        true
    }
}

/// The wall's clock, with a cluster in which time passes this many times as fast and does not wait for anybody. The shortest job of the
/// contract must outlast a look at it by 30 s of the cluster's time: here the machine may stall for 3 s before that is missed.
const SPEED: f64 = 10.0;

struct RealBed {
    began: Instant,
    options: WorldOptions,
}

impl Testbed for RealBed {
    fn engine(&mut self) -> Box<dyn Engine> {
        let path = served(world(self.options), SPEED, std::io::sink());
        Box::new(Remote::connect(path))
    }

    fn job(&self, id: u64, gang: u32, seconds: f64) -> LiveJob {
        job(id, gang, seconds)
    }

    fn cluster(&self) -> Cluster {
        cluster()
    }

    fn program(&self, id: u64, gang: u32, seconds: f64, exit_code: i32) -> LiveJob {
        program(id, gang, seconds, exit_code)
    }

    fn now(&self) -> Time {
        at(self.began.elapsed().as_secs_f64() * SPEED)
    }

    fn wait(&mut self, seconds: f64) {
        std::thread::sleep(Duration::from_secs_f64(seconds / SPEED));
    }

    fn exact(&self) -> bool {
        false
    }
}

/// Runs a case for every engine on a virtual clock, with stops that take no time and with such that do.
fn every(name: &str) {
    let case = CASES.iter().find(|case| case.name == name).expect("a case of the contract");
    let engines: [(&str, Make); 2] =
        [("virtual", |options| Box::new(world(options))), ("remote", |options| Box::new(remote(options)))];
    for (engine, make) in engines {
        for checkpoint_seconds in SAVING_SECONDS {
            println!("{engine}, {checkpoint_seconds} s to save");
            let options = WorldOptions { checkpoint_seconds, ..WorldOptions::default() };
            case.run(&mut VirtualBed { make, options, now: Time::ZERO });
        }
    }
}

macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            every(stringify!($name));
        })*

        #[test]
        fn every_case_of_the_contract_is_a_test() {
            assert_eq!(CASES.iter().map(|case| case.name).collect::<Vec<_>>(), [$(stringify!($name)),*]);
        }
    };
}

cases![
    an_order_done_twice_is_done_once,
    a_stop_is_final_and_always_answered,
    a_gang_that_finished_is_told_as_finished_however_often_it_is_stopped,
    a_refused_start_is_final,
    what_makes_no_sense_is_refused,
    old_fences_touch_nothing_newer,
    a_survey_shows_what_runs_and_what_has_ended,
    syncing_jobs_forgets_and_returns_meters,
    a_job_goes_on_where_its_driver_says,
    energy_adds_up_and_counters_only_grow,
    two_jobs_share_a_gpu_and_no_third_does,
    time_never_goes_back,
    told_twice_what_the_cluster_is_it_is_told_once,
    orders_on_a_node_that_joined_are_done,
    gangs_of_a_removed_node_are_gone,
    a_program_that_fails_says_its_exit_code,
    a_start_that_is_ordered_again_after_its_end_is_not_done_again,
    a_stopped_program_goes_on_from_its_safe_steps,
];

/// All cases at once: they mostly sleep.
#[test]
fn an_engine_that_lives_in_real_time_keeps_the_contract() {
    std::thread::scope(|scope| {
        for case in CASES {
            for checkpoint_seconds in SAVING_SECONDS {
                let options = WorldOptions { checkpoint_seconds, ..WorldOptions::default() };
                let run = move || case.run(&mut RealBed { began: Instant::now(), options });
                let thread = std::thread::Builder::new().name(format!("{}, {checkpoint_seconds} s to save", case.name));
                thread.spawn_scoped(scope, run).expect("a thread can be started");
            }
        }
    });
}

#[test]
fn meters_carry_the_boot_number_that_the_engine_was_given() {
    for engine in [&mut world(WorldOptions::default()) as &mut dyn Engine, &mut remote(WorldOptions::default())] {
        assert_eq!(engine.survey(at(1.0), at(1.0)).expect("it answers").meters.boot, BOOT);
    }
}
