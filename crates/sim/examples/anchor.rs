use arles_core::{Cluster, Library, allocate::find_policy};
use arles_sim::{drive::*, rates::RateTable, trace::import};
use std::sync::Arc;
fn main() {
    let d = "/work/shared/data/gavel/";
    let t0 = std::time::Instant::now();
    let table = RateTable::from_file(format!("{d}simulation_throughputs.json").as_ref()).unwrap();
    eprintln!("rates {:?}", t0.elapsed());
    let lib = Library::builtin();
    let args: Vec<String> = std::env::args().collect();
    for trace in ["single-400", "multi-300"] {
        let imp = import::from_file(
            format!("{d}anchor/{trace}.trace").as_ref(),
            Some("gavel"),
            &import::ImportOptions::default(),
        )
        .unwrap();
        let kinds = ["v100", "p100", "k80"].map(|k| lib.kind(k).unwrap().clone()).to_vec();
        let cluster = Cluster::uniform(kinds, &[36, 36, 36], 4).unwrap();
        let tr = Arc::new(imp.trace);
        for p in ["fifo", "fifo-packed", "las", "max-min-agnostic", "max-min-fairness"] {
            if args.len() > 1 && args[1] != p {
                continue;
            }
            let opt = Options { round_seconds: std::env::var("ROUND").map_or(360.0, |r| r.parse().unwrap()), keep_details: false, ..Default::default() };
            let s = Scenario::new(cluster.clone(), tr.clone(), Some(table.clone()), opt).unwrap();
            let t = std::time::Instant::now();
            let r = s.run(find_policy(p).unwrap(), None, &mut |_| {}).unwrap().summary;
            println!(
                "{trace} {p:18} jct {:.0} p50 {:.0} p99 {:.0} util {:.3} rounds {} done {} migr {} kwh {:.0} viol {:.3} makespan {:.0}  {:?}",
                r.mean_jct_seconds,
                r.p50_jct_seconds,
                r.p99_jct_seconds,
                r.utilisation_ratio,
                r.rounds,
                r.jobs_completed,
                r.migrations,
                r.energy_kwh,
                r.sla_violation_ratio,
                r.makespan_seconds,
                t.elapsed()
            );
        }
    }
}
