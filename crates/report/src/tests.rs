//! The report as a whole: it loads nothing, breaks on no name and no number, and stays small.

pub(crate) mod sample;

use proptest::prelude::*;

use super::*;
use crate::record::Sample;
use sample::{Dice, Size, runs};

const SMALL: Size = Size { jobs: 120, tenants: 5, gpus_per_kind: 8 };

fn head() -> ReportHead {
    ReportHead {
        title: "Six policies on one trace".to_owned(),
        cluster: "8 × v100, 8 × p100, 8 × k80 on 6 nodes".to_owned(),
        trace: "synthetic, 400 jobs of 5 tenants over 12 days".to_owned(),
        command: "arles compare --policies fifo,las,gavel-max-min,oef-coop,gogh,fair-energy --jobs 400 --seed 7"
            .to_owned(),
        seed: 7,
        version: "arles 0.1.0".to_owned(),
    }
}

/// Panics unless every tag that opens closes, in order, every attribute is quoted and every `&` begins an entity.
fn check_markup(markup: &str) {
    const VOID: [&str; 3] = ["meta", "input", "!doctype"];
    let mut open: Vec<&str> = Vec::new();
    let mut rest = markup;
    while let Some(start) = rest.find('<') {
        check_text(&rest[..start]);
        let end = start + rest[start..].find('>').expect("a tag ends");
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        let name = tag.split([' ', '/']).find(|n| !n.is_empty()).expect("a tag has a name");
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '!'), "odd tag <{tag}>");
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "</{name}> closes something else");
        } else if !tag.ends_with('/') && !VOID.contains(&name) {
            open.push(name);
        }
        assert_eq!(tag.matches('"').count() % 2, 0, "unbalanced quotes in <{tag}>");
        check_text(tag);
        // Styles and scripts are ours and constant; they are not markup.
        if name == "style" || name == "script" {
            let close = rest.find(&format!("</{name}>")).unwrap_or(0);
            rest = &rest[if tag.starts_with('/') { 0 } else { close }..];
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
}

fn check_text(text: &str) {
    for (i, _) in text.match_indices('&') {
        let entity = ["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"].iter().any(|e| text[i..].starts_with(e));
        assert!(entity, "a bare & in {:?}", &text[i..].chars().take(20).collect::<String>());
    }
}

/// Panics if something would be loaded, or a number is not one.
fn check_page(page: &str) {
    check_markup(page);
    for load in ["src=", "href=", "url(", "@import", "http://", "https://", "fetch(", "<link", "<img", "<iframe"] {
        assert!(!page.contains(load), "the page holds {load}");
    }
    let visible = page.split("<script>").next().unwrap_or(page);
    for word in ["NaN", "inf\"", "inf ", ">inf", "-inf", "Infinity", "undefined"] {
        assert!(!visible.contains(word), "the page says {word}");
    }
    assert!(!page.contains("wall"), "the simulation's own time makes bytes differ");
}

