//! Prometheus metrics, in base units. No metric is labelled by job: there may be a million of them.

use crate::read::book::Book;
use crate::read::views;
use crate::service::gauges::{CLASSES, Histogram, LOST_LOG_LINES};
use crate::service::threads::Thread;
use crate::service::{ServiceState, Shared};
use arles_api::JobState;
use arles_core::estimate::{RateQuery, Source};
use arles_core::{GpuId, KindId, NodeId, Spread, Time};
use arles_learn::{Catalog, Cell, Key};
use std::fmt::{Display, Write};
use std::path::Path;

/// A page of metrics.
#[derive(Default)]
struct Page(String);

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        if !labels.is_empty() {
            self.0.push('{');
            for (i, (key, text)) in labels.iter().enumerate() {
                let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
                let _ = write!(self.0, "{}{key}=\"{text}\"", if i > 0 { "," } else { "" });
            }
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.head(name, kind, help);
        self.line(name, &[], value);
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.head(name, "histogram", help);
        let classes = histogram.read();
        let mut below = 0;
        for (end, count) in CLASSES.iter().zip(classes.counts) {
            below += count;
            self.line(&format!("{name}_bucket"), &[("le", &end.to_string())], below);
        }
        self.line(&format!("{name}_bucket"), &[("le", "+Inf")], classes.count);
        self.line(&format!("{name}_sum"), &[], classes.sum);
        self.line(&format!("{name}_count"), &[], classes.count);
    }
}

pub(crate) fn text(shared: &Shared) -> String {
    let mut page = Page::default();
    {
        // In this order, as in the views.
        let catalog = shared.catalog.read();
        let book = shared.book();
        gpus(&mut page, &book);
        jobs(&mut page, &book, shared.clock.now());
        shares(&mut page, &book);
        energy(&mut page, &book);
        estimates(&mut page, &book, &catalog);
    }
    service(&mut page, shared);
    machine(&mut page, shared);
    page.0
}

/// What the daemon stands on: its disk, its clock, its last backup, and whether its loop moves.
fn machine(page: &mut Page, shared: &Shared) {
    let folder = shared.tokens.lock().unwrap_or_else(std::sync::PoisonError::into_inner).path().to_owned();
    let folder = folder.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let disk = rustix::fs::statvfs(folder).ok();
    // A disk that does not answer is as bad as a full one, and is shown as one.
    let bytes = |blocks: fn(&rustix::fs::StatVfs) -> u64| disk.as_ref().map_or(0, |disk| blocks(disk) * disk.f_frsize);
    page.one(
        "arles_state_free_bytes",
        "gauge",
        "Bytes that the daemon may still write to the disk of its state folder; 0 if that cannot be said.",
        bytes(|disk| disk.f_bavail),
    );
    page.one("arles_state_disk_bytes", "gauge", "Size of the disk of the state folder.", bytes(|disk| disk.f_blocks));
    page.one(
        "arles_last_backup_timestamp_seconds",
        "gauge",
        "When the last verified backup of the journal was made, in seconds since 1970; 0 if none was.",
        crate::store::last_backup(folder).unwrap_or(0.0),
    );
    let ahead = match shared.clock.speed() == 1.0 {
        true => shared.clock.now().seconds() - crate::clock::wall().seconds(),
        false => 0.0,
    };
    page.one(
        "arles_clock_ahead_seconds",
        "gauge",
        "How far the scheduler's clock is ahead of the machine's, as after a start with a wrong clock; 0 at another speed than 1.",
        ahead,
    );
    page.one(
        "arles_event_loop_age_seconds",
        "gauge",
        "Time since the event loop began its last pass; more than a few seconds mean that it is stuck.",
        shared.gauges.last_pass.age().as_secs_f64(),
    );
}

