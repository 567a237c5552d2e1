//! The frame that all pages share: head, sections and cards, with style and script inside.

use std::fmt::Write;

use super::svg::Figure;
use super::text::escape;
use super::{ReportHead, theme};

/// Nothing may be loaded, from anywhere.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The page up to its first word; `rules` are added to its style.
pub(super) fn open(head: &ReportHead, rules: &str) -> String {
    let title = escape(&head.title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>\n{}{STYLE}{rules}</style>\n</head>\n<body>\n<main>\n",
        theme::page_sheet(),
    )
}

/// The page from its last word on.
pub(super) fn close(out: &mut String, head: &ReportHead) {
    let _ = write!(out, "<footer>{} · seed {}</footer>\n</main>\n", escape(&head.version), head.seed);
    let _ = write!(out, "<script>\n{SCRIPT}</script>\n</body>\n</html>\n");
}

pub(super) fn section(out: &mut String, title: &str, body: &str) {
    if !body.is_empty() {
        let _ = write!(out, "<section>\n<h2>{title}</h2>\n{body}</section>\n");
    }
}

pub(super) fn header(head: &ReportHead) -> String {
    let mut out = format!("<header>\n<h1>{}</h1>\n<dl>\n", escape(&head.title));
    for (name, value) in [("Cluster", &head.cluster), ("Trace", &head.trace)] {
        if !value.is_empty() {
            let _ = writeln!(out, "<div><dt>{name}</dt><dd>{}</dd></div>", escape(value));
        }
    }
    if !head.command.is_empty() {
        let _ = writeln!(out, "<div><dt>Reproduce</dt><dd><code>{}</code></dd></div>", escape(&head.command));
    }
    out.push_str("</dl>\n</header>\n");
    out
}

/// Charts in two columns of about equal height. On a narrow page they fall into one, in the order given.
pub(super) fn columns(figures: &[Figure]) -> String {
    let mut sides = [(0.0, String::new()), (0.0, String::new())];
    for (order, figure) in figures.iter().enumerate() {
        let side = usize::from(sides[1].0 < sides[0].0);
        // Heading, reading line and margins take about 120 pixels.
        sides[side].0 += figure.size.1 + 120.0;
        sides[side].1.push_str(&card(figure, order));
    }
    let [(_, left), (_, right)] = sides;
    format!("<div class=\"columns\">\n<div>\n{left}</div>\n<div>\n{right}</div>\n</div>\n")
}

pub(super) fn card(figure: &Figure, order: usize) -> String {
    let (title, caption) = (escape(&figure.title), escape(&figure.caption));
    format!(
        "<figure class=\"card\" style=\"order:{order}\">\n<h3>{title}</h3>\n{}<figcaption>{caption}</figcaption>\n</figure>\n",
        figure.inline()
    )
}
