//! Tables that are put together, and tables that are refused.

use super::*;

fn table(text: &str) -> Result<CellTable, String> {
    read(text, "cells.csv", Library::builtin()).map_err(|e| e.to_string())
}

#[test]
fn what_lines_say_of_a_workload_is_put_together() {
    let text = "workload,family,stack,batch,params,gpu_utilisation,kind,limit_watts,rate_steps_per_second,watts\n\
                mine,net,,32,1e7,,rtx3090,,10,200\n\
                mine,,,64,,0.9,rtx4090,,10,\n\
                mine,,vllm,32,,,rtx4090,300,7,\n";
    let table = table(text).unwrap();
    let names: Vec<&str> = table.kinds.iter().map(|k| k.name.as_str()).collect();
    assert_eq!(names, ["rtx3090", "rtx4090", "rtx4090@300W"]);
    let traits = table.catalog.traits("mine").unwrap();
    assert_eq!((traits.family.as_deref(), traits.gpu_utilisation, traits.batch), (Some("net"), Some(0.9), Some(64.0)));
    let rate = |workload: &str, kind: &str| {
        let key = Key { workload: workload.into(), partner: None, kind: kind.into(), gang: 1 };
        table.catalog.get(&key).unwrap().rate
    };
    // The same samples per second at the usual batch.
    assert!((rate("mine", "rtx3090") - 5.0).abs() < 1e-9 && (rate("mine", "rtx4090") - 10.0).abs() < 1e-9);
    assert!((rate("mine|vllm", "rtx4090@300W") - 7.0).abs() < 1e-9);
    assert_eq!(table.catalog.traits("mine|vllm").unwrap().model.as_deref(), Some("mine"));
}

#[test]
fn wrong_lines_get_a_sentence() {
    let head = "workload,kind,rate_steps_per_second,gpu_utilisation,family,gang,partner\n";
    for (lines, sentence) in [
        ("", "there is no cell in this table"),
        ("a,v100,x,,,,\n", "cells.csv:2: rate_steps_per_second is 'x'; expected steps per second"),
        ("a,v100,1,90,,,\n", "gpu_utilisation is '90'; expected a part, 0 to 1"),
        ("a,nothing,1,,,,\n", "nothing"),
        ("a,v100,1,,one,,\na,v100,1,,two,,\n", "family of 'a' is 'two', and 'one' in line 2"),
        ("a,v100,1,,,2,b\n", "only single GPUs are shared"),
        ("a,gaudi2,1,,,1,b\n", "takes 1 job only"),
    ] {
        let error = table(&format!("{head}{lines}")).unwrap_err();
        assert!(error.contains(sentence), "{error}");
    }
    assert!(table("workload,kind\n").unwrap_err().contains("column 'rate_steps_per_second' is missing"));
    assert!(looks_like("workload,kind") && !looks_like(" {\"v100\": 1}"));
}

#[test]
fn spread_gangs_are_counted_and_several_lines_are_averaged() {
    let text = "workload,kind,gang,nodes,rate_steps_per_second\na,v100,4,2,1\na,v100,4,1,2\na,v100,4,1,8\n";
    let table = table(text).unwrap();
    assert_eq!(table.left_out, 1);
    let key = Key { workload: "a".into(), partner: None, kind: "v100".into(), gang: 4 };
    assert!((table.catalog.get(&key).unwrap().rate - 4.0).abs() < 1e-9);
}