fn gpus(page: &mut Page, book: &Book) {
    let cluster = book.cluster();
    let states = ["free", "busy", "shared", "away"];
    let mut counts = vec![[0_u64; 4]; cluster.kinds().len()];
    let mut watts = vec![0.0; cluster.kinds().len()];
    let away: Vec<bool> =
        (0..cluster.nodes().len() as u32).map(|n| views::node_state(book, NodeId(n)) != "up").collect();
    for g in 0..cluster.gpus() {
        let gpu = GpuId(g as u32);
        if cluster.node(cluster.node_of(gpu)).removed {
            continue;
        }
        let kind = cluster.kind_of(gpu).index();
        let holders = book.seats[g].iter().filter(|&&job| job != 0).count();
        let lost = book.is_lost(gpu);
        counts[kind][if lost || away[cluster.node_of(gpu).index()] { 3 } else { holders }] += 1;
        watts[kind] += f64::from(book.watts[g]);
    }
    page.head("arles_gpus", "gauge", "GPUs by kind and state.");
    for (kind, counts) in cluster.kinds().iter().zip(&counts) {
        for (state, count) in states.iter().zip(counts) {
            page.line("arles_gpus", &[("kind", &kind.name), ("state", state)], count);
        }
    }
    let mut slow = vec![0; cluster.kinds().len()];
    book.slow_cards().for_each(|gpu| slow[cluster.kind_of(gpu).index()] += 1);
    page.head("arles_slow_gpus", "gauge", "GPUs that jobs found to be slower than others of their kind.");
    for (kind, slow) in cluster.kinds().iter().zip(&slow) {
        page.line("arles_slow_gpus", &[("kind", &kind.name)], slow);
    }
    page.head("arles_power_watts", "gauge", "Power draw of all GPUs of a kind, as of the last survey.");
    for (kind, watts) in cluster.kinds().iter().zip(&watts) {
        page.line("arles_power_watts", &[("kind", &kind.name)], watts);
    }
}

fn jobs(page: &mut Page, book: &Book, now: Time) {
    page.head("arles_jobs", "gauge", "Live jobs by tenant and state.");
    for line in &book.tenants {
        for state in &JobState::ALL[..4] {
            let labels = [("tenant", line.name.as_str()), ("state", state.name())];
            page.line("arles_jobs", &labels, line.live[*state as usize]);
        }
    }
    page.head("arles_jobs_ended_total", "counter", "Ended jobs by tenant and terminal state.");
    for line in &book.tenants {
        let ends = [
            (JobState::Completed, line.completed),
            (JobState::Failed, line.failed),
            (JobState::Cancelled, line.cancelled),
        ];
        for (state, count) in ends {
            page.line("arles_jobs_ended_total", &[("tenant", &line.name), ("state", state.name())], count);
        }
    }
    page.head("arles_queue_jobs", "gauge", "Waiting jobs by reason, as of the last round.");
    let mut reasons = std::collections::BTreeMap::<&str, u64>::new();
    for ((_, code), count) in &book.reasons {
        *reasons.entry(code).or_default() += count;
    }
    for (code, count) in reasons {
        page.line("arles_queue_jobs", &[("reason", code)], count);
    }
    // Numbers are given in order of arrival. Who waits for an operator or for another job does not wait for GPUs.
    let waits = |record: &&std::sync::Arc<crate::read::book::Record>| !record.spec.held && record.spec.after.is_empty();
    let oldest = book.waiting.iter().filter_map(|(id, ())| book.jobs.get(id)).find(waits);
    page.one(
        "arles_queue_oldest_seconds",
        "gauge",
        "Age of the oldest job that waits and is neither held nor after another; 0 if there is none.",
        oldest.map_or(0.0, |record| now.since(record.spec.arrived).max(0.0)),
    );
    let counts = &book.counts;
    page.one("arles_jobs_submitted_total", "counter", "Jobs submitted.", counts.submitted);
    page.one("arles_starts_total", "counter", "Gangs ordered to start.", counts.starts);
    page.one("arles_stops_total", "counter", "Gangs ordered to stop.", counts.stops);
    page.one("arles_requeued_total", "counter", "Jobs requeued because they lost their gang.", counts.requeued);
    page.one(
        "arles_nodes_lost_total",
        "counter",
        "Nodes lost because they did not answer within their lease.",
        counts.nodes_lost,
    );
    page.one("arles_round", "gauge", "Current scheduling round.", book.round.0);
}