fn check_charts(charts: &[Chart]) {
    for (i, chart) in charts.iter().enumerate() {
        check_markup(&chart.svg);
        assert!(chart.svg.starts_with("<svg xmlns=") && !chart.svg.contains("NaN") && !chart.svg.contains("var("));
        assert!(chart.name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'), "{}", chart.name);
        assert!(charts[..i].iter().all(|other| other.name != chart.name), "two charts are called {}", chart.name);
    }
}

#[test]
fn a_page_stands_alone() {
    let runs = runs(SMALL);
    check_page(&html(&head(), &runs));
    let charts = charts(&runs);
    check_charts(&charts);
    let names: Vec<&str> = charts.iter().map(|c| c.name.as_str()).take(7).collect();
    assert_eq!(
        names,
        ["completion-time", "queue-length", "utilisation", "energy", "tenant-share", "power", "promises"]
    );
    assert_eq!(charts.len(), 7 + runs.len());
}

#[test]
fn what_an_estimator_learned_is_drawn_where_there_is_any() {
    let mut runs = runs(SMALL);
    let sample = |at_seconds: f64| crate::record::LearningSample {
        at_seconds,
        observations: 1,
        solo_error_ratio: Some(0.2),
        pair_error_ratio: None,
    };
    runs[1].learning = vec![sample(60.0), sample(3600.0)];
    let names: Vec<String> = figures(&runs).into_iter().map(|figure| figure.name).collect();
    assert!(names.iter().any(|name| name == "error-alone") && !names.iter().any(|name| name == "error-in-pairs"));
    check_page(&html(&head(), &runs));
}

#[test]
fn charts_of_experiments_break_on_nothing() {
    use crate::finding::{ExperimentReport, Finding, Part, Plot, Series};
    let (evil, odd) = ("<b>\"&'".to_owned(), [f64::NAN, 0.4, f64::INFINITY, -3.0, 7.0]);
    let text = || (evil.clone(), evil.clone());
    let mut finding = Finding::by(evil.clone());
    for time in [true, false] {
        for points in [Vec::new(), odd.iter().map(|y| (y.abs(), *y, None)).collect()] {
            let (lines, (title, caption)) = (vec![Series { name: evil.clone(), points }], text());
            finding.plots.push(Plot::Trends {
                name: "courses",
                title,
                caption,
                x_label: "x",
                y_label: "y",
                time,
                lines,
            });
        }
    }
    for amounts in [vec![0.0; 4], odd[..4].to_vec()] {
        let (bars, (title, caption)) = (vec![(evil.clone(), amounts)], text());
        let parts = vec![Part::Active, Part::Restarts, Part::Idle, Part::Unused];
        finding.plots.push(Plot::StackedBars { name: "stacks", title, caption, unit: "kWh", parts, bars });
    }
    for names in [Vec::new(), vec![evil.clone(), "other".to_owned()]] {
        let cells = odd[..names.len() * names.len()].iter().map(|v| Some(*v)).collect();
        let (maps, (title, caption)) = (vec![(evil.clone(), cells)], text());
        finding.plots.push(Plot::HeatMaps { name: "maps", title, caption, scale: "ratio", names, maps });
    }
    let chapter = ExperimentReport {
        name: "a",
        title: "b",
        claim: "c",
        testbed: None,
        command: String::new(),
        missing_policies: Vec::new(),
        finding,
    };
    // The one link of such a page is to its own chapters.
    check_page(&study_html(&head(), &[chapter], &["oef-coop", "fifo"]).replace("href=\"#", "id=\"#"));
}

#[test]
fn same_runs_same_bytes() {
    let (a, mut b) = (runs(SMALL), runs(SMALL));
    b.iter_mut().for_each(|r| r.summary.wall_seconds = 0.5);
    assert_eq!(html(&head(), &a), html(&head(), &b));
    assert_eq!(charts(&a), charts(&b));
}

#[test]
fn names_cannot_break_out() {
    let evil = "<script>alert('x')</script>\"&\u{1}";
    let mut runs = runs(SMALL);
    for run in &mut runs {
        run.summary.policy = format!("{evil}{}", run.summary.policy);
        run.summary.tenants[0].name = evil.to_owned();
        run.kinds[0].name = evil.to_owned();
        run.workloads = vec![evil.to_owned(); 4];
        run.gantt_labels.iter_mut().for_each(|l| l.1 = evil.to_owned());
    }
    let head = ReportHead { title: evil.to_owned(), command: evil.to_owned(), cluster: evil.to_owned(), ..head() };
    let page = html(&head, &runs);
    check_page(&page);
    assert_eq!(page.matches("<script>").count(), 1, "only our own script");
    assert!(!page.contains("alert('x')"));
    check_charts(&charts(&runs));
}

#[test]
fn degenerate_runs_still_read() {
    let whole = runs(SMALL);
    let mut unfinished = whole[0].clone();
    for job in &mut unfinished.jobs {
        (job.completed, job.start_seconds, job.end_seconds) = (false, None, None);
    }
    (unfinished.timeline, unfinished.gantt) = (Vec::new(), Vec::new());
    let s = &mut unfinished.summary;
    (s.mean_jct_seconds, s.p50_jct_seconds, s.p99_jct_seconds) = (f64::NAN, f64::NAN, f64::INFINITY);
    (s.energy_kwh, s.sla_violation_ratio, s.jobs_completed) = (f64::NAN, f64::NAN, 0);
    s.tenants.iter_mut().for_each(|t| (t.share_ratio, t.mean_jct_seconds) = (f64::NAN, f64::NAN));
    let mut one_job = whole[1].clone();
    one_job.jobs.truncate(1);
    let mut bare = unfinished.clone();
    (bare.jobs, bare.kinds, bare.summary.tenants) = (Vec::new(), Vec::new(), Vec::new());
    (bare.workloads, bare.gantt_labels) = (Vec::new(), Vec::new());
    let ten: Vec<RunRecord> = whole.iter().chain(&whole[..4]).cloned().collect();
    let sets: [&[RunRecord]; 7] = [
        &ten,
        &[],
        std::slice::from_ref(&whole[2]),
        std::slice::from_ref(&one_job),
        std::slice::from_ref(&unfinished),
        std::slice::from_ref(&bare),
        &[whole[0].clone(), unfinished.clone(), bare.clone(), whole[0].clone()],
    ];
    for set in sets {
        check_page(&html(&head(), set));
        check_charts(&charts(set));
        set.iter().for_each(|run| assert_eq!(jobs_csv(run).lines().count(), 1 + run.jobs.len()));
    }
}

#[test]
fn many_tenants_are_cut_and_said_so() {
    let runs = runs(Size { tenants: 150, ..SMALL });
    let page = html(&head(), &runs);
    check_page(&page);
    assert!(page.contains("Shown are the 24 of 150 tenants furthest from their entitlement."));
    assert!(page.contains("Shown are the 100 of 150 tenants furthest from their entitlement."));
}

#[test]
fn the_best_is_marked_unless_all_are_equal() {
    let mut two = runs(SMALL)[..2].to_vec();
    (two[0].summary.mean_jct_seconds, two[1].summary.mean_jct_seconds) = (7200.0, 3600.0);
    (two[0].summary.migrations, two[1].summary.migrations) = (5, 5);
    let table = tables::summary(&two);
    assert!(table.contains("<td class=\"n best\" data-v=\"3600\">1.00<span class=\"sr\"> (best)</span></td>"));
    assert!(table.contains("<td class=\"n\" data-v=\"7200\">2.00</td>"));
    assert!(table.contains("Mean JCT<small>h</small>"));
    assert!(!table.contains("best\" data-v=\"5\""));
}

/// Six policies with 100,000 jobs each, long timelines and busy Gantt charts.
#[test]
fn large_runs_stay_small() {
    let mut runs = runs(SMALL);
    let mut dice = Dice(1);
    for run in &mut runs {
        let template = run.jobs[0].clone();
        let job = |id: u64| {
            let arrival = id as f64 * 25.0;
            let end = arrival + (4.0 + 8.0 * dice.unit()).exp();
            JobRecord { id, arrival_seconds: arrival, end_seconds: Some(end), ..template.clone() }
        };
        run.jobs = (0..100_000).map(job).collect();
        let sample = |i: u32| Sample {
            at_seconds: f64::from(i) * 250.0,
            busy: (0..3).map(|_| (dice.unit() * 8.0) as u32).collect(),
            waiting: (dice.unit() * 900.0) as u32,
            running: 20,
            energy_kwh: 0.0,
            watts: 1e3 + 4e3 * dice.unit(),
        };
        run.timeline = (0..10_000).map(sample).collect();
        let stretch = |i: u32| {
            let from = f64::from(i / 24) * 3000.0;
            let (gpu, tenant) = (i % 24, (dice.unit() * 5.0) as u32);
            let until = from + 2900.0 * dice.unit();
            crate::record::GanttSpan {
                gpu,
                job: u64::from(i),
                tenant,
                from_seconds: from,
                until_seconds: until,
                shared: i.is_multiple_of(7),
            }
        };
        run.gantt = (0..20_000).map(stretch).collect();
    }
    let page = html(&head(), &runs);
    check_page(&page);
    println!("six policies with 100,000 jobs each: {} bytes", page.len());
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
}

#[test]
fn csv_has_every_job_and_quotes_names() {
    let mut run = runs(SMALL).swap_remove(0);
    run.summary.tenants[run.jobs[0].tenant as usize].name = "a \"b\", c".to_owned();
    run.jobs[1].end_seconds = None;
    run.jobs[1].gpu_seconds = f64::NAN;
    let csv = jobs_csv(&run);
    let rows: Vec<&str> = csv.split_terminator("\r\n").collect();
    assert_eq!(rows.len(), 1 + run.jobs.len());
    assert_eq!(rows[0].split(',').count(), 18);
    assert!(rows[1].contains(",\"a \"\"b\"\", c\","), "{}", rows[1]);
    assert!(!csv.contains("NaN"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn no_name_breaks_the_markup(name in "\\PC{0,30}|[<>&\"'=/ \u{0}-\u{20}]{0,12}") {
        let mut runs = runs(Size { jobs: 6, ..SMALL });
        runs.truncate(2);
        for run in &mut runs {
            run.summary.policy.clone_from(&name);
            run.summary.tenants[1].name.clone_from(&name);
            run.kinds[1].name.clone_from(&name);
        }
        check_markup(&html(&head(), &runs));
        check_charts(&charts(&runs));
    }
}
