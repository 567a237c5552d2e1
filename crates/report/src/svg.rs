//! A small kit for drawing charts as SVG.
//!
//! [`Drawing`] appends shapes, [`Panel`] draws a plot's grid and its step curves, [`Figure`] is a finished chart. Names
//! are escaped here and nowhere else, coordinates are rounded here and nowhere else: a coordinate that is not finite is
//! drawn at 0 rather than breaking the document.

use std::fmt::Write;

use super::axis::Axis;
use super::text::{escape, shorten};
use super::theme;

/// Width of a chart that stands in a column of the page.
pub(super) const WIDTH: f64 = 580.0;

/// A coordinate to a tenth of a pixel, as short as it gets.
pub(super) fn px(value: f64) -> String {
    let tenths = if value.is_finite() { (value * 10.0).round() as i64 } else { 0 };
    match tenths % 10 {
        0 => format!("{}", tenths / 10),
        _ => format!("{}", tenths as f64 / 10.0),
    }
}

/// Rough width of a text in the charts' font, rather too wide than too narrow: fonts differ between systems.
pub(super) fn text_width(text: &str) -> f64 {
    let width = |c: char| match c {
        'i' | 'j' | 'l' | '.' | ',' | ':' | '\'' | '|' | '(' | ')' => 4.4,
        'f' | 'r' | 't' | ' ' | '-' => 5.4,
        'm' | 'w' | 'M' | 'W' | '%' | '@' | '…' => 11.0,
        c if c.is_ascii_uppercase() => 8.8,
        c if c.is_ascii() => 7.4,
        // A letter of a wide script takes a whole square.
        _ => 12.0,
    };
    text.chars().map(width).sum()
}

/// Shapes, in the order they are drawn.
#[derive(Default)]
pub(super) struct Drawing {
    svg: String,
}

impl Drawing {
    /// Ends a shape, with a tip if there is something to say.
    fn finish(&mut self, tag: &str, tip: &str) {
        if tip.is_empty() {
            self.svg.push_str("/>");
        } else {
            let _ = write!(self.svg, "><title>{}</title></{tag}>", escape(tip));
        }
        self.svg.push('\n');
    }

    /// A straight line.
    pub(super) fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        let (x1, y1, x2, y2) = (px(x1), px(y1), px(x2), px(y2));
        let _ = writeln!(self.svg, r#"<line class="{class}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>"#);
    }

