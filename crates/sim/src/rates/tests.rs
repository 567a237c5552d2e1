//! Tests of the rate table: lookups, wrong input, and the published file where it is at hand.

use super::*;

const SMALL: &str = r#"{
  "k80":  {"('a', 1)": {"null": 2, "('b, big', 1)": [1.5, 0.5]},
           "('b, big', 1)": {"null": 1.0, "('b, big', 1)": [0.0, 0.0]},
           "('a', 2)": {"null": 3.5, "('a', 2)": [0.0, 0.0]}},
  "v100": {"('a', 1)": {"null": 8.0}, "('b, big', 1)": {"null": 0.0}, "('a', 2)": {"null": 15.0}},
  "v100_unconsolidated": {"('a', 2)": {"null": 12.0}, "('a', 1)": {"null": 7.0}}
}"#;

fn small() -> RateTable {
    RateTable::from_json(SMALL, "small.json").unwrap()
}

#[test]
fn names_are_interned_in_order_of_appearance() {
    let table = small();
    assert_eq!(table.workloads(), ["a", "b, big"]);
    assert_eq!(table.kinds(), ["k80", "v100"]);
    assert_eq!(table.gangs(), [1, 2]);
    assert_eq!(table.find_workload("b, big"), Some(1));
    assert_eq!(table.find_workload("c"), None);
    assert_eq!(table.find_kind("v100_unconsolidated"), None);
}

#[test]
fn solo_rates_fall_back_from_spread_to_packed() {
    let table = small();
    assert_eq!(table.solo(0, 0, 2, false), Some(3.5));
    assert_eq!(table.solo(0, 0, 2, true), Some(3.5), "k80 has no spread gangs");
    assert_eq!(table.solo(0, 1, 2, true), Some(12.0));
    assert_eq!(table.solo(0, 1, 1, true), Some(8.0), "one GPU is never spread");
    assert_eq!(table.solo(1, 1, 1, false), None, "0 does not fit");
    assert_eq!(table.solo(1, 0, 2, false), None, "not measured");
    assert_eq!(table.solo(0, 0, 16, false), None, "no such gang");
    assert_eq!(table.solo(9, 0, 1, false), None, "no such workload");
    assert_eq!(table.solo(0, 9, 1, false), None, "no such kind");
}

