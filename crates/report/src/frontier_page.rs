//! The page of a frontier: what it says in words, the curve with its knee, and the points.

use super::axis::{Axis, Measure};
use super::page::{card, close, header, open, section};
use super::study_charts::polyline;
use super::svg::{Drawing, Figure, Panel, px};
use super::text::{self, escape};
use super::{ReportHead, theme};
use crate::finding::Series;
use crate::frontier::{FrontierPoint, FrontierRecord};
use std::fmt::Write;

const STYLE: &str = "\
.lead { max-width: 95ch; font-size: 17px; margin: 0 0 14px }
.broad .card { width: fit-content; max-width: 100% }
.broad .chart { min-width: 520px }
.knee td { font-weight: 650 }
";
const WIDTH: f64 = 860.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 22.0;
const FOOT: f64 = 42.0;
const HEIGHT: f64 = 320.0;

/// A curve of the chart: its name and what it shows of a point.
type Line = (&'static str, fn(&FrontierPoint) -> f64);
const LINES: [Line; 2] =
    [("speed of all together", |p| p.kept_ratio), ("speed of whoever keeps least", |p| p.worst_off_kept_ratio)];

/// The whole page.
pub(super) fn page(head: &ReportHead, frontier: &FrontierRecord) -> String {
    let mut out = open(head, STYLE);
    out.push_str(&header(head));
    let body = format!(
        "<p class=\"lead\">{}</p>\n<div class=\"broad\">\n{}</div>\n",
        escape(&frontier.words),
        card(&figure(frontier), 0)
    );
    section(&mut out, "Power against speed", &body);
    section(&mut out, "Points", &points(frontier));
    close(&mut out, head);
    out
}

/// Power saved across, speed kept up; the knee is a line that stands.
pub(super) fn figure(frontier: &FrontierRecord) -> Figure {
    let mut drawing = Drawing::default();
    let keys: Vec<(String, String)> = (LINES.iter().enumerate())
        .map(|(i, (name, _))| (format!("fill {}", theme::policy(i)), (*name).to_owned()))
        .collect();
    let top = drawing.legend((14.0, 4.0), WIDTH - 14.0, &keys) + 28.0;
    let bottom = top + HEIGHT;
    let finite = || frontier.points.iter().filter(|p| p.saved_ratio.is_finite());
    let most = finite().map(|p| p.saved_ratio).fold(0.01, f64::max);
    let least = finite().flat_map(|p| LINES.map(|(_, of)| of(p))).fold(1.0, f64::min);
    let panel = Panel {
        x: Axis::between((0.0, most), Measure::Ratio, (LEFT, WIDTH - RIGHT), 60.0),
        y: Axis::between((least, 1.0), Measure::Ratio, (bottom, top), 34.0),
    };
    panel.frame(&mut drawing, "power saved");
    drawing.text("dim", (14.0, top - 12.0), "speed kept");
    for (i, (name, of)) in LINES.iter().enumerate() {
        let line =
            Series { name: (*name).to_owned(), points: finite().map(|p| (p.saved_ratio, of(p), None)).collect() };
        let tip = |(x, y, _): (f64, f64, Option<f64>)| tip(frontier, x, y, name);
        polyline(&mut drawing, &panel, &line, &theme::policy(i), &tip);
    }
    if let Some(knee) = frontier.knee.and_then(|at| frontier.points.get(at)) {
        let x = panel.x.at(knee.saved_ratio);
        drawing.path("line others d1", &format!("M{} {}V{}", px(x), px(top), px(bottom)), "", "knee");
        for (i, (_, of)) in LINES.iter().enumerate() {
            drawing.dot(&format!("dot {}", theme::policy(i)), (x, panel.y.at(of(knee))), 6.0, "knee");
        }
        let words = format!("knee: {} saved at {} {}", text::percent(knee.saved_ratio), knee.asked, frontier.swept);
        let end = text_is_long(x, &words);
        drawing.text(
            if end { "halo end" } else { "halo" },
            (if end { x - 8.0 } else { x + 8.0 }, bottom - 10.0),
            &words,
        );
    }
    let caption = "Every dot is an answer that keeps the promises of its policy. Beyond the knee a further watt costs more speed than before.";
    Figure::new("frontier", "What saving power costs in speed", caption.to_owned(), (WIDTH, bottom + FOOT), drawing)
}

/// Whether a label that begins here would leave the chart.
fn text_is_long(x: f64, words: &str) -> bool {
    x + 8.0 + super::svg::text_width(words) > WIDTH - RIGHT
}

fn tip(frontier: &FrontierRecord, x: f64, y: f64, name: &str) -> String {
    let point = frontier.points.iter().find(|p| p.saved_ratio == x);
    let asked = point.map_or(String::new(), |p| format!("{} {}: ", p.asked, frontier.swept));
    format!("{asked}{} saved, {name} {}", text::percent(x), text::percent(y))
}

fn points(frontier: &FrontierRecord) -> String {
    let mut out = String::from("<div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr>");
    let titles = [frontier.swept, "power", "saved", "speed", "worst off keeps", "envy", "worst off"];
    titles.iter().for_each(|title| {
        let _ = write!(out, "<th scope=\"col\">{title}</th>");
    });
    out.push_str("</tr></thead>\n<tbody>\n");
    for (i, p) in frontier.points.iter().enumerate() {
        let class = if frontier.knee == Some(i) { " class=\"knee\"" } else { "" };
        let _ = writeln!(
            out,
            "<tr{class}><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(&p.asked),
            text::power_in_full(p.watts),
            text::percent(p.saved_ratio),
            text::percent(p.kept_ratio),
            text::percent(p.worst_off_kept_ratio),
            text::percent(p.envy_ratio),
            escape(&p.worst_off)
        );
    }
    out + "</tbody>\n</table></div>\n"
}
