//! Streams a rate table out of JSON.
//!
//! No tree of values is ever built: each level of the file has a seed that pulls its entries from the parser
//! and pushes cells onto flat lists. A key such as `('A3C', 1)` occurs hundreds of times; it is taken apart
//! once and recognised by its text afterwards.

use super::{RateTable, RatesError};
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::collections::{BTreeSet, HashMap};
use std::fmt;

/// What Gavel appends to a kind's name for gangs on more nodes than they need.
const SPREAD_SUFFIX: &str = "_unconsolidated";

pub(super) fn table(text: &str, origin: &str) -> Result<RateTable, RatesError> {
    let mut builder = Builder::default();
    let mut json = serde_json::Deserializer::from_str(text);
    let parsed = Kinds(&mut builder).deserialize(&mut json).and_then(|()| json.end());
    parsed.map_err(|error| explain(&error, text, origin))?;
    if builder.solo.is_empty() {
        let message = "there is no rate in this table; expected {kind: {\"('workload', gang)\": {\"null\": \
                       steps per second}}} with at least one kind and one workload";
        return Err(RatesError { origin: origin.into(), line: 0, column: 0, message: message.into() });
    }
    Ok(builder.finish())
}

/// Turns the parser's complaint into ours: the position apart, and `NaN` called by its name.
fn explain(error: &serde_json::Error, text: &str, origin: &str) -> RatesError {
    let (line, column) = (error.line(), error.column());
    let full = error.to_string();
    let message = full.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&full);
    let culprit = text.lines().nth(line.saturating_sub(1)).and_then(|line| word_at(line, column.saturating_sub(1)));
    let message = match culprit {
        Some(word @ ("NaN" | "Infinity" | "-Infinity")) if error.is_syntax() => format!(
            "{word} is no number in JSON (Python's json.dump writes it all the same); write 0 for a cell that does \
             not fit, or leave the cell out if it was not measured"
        ),
        _ if error.is_syntax() || error.is_eof() => format!(
            "this is no JSON from here on ({message}); expected a table in Gavel's form, {{kind: {{\"('workload', gang)\": \
             {{\"null\": steps per second}}}}}}"
        ),
        _ => message.to_owned(),
    };
    RatesError { origin: origin.into(), line, column, message }
}

/// The run of letters and minus signs around byte `at` of a line.
fn word_at(line: &str, at: usize) -> Option<&str> {
    let part = |c: char| c.is_ascii_alphabetic() || c == '-';
    let at = at.min(line.len().saturating_sub(1));
    let (before, after) = (line.get(..at)?, line.get(at..)?);
    let start = before.rfind(|c| !part(c)).map_or(0, |i| i + 1);
    let end = after.find(|c| !part(c)).map_or(line.len(), |i| at + i);
    line.get(start..end)
}

/// The table while it grows: names by number, cells in the order of the file.
#[derive(Default)]
struct Builder {
    workloads: Vec<String>,
    kinds: Vec<String>,
    keys: HashMap<Box<str>, Key>,
    rows: BTreeSet<Row>,
    solo: Vec<(Row, f64)>,
    watts: Vec<(Row, f64)>,
    pairs: Vec<(u16, u32, u32, f64, f64)>,
}

/// What a key of the file names.
#[derive(Clone, Copy)]
enum Key {
    Alone,
    Watts,
    Workload { index: u32, gang: u32 },
}

/// A workload in a gang on a kind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    kind: u16,
    spread: bool,
    workload: u32,
    gang: u32,
}

impl Builder {
    fn kind(&mut self, name: &str) -> Result<(u16, bool), String> {
        let (name, spread) = name.strip_suffix(SPREAD_SUFFIX).map_or((name, false), |base| (base, true));
        let index = index_of(&mut self.kinds, name);
        u16::try_from(index).map(|i| (i, spread)).map_err(|_| "there are more than 65536 kinds in this table".into())
    }

    fn key(&mut self, text: &str) -> Result<Key, String> {
        if let Some(&key) = self.keys.get(text) {
            return Ok(key);
        }
        let key = if text == "null" {
            Key::Alone
        } else if text == "watts" {
            Key::Watts
        } else {
            let (name, gang) = workload_and_gang(text).ok_or_else(|| {
                format!(
                    "key \"{text}\" names no workload; expected ('name', gang) with a gang of 1 or more, for instance \
                     ('ResNet-18 (batch size 64)', 1), or null or watts"
                )
            })?;
            Key::Workload { index: index_of(&mut self.workloads, name) as u32, gang }
        };
        self.keys.insert(text.into(), key);
        Ok(key)
    }

