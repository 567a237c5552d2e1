//! Charts that compare amounts: shares, energy, broken promises.

use super::axis::{Axis, Measure};
use super::run_line_charts::policy_keys;
use super::svg::{Drawing, Figure, Panel, WIDTH, text_width};
use super::{TenantTotals, tenant_totals, text, theme};
use crate::record::RunRecord;

/// Tenants beyond this number would be drawn too small to read.
const MOST_TENANTS: usize = 24;
const RIGHT: f64 = 22.0;

/// Room for the names at the left.
fn name_room<'a>(names: impl Iterator<Item = &'a str>) -> f64 {
    let widest = names.map(|n| text_width(&text::shorten(n, 22))).fold(0.0, f64::max);
    (widest + 16.0).max(62.0)
}

/// Each tenant's part of the GPU time, against the part that its weight entitles it to.
pub(super) fn shares(runs: &[RunRecord]) -> Option<Figure> {
    let mut tenants = tenant_totals(runs);
    let all = tenants.len();
    if all == 0 {
        return None;
    }
    if all > MOST_TENANTS {
        tenants.sort_by(|a, b| b.deviation().total_cmp(&a.deviation()).then(a.rank.cmp(&b.rank)));
        tenants.truncate(MOST_TENANTS);
        tenants.sort_by(|a, b| b.excess().total_cmp(&a.excess()).then(a.rank.cmp(&b.rank)));
    }
    let left = name_room(tenants.iter().map(|t| t.name.as_str()));
    let mut drawing = Drawing::default();
    let mut keys = policy_keys(runs);
    keys.push(("ink".to_owned(), "entitlement".to_owned()));
    let top = drawing.legend((left, 4.0), WIDTH - left - RIGHT, &keys) + 6.0;
    // Dots of one tenant stand one above the other, so that equal shares do not hide each other.
    let spread = if tenants.len() <= 12 { 28.0 } else { 18.0 };
    let dodge = if runs.len() > 1 { (spread / runs.len() as f64).min(6.0) } else { 0.0 };
    let row = (dodge * runs.len() as f64 + 8.0).max(20.0);
    let bottom = top + row * tenants.len() as f64;
    let values = tenants.iter().flat_map(|t| t.shares.iter().flatten().copied().chain([t.entitlement]));
    let high = values.filter(|v| v.is_finite()).fold(0.0, f64::max);
    let x = Axis::upto(high, Measure::Ratio, (left, WIDTH - RIGHT), 56.0);
    let panel = Panel { x, y: Axis::bare((bottom, top)) };
    for i in (0..tenants.len()).step_by(2) {
        drawing.rect("track", [left, top + row * i as f64, WIDTH - RIGHT - left, row], "");
    }
    panel.frame(&mut drawing, "part of all GPU time");
    for (i, tenant) in tenants.iter().enumerate() {
        let middle = top + row * (i as f64 + 0.5);
        share_row(&mut drawing, &panel, runs, tenant, (middle, row, dodge));
    }
    let mut caption =
        "Dot: the tenant's share of all GPU time. Bar: the share its weight entitles it to. A tenant that submits \
            little work stays below its bar without being treated unfairly."
            .to_owned();
    if all > MOST_TENANTS {
        caption = format!(
            "{caption} Shown are the {MOST_TENANTS} of {} tenants furthest from their entitlement.",
            text::count(all as u64)
        );
    }
    Some(Figure::new("tenant-share", "Share of GPU time by tenant", caption, (WIDTH, bottom + 42.0), drawing))
}

fn share_row(drawing: &mut Drawing, panel: &Panel, runs: &[RunRecord], tenant: &TenantTotals, place: (f64, f64, f64)) {
    let (middle, row, dodge) = place;
    drawing.text("end", (panel.x.from - 8.0, middle + 4.0), &text::shorten(&tenant.name, 22));
    if tenant.entitlement.is_finite() {
        let x = panel.x.at(tenant.entitlement);
        let tip = format!("{}: entitled to {}", tenant.name, text::percent(tenant.entitlement));
        drawing.rect("ink", [x - 1.0, middle - row / 2.0 + 2.0, 2.0, row - 4.0], &tip);
    }
    let first = middle - dodge * (runs.len() - 1) as f64 / 2.0;
    for (i, share) in tenant.shares.iter().enumerate() {
        let Some(share) = share.filter(|s| s.is_finite()) else { continue };
        let tip = format!(
            "{}, {}: {} of GPU time, entitled to {}",
            tenant.name,
            runs[i].summary.policy,
            text::percent(share),
            text::percent(tenant.entitlement)
        );
        drawing.dot(&format!("dot {}", theme::policy(i)), (panel.x.at(share), first + dodge * i as f64), 4.0, &tip);
    }
}

