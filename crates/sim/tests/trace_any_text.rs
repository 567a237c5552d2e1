//! Whatever is in a file, reading it ends in a trace or in a sentence.

use arles_sim::rates::RateTable;
use arles_sim::trace::import::{FORMATS, ImportOptions, from_text};
use proptest::prelude::*;

/// Text that gets past the first checks often enough to reach the later ones.
fn scraps() -> impl Strategy<Value = String> {
    let scrap = prop_oneof![
        Just("timestamp,duration,num_gpus,gpu_time,cluster\n"),
        Just("num_gpu,gpu_milli,gpu_spec,qos,creation_time,deletion_time,scheduled_time\n"),
        Just("job_id,workload,arrival_seconds,steps\n"),
        Just("2017-10-09 07:01:55,"),
        Just("2017-99-99 99:99:99,"),
        Just("a\t-\t-\t1\t5\t9\t1\n"),
        Just("1,1000,V100M16|G2,LS,0,9,1\n"),
        Just("4294967296"),
        Just("1e309"),
        Just("-1"),
        Just("NaN"),
        Just("é\u{feff}"),
        Just("\""),
        Just("|"),
        Just(","),
        Just("\t"),
        Just("\r\n"),
        Just("0"),
        Just("1"),
    ];
    proptest::collection::vec(scrap, 0..30).prop_map(|scraps| scraps.concat())
}

proptest! {
    #[test]
    fn every_importer_answers(text in scraps()) {
        for format in FORMATS {
            if let Err(error) = from_text(&text, "any", Some(format.name), &ImportOptions::default()) {
                prop_assert!(error.to_string().starts_with("any:"));
                prop_assert!(error.line <= text.lines().count() + 1);
            }
        }
    }

    #[test]
    fn every_rate_table_answers(
        parts in proptest::collection::vec(
            prop_oneof![
                Just("{"), Just("}"), Just("\"k80\":"), Just("\"('a', 1)\":"), Just("\"null\":"), Just("NaN"),
                Just("-Infinity"), Just("é"), Just("[1.0, 2.0]"), Just("-1"), Just("3"), Just(","), Just("\n"),
            ],
            0..20,
        ),
    ) {
        if let Err(error) = RateTable::from_json(&parts.concat(), "any") {
            prop_assert!(error.to_string().starts_with("any:"));
        }
    }
}