#[test]
fn watts_are_known_where_they_were_measured() {
    let text = r#"{"v100": {"('a', 1)": {"null": 8.0, "watts": 212.5}, "('a', 2)": {"watts": 190, "null": 15.0}, "('b', 1)": {"null": 3}}}"#;
    let table = RateTable::from_json(text, "watts.json").unwrap();
    assert_eq!((table.watts(0, 0, 1), table.watts(0, 0, 2)), (Some(212.5), Some(190.0)));
    assert_eq!((table.watts(1, 0, 1), table.watts(0, 0, 4), table.watts(9, 0, 1)), (None, None, None));
    assert_eq!(table.solo(0, 0, 2, false), Some(15.0));
    assert_eq!(small().watts(0, 0, 1), None, "a table without any");
    let wrong = |watts: &str| {
        let text = format!(r#"{{"v100": {{"('a', 1)": {{"null": 8.0, "watts": {watts}}}}}}}"#);
        RateTable::from_json(&text, "watts.json").unwrap_err().to_string()
    };
    assert!(wrong("0").contains("a draw of 0 W cannot be; expected more than 0"), "{}", wrong("0"));
    assert!(wrong("-3.5").contains("a draw of -3.5 W cannot be"), "{}", wrong("-3.5"));
    let misplaced = RateTable::from_json(r#"{"v100": {"watts": {"null": 1}}}"#, "watts.json").unwrap_err().to_string();
    assert!(misplaced.contains("key \"watts\" stands where a workload was expected"), "{misplaced}");
}

#[test]
fn pairs_hold_in_both_directions() {
    let table = small();
    assert_eq!(table.pair(0, 1, 0), Some((1.5, 0.5)));
    assert_eq!(table.pair(1, 0, 0), Some((0.5, 1.5)));
    assert_eq!(table.pair(1, 1, 0), None, "[0, 0] does not fit");
    assert_eq!(table.pair(0, 0, 0), None, "not measured");
    assert_eq!(table.pair(0, 1, 7), None, "no such kind");
}

#[test]
fn cells_agree_with_lookups() {
    let table = small();
    let cells: Vec<Cell> = table.cells().collect();
    assert_eq!(cells.len(), 8 + 3);
    for c in cells.iter().filter(|c| c.rate > 0.0 && (!c.spread || c.gang > 1)) {
        let found = match c.partner {
            None => table.solo(c.workload, c.kind, c.gang, c.spread),
            Some((partner, _)) => table.pair(c.workload, partner, c.kind).map(|(own, _)| own),
        };
        assert_eq!(found, Some(c.rate), "{c:?}");
    }
}

#[test]
fn wrong_tables_are_refused_with_a_sentence_and_a_position() {
    let check = |text: &str, place: &str, words: &[&str]| {
        let error = RateTable::from_json(text, "t.json").unwrap_err().to_string();
        assert!(error.starts_with(place), "{error}\n  should start with {place}");
        for word in words {
            assert!(error.contains(word), "{error}\n  should contain {word}");
        }
    };
    check("", "t.json:1:0: ", &["EOF"]);
    check("{}", "t.json: ", &["no rate"]);
    check(r#"{"v100": {}}"#, "t.json: ", &["no rate"]);
    check("[1]", "t.json:1:", &["expected an object with one entry per GPU kind"]);
    check("{\"v100\": {\n\"ResNet\": {\"null\": 1}}}", "t.json:2:", &["key \"ResNet\"", "('name', gang)"]);
    check("{\"v100\": {\"('a', 0)\": {\"null\": 1}}}", "t.json:1:", &["('a', 0)", "1 or more"]);
    check("{\"v100\": {\"null\": {\"null\": 1}}}", "t.json:1:", &["null"]);
    check("{\"v100\": {\"('a', 1)\": {\"null\":\n -1.5}}}", "t.json:2:", &["rate -1.5 is negative"]);
    check("{\"v100\": {\"('a', 1)\": {\"null\":\n NaN}}}", "t.json:2:", &["NaN is no number in JSON", "Python"]);
    check("{\"v100\": {\"('a', 1)\": {\"null\": -Infinity}}}", "t.json:1:", &["-Infinity is no number"]);
    check("{\"v100\": {\"('a', 1)\": {\"null\": \"fast\"}}}", "t.json:1:", &["fast", "expected a rate"]);
    check("{\"v100\": {\"('a', 1)\": {\"null\": null}}}", "t.json:1:", &["null", "expected a rate"]);
    check("{\"v100\": {\"('a', 1)\": {\"('a', 1)\": [1]}}}", "t.json:1:", &["exactly two rates"]);
    check("{\"v100\": {\"('a', 1)\": {\"('a', 1)\": [1, NaN]}}}", "t.json:1:", &["NaN is no number"]);
    check("{\"v100\": {\"('a', 1)\": {\"('a', 1)\": 3}}}", "t.json:1:", &["expected two rates"]);
    check(r#"{"v100": {"('a', 1)": {"null": 1}, "('a', 1)": {"null": 2}}}"#, "t.json:1:", &["listed twice", "v100"]);
    check(r#"{"v100": {"('a', 1)": {"null": 1}}} x"#, "t.json:1:", &["trailing characters"]);
}

#[test]
fn a_missing_file_is_a_sentence() {
    let error = RateTable::from_file(Path::new("no/such/rates.json")).unwrap_err();
    assert!(error.to_string().starts_with("no/such/rates.json: cannot read"), "{error}");
}

#[test]
fn the_published_table_has_its_known_size() {
    let Some(path) = arles_testing::shared("data/gavel/simulation_throughputs.json") else { return };
    let table = RateTable::from_file(&path).unwrap();
    assert_eq!((table.workloads().len(), table.kinds()), (26, &["k80", "p100", "v100"].map(String::from)[..]));
    assert_eq!(table.gangs(), [1, 2, 4, 8]);
    assert_eq!(table.cells().count(), 5 * 83 + 77 + 3 * 26 * 26);
    let resnet18 = table.find_workload("ResNet-18 (batch size 16)").unwrap();
    let resnet18_32 = table.find_workload("ResNet-18 (batch size 32)").unwrap();
    assert_eq!(table.solo(resnet18, 0, 1, false), Some(4.795294551566172));
    assert_eq!(table.pair(resnet18, resnet18_32, 0), Some((2.539979567443098, 3.1201925448827033)));
    let resnet50 = table.find_workload("ResNet-50 (batch size 128)").unwrap();
    assert_eq!(table.solo(resnet50, 0, 2, false), None, "does not fit a K80");
}