    fn finish(self) -> RateTable {
        let (n, kinds) = (self.workloads.len(), self.kinds.len());
        let gangs: Vec<u32> = self.rows.iter().map(|row| row.gang).collect::<BTreeSet<_>>().into_iter().collect();
        // Without pairs there is no square of them, however many workloads there are.
        let pairs = if self.pairs.is_empty() { 0 } else { kinds * n * n };
        let cells = kinds * 2 * n * gangs.len();
        let mut table = RateTable {
            solo: vec![f64::NAN; cells],
            // Nor is there room for watts where nobody measured any.
            watts: vec![f64::NAN; if self.watts.is_empty() { 0 } else { cells }],
            pairs: vec![(f64::NAN, f64::NAN); pairs],
            workloads: self.workloads,
            kinds: self.kinds,
            gangs,
        };
        let place = |table: &RateTable, row: &Row| {
            let gang = table.gangs.binary_search(&row.gang).ok();
            gang.and_then(|g| table.solo_index(row.workload, row.kind, g, row.spread))
        };
        for (row, rate) in self.solo {
            if let Some(at) = place(&table, &row) {
                table.solo[at] = rate;
            }
        }
        for (row, watts) in self.watts {
            if let Some(at) = place(&table, &row) {
                table.watts[at] = watts;
            }
        }
        for &(kind, own, partner, rate, other) in &self.pairs {
            if let Some(at) = table.pair_index(own, partner, kind) {
                table.pairs[at] = (rate, other);
            }
        }
        // A pair written down once holds in both directions.
        for (kind, own, partner, rate, other) in self.pairs {
            if let Some(at) = table.pair_index(partner, own, kind).filter(|&at| table.pairs[at].0.is_nan()) {
                table.pairs[at] = (other, rate);
            }
        }
        table
    }
}

/// Position of `name`, which is appended if new. The lists are short, and asked once per new key.
fn index_of(names: &mut Vec<String>, name: &str) -> usize {
    names.iter().position(|n| n == name).unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    })
}

/// Takes `('name', gang)` apart. Python writes `"` around a name with an apostrophe in it.
fn workload_and_gang(key: &str) -> Option<(&str, u32)> {
    let inner = key.strip_prefix('(')?.strip_suffix(')')?;
    let (name, gang) = inner.rsplit_once(',')?;
    let gang = gang.trim().parse().ok().filter(|&gang| gang > 0)?;
    let quoted = |quote: char| name.trim().strip_prefix(quote)?.strip_suffix(quote);
    let name = quoted('\'').or_else(|| quoted('"'))?;
    (!name.is_empty()).then_some((name, gang))
}

/// `{kind: rows}`.
struct Kinds<'b>(&'b mut Builder);

impl<'de> DeserializeSeed<'de> for Kinds<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Kinds<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with one entry per GPU kind")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some((kind, spread)) = map.next_key_seed(KindName(self.0))? {
            map.next_value_seed(Rows { builder: self.0, kind, spread })?;
        }
        Ok(())
    }
}

struct KindName<'b>(&'b mut Builder);

impl<'de> DeserializeSeed<'de> for KindName<'_> {
    type Value = (u16, bool);
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_str(self)
    }
}

impl Visitor<'_> for KindName<'_> {
    type Value = (u16, bool);
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a GPU kind")
    }
    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Self::Value, E> {
        self.0.kind(name).map_err(E::custom)
    }
}

struct CellName<'b>(&'b mut Builder);

impl<'de> DeserializeSeed<'de> for CellName<'_> {
    type Value = Key;
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Key, D::Error> {
        json.deserialize_str(self)
    }
}

impl Visitor<'_> for CellName<'_> {
    type Value = Key;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key such as ('ResNet-18 (batch size 64)', 1)")
    }
    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Key, E> {
        self.0.key(text).map_err(E::custom)
    }
}

/// `{"('workload', gang)": cells}` of one kind.
struct Rows<'b> {
    builder: &'b mut Builder,
    kind: u16,
    spread: bool,
}

