//! The importers on the published files, where they are at hand.

use arles_sim::rates::RateTable;
use arles_sim::trace::import::{FORMATS, ImportOptions, Imported, TenantSplit, from_file, from_text};
use arles_sim::trace::{Length, csv};
use std::path::PathBuf;

/// A published file, or `None` after saying so.
fn published(name: &str) -> Option<PathBuf> {
    arles_testing::shared(&format!("data/{name}"))
}

fn import(name: &str) -> Option<Imported> {
    let imported = from_file(&published(name)?, None, &ImportOptions::default()).unwrap();
    // Whatever was imported can be written in our own form and read again, to the bit.
    let mut written = Vec::new();
    csv::write(&imported.trace, &mut written).unwrap();
    let read = csv::from_text(std::str::from_utf8(&written).unwrap(), name).unwrap();
    assert_eq!(read.jobs.len(), imported.trace.jobs.len());
    for (a, b) in read.jobs.iter().zip(&imported.trace.jobs) {
        assert_eq!((a.id, a.gang, a.arrival_seconds, a.length), (b.id, b.gang, b.arrival_seconds, b.length));
        assert_eq!(read.tenants[a.tenant as usize], imported.trace.tenants[b.tenant as usize]);
    }
    Some(imported)
}

#[test]
fn gavel_traces_of_all_generations_are_read() {
    let check = |name: &str, jobs: usize, widest: u32| {
        let Some(Imported { trace, report }) = import(name) else { return };
        assert_eq!((report.format, report.imported, trace.jobs.len()), ("gavel", jobs, jobs), "{name}");
        assert_eq!(trace.jobs.iter().map(|job| job.gang).max(), Some(widest), "{name}");
        assert!(trace.jobs.iter().all(|job| matches!(job.length, Length::Steps(_)) && job.floor.is_none()), "{name}");
        assert!(report.dropped.is_empty(), "{name}: {report}");
    };
    check("gavel/anchor/single-400.trace", 400, 1);
    check("gavel/anchor/multi-300.trace", 300, 4);
    check("gavel/traces_physical_cluster/max_min_fairness.trace", 96, 4);
    check("gavel/traces_msr_seed0/7f04ca.trace", 972, 32);
    check("gavel/traces_msr_seed0/2869ce.trace", 533, 32);
    check("shockwave/120_0.2_5_100_40_25_0,0.5,0.5_0.6,0.3,0.09,0.01_multigpu_dynamic.trace", 120, 4);
    check("shockwave/460_0.2_5_100_10_1_0,0.5,0.5_0.6,0.3,0.09,0.01_multigpu_dynamic.trace", 460, 8);
}

#[test]
fn every_anchor_job_has_a_rate() {
    let (Some(rates), Some(multi)) =
        (published("gavel/simulation_throughputs.json"), import("gavel/anchor/multi-300.trace"))
    else {
        return;
    };
    let rates = RateTable::from_file(&rates).unwrap();
    let v100 = rates.find_kind("v100").unwrap();
    for job in &multi.trace.jobs {
        let name = &multi.trace.workloads[job.workload as usize];
        let workload = rates.find_workload(name).unwrap();
        assert!(rates.solo(workload, v100, job.gang, false).is_some(), "{name} x {}", job.gang);
    }
}

#[test]
fn other_published_rate_tables_are_read_or_refused() {
    if let Some(path) = published("gavel/physical_cluster_throughputs.json") {
        assert_eq!(RateTable::from_file(&path).unwrap().workloads().len(), 26);
    }
    if let Some(path) = published("gavel/motivation_oracle_throughputs.json") {
        let error = RateTable::from_file(&path).unwrap_err();
        assert_eq!(error.line, 3, "{error}");
        assert!(error.message.starts_with("key \"ResNet-50 (batch size 16)\" names no workload"), "{error}");
    }
}

#[test]
fn philly_is_read_through_its_compression() {
    let Some(Imported { trace, report }) = import("philly/philly.csv.gz") else { return };
    assert_eq!((report.format, report.imported), ("philly", 82_247), "{report}");
    assert!(report.dropped.is_empty(), "{report}");
    assert_eq!(trace.tenants.len(), 15);
    assert_eq!(trace.jobs[0].arrival_seconds, 0.0);
    assert_eq!(trace.jobs.iter().map(|job| job.gang).max(), Some(128));
}

#[test]
fn alibaba_pods_are_read() {
    let check = |name: &str, never_scheduled: usize, restricted: bool| {
        let Some(Imported { trace, report }) = import(name) else { return };
        let dropped: usize = report.dropped.values().sum();
        assert_eq!((report.format, report.imported + dropped), ("openb", 8_152), "{report}");
        assert_eq!(report.dropped["no GPUs"], 1_088, "{report}");
        assert_eq!(report.dropped["never scheduled, so it has no duration"], never_scheduled, "{report}");
        assert_eq!(!trace.kinds.is_empty(), restricted, "{name}");
        println!("{name}: {report}");
    };
    check("alibaba_openb_2023/openb_pod_list_default.csv", 861, false);
    check("alibaba_openb_2023/openb_pod_list_gpuspec33.csv", 861, true);
    check("alibaba_openb_2023/openb_pod_list_gpushare100.csv", 1_173, false);
    let Some(path) = published("alibaba_openb_2023/openb_pod_list_multigpu50.csv") else { return };
    let error = from_file(&path, None, &ImportOptions::default()).unwrap_err();
    assert!(error.message.starts_with("the header lacks gpu_spec, qos, creation_time"), "{error}");
}

#[test]
fn the_same_seed_imports_the_same_jobs() {
    let Some(path) = published("alibaba_openb_2023/openb_pod_list_default.csv") else { return };
    let import = |seed| {
        let options = ImportOptions { seed, tenants: Some(TenantSplit::Seeded(5)), ..ImportOptions::default() };
        from_file(&path, Some("openb"), &options).unwrap().trace
    };
    assert_eq!(import(1), import(1));
    assert_ne!(import(1), import(2));
}

#[test]
fn unknown_formats_and_files_are_sentences() {
    let options = ImportOptions::default();
    let error = |text: &str, format: Option<&str>| from_text(text, "x", format, &options).unwrap_err().to_string();
    assert_eq!(
        error("a", Some("gavle")),
        "x: there is no trace format 'gavle' (did you mean gavel?); expected one of arles, gavel, philly, openb, slurm"
    );
    assert_eq!(
        error("hello\n", None),
        "x:1:1: the first line fits no trace format; name one of arles, gavel, philly, openb, slurm with --format"
    );
    assert_eq!(error("\n", None), "x: this file is empty; expected a trace");
    let missing = from_file(&PathBuf::from("no/such.trace"), None, &options).unwrap_err().to_string();
    assert!(missing.starts_with("no/such.trace: cannot read this file"), "{missing}");
    assert_eq!(
        FORMATS.iter().map(|format| format.name).collect::<Vec<_>>(),
        ["arles", "gavel", "philly", "openb", "slurm"]
    );
}

#[test]
fn our_own_files_are_recognised() {
    let text = "job_id,workload,arrival_seconds,steps\n1,a,0,5\n";
    let imported = from_text(text, "x", None, &ImportOptions::default()).unwrap();
    assert_eq!((imported.report.format, imported.trace.jobs.len()), ("arles", 1));
}