fn shares(page: &mut Page, book: &Book) {
    let weights: f64 = book.tenants.iter().map(|line| line.weight).sum();
    let held: f64 = book.tenants.iter().map(|line| line.gpus).sum();
    page.head("arles_tenant_entitlement_ratio", "gauge", "Fair share of a tenant as a fraction of the cluster.");
    for line in &book.tenants {
        page.line("arles_tenant_entitlement_ratio", &[("tenant", &line.name)], line.weight / weights);
    }
    page.head("arles_tenant_held_ratio", "gauge", "Fraction of the busy GPUs that a tenant holds.");
    for line in &book.tenants {
        let ratio = if held > 0.0 { line.gpus / held } else { 0.0 };
        page.line("arles_tenant_held_ratio", &[("tenant", &line.name)], ratio);
    }
    page.head("arles_tenant_gpus", "gauge", "GPUs granted to a tenant by the current allocation.");
    let Some(decision) = &book.decision else { return };
    let cluster = book.cluster();
    for share in &decision.shares {
        let tenant = &book.tenants[share.tenant.index()].name;
        for (j, gpus) in share.gpus.iter().enumerate() {
            let kind = &cluster.kind(KindId(j as u16)).name;
            page.line("arles_tenant_gpus", &[("tenant", tenant), ("kind", kind)], gpus);
        }
    }
    page.head(
        "arles_tenant_sharing_ratio",
        "gauge",
        "Utility relative to an equal split of the cluster; below 1 a tenant would be better off with its own part.",
    );
    for share in &decision.shares {
        page.line("arles_tenant_sharing_ratio", &[("tenant", &book.tenants[share.tenant.index()].name)], share.sharing);
    }
    page.head("arles_tenant_envy_ratio", "gauge", "A tenant's strongest envy of another; at most 1 is envy-free.");
    for (i, share) in decision.shares.iter().enumerate() {
        let others = share.envy.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, envy)| *envy);
        if let Some(most) = others.reduce(f64::max) {
            page.line("arles_tenant_envy_ratio", &[("tenant", &book.tenants[share.tenant.index()].name)], most);
        }
    }
}

fn energy(page: &mut Page, book: &Book) {
    page.head(
        "arles_energy_joules_total",
        "counter",
        "Energy by kind: active and idle energy of GPUs held by jobs, and energy of unused GPUs.",
    );
    for (kind, meter) in book.cluster().kinds().iter().zip(&book.totals.kinds) {
        let parts =
            [("active", meter.used.active_joules), ("idle", meter.used.idle_joules), ("unused", meter.unused_joules)];
        for (part, joules) in parts {
            page.line("arles_energy_joules_total", &[("kind", &kind.name), ("part", part)], joules);
        }
    }
    page.head("arles_tenant_energy_joules_total", "counter", "Energy charged to a tenant's jobs.");
    for (line, (charge, _)) in book.tenants.iter().zip(&book.totals.tenants) {
        let parts =
            [("active", charge.active_joules), ("idle", charge.idle_joules), ("restart", charge.restart_joules)];
        for (part, joules) in parts {
            page.line("arles_tenant_energy_joules_total", &[("tenant", &line.name), ("part", part)], joules);
        }
    }
    page.head("arles_tenant_gpu_seconds_total", "counter", "GPU seconds held by a tenant's jobs.");
    for (line, (_, seconds)) in book.tenants.iter().zip(&book.totals.tenants) {
        page.line("arles_tenant_gpu_seconds_total", &[("tenant", &line.name)], seconds);
    }
}

fn estimates(page: &mut Page, book: &Book, catalog: &Catalog) {
    let counts = &book.counts;
    page.one("arles_measurements_total", "counter", "Rate measurements.", counts.measurements);
    page.head(
        "arles_estimate_error_ratio",
        "summary",
        "|estimated / measured - 1| over all measurements, with the estimate before each.",
    );
    page.line("arles_estimate_error_ratio_sum", &[], counts.error_sum);
    page.line("arles_estimate_error_ratio_count", &[], counts.errors);
    let (workloads, kinds) = (book.workload_numbers(), book.kind_numbers());
    let error = |(key, cell): (&Key, &Cell)| {
        let partner = match &key.partner {
            Some(partner) => Some(*workloads.get(partner.as_str())?),
            None => None,
        };
        let ask = RateQuery { workload: *workloads.get(key.workload.as_str())?, gang: key.gang, partner };
        let guess = book.guess(&ask, *kinds.get(key.kind.as_str())?, Spread::Packed)?;
        (cell.source == Source::Measured && cell.rate > 0.0).then(|| (guess / cell.rate - 1.0).abs())
    };
    let now = catalog.cells().filter_map(error);
    let (sum, n) = now.fold((0.0, 0_u64), |(sum, n), error| (sum + error, n + 1));
    if n > 0 {
        page.one(
            "arles_estimate_present_error_ratio",
            "gauge",
            "Mean error of current estimates over measured cells.",
            sum / n as f64,
        );
    }
}

