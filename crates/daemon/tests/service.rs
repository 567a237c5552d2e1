//! The service on a virtual engine: what is acknowledged is kept, what is kept comes back, and everything adds up.

mod common;

use arles_api::JobState;
use arles_daemon::access::{Caller, Scope};
use arles_daemon::desk::{EnergyBy, JobsQuery, Page};
use arles_daemon::service::Options;
use arles_daemon::views::Archive;
use common::{Folder, block, cluster, header, request, start, wait_until};

fn fast() -> Options {
    Options { speed: 3600.0, ..Options::default() }
}

fn admin() -> Caller {
    Caller::loopback()
}

fn of(tenant: &str) -> Caller {
    Caller { name: tenant.to_owned(), id: tenant.to_owned(), scope: Scope::Tenant, tenant: Some(tenant.to_owned()) }
}

#[test]
fn jobs_run_to_their_end_and_their_energy_adds_up() {
    let folder = Folder::new();
    let header = header(cluster(&[("v100", 4), ("k80", 4)]), &["a", "b"], "max-min-fairness");
    let service = start(&folder.0, &header, fast());
    let desk = service.desk();
    for i in 0..12 {
        let tenant = if i % 2 == 0 { "a" } else { "b" };
        block(desk.submit(&admin(), None, request(tenant, "resnet50-b64", 1 + i % 2, 20_000.0))).expect("taken in");
    }
    wait_until("all jobs are completed", || {
        let query = JobsQuery { states: vec![JobState::Completed], ..JobsQuery::default() };
        desk.view(&admin()).jobs(&query).expect("jobs").jobs.len() == 12
    });
    let whole = || desk.view(&admin()).energy(EnergyBy::Kind, None, None, &Page::default()).expect("energy");
    let read = whole().to;
    wait_until("the meters are read again", || whole().to > read + 300.0);
    let by_kind = whole();
    let by_tenant = desk.view(&admin()).energy(EnergyBy::Tenant, None, None, &Page::default()).expect("energy");
    let by_job = desk.view(&admin()).energy(EnergyBy::Job, None, None, &Page::default()).expect("energy");
    let sum = |rows: &[arles_api::EnergyRow]| -> f64 {
        rows.iter().map(|r| r.energy.active_joules + r.energy.idle_joules + r.energy.restart_joules).sum()
    };
    let (kinds, tenants, jobs) = (sum(&by_kind.rows), sum(&by_tenant.rows), sum(&by_job.rows));
    assert!(kinds > 0.0);
    assert!((kinds - tenants).abs() <= 1e-6 * kinds, "{kinds} J by kind, {tenants} J by tenant");
    assert!((kinds - jobs).abs() <= 1e-6 * kinds, "{kinds} J by kind, {jobs} J by job");
    let unused: f64 = by_kind.rows.iter().map(|row| row.unused_joules).sum();
    assert!((by_kind.total_joules - kinds - unused).abs() <= 1e-6 * kinds);
    let audit = desk.view(&admin()).audit(None, None).expect("an audit");
    assert!(audit.seconds > 0.0);
    assert_eq!(audit.policies, ["max-min-fairness"]);
    service.stop().expect("a clean end");
}

#[test]
fn a_restart_is_back_where_it_was() {
    let folder = Folder::new();
    let header = header(cluster(&[("v100", 2)]), &["a", "b"], "fifo");
    let service = start(&folder.0, &header, fast());
    let desk = service.desk();
    let submit = |key: Option<&str>| {
        block(desk.submit(&admin(), key.map(str::to_owned), request("a", "resnet50-b64", 1, 5e8))).expect("taken in")
    };
    let (first, fresh) = submit(Some("once"));
    assert!(fresh);
    let (again, fresh) = submit(Some("once"));
    assert!(!fresh && again.id == first.id, "the same key is the same job");
    for _ in 0..5 {
        submit(None);
    }
    wait_until("two run", || desk.view(&admin()).jobs(&JobsQuery::default()).expect("jobs").live[2].jobs == 2);
    let before = desk.view(&admin()).jobs(&JobsQuery::default()).expect("jobs");
    service.stop().expect("a clean end");

    let who = admin();
    let archive = Archive::open(&folder.0, &mut |remark| panic!("{remark}")).expect("a journal");
    let read = archive.view(&who).jobs(&JobsQuery::default()).expect("jobs");
    let facts = |jobs: &arles_api::Jobs| -> Vec<(u64, JobState, u32)> {
        jobs.jobs.iter().map(|job| (job.id, job.state, job.gang)).collect()
    };
    assert_eq!(facts(&read), facts(&before), "a journal without its daemon shows the same");
    drop(archive);

    let service = start(&folder.0, &header, fast());
    let desk = service.desk();
    let after = desk.view(&admin()).jobs(&JobsQuery::default()).expect("jobs");
    assert_eq!(after.jobs.len(), 6);
    wait_until("two run again", || desk.view(&admin()).jobs(&JobsQuery::default()).expect("jobs").live[2].jobs == 2);
    let (again, fresh) =
        block(desk.submit(&admin(), Some("once".into()), request("a", "resnet50-b64", 1, 5e8))).expect("known");
    assert!(!fresh && again.id == first.id, "a key is remembered across restarts");
    let other = block(desk.submit(&admin(), Some("once".into()), request("b", "resnet50-b64", 1, 5e8)));
    assert_eq!(other.expect_err("another request under the same key").code, "key-reused");
    for job in &after.jobs {
        block(desk.cancel(&admin(), job.id)).expect("cancelled");
    }
    wait_until("all are cancelled", || {
        let query = JobsQuery { states: vec![JobState::Cancelled], ..JobsQuery::default() };
        desk.view(&admin()).jobs(&query).expect("jobs").jobs.len() == 6
    });
    assert_eq!(block(desk.cancel(&admin(), first.id)).expect_err("it is over").code, "job-over");
    service.stop().expect("a clean end");
}

