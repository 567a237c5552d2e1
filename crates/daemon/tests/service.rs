//! The service on a virtual engine: what is acknowledged is kept, what is kept comes back, and everything adds up.

mod common;

use arles_api::JobState;
use arles_api::{RotateRequest, TokenRequest};
use arles_core::engine::{Engine, EngineError, EngineReport, JobMeter, LiveJob, OrderReply};
use arles_core::estimate::{Estimator, Observation, RateQuery, RateRow};
use arles_core::scheduler::{GangReport, Order};
use arles_core::{Cluster, JobId, Kind, Profile, Time};
use arles_daemon::access::{Caller, Scope};
use arles_daemon::clock::wall;
use arles_daemon::desk::{EnergyBy, JobsQuery, LogQuery, Page};
use arles_daemon::service::verify::verify;
use arles_daemon::service::{Components, Options, Service};
use arles_daemon::store::Store;
use arles_daemon::views::Archive;
use arles_engine::Virtual;
use arles_sim::measure::Noise;
use arles_sim::truth::{Oracle, Truth};
use arles_sim::world::WorldOptions;
use common::{Folder, admin, block, cluster, fast, header, of, request, start, start_with, try_start, wait_until};
use std::sync::Arc;

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
    let sum = |rows: &[arles_api::EnergyRow]| -> f64 { rows.iter().map(|r| r.energy.joules()).sum() };
    let (kinds, tenants, jobs) = (sum(&by_kind.rows), sum(&by_tenant.rows), sum(&by_job.rows));
    assert!(kinds > 0.0);
    assert!((kinds - tenants).abs() <= 1e-6 * kinds, "{kinds} J by kind, {tenants} J by tenant");
    assert!((kinds - jobs).abs() <= 1e-6 * kinds, "{kinds} J by kind, {jobs} J by job");
    let unused: f64 = by_kind.rows.iter().filter_map(|row| row.unused_joules).sum();
    assert!(by_kind.rows.iter().all(|row| row.energy.restart_joules.is_none() && row.unused_joules.is_some()));
    assert!(by_tenant.rows.iter().all(|row| row.energy.restart_joules.is_some() && row.unused_joules.is_none()));
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