fn service(page: &mut Page, shared: &Shared) {
    let gauges = &shared.gauges;
    page.histogram("arles_solve_seconds", "Run time of the policy's solver.", &gauges.solve);
    page.histogram("arles_step_seconds", "Duration of one scheduler step.", &gauges.step);
    page.histogram("arles_event_loop_pass_seconds", "One pass of the event loop: requests wait for it.", &gauges.pass);
    page.histogram("arles_journal_commit_seconds", "Duration of one journal commit, sync included.", &gauges.commit);
    page.histogram(
        "arles_journal_lag_seconds",
        "Time from a request's step to its acknowledgement.",
        &gauges.acknowledge,
    );
    page.histogram("arles_engine_call_seconds", "Duration of one engine call.", &gauges.engine);
    page.histogram("arles_http_request_seconds", "Duration of one HTTP request.", &gauges.request);
    page.head("arles_http_responses_total", "counter", "HTTP responses by status class.");
    for (class, count) in gauges.answers.iter().enumerate() {
        page.line("arles_http_responses_total", &[("code", &format!("{}xx", class + 1))], count.get());
    }
    page.one(
        "arles_journal_entries_total",
        "counter",
        "Journal entries written since the start.",
        gauges.entries.get(),
    );
    page.one(
        "arles_journal_entries_since_snapshot",
        "gauge",
        "Journal entries that a restart would replay.",
        gauges.entries_since_snapshot.get(),
    );
    page.one("arles_snapshots_total", "counter", "Snapshots written since the start.", gauges.snapshots.get());
    page.one("arles_snapshot_bytes", "gauge", "Size of the last snapshot.", gauges.snapshot_bytes.get());
    page.one(
        "arles_progress_reports_total",
        "counter",
        "Progress reports of jobs' own code since the start.",
        gauges.progress_reports.get(),
    );
    page.one("arles_requests_waiting", "gauge", "Requests queued for the event loop.", gauges.inbox.get());
    page.one("arles_event_listeners", "gauge", "Open event streams.", gauges.listeners.get());
    page.one("arles_engine_up", "gauge", "Whether the engine responds.", gauges.engine_up.get());
    page.one("arles_engine_errors_total", "counter", "Failed engine calls.", gauges.engine_errors.get());
    let nonsense = gauges.engine_nonsense.get();
    page.one("arles_engine_nonsense_total", "counter", "Things that the engine said and that cannot be.", nonsense);
    page.head("arles_thread_up", "gauge", "Whether a thread of the daemon runs.");
    for thread in Thread::ALL {
        page.line("arles_thread_up", &[("thread", thread.name())], u8::from(shared.threads.is_up(thread)));
    }
    page.one(
        "arles_log_lines_lost_total",
        "counter",
        "Log lines lost because standard error could not be written, or not fast enough.",
        LOST_LOG_LINES.get(),
    );
    page.one("arles_ready", "gauge", "Whether requests are accepted.", u8::from(shared.state() == ServiceState::Ready));
    page.one("arles_clock_seconds", "gauge", "The scheduler's clock.", shared.clock.now().seconds());
    page.one(
        "arles_clock_speed_ratio",
        "gauge",
        "Speed of the scheduler's clock relative to wall-clock time.",
        shared.clock.speed(),
    );
    page.head("arles_build_info", "gauge", "Version, engine and estimator.");
    let labels = [
        ("version", env!("CARGO_PKG_VERSION")),
        ("engine", shared.engine_name.as_str()),
        ("estimator", shared.estimator_name.as_str()),
    ];
    page.line("arles_build_info", &labels, 1);
}
