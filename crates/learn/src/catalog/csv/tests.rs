//! What a line may say, what it may leave out, and what is refused; any catalog comes back from its CSV.

use super::*;
use crate::Catalog;

const NOW: Time = Time(1_700_000_000_000_000);

fn read_text(text: &str) -> Result<Vec<(Key, Cell)>, String> {
    read(text, "f.csv", &Names::new(Library::builtin(), []), NOW).map_err(|error| error.to_string())
}

#[test]
fn what_a_line_does_not_say() {
    let cells =
        read_text("kind,workload,rate_steps_per_second\r\n\r\nTesla V100-SXM2-16GB, LM (batch size 5) ,2.5\r\n")
            .unwrap();
    let key = Key { workload: "lm-b5".into(), partner: None, kind: "v100".into(), gang: 1 };
    let cell = Cell { rate: 2.5, watts: None, source: Source::Stated, observations: 0, at: NOW, standard_error: 0.3 };
    assert_eq!(cells, [(key, cell)]);
    let measured = read_text("workload,kind,rate_steps_per_second,source\nown,v100,2.5,measured\n").unwrap()[0].1;
    assert_eq!((measured.observations, measured.standard_error), (1, MEASUREMENT_ERROR));
}

#[test]
fn what_was_written_is_read_and_written_again_to_the_byte() {
    let mut catalog = Catalog::default();
    let names = ["lm-b5", "own, \"quoted\"", "é'", "a3c-b4"];
    let rates = [0.0, 1e-9, 0.1 + 0.2, f64::MAX, f64::MIN_POSITIVE, 5e-324, 1.0 / 3.0];
    for (i, rate) in rates.into_iter().enumerate() {
        let partner = (i % 2 == 0).then(|| names[(i + 1) % 4].to_owned());
        let gang = if partner.is_some() { 1 } else { 1 + i as u32 };
        let key = Key { workload: names[i % 4].into(), partner, kind: ["v100", "k80"][i % 2].into(), gang };
        let (source, watts) = (SOURCES[i % 4].1, (i % 3 == 0).then_some(1e3 / 7.0));
        let at = Time(NOW.0 + 333_333 * i as u64);
        catalog
            .put(key, Cell { rate, watts, source, observations: i as u32, at, standard_error: 0.1 * i as f64 })
            .unwrap();
    }
    let written = |catalog: &Catalog| {
        let mut bytes = Vec::new();
        write(&mut bytes, catalog.cells()).unwrap();
        String::from_utf8(bytes).unwrap()
    };
    let text = written(&catalog);
    let mut again = Catalog::default();
    for (key, cell) in read_text(&text).unwrap() {
        again.put(key, cell).unwrap();
    }
    assert_eq!(again, catalog);
    assert_eq!(written(&again), text);
}