#[test]
fn every_change_says_who_asked_for_it_and_from_where() {
    let folder = Folder::new();
    let header = header(cluster(&[("v100", 2)]), &["a", "b"], "fifo");
    let options = Options { snapshot_entries: 10, ..fast() };
    let service = start(&folder.0, &header, options.clone());
    let desk = service.desk();
    let ada = Caller { address: Some("10.0.0.7".parse().expect("an address")), ..of("a") };
    let root = Caller { name: "root".into(), address: Some("::ffff:10.0.0.1".parse().expect("an address")), ..admin() };
    let (job, _) = block(desk.submit(&ada, None, request("a", "resnet50-b64", 1, 5e8))).expect("taken in");
    block(desk.submit(&of("b"), None, request("b", "resnet50-b64", 2, 5e8))).expect("taken in");
    block(desk.hold(&ada, job.id)).expect("held");
    block(desk.cancel(&root, job.id)).expect("cancelled");
    block(desk.set_policy(&root, arles_api::PolicyRequest { policy: "las".into() })).expect("switched");
    let records = |folder: &Folder| {
        let mut by = Vec::new();
        let store = Store::read(&folder.0).expect("a reader");
        let each = |record: arles_daemon::store::JournalRecord| {
            by.extend(record.by);
            Ok(())
        };
        store.entries(0, each).map(|()| by)
    };
    let first = records(&folder).expect("entries").first().cloned().expect("somebody");
    assert_eq!((first.name.as_str(), first.from.as_deref()), ("a", Some("10.0.0.7")));
    let told = |log: &arles_api::Log| -> Vec<(String, Option<String>, String, String)> {
        let line = |c: &arles_api::LoggedChange| (c.by.clone(), c.from.clone(), c.kind.clone(), c.text.clone());
        log.changes.iter().map(line).collect()
    };
    let line = |by: &str, from: Option<&str>, kind: &str, text: &str| {
        (by.to_owned(), from.map(str::to_owned), kind.to_owned(), text.to_owned())
    };
    let (ten, one) = (Some("10.0.0.7"), Some("10.0.0.1"));
    let all = [
        line("root", one, "policy", "switched the policy from fifo to las"),
        line("root", one, "cancel", "cancelled job 1"),
        line("a", ten, "hold", "held job 1"),
        line("b", None, "submit", "submitted job 2: resnet50-b64 on 2 GPUs"),
        line("a", ten, "submit", "submitted job 1: resnet50-b64 on 1 GPU"),
    ];
    assert_eq!(told(&desk.view(&admin()).log(&LogQuery::default()).expect("a log")), all);
    let own = desk.view(&of("a")).log(&LogQuery::default()).expect("a log");
    let hidden = [line("root", None, "cancel", "cancelled job 1"), all[2].clone(), all[4].clone()];
    assert_eq!(told(&own), hidden, "a tenant sees its own, and no address of others");
    let ask = |query: LogQuery| told(&desk.view(&admin()).log(&query).expect("a log"));
    assert_eq!(ask(LogQuery { by: Some("root".into()), ..LogQuery::default() }), all[..2]);
    assert_eq!(ask(LogQuery { job: Some(2), ..LogQuery::default() }), all[3..4]);
    assert_eq!(ask(LogQuery { kind: Some("hold".into()), oldest_first: true, ..LogQuery::default() }), all[2..3]);
    assert_eq!(ask(LogQuery { tenant: Some("b".into()), ..LogQuery::default() }), all[3..4]);
    assert_eq!(ask(LogQuery { from: Some(1e10), ..LogQuery::default() }), []);
    let page = desk.view(&admin()).log(&LogQuery { limit: Some(2), ..LogQuery::default() }).expect("a log");
    assert_eq!(told(&page), all[..2]);
    assert_eq!(ask(LogQuery { cursor: page.next, limit: Some(2), ..LogQuery::default() }), all[2..4]);
    wait_until("the entries are dropped", || {
        Store::read(&folder.0)
            .is_ok_and(|store| store.first_entry().is_ok_and(|first| first.is_some_and(|seq| seq > 8)))
    });
    service.stop().expect("a clean end");
    let service = start(&folder.0, &header, options);
    assert_eq!(
        told(&service.desk().view(&admin()).log(&LogQuery::default()).expect("a log")),
        all,
        "entries go, the log stays"
    );
    service.stop().expect("a clean end");
}

/// An engine whose meters have gone mad.
struct Mad<E>(E);

impl<E: Engine> Engine for Mad<E> {
    fn set_cluster(&mut self, now: Time, cluster: &Cluster) -> Result<(), EngineError> {
        self.0.set_cluster(now, cluster)
    }

    fn sync_jobs(&mut self, now: Time, live: &[LiveJob]) -> Result<Vec<JobMeter>, EngineError> {
        self.0.sync_jobs(now, live)
    }

    fn add_job(&mut self, now: Time, job: &LiveJob) -> Result<(), EngineError> {
        self.0.add_job(now, job)
    }

    fn remove_job(&mut self, now: Time, job: JobId) -> Result<Option<JobMeter>, EngineError> {
        let meter = self.0.remove_job(now, job)?;
        Ok(meter.map(|meter| JobMeter { gpu_seconds: f64::NEG_INFINITY, ..meter }))
    }

    fn apply(&mut self, now: Time, order: &Order) -> Result<OrderReply, EngineError> {
        self.0.apply(now, order)
    }

    fn poll(&mut self, now: Time) -> Result<Vec<GangReport>, EngineError> {
        self.0.poll(now)
    }

    fn next_event(&self) -> Option<Time> {
        self.0.next_event()
    }