impl<'de> DeserializeSeed<'de> for Rows<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Rows<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with one entry per workload and gang")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { builder, kind, spread } = self;
        while let Some(key) = map.next_key_seed(CellName(builder))? {
            let Key::Workload { index: workload, gang } = key else {
                let name = if matches!(key, Key::Watts) { "watts" } else { "null" };
                let message = format!("key \"{name}\" stands where a workload was expected; {name} belongs inside one");
                return Err(A::Error::custom(message));
            };
            let row = Row { kind, spread, workload, gang };
            if !builder.rows.insert(row) {
                let (name, kind) = (&builder.workloads[workload as usize], &builder.kinds[usize::from(kind)]);
                let message = format!("('{name}', {gang}) is listed twice for kind '{kind}'; remove one of the two");
                return Err(A::Error::custom(message));
            }
            map.next_value_seed(Cells { builder, row })?;
        }
        Ok(())
    }
}

/// `{"null": rate, "watts": draw, "('partner', gang)": [own, partner's]}` of one row.
struct Cells<'b> {
    builder: &'b mut Builder,
    row: Row,
}

impl<'de> DeserializeSeed<'de> for Cells<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Cells<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "an object with the rate alone under \"null\", the draw under \"watts\" and one pair of rates per partner",
        )
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { builder, row } = self;
        while let Some(key) = map.next_key_seed(CellName(builder))? {
            match key {
                Key::Alone => builder.solo.push((row, map.next_value_seed(Rate)?)),
                Key::Watts => builder.watts.push((row, map.next_value_seed(Watts)?)),
                Key::Workload { index, gang: 1 } if row.gang == 1 && !row.spread => {
                    let (own, other) = map.next_value_seed(Pair)?;
                    builder.pairs.push((row.kind, row.workload, index, own, other));
                }
                // One GPU is never spread and wider gangs do not share: see the module's head.
                Key::Workload { .. } => {
                    map.next_value_seed(Pair)?;
                }
            }
        }
        Ok(())
    }
}

/// `[own, partner's]`.
struct Pair;

impl<'de> DeserializeSeed<'de> for Pair {
    type Value = (f64, f64);
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Pair {
    type Value = (f64, f64);
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("two rates [own, partner's] in steps per second")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        match (seq.next_element_seed(Rate)?, seq.next_element_seed(Rate)?, seq.next_element::<IgnoredAny>()?) {
            (Some(own), Some(other), None) => Ok((own, other)),
            _ => Err(A::Error::custom("this pair does not have exactly two rates; expected [own, partner's]")),
        }
    }
}

/// One rate: finite and not negative.
struct Rate;

impl<'de> DeserializeSeed<'de> for Rate {
    type Value = f64;
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<f64, D::Error> {
        json.deserialize_f64(self)
    }
}

impl Visitor<'_> for Rate {
    type Value = f64;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a rate in steps per second: a number, 0 if it does not fit")
    }
    fn visit_f64<E: serde::de::Error>(self, rate: f64) -> Result<f64, E> {
        if rate >= 0.0 && rate.is_finite() {
            return Ok(rate);
        }
        Err(E::custom(format!("rate {rate} is negative; expected steps per second, 0 if the workload does not fit")))
    }
    fn visit_u64<E: serde::de::Error>(self, rate: u64) -> Result<f64, E> {
        self.visit_f64(rate as f64)
    }
    fn visit_i64<E: serde::de::Error>(self, rate: i64) -> Result<f64, E> {
        self.visit_f64(rate as f64)
    }
}

/// What one GPU draws: finite and more than nothing.
struct Watts;

impl<'de> DeserializeSeed<'de> for Watts {
    type Value = f64;
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<f64, D::Error> {
        json.deserialize_f64(self)
    }
}

impl Visitor<'_> for Watts {
    type Value = f64;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the draw of one GPU in watts: a number above 0")
    }
    fn visit_f64<E: serde::de::Error>(self, watts: f64) -> Result<f64, E> {
        if watts > 0.0 && watts.is_finite() {
            return Ok(watts);
        }
        Err(E::custom(format!(
            "a draw of {watts} W cannot be; expected more than 0, or leave watts out if nobody measured them"
        )))
    }
    fn visit_u64<E: serde::de::Error>(self, watts: u64) -> Result<f64, E> {
        self.visit_f64(watts as f64)
    }
    fn visit_i64<E: serde::de::Error>(self, watts: i64) -> Result<f64, E> {
        self.visit_f64(watts as f64)
    }
}