#[test]
fn wrong_lines_are_pointed_at() {
    let check = |text: &str, expect: &str| {
        let found = read_text(text).unwrap_err();
        assert!(found.starts_with(expect), "{text:?}\n  {found}\n  {expect}");
    };
    let line = |line: &str, expect: &str| {
        check(&format!("{}\n{line}\n", COLUMNS.join(",")), &format!("f.csv:2: {expect}"));
    };
    check("", "f.csv: this file is empty; expected a header such as workload,kind,");
    check("workload,knid,rate_steps_per_second\n", "f.csv:1: there is no column 'knid' (did you mean kind?); expected");
    check("workload,kind,kind\n", "f.csv:1: column 'kind' occurs twice");
    check("workload,kind\n", "f.csv:1: column 'rate_steps_per_second' is missing");
    check("workload,kind,rate_steps_per_second\na,v100\n", "f.csv:2: this line has 2 fields; expected 3");
    check("workload,kind,rate_steps_per_second\n,,\n", "f.csv:2: there is nothing in this line but commas");
    check("workload,kind,rate_steps_per_second\na,v100,1\n\na,v100,2\n", "f.csv:4: a on 1x v100 is in line 2 already");
    check("workload,kind,rate_steps_per_second\n\"a\nb\",v100,1\n", "f.csv:2: workload is \"a\\nb\"");
    check("workload,kind,rate_steps_per_second\na,v100,1\n\"b,v100,1\n", "f.csv:3: a quote is opened here");
    check("workload,kind,rate_steps_per_second\na\"b,v100,1\n", "f.csv:2: a quote stands inside");
    check("workload,kind,rate_steps_per_second\n\"a\"b,v100,1\n", "f.csv:2: text follows a closing quote");
    line(",v100,1,,1,,,,,", "workload is empty; every line needs one");
    line("a,v101,1,,1,,,,,", "no kind is called 'v101'; the nearest names are v100");
    line("a,v100,1,,,,,,,", "rate_steps_per_second is empty");
    line("a,v100,1,,0,,,,,", "rate_steps_per_second is '0'; expected more than 0, or 0 and a source");
    for rate in ["-1", "NaN", "inf", "fast", "1e999"] {
        let expect = format!("rate_steps_per_second is '{rate}'; expected steps per second, more than 0");
        line(&format!("a,v100,1,,{rate},,,,,"), &expect);
    }
    line("a,v100,0,,1,,,,,", "gang is '0'; expected a whole number, 1 or more");
    line("a,v100,1.5,,1,,,,,", "gang is '1.5'; expected a whole number");
    line("a,v100,4,b,1,,,,,", "gang is '4' beside partner 'b'; only single GPUs are shared");
    line("a,v100,1,,1,0,,,,", "watts is '0'; expected more than 0, or nothing");
    line("a,v100,1,,1,,measurd,,,", "source is 'measurd' (did you mean measured?); expected one of stated, initial");
    line("a,v100,1,,1,,,3,,", "observations is '3' where no source is given");
    line("a,v100,1,,1,,measured,-3,,", "observations is '-3'; expected a whole number");
    line("a,v100,1,,1,,,,yesterday,", "at: 'yesterday' is no moment; expected");
    line("a,v100,1,,1,,,,,-0.1", "doubt is '-0.1'; expected a relative error");
    line("a,v100,1,,1,,,,,1000", "a on 1x v100: a standard error of 1000");
}

#[test]
fn nobody_is_beside_another_where_one_job_fills_a_gpu() {
    let kinds = include_str!("../../../../core/data/kinds.csv");
    let alone: String = kinds
        .lines()
        .map(|line| {
            let mut cells: Vec<&str> = line.split(',').collect();
            if line.starts_with("v100,") {
                cells[13] = "1";
            }
            cells.join(",") + "\n"
        })
        .collect();
    let library = Library::parse(&alone, include_str!("../../../../core/data/workloads.csv")).unwrap();
    let text = "workload,kind,partner,rate_steps_per_second\na,v100,a,1\n";
    let error = read(text, "f.csv", &Names::new(&library, []), NOW).unwrap_err().to_string();
    assert!(error.starts_with("f.csv:2: partner is 'a', and one GPU of kind v100 takes 1 job only"), "{error}");
}

#[test]
fn features_go_there_and_back_and_give_names() {
    let mut own = Library::builtin().workloads()[7].clone();
    (own.name, own.aliases) = ("own, net".into(), vec!["net".into(), "own net".into()]);
    let mut text = Vec::new();
    write_features(&mut text, [&own]).unwrap();
    let text = String::from_utf8(text).unwrap();
    let read_back = |text: &str| read_features(text, "g.csv", Library::builtin()).map_err(|error| error.to_string());
    assert_eq!(read_back(&text).unwrap(), [own.clone()]);
    let names = Names::new(Library::builtin(), [&own]);
    assert_eq!((names.workload("net"), names.workload("A3C")), ("own, net".into(), "a3c-b4".into()));
    let wrong = |from: &str, to: &str, expect: &str| {
        let error = read_back(&text.replace(from, to)).unwrap_err();
        assert!(error.starts_with("g.csv:") && error.contains(expect), "{error}");
    };
    wrong("own net", "A3C", "name 'A3C' is known to arles already");
    wrong("fp32", "fp23", "precision is 'fp23' (did you mean fp32?)");
    wrong(",vision,", ",visoin,", "domain is 'visoin' (did you mean vision?)");
    wrong("family", "famly", "there is no column 'famly' (did you mean family?)");
    wrong("training", "", "mode is empty");
}

proptest::proptest! {
    #[test]
    fn no_text_is_too_odd(tail in "[a0-9,\"\r\n é.-]{0,60}") {
        let _ = read_text(&tail);
        let _ = read_text(&format!("workload,kind,rate_steps_per_second\n{tail}"));
        if let Err(error) = read_text(&format!("workload,kind,rate_steps_per_second\na,v100,1\n{tail}")) {
            proptest::prop_assert!(error.starts_with("f.csv:"), "{error}");
        }
    }
}