    fn survey(&mut self, now: Time, asked_at: Time) -> Result<EngineReport, EngineError> {
        let mut report = self.0.survey(now, asked_at)?;
        report.meters.kinds.iter_mut().for_each(|kind| kind.unused_joules = f64::NAN);
        report.meters.gpu_watts.iter_mut().for_each(|watts| *watts = f32::INFINITY);
        report.survey.gangs.iter_mut().for_each(|gang| gang.steps_done = f64::NAN);
        Ok(report)
    }
}

#[test]
fn meters_that_show_nonsense_do_not_spoil_the_journal() {
    let folder = Folder::new();
    let header = header(cluster(&[("v100", 2)]), &["a"], "fifo");
    let options = Options { snapshot_entries: 20, ..fast() };
    let service = try_start(&folder.0, &header, options.clone(), |engine| Box::new(Mad(engine))).expect("a service");
    let desk = service.desk();
    for _ in 0..6 {
        block(desk.submit(&admin(), None, request("a", "resnet50-b64", 1, 20_000.0))).expect("taken in");
    }
    wait_until("all are over", || desk.view(&admin()).server().live_jobs == 0);
    wait_until("it was surveyed", || {
        desk.metrics().lines().any(|line| line.starts_with("arles_engine_nonsense_total ") && !line.ends_with(" 0"))
    });
    service.stop().expect("a clean end");
    assert_eq!(verify(&folder.0).expect("looked at").findings, Vec::<String>::new());
    let service = start(&folder.0, &header, options);
    assert_eq!(service.desk().view(&admin()).jobs(&JobsQuery::default()).expect("jobs").jobs.len(), 6);
    service.stop().expect("a clean end");
}

/// A node that was not heard of for two and a half surveys gets no gangs, however long a round is.
#[test]
fn an_engine_is_surveyed_in_the_middle_of_a_round_too() {
    let folder = Folder::new();
    let mut header = header(cluster(&[("v100", 2)]), &["a"], "fifo");
    (header.settings.round_seconds, header.settings.survey_seconds) = (1e9, 30.0);
    let service = start(&folder.0, &header, fast());
    let desk = service.desk();
    let energy =
        || desk.metrics().lines().filter(|line| line.starts_with("arles_energy_joules_total")).collect::<String>();
    for n in 0..4 {
        let before = energy();
        wait_until(&format!("survey {n} has shown more energy"), || energy() != before);
    }
    service.stop().expect("a clean end");
}

#[test]
fn a_journal_of_a_clock_ten_years_ahead_is_refused_and_can_be_set_right() {
    let folder = Folder::new();
    let header = header(cluster(&[("v100", 2)]), &["a"], "fifo");
    let decade = 10.0 * 365.0 * 86_400.0;
    let service = start(&folder.0, &header, Options { speed: 5e7, ..Options::default() });
    let ahead = || service.now().since(wall());
    wait_until("ten years have passed", || ahead() > decade);
    let limited = arles_api::JobRequest { time_limit_seconds: Some(3600.0), ..request("a", "resnet50-b64", 1, 1e15) };
    block(service.desk().submit(&admin(), None, limited)).expect("taken in");
    service.stop().expect("a clean end");
    let options = Options::default();
    let refused = try_start(&folder.0, &header, options.clone(), |engine| Box::new(engine));
    let told = refused.err().expect("one of the clocks is wrong").to_string();
    assert!(told.contains("--accept-clock") && told.contains("by this machine's clock"), "{told}");
    let accepting = Options { accept_clock: true, ..options.clone() };
    let service = try_start(&folder.0, &header, accepting, |engine| Box::new(engine)).expect("accepted");
    let desk = service.desk();
    assert!(desk.view(&admin()).server().now < wall().seconds() + 60.0, "it is today");
    let (job, _) = block(desk.submit(&admin(), None, request("a", "resnet50-b64", 1, 1e15))).expect("taken in");
    assert!(job.submitted_at < wall().seconds() + 60.0, "and jobs arrive today");
    service.stop().expect("a clean end");
    let service = try_start(&folder.0, &header, options, |engine| Box::new(engine)).expect("from then on it is right");
    assert!(service.now().seconds() < wall().seconds() + 60.0);
    service.stop().expect("a clean end");
    assert_eq!(verify(&folder.0).expect("looked at").findings, Vec::<String>::new());
}

