//! Estimators on Gavel's published rates: what ships is better than what is simple, and not so good that it must have peeked.

#[path = "support/arles.rs"]
mod support;

use arles_testing::shared;
use serde_json::Value;
use support::{arles, folder};

#[test]
fn learned_is_best_on_families_it_never_saw() {
    let Some(rates) = shared("data/gavel/simulation_throughputs.json") else { return };
    let folder = folder("learn-published");
    let rates = rates.to_string_lossy().into_owned();
    let command = [
        "learn",
        "eval",
        "--rates",
        &rates,
        "--split",
        "leave-family-out",
        "--estimators",
        "mean,nearest,completion,model,learned",
        "-o",
        "json",
    ];
    let ran = arles(&folder, &command, "");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let document: Value = serde_json::from_str(&ran.stdout).unwrap();
    let results = document["results"].as_array().unwrap();
    let error = |estimator: &str, observations: &str, cells: &str| {
        let fits = |r: &&Value| r["estimator"] == estimator && r["observations"] == observations && r["cells"] == cells;
        results.iter().find(fits).unwrap()["mape_percent"].as_f64().unwrap()
    };
    for observations in ["0", "1", "2", "4"] {
        for cells in ["solo", "pair"] {
            let learned = error("learned", observations, cells);
            for rival in ["mean", "nearest", "completion", "model"] {
                let rival_error = error(rival, observations, cells);
                assert!(learned < rival_error, "{cells} {observations}: learned {learned}, {rival} {rival_error}");
            }
        }
        assert!(error("learned", observations, "pair") > 10.0, "under 10 % on new families somebody has peeked");
    }
    assert!(error("learned", "0", "pair") <= 24.0);
    assert!(error("learned", "2", "pair") <= 21.5);
    assert!(error("learned", "4", "pair") <= 19.5);
    let scored = |r: &&Value| r["estimator"] == "learned" && (r["cells"] == "solo" || r["cells"] == "pair");
    for result in results.iter().filter(scored) {
        let covered = result["coverage90_ratio"].as_f64().unwrap();
        assert!((0.84..=0.96).contains(&covered), "{result}");
    }
}
