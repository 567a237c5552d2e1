//! Colours and the style sheet of the charts.
//!
//! Every colour is named once, for light and for dark paper. The hues are told apart by readers with any of the common
//! colour deficiencies: they differ in lightness as well as in hue. A page uses them as CSS variables; a chart that stands
//! alone carries them as literals, since programs that print SVG often know no variables.

use std::fmt::Write;

/// Policies that have a colour of their own; beyond, colours repeat with dashed lines.
pub(super) const POLICY_HUES: usize = 8;

/// Tenants, or kinds, that have a colour of their own; beyond, they are drawn as [`OTHERS`].
pub(super) const HUES: usize = 10;

/// The class of whatever has no colour of its own.
pub(super) const OTHERS: &str = "others";

/// Name, on light paper, on dark paper.
const COLOURS: [(&str, &str, &str); 31] = [
    ("paper", "#ffffff", "#15181c"),
    ("back", "#f6f7f9", "#15181c"),
    ("card", "#ffffff", "#1c2025"),
    ("ink", "#1b2026", "#e6e9ed"),
    ("dim", "#5b6570", "#a2acb8"),
    ("grid", "#e4e8ec", "#2e343b"),
    ("axis", "#9aa4af", "#5c6671"),
    ("track", "#eef1f4", "#262b31"),
    ("best", "#e2f2e9", "#1c3a2d"),
    ("active", "#2f79b9", "#3a7fbd"),
    ("idle", "#b6bfc9", "#5a646f"),
    ("unused", "#e3e7ec", "#383f47"),
    ("lost", "#d1551f", "#dd6430"),
    ("p0", "#0c6cb4", "#58a8e8"),
    ("p1", "#cf4a16", "#f4794a"),
    ("p2", "#0a8f68", "#33c598"),
    ("p3", "#dc9200", "#f3b23f"),
    ("p4", "#a8508f", "#d98ac4"),
    ("p5", "#49a9e2", "#a0d6fa"),
    ("p6", "#3d444c", "#cfd5db"),
    ("p7", "#93890c", "#ded04e"),
    ("e0", "#3a76b4", "#4b8ccf"),
    ("e1", "#e39342", "#e39342"),
    ("e2", "#37997a", "#3fae8b"),
    ("e3", "#c4567a", "#d46a8d"),
    ("e4", "#8168bd", "#9a83d4"),
    ("e5", "#cfb93f", "#cfb93f"),
    ("e6", "#57b6c9", "#57b6c9"),
    ("e7", "#94623c", "#ab7850"),
    ("e8", "#7f9c3b", "#8fae46"),
    ("e9", "#dd97c6", "#dd97c6"),
];

/// The rules of every chart, written with variables.
const RULES: &str = include_str!("chart.css");

/// Class of a policy's marks, the same in every chart.
pub(super) fn policy(index: usize) -> String {
    let dash = index / POLICY_HUES;
    format!("p{}{}", index % POLICY_HUES, if dash > 0 { format!(" d{}", dash.min(3)) } else { String::new() })
}

/// Class of a tenant's or kind's marks, by its rank.
pub(super) fn hue(rank: usize) -> String {
    if rank < HUES { format!("e{rank}") } else { OTHERS.to_owned() }
}

/// One rule for each colour that marks something.
fn rules() -> String {
    let mut rules = RULES.to_owned();
    for (name, ..) in COLOURS.iter().filter(|(name, ..)| name.len() == 2) {
        let _ = writeln!(rules, ".{name} {{ color: var(--{name}) }}");
    }
    rules
}

/// The style sheet of a page: variables for both papers, then the rules.
pub(super) fn page_sheet() -> String {
    let block = |pick: fn(&(&str, &'static str, &'static str)) -> &'static str| {
        COLOURS.iter().fold(String::new(), |mut out, colour| {
            let _ = write!(out, " --{}: {};", colour.0, pick(colour));
            out
        })
    };
    let (light, dark) = (block(|c| c.1), block(|c| c.2));
    format!(
        ":root {{ color-scheme: light dark;{light} }}\n\
         @media (prefers-color-scheme: dark) {{ :root {{{dark} }} }}\n\
         @media print {{ :root {{ color-scheme: light;{light} }} }}\n{}",
        rules()
    )
}

/// The style sheet of a chart that stands alone: the rules in literal colours, light and then dark.
pub(super) fn chart_sheet() -> String {
    let literal = |pick: fn(&(&str, &'static str, &'static str)) -> &'static str| {
        COLOURS.iter().fold(rules(), |sheet, colour| sheet.replace(&format!("var(--{})", colour.0), pick(colour)))
    };
    format!("{}@media (prefers-color-scheme: dark) {{\n{}}}\n", literal(|c| c.1), literal(|c| c.2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_alone_needs_no_variables() {
        assert!(!chart_sheet().contains("var("));
        assert!(page_sheet().contains("--p7: #93890c"));
    }

    #[test]
    fn colours_repeat_with_dashes() {
        assert_eq!(policy(0), "p0");
        assert_eq!(policy(9), "p1 d1");
        assert_eq!(hue(HUES), OTHERS);
    }
}