/// An estimator that dies of its first question.
struct PoisonedEstimator;

impl Estimator for PoisonedEstimator {
    fn estimate(&self, _: &RateQuery) -> RateRow {
        panic!("the estimator dies on purpose")
    }

    fn observe(&mut self, _: &Observation) -> Vec<RateQuery> {
        Vec::new()
    }

    fn add_kind(&mut self, _: &Kind) {}

    fn add_workload(&mut self, _: &str, _: &Profile) {}

    fn fork(&self) -> Box<dyn Estimator> {
        Box::new(Self)
    }
}

/// An engine that dies of its first order.
struct PoisonedEngine(Virtual);

impl Engine for PoisonedEngine {
    fn set_cluster(&mut self, now: Time, cluster: &Cluster) -> Result<(), EngineError> {
        self.0.set_cluster(now, cluster)
    }

    fn sync_jobs(&mut self, now: Time, live: &[LiveJob]) -> Result<Vec<JobMeter>, EngineError> {
        self.0.sync_jobs(now, live)
    }

    fn add_job(&mut self, now: Time, job: &LiveJob) -> Result<(), EngineError> {
        self.0.add_job(now, job)
    }

    fn remove_job(&mut self, now: Time, job: JobId) -> Result<Option<JobMeter>, EngineError> {
        self.0.remove_job(now, job)
    }

    fn apply(&mut self, _: Time, _: &Order) -> Result<OrderReply, EngineError> {
        panic!("the engine dies on purpose")
    }

    fn poll(&mut self, now: Time) -> Result<Vec<GangReport>, EngineError> {
        self.0.poll(now)
    }

    fn survey(&mut self, now: Time, asked_at: Time) -> Result<EngineReport, EngineError> {
        self.0.survey(now, asked_at)
    }
}

fn with_poisoned_engine(folder: &Folder, header: &arles_daemon::entry::JournalHeader) -> Service {
    let mut store = Store::open(&folder.0).expect("a journal");
    store.set_header(header).expect("writable");
    let truth = Arc::new(Truth::new(header.cluster.kinds(), &header.workloads, None).expect("a truth"));
    let world = WorldOptions::default();
    let engine = Virtual::new(header.cluster.clone(), Arc::clone(&truth), world, Noise::default(), 1);
    let parts = Components {
        engine: Box::new(PoisonedEngine(engine)),
        engine_name: "poisoned".into(),
        estimator: Box::new(move |_| Ok(Box::new(Oracle(truth)))),
        estimator_name: "oracle".into(),
        catalog: folder.0.join("catalog.db"),
    };
    Service::start(store, parts, fast()).expect("a service")
}

#[test]
fn a_thread_that_dies_is_known_and_the_journal_is_whole() {
    for victim in ["estimator", "engine"] {
        let folder = Folder::new();
        let header = header(cluster(&[("v100", 2)]), &["a"], "fifo");
        let service = match victim {
            "engine" => with_poisoned_engine(&folder, &header),
            _ => start_with(&folder.0, &header, fast(), "poisoned", |_| Box::new(PoisonedEstimator)),
        };
        let desk = service.desk();
        assert_eq!((service.dead_thread(), desk.health().ok), (None, true));
        assert!(desk.metrics().contains(&format!("arles_thread_up{{thread=\"{victim}\"}} 1")));
        let (job, _) = block(desk.submit(&admin(), None, request("a", "resnet50-b64", 1, 5e8))).expect("taken in");
        wait_until("the thread is dead", || service.dead_thread() == Some(victim));
        for health in [desk.health(), desk.ready()] {
            assert!(!health.ok && health.trouble[0].contains(&format!("thread '{victim}' has died")), "{health:?}");
        }
        assert!(desk.metrics().contains(&format!("arles_thread_up{{thread=\"{victim}\"}} 0")));
        service.stop().expect("the loop ends as always");
        let service = start(&folder.0, &header, fast());
        let desk = service.desk();
        let runs = || desk.view(&admin()).job(job.id).expect("it is there").state == JobState::Running;
        wait_until("the job runs after a restart", runs);
        assert_eq!(service.dead_thread(), None);
        service.stop().expect("a clean end");
    }
}