/// Energy of every policy: computing, idling, lost to restarts.
pub(super) fn energy(runs: &[RunRecord]) -> Option<Figure> {
    let high = runs.iter().map(|r| r.summary.energy_kwh).filter(|e| e.is_finite()).fold(0.0, f64::max);
    if high <= 0.0 {
        return None;
    }
    let left = name_room(runs.iter().map(|r| r.summary.policy.as_str()));
    let mut drawing = Drawing::default();
    let keys = [("active", "active"), ("lost", "lost to restarts"), ("idle", "idle")];
    let keys = keys.map(|(class, name)| (class.to_owned(), name.to_owned()));
    let top = drawing.legend((left, 4.0), WIDTH - left - RIGHT, &keys) + 6.0;
    let bottom = top + 34.0 * runs.len() as f64;
    // One unit for all: the one that fits the smallest total.
    let totals = runs.iter().map(|r| r.summary.energy_kwh).filter(|e| *e > 0.0);
    let unit = text::energy_unit(totals.fold(high, f64::min));
    let x = Axis::upto(high, Measure::Energy(unit), (left, WIDTH - 104.0), 64.0);
    let panel = Panel { x, y: Axis::bare((bottom, top)) };
    panel.frame(&mut drawing, "");
    for (i, run) in runs.iter().enumerate() {
        energy_row(&mut drawing, &panel, run, (top + 34.0 * i as f64, unit));
    }
    let caption =
        "Energy of all GPUs until the last job ends. Idle: power drawn without computing, whether or not a job holds \
            the GPU. Restarts: work repeated and state reloaded. Shorter is better."
            .to_owned();
    Some(Figure::new("energy", "Energy", caption, (WIDTH, bottom + 26.0), drawing))
}

fn energy_row(drawing: &mut Drawing, panel: &Panel, run: &RunRecord, (top, unit): (f64, text::Unit)) {
    let s = &run.summary;
    let base = top + 21.0;
    drawing.text("end", (panel.x.from - 8.0, base), &text::shorten(&s.policy, 22));
    // What restarts cost is part of the active energy: show it apart, count it once.
    let amount = |kwh: f64| if kwh.is_finite() { kwh.max(0.0) } else { 0.0 };
    let lost = amount(s.energy_restart_kwh);
    let parts = [
        ("active", amount(s.energy_active_kwh - lost)),
        ("lost to restarts", lost),
        ("idle", amount(s.energy_idle_kwh)),
    ];
    let say = |kwh: f64| format!("{} {}", text::figures(kwh / unit.1), unit.0);
    let mut sum = 0.0;
    for (name, kwh) in parts {
        let (from, until) = (panel.x.at(sum), panel.x.at(sum + kwh));
        sum += kwh;
        let said = say(kwh);
        let tip = format!("{}, {name}: {said} ({})", s.policy, text::percent(kwh / s.energy_kwh));
        drawing.rect(name.split(' ').next().unwrap_or(name), [from, top + 7.0, until - from, 20.0], &tip);
        // Numbers inside bars are set a twelfth smaller.
        if until - from > text_width(&said) * 11.0 / 12.0 {
            let class = if name == "idle" { "on-idle mid" } else { "inside mid" };
            drawing.text(class, ((from + until) / 2.0, base), &said);
        }
    }
    drawing.text("strong halo", (panel.x.at(sum) + 8.0, base), &say(s.energy_kwh));
}

/// Time below a promised rate, where any promise was due.
pub(super) fn promises(runs: &[RunRecord]) -> Option<Figure> {
    let due: Vec<f64> = runs.iter().map(|r| r.jobs.iter().map(|j| j.due_seconds).filter(|d| *d > 0.0).sum()).collect();
    if due.iter().all(|d| *d <= 0.0) {
        return None;
    }
    let left = name_room(runs.iter().map(|r| r.summary.policy.as_str()));
    let ratio = |run: &RunRecord| Some(run.summary.sla_violation_ratio).filter(|r| r.is_finite());
    let high = runs.iter().filter_map(ratio).fold(0.001, f64::max).min(1.0);
    let bottom = 4.0 + 28.0 * runs.len() as f64;
    let x = Axis::upto(high, Measure::Ratio, (left, WIDTH - 150.0), 64.0);
    let panel = Panel { x, y: Axis::bare((bottom, 4.0)) };
    let mut drawing = Drawing::default();
    panel.frame(&mut drawing, "");
    for (i, run) in runs.iter().enumerate() {
        let (top, name) = (4.0 + 28.0 * i as f64, &run.summary.policy);
        let broken = run.jobs.iter().filter(|j| j.violated_seconds > 0.0).count() as u64;
        let promised = run.jobs.iter().filter(|j| j.due_seconds > 0.0).count() as u64;
        let jobs = format!("{} of {} jobs", text::count(broken), text::count(promised));
        let value = text::percent(run.summary.sla_violation_ratio);
        let tip = format!(
            "{name}: below the promised rate for {value} of the {} in which a rate was promised, {jobs}",
            text::duration(due[i])
        );
        let end = panel.x.at(ratio(run).unwrap_or(0.0));
        drawing.text("end", (left - 8.0, top + 18.0), &text::shorten(name, 22));
        drawing.rect(&format!("fill {}", theme::policy(i)), [left, top + 5.0, end - left, 18.0], &tip);
        drawing.text("halo", (end + 8.0, top + 18.0), &format!("{value} · {jobs}"));
    }
    let caption = "Share of the time with a promised rate in which the job ran below it, and the number of jobs affected. Shorter \
        is better."
        .to_owned();
    Some(Figure::new("promises", "Promised rates not kept", caption, (WIDTH, bottom + 26.0), drawing))
}