#[test]
fn a_tenant_sees_and_cancels_its_own() {
    let folder = Folder::new();
    let header = header(cluster(&[("v100", 2)]), &["a", "b"], "oef-coop");
    let service = start(&folder.0, &header, fast());
    let desk = service.desk();
    let (own, _) = block(desk.submit(&of("a"), None, request("a", "resnet50-b64", 1, 5e8))).expect("taken in");
    let (other, _) = block(desk.submit(&of("b"), None, request("b", "resnet50-b64", 1, 5e8))).expect("taken in");
    assert_eq!(desk.view(&of("a")).jobs(&JobsQuery::default()).expect("jobs").jobs.len(), 1);
    assert_eq!(desk.view(&of("a")).job(own.id).expect("its own").id, own.id);
    assert_eq!(desk.view(&of("a")).job(other.id).expect_err("not its own").status, 404);
    assert_eq!(block(desk.cancel(&of("a"), other.id)).expect_err("not its own").status, 404);
    assert_eq!(block(desk.explain(&of("a"), other.id)).expect_err("not its own").status, 404);
    let foreign = block(desk.submit(&of("a"), None, request("b", "resnet50-b64", 1, 1.0)));
    assert_eq!(foreign.expect_err("not its own").code, "other-tenant");
    wait_until("both run", || desk.view(&admin()).jobs(&JobsQuery::default()).expect("jobs").live[2].jobs == 2);
    let gpus = desk.view(&of("a")).gpus();
    assert_eq!(gpus.state, [1, 1], "busy is busy");
    let mut jobs = gpus.job.clone();
    jobs.sort_unstable();
    assert_eq!(jobs, [0, own.id], "but by whom is not told");
    assert_eq!(desk.view(&of("a")).tenants().tenants.len(), 1);
    service.stop().expect("a clean end");
}

#[test]
fn a_policy_is_switched_and_foretold() {
    let folder = Folder::new();
    let header = header(cluster(&[("v100", 2), ("k80", 2)]), &["a", "b"], "fifo");
    let service = start(&folder.0, &header, fast());
    let desk = service.desk();
    for i in 0..8 {
        let tenant = if i < 6 { "a" } else { "b" };
        block(desk.submit(&admin(), None, request(tenant, "resnet50-b64", 1, 5e8))).expect("taken in");
    }
    wait_until("four run", || desk.view(&admin()).jobs(&JobsQuery::default()).expect("jobs").live[2].jobs == 4);
    assert_eq!(desk.view(&admin()).tenants().tenants[1].gpus, 0.0, "first come, first served");
    let policy = |name: &str| arles_api::PolicyRequest { policy: name.to_owned() };
    let told = block(desk.forecast_policy(&admin(), policy("oef-coop"))).expect("a forecast");
    let after: f64 = told.shares[1].after.iter().sum();
    assert!(after >= 1.9, "b would hold half: {told:?}");
    assert_eq!(desk.view(&admin()).server().policy, "fifo", "a dry run changes nothing");
    block(desk.set_policy(&admin(), policy("oef-coop"))).expect("switched");
    wait_until("b runs too", || desk.view(&admin()).tenants().tenants[1].gpus >= 2.0);
    let refused = block(desk.set_policy(&admin(), policy("oef-cop"))).expect_err("no such policy");
    assert!(refused.message.contains("did you mean oef-coop?"), "{refused}");
    let forecast = block(desk.forecast_job(&admin(), request("b", "resnet50-b64", 1, 100.0))).expect("a forecast");
    assert!(forecast.starts_at.is_some(), "{forecast:?}");
    service.stop().expect("a clean end");
}