fn new_token(name: &str, expires_seconds: Option<f64>) -> TokenRequest {
    TokenRequest { name: name.to_owned(), scope: Scope::Read, tenant: None, expires_seconds }
}

#[test]
fn tokens_end_are_replaced_and_remember_their_use() {
    let folder = Folder::new();
    let header = header(cluster(&[("v100", 2)]), &["a"], "fifo");
    let service = start(&folder.0, &header, fast());
    let desk = service.desk();
    let listed = |desk: &arles_daemon::desk::Desk, name: &str| {
        let all = desk.tokens().expect("tokens").tokens;
        all.into_iter().find(|token| token.name == name).expect("it is listed")
    };
    for name in ["local", "loopback"] {
        assert_eq!(desk.make_token(new_token(name, None)).expect_err("a reserved name").code, "token-name");
    }
    let brief = desk.make_token(new_token("brief", Some(1.0))).expect("a token");
    let ci = desk.make_token(new_token("ci", Some(86_400.0))).expect("a token");
    assert_eq!(ci.expires_at, Some(ci.created_at + 86_400.0));
    let old = ci.secret.expect("a secret");
    assert_eq!(listed(&desk, "ci").last_used_at, None);
    assert_eq!(desk.caller(&old).expect("good").name, "ci");
    assert!(listed(&desk, "ci").last_used_at.is_some(), "at once");

    let rotate = |overlap: f64| RotateRequest { overlap_seconds: overlap, expires_seconds: None };
    let second = desk.rotate_token(&admin(), "ci", &rotate(3600.0)).expect("another secret");
    assert!(second.expires_at.is_some_and(|at| at >= ci.created_at + 86_400.0), "as long as it was made for");
    let second = second.secret.expect("a secret");
    assert!(desk.caller(&old).is_ok() && desk.caller(&second).is_ok(), "both work for the overlap");
    let third = desk.rotate_token(&admin(), "ci", &rotate(0.0)).expect("another secret").secret.expect("a secret");
    assert!(desk.caller(&old).is_ok() && desk.caller(&third).is_ok());
    let gone = desk.caller(&second).expect_err("no overlap");
    assert!(matches!(gone, arles_daemon::access::BadToken::Replaced { .. }), "{gone:?}");
    let secret = brief.secret.expect("a secret");
    wait_until(
        "it expires",
        || matches!(desk.caller(&secret), Err(arles_daemon::access::BadToken::Expired { name, .. }) if name == "brief"),
    );
    let own = Caller { name: "ci".into(), id: "ci".into(), scope: Scope::Read, tenant: None, address: None, job: None };
    assert_eq!(desk.rotate_token(&own, "ci", &rotate(0.0)).expect_err("its own").code, "own-token");
    assert_eq!(desk.rotate_token(&admin(), "nobody", &rotate(0.0)).expect_err("no such token").code, "no-such-token");
    service.stop().expect("a clean end");

    let service = start(&folder.0, &header, fast());
    let desk = service.desk();
    assert!(listed(&desk, "ci").last_used_at.is_some(), "kept across restarts");
    assert!(desk.caller(&old).is_ok() && desk.caller(&third).is_ok() && desk.caller(&second).is_err());
    desk.drop_token(&admin(), "ci").expect("revoked");
    assert!(desk.caller(&old).is_err() && desk.caller(&third).is_err(), "all its secrets with it");
    service.stop().expect("a clean end");
}