    /// A rectangle: left, top, width, height.
    pub(super) fn rect(&mut self, class: &str, [x, y, w, h]: [f64; 4], tip: &str) {
        let (x, y, w, h) = (px(x), px(y), px(w.max(0.0)), px(h.max(0.0)));
        let _ = write!(self.svg, r#"<rect class="{class}" x="{x}" y="{y}" width="{w}" height="{h}""#);
        self.finish("rect", tip);
    }

    /// A filled circle.
    pub(super) fn dot(&mut self, class: &str, (x, y): (f64, f64), radius: f64, tip: &str) {
        let _ = write!(self.svg, r#"<circle class="{class}" cx="{}" cy="{}" r="{}""#, px(x), px(y), px(radius));
        self.finish("circle", tip);
    }

    /// A path. A `name` makes it a curve that the page's script reads values off.
    pub(super) fn path(&mut self, class: &str, d: &str, name: &str, tip: &str) {
        let _ = write!(self.svg, r#"<path class="{class}" d="{d}""#);
        if !name.is_empty() {
            let _ = write!(self.svg, r#" data-name="{}""#, escape(name));
        }
        self.finish("path", tip);
    }

    /// A text; `y` is its base line.
    pub(super) fn text(&mut self, class: &str, (x, y): (f64, f64), text: &str) {
        let _ = writeln!(self.svg, r#"<text class="{class}" x="{}" y="{}">{}</text>"#, px(x), px(y), escape(text));
    }

    /// A text that begins at a point and leans by so many degrees.
    pub(super) fn leaning(&mut self, (x, y): (f64, f64), degrees: f64, text: &str) {
        let (x, y, degrees) = (px(x), px(y), px(degrees));
        let _ = writeln!(
            self.svg,
            r#"<text x="{x}" y="{y}" transform="rotate({degrees} {x} {y})">{}</text>"#,
            escape(text)
        );
    }

    /// A row of coloured keys that wraps at `width`; returns the height used. Each entry is the class of its mark and its
    /// name.
    pub(super) fn legend(&mut self, (left, top): (f64, f64), width: f64, entries: &[(String, String)]) -> f64 {
        let (mut x, mut y) = (left, top);
        for (class, name) in entries {
            let name = shorten(name, 36);
            let advance = 20.0 + text_width(&name) + 12.0;
            if x > left && x + advance - 12.0 > left + width {
                (x, y) = (left, y + 18.0);
            }
            // The mark of an entitlement is a bar that stands; its key is too.
            let mark = if class == "ink" { [x + 6.0, y, 2.0, 14.0] } else { [x, y + 3.0, 14.0, 8.0] };
            self.rect(class, mark, "");
            self.text("", (x + 20.0, y + 11.0), &name);
            x += advance;
        }
        if entries.is_empty() { 0.0 } else { y + 22.0 - top }
    }

    /// Opens a group that holds the curves of a panel.
    fn open_plot(&mut self, panel: &Panel) {
        let (x, y) = (panel.x.token(), panel.y.token());
        let _ = writeln!(self.svg, r#"<g class="plot" data-x="{x}" data-y="{y}">"#);
    }

    fn close(&mut self) {
        self.svg.push_str("</g>\n");
    }
}

/// A curve: value pairs in order of x, each y holding until the next x.
pub(super) struct Curve {
    /// Class of the line.
    pub(super) class: String,
    /// Name in the tooltip.
    pub(super) name: String,
    /// What the tooltip says where no script runs.
    pub(super) tip: String,
    /// Points, as values.
    pub(super) points: Vec<(f64, f64)>,
}

/// A plot with two axes.
pub(super) struct Panel {
    /// Across, from left to right.
    pub(super) x: Axis,
    /// Up: `from` is the lower edge.
    pub(super) y: Axis,
}

impl Panel {
    /// Grid, ticks and the base line. `unit` stands under the x axis, at its right end.
    pub(super) fn frame(&self, drawing: &mut Drawing, unit: &str) {
        let (left, right, bottom, top) = (self.x.from, self.x.to, self.y.from, self.y.to);
        for (value, label) in &self.y.ticks {
            let y = self.y.at(*value);
            drawing.line("grid", (left, y), (right, y));
            drawing.text("dim end", (left - 7.0, y + 4.0), label);
        }
        for (value, label) in &self.x.ticks {
            let x = self.x.at(*value);
            drawing.line("grid", (x, top), (x, bottom + 5.0));
            drawing.text("dim mid", (x, bottom + 18.0), label);
        }
        drawing.line("axis", (left, bottom), (right, bottom));
        if !unit.is_empty() {
            drawing.text("dim mid", ((left + right) / 2.0, bottom + 35.0), unit);
        }
    }

    /// Step curves, one over the other.
    pub(super) fn curves(&self, drawing: &mut Drawing, curves: &[Curve]) {
        drawing.open_plot(self);
        for curve in curves.iter().filter(|c| !c.points.is_empty()) {
            drawing.path(&format!("line {}", curve.class), &self.steps(&curve.points), &curve.name, &curve.tip);
        }
        drawing.close();
    }

    /// Points in pixels, not yet thinned.
    pub(super) fn pixels(&self, points: &[(f64, f64)]) -> Vec<(f64, f64)> {
        points.iter().map(|p| (self.x.at(p.0), self.y.at(p.1))).collect()
    }

    /// The path of a step curve through points in values: across, then up or down.
    fn steps(&self, points: &[(f64, f64)]) -> String {
        step_path(&super::downsample::thin(&self.pixels(points), 1.0))
    }
}

/// The path of a step curve through pixels.
pub(super) fn step_path(points: &[(f64, f64)]) -> String {
    let Some(((x, y), rest)) = points.split_first() else { return String::new() };
    let (mut last_x, mut last_y) = (px(*x), px(*y));
    let mut d = format!("M{last_x} {last_y}");
    for (i, (x, y)) in rest.iter().enumerate() {
        let (x, y) = (px(*x), px(*y));
        // A level stretch needs only its end.
        if y == last_y && i + 1 < rest.len() {
            continue;
        }
        if x != last_x {
            let _ = write!(d, "H{x}");
        }
        if y != last_y {
            let _ = write!(d, "V{y}");
        }
        (last_x, last_y) = (x, y);
    }
    d
}

/// A finished chart.
pub(super) struct Figure {
    /// File name without ending.
    pub(super) name: String,
    /// What it shows.
    pub(super) title: String,
    /// How to read it, in one line.
    pub(super) caption: String,
    /// Width and height of the drawing.
    pub(super) size: (f64, f64),
    body: String,
}

impl Figure {
    /// Ends a drawing.
    pub(super) fn new(name: &str, title: &str, caption: String, size: (f64, f64), drawing: Drawing) -> Figure {
        Figure { name: name.to_owned(), title: title.to_owned(), caption, size, body: drawing.svg }
    }

    /// The chart inside a page that carries [`theme::page_sheet`]. No namespace: HTML implies it.
    pub(super) fn inline(&self) -> String {
        let (width, height) = (px(self.size.0), px(self.size.1));
        let title = escape(&self.title);
        format!(
            "<svg class=\"chart\" viewBox=\"0 0 {width} {height}\" role=\"img\" tabindex=\"0\" aria-label=\"{title}\">\n{}</svg>\n",
            self.body
        )
    }

    /// The chart as a file of its own.
    pub(super) fn standalone(&self) -> String {
        let (width, height) = (px(self.size.0), px(self.size.1));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\">\n<title>{}</title>\n<desc>{}</desc>\n<style>\n{}</style>\n\
             <rect class=\"paper\" width=\"{width}\" height=\"{height}\"/>\n{}</svg>\n",
            escape(&self.title),
            escape(&self.caption),
            theme::chart_sheet(),
            self.body
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_are_short_and_finite() {
        let check = |value: f64, want: &str| assert_eq!(px(value), want);
        check(12.0, "12");
        check(12.34, "12.3");
        check(-0.04, "0");
        check(-0.5, "-0.5");
        check(f64::NAN, "0");
        check(f64::INFINITY, "0");
    }

    #[test]
    fn steps_skip_what_cannot_be_seen() {
        let check = |points: &[(f64, f64)], want: &str| assert_eq!(step_path(points), want);
        check(&[], "");
        check(&[(1.0, 2.0)], "M1 2");
        check(&[(0.0, 5.0), (1.0, 5.0), (2.0, 7.0), (3.0, 7.0)], "M0 5H2V7H3");
    }
}
