//! Frames from made-up data, kept in files as those of the commands are.

#[path = "../../../tests/support/golden.rs"]
mod golden;

use super::*;
use arles_api::{self as api, JobState};

fn job(id: u64, tenant: &str, state: JobState) -> api::Job {
    let place = api::Place {
        kind: "v100".into(),
        gpus: vec![id as u32],
        nodes: vec!["v100-000".into()],
        spread: false,
        shared: false,
        partner: None,
    };
    let text = "3 jobs ahead in the queue; needs 4 GPUs, 2 free; starts in ~9 min; a gang of 2 could start now";
    let reason = api::Reason { code: "queued".into(), text: text.into(), seconds: Some(540.0) };
    let waits = state == JobState::Waiting;
    api::Job {
        id,
        smallest_gang: None,
        largest_gang: None,
        name: None,
        tenant: tenant.into(),
        workload: "resnet50-b64".into(),
        gang: 1,
        steps: Some(1000.0),
        period_seconds: None,
        floor: None,
        weight: 1.0,
        restart_seconds: 30.0,
        kinds: vec![],
        state,
        reason: waits.then_some(reason),
        place: (!waits).then_some(place),
        submitted_at: 1000.0,
        started_at: (!waits).then_some(1060.0),
        ended_at: None,
        steps_done: 10.0,
        done_ratio: Some(0.01),
        rate: None,
        estimated_rate: None,
        restarts: 0,
        failures: 0,
        gpu_seconds: 0.0,
        energy: api::Energy::default(),
        reported: None,
        program: None,
        open: false,
        expected_seconds: None,
        eta: None,
        promise: None,
        exit_code: None,
        held: false,
        after: vec![],
        array: None,
        time_limit_seconds: None,
        retries: None,
        needs: api::Needs::default(),
    }
}

fn tenant(name: &str, entitlement_ratio: f64, held_ratio: f64) -> api::Tenant {
    api::Tenant {
        name: name.into(),
        weight: 1.0,
        entitlement_ratio,
        held_ratio,
        gpus: 3.0,
        waiting: 1,
        running: 3,
        completed: 0,
        gpu_seconds: 0.0,
        energy: api::Energy::default(),
        quota: api::Quota::default(),
        month: api::MonthlyUse::default(),
    }
}

/// Three hours of a day that begins quiet.
fn past() -> api::Series {
    let point = |i: u32| api::SeriesPoint {
        at: f64::from(i) * 60.0,
        seconds: 60.0,
        busy: vec![f64::from(i.min(120)) / 10.0, 4.0],
        usable: vec![12.0, 12.0],
        watts: 2000.0 + 40.0 * f64::from(i % 90),
        waiting: f64::from(i / 30),
        running: 5.0,
        tenants: vec![3.0, 3.0],
        worst_envy: (i > 10).then_some(1.0),
        least_sharing: (i > 10).then_some(1.2),
    };
    let names = |names: [&str; 2]| names.map(str::to_owned).to_vec();
    api::Series {
        resolution_seconds: 60.0,
        kinds: names(["v100", "a100-40gb"]),
        tenants: names(["vision", "search"]),
        points: (0..180).map(point).collect(),
    }
}

/// A cluster of n GPUs of two kinds, a third of them free. Its clock stands still, as a journal's does.
fn scene(n: usize, live: u64) -> Scene {
    let third = |i: usize| i % 3;
    let mut jobs: Vec<api::Job> = (1..6).map(|id| job(id, "vision", JobState::Running)).collect();
    jobs.extend((6..9).map(|id| job(id, "search", JobState::Waiting)));
    Scene {
        server: api::Server {
            version: "0".into(),
            engine: "none".into(),
            speed: 60.0,
            now: 1600.0,
            round: 12,
            round_seconds: 60.0,
            policy: "oef-coop".into(),
            estimator: "oracle".into(),
            gpus: n as u32,
            live_jobs: live,
            scope: "admin".into(),
            tenant: None,
            last_event: 1,
            watts: 12_345.0,
        },
        gpus: api::Gpus {
            kinds: vec!["v100".into(), "a100-40gb".into()],
            tenants: vec!["vision".into(), "search".into()],
            kind: (0..n).map(|i| u16::from(i >= n / 2)).collect(),
            state: (0..n).map(|i| if i == n - 1 { 3 } else { third(i) as u8 }).collect(),
            job: vec![0; n],
            partner: vec![0; n],
            tenant: (0..n).map(|i| if third(i) == 0 { -1 } else { (i % 2) as i32 }).collect(),
            watts: vec![0.0; n],
        },
        tenants: vec![tenant("vision", 0.667, 0.5), tenant("search", 0.333, 0.5)],
        jobs,
        live: vec![
            api::StateCount { state: JobState::Waiting, jobs: live - 5 },
            api::StateCount { state: JobState::Running, jobs: 5 },
        ],
        reasons: vec![api::ReasonCount { code: "queued".into(), jobs: live - 5 }],
        next_round: Some(1642.0),
        past: Some(past()),
    }
}

fn check(name: &str, screen: &mut Screen, width: u16, height: u16) {
    golden::check(name, &as_text(screen, width, height).unwrap());
}

#[test]
fn frames() {
    let mut screen = Screen::default();
    screen.show(scene(24, 8));
    check("top-80.txt", &mut screen, 80, 24);
    check("top-120.txt", &mut screen, 120, 40);
    check("top-160.txt", &mut screen, 160, 40);
    screen.hear(Update::Reply("job 6".into(), "Job 6 is waiting: 3 jobs ahead in the queue.".into()));
    check("top-explain.txt", &mut screen, 80, 24);
    screen.popup = Popup::None;
    screen.hear(Update::Away("cannot reach http://127.0.0.1:1".into()));
    check("top-away.txt", &mut screen, 80, 24);
}

#[test]
fn a_large_cluster_fits() {
    let mut screen = Screen::default();
    screen.show(scene(10_000, 100_000));
    check("top-large.txt", &mut screen, 80, 24);
}

#[test]
fn no_size_and_no_key_breaks_it() {
    let (requests, _requested) = std::sync::mpsc::channel();
    let mut screen = Screen::default();
    for (width, height) in [(1, 1), (5, 3), (20, 8), (80, 24), (300, 100), (40, 2)] {
        assert!(as_text(&mut screen, width, height).is_ok());
    }
    screen.show(scene(24, 8));
    let keys = "jjjjjjjjjjjjkk?xexcxcy\tjjkk\tjjkk\tp";
    for (i, key) in keys.chars().enumerate() {
        let code = if key == '\t' { KeyCode::Tab } else { KeyCode::Char(key) };
        assert!(press(&mut screen, KeyEvent::new(code, KeyModifiers::NONE), &requests));
        let (width, height) = [(80, 24), (3, 2), (200, 60), (12, 9)][i % 4];
        assert!(as_text(&mut screen, width, height).is_ok());
    }
    screen.hear(Update::Policies(vec![]));
    press(&mut screen, KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE), &requests);
    assert!(!press(&mut screen, KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE), &requests));
}

#[test]
fn the_selected_job_stays_when_the_list_moves() {
    let mut screen = Screen::default();
    screen.show(scene(24, 8));
    screen.scroll(2);
    assert_eq!(screen.selected_job(), Some(3));
    let mut later = scene(24, 8);
    later.jobs.remove(0);
    screen.show(later);
    assert_eq!(screen.selected_job(), Some(3));
}
