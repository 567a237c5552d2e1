//! The configuration file: TOML with sections, every key known.

use super::{Settings, all, kinds, quotas, unknown_key};
use anyhow::{Result, anyhow};
use arles_core::library::suggestion;
use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// Sets what the text says, key by key, and returns it; `origin` names it in errors.
pub(super) fn apply(settings: &mut Settings, text: &str, origin: &str) -> Result<Vec<(String, String)>> {
    let place = |span: Range<usize>| format!("{origin}:{}", line_of(text, span.start));
    let sections = DeTable::parse(text).map_err(|error| {
        let start = error.span().unwrap_or_default().start;
        let (at, column) = (place(start..start), column_of(text, start));
        anyhow!(
            "{at}:{column}: this is not TOML ({}); expected sections such as [cluster] and lines such as round = \"6m\"",
            error.message()
        )
    })?;
    let mut given = Vec::new();
    // Before everything that may name one of them.
    for (section, body) in sections.get_ref().iter().filter(|(section, _)| section.get_ref() == kinds::TABLE) {
        let DeValue::Array(tables) = body.get_ref() else {
            let at = place(section.span());
            return Err(anyhow!("{at}: [kind] is one table; write [[kind]] for each GPU kind"));
        };
        kinds::apply(settings, tables, &|start| format!("{origin}:{}", line_of(text, start)))?;
    }
    for (section, body) in sections.get_ref() {
        let (name, at) = (section.get_ref().as_ref(), place(section.span()));
        if name == kinds::TABLE {
            continue;
        }
        if name == quotas::TABLE {
            quotas::apply(settings, body.get_ref(), &at, &|start| format!("{origin}:{}", line_of(text, start)))?;
            continue;
        }
        let DeValue::Table(body) = body.get_ref() else {
            return Err(anyhow!("{at}: '{name}' is outside of any section; put it below one such as [simulation]"));
        };
        if !sections_known().contains(&name) {
            return Err(anyhow!("{at}: {}", unknown_section(name)));
        }
        for (key, value) in body {
            let (at, full) = (place(key.span()), format!("{name}.{}", key.get_ref()));
            if all().all(|setting| setting.key != full) {
                return Err(anyhow!("{at}: {}", unknown_key(name, key.get_ref())));
            }
            let text = plain(value.get_ref()).ok_or_else(|| {
                anyhow!("{at}: {full} cannot be used; expected a text, a number, true, false or a list of texts")
            })?;
            settings.put(&full, &text, &format!("{at}: {full}"))?;
            settings.serve.given.push(full.clone());
            given.push((full, text));
        }
    }
    Ok(given)
}

/// A value as it would be written behind a flag.
fn plain(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().to_owned()),
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Boolean(truth) => Some(truth.to_string()),
        DeValue::Array(list) => {
            let parts: Option<Vec<String>> = list.iter().map(|part| plain(part.get_ref())).collect();
            parts.map(|parts| parts.join(","))
        }
        _ => None,
    }
}

fn sections_known() -> Vec<&'static str> {
    let mut sections: Vec<&str> = all().filter_map(|s| s.key.split_once('.')).map(|(name, _)| name).collect();
    sections.dedup();
    sections.push(quotas::TABLE);
    sections
}

fn unknown_section(name: &str) -> String {
    let known = sections_known();
    let near = suggestion(name, known.iter().copied());
    format!("there is no section [{name}]{near}; expected one of {}", known.join(", "))
}

/// In characters, from 1.
fn column_of(text: &str, offset: usize) -> usize {
    let before = text.get(..offset).unwrap_or(text);
    1 + before.chars().rev().take_while(|c| *c != '\n').count()
}

fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|&byte| byte == b'\n').count()
}
