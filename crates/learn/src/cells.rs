//! One table of measured cells with what is known of their workloads, as comma-separated values: what `arles learn eval` and `arles estimate` read.
//!
//! A line is one measurement. [`COLUMNS`] may stand in any order; only `workload`, `kind` and `rate_steps_per_second` must be there, and of
//! the others every field may be empty. What several lines say of one workload is put together; they must not contradict each other.
//!
//! - A workload under two software stacks is two workloads of one model: its name in the catalog is then `workload|stack`.
//! - Lines of one workload with different batches are the same work: rates are brought to samples per second and told at the median batch.
//! - `limit_watts` makes the kind a mode of it (`v100` under 200 W is `v100@200W`).
//! - A gang on more `nodes` than it needs is left out and counted: a catalog has no place for it.
//! - Several lines of one cell are measurements of it and are averaged (the mean of logarithms).
//!
//! Nothing here touches a file or a clock.

use crate::catalog::csv::{CsvError, Line, Names, each};
use crate::catalog::{Catalog, Cell, Key, MEASUREMENT_ERROR};
use crate::traits::Traits;
use arles_core::estimate::Source;
use arles_core::{Kind, Library, Mode, Precision, Time};
use std::collections::BTreeMap;

/// The columns of a table of cells.
pub const COLUMNS: [&str; 22] = [
    "workload",
    "family",
    "domain",
    "mode",
    "precision",
    "stack",
    "batch",
    "params",
    "flops_per_step",
    "bytes_per_step",
    "kernels_per_step",
    "memory_gib",
    "gpu_utilisation",
    "bandwidth_utilisation",
    "power_utilisation",
    "kind",
    "limit_watts",
    "gang",
    "nodes",
    "partner",
    "rate_steps_per_second",
    "watts",
];
const REQUIRED: [&str; 3] = ["workload", "kind", "rate_steps_per_second"];
const MODES: [(&str, Mode); 2] = [("training", Mode::Training), ("inference", Mode::Inference)];
const PRECISIONS: [(&str, Precision); 4] =
    [("fp32", Precision::Fp32), ("tf32", Precision::Tf32), ("fp16", Precision::Fp16), ("int8", Precision::Int8)];
/// GPUs that a node holds as a rule.
const NODE_GPUS: u32 = 8;

/// What a table says.
#[derive(Clone, Debug)]
pub struct CellTable {
    /// Its cells, and what is known of its workloads.
    pub catalog: Catalog,
    /// Its kinds, in order of appearance.
    pub kinds: Vec<Kind>,
    /// Cells of gangs on more nodes than they need.
    pub left_out: usize,
}

/// One line.
struct Measured {
    key: Key,
    batch: Option<f64>,
    rate: f64,
    watts: Option<f64>,
}

/// Whether a text is such a table rather than JSON: its first character says so.
#[must_use]
pub fn looks_like(text: &str) -> bool {
    !matches!(text.trim_start_matches('\u{feff}').trim_start().chars().next(), Some('{' | '['))
}

/// Reads a table; `origin` names it in errors.
///
/// # Errors
/// At the first line that cannot be used; then nothing is read.
pub fn read(text: &str, origin: &str, library: &Library) -> Result<CellTable, CsvError> {
    let mut table = CellTable { catalog: Catalog::default(), kinds: Vec::new(), left_out: 0 };
    let mut known: BTreeMap<String, (Traits, usize)> = BTreeMap::new();
    let mut batches: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let mut lines: Vec<Measured> = Vec::new();
    let names = Names::new(library, []);
    each(text, origin, &COLUMNS, &REQUIRED, |line| {
        let kind = read_kind(line, library)?;
        let traits = read_traits(line)?;
        let name = full_name(line.required("workload")?, traits.stack.as_deref(), &names);
        let partner = line.get("partner").map(|partner| full_name(partner, traits.stack.as_deref(), &names));
        agree(&mut known, &name, &traits, line.number)?;
        let gang = line.whole("gang")?.unwrap_or(1);
        check_gang(gang, partner.as_deref(), &kind)?;
        if !table.kinds.iter().any(|k| k.name == kind.name) {
            table.kinds.push(kind.clone());
        }
        let rate = line.number("rate_steps_per_second", 0.0, "steps per second, or 0 where it does not fit")?;
        let rate = rate.ok_or("rate_steps_per_second is empty; every line needs one")?;
        let watts = line.number("watts", f64::MIN_POSITIVE, "more than 0, or nothing where it is unknown")?;
        if line.whole("nodes")?.is_some_and(|nodes| nodes > gang.div_ceil(NODE_GPUS)) {
            table.left_out += 1;
            return Ok(());
        }
        if let Some(batch) = traits.batch {
            batches.entry(name.clone()).or_default().push(batch);
        }
        let key = Key { workload: name, partner, kind: kind.name, gang };
        lines.push(Measured { key, batch: traits.batch, rate, watts });
        Ok(())
    })?;
    let fail = |message| CsvError { origin: origin.to_owned(), line: 0, message };
    if lines.is_empty() {
        return Err(fail("there is no cell in this table; add a line below its header".into()));
    }
    let batches: BTreeMap<String, f64> =
        batches.into_iter().filter_map(|(name, all)| Some((name, crate::evidence::median(all)?))).collect();
    for (name, (mut traits, _)) in known {
        if let (Some(said), Some(&usual)) = (traits.batch, batches.get(&name)) {
            traits.flops_per_step = traits.flops_per_step.map(|flops| flops * usual / said);
            traits.bytes_per_step = traits.bytes_per_step.map(|bytes| bytes * usual / said);
            traits.batch = Some(usual);
        }
        if let Some(workload) = names.known(&name).filter(|_| traits.flops_per_step.is_none()) {
            table.catalog.describe(workload.clone());
        }
        table.catalog.set_traits(&name, traits);
    }
    put(&mut table.catalog, &lines, &batches).map_err(fail)?;
    Ok(table)
}

/// Takes the cells in, each the mean of its lines, at the median batch.
fn put(catalog: &mut Catalog, lines: &[Measured], batches: &BTreeMap<String, f64>) -> Result<(), String> {
    let mut cells: BTreeMap<&Key, (f64, f64, Vec<f64>)> = BTreeMap::new();
    for line in lines {
        let usual = batches.get(&line.key.workload).copied();
        let scale = line.batch.zip(usual).map_or(1.0, |(batch, usual)| batch / usual);
        let (sum, count, watts) = cells.entry(&line.key).or_default();
        if line.rate > 0.0 {
            *sum += (line.rate * scale).ln();
            *count += 1.0;
        }
        watts.extend(line.watts);
    }
    for (key, (sum, count, watts)) in cells {
        let rate = if count > 0.0 { (sum / count).exp() } else { 0.0 };
        let power = (!watts.is_empty()).then(|| watts.iter().sum::<f64>() / watts.len() as f64);
        let cell = Cell {
            rate,
            watts: power,
            source: Source::Measured,
            observations: (count as u32).max(1),
            at: Time::ZERO,
            standard_error: MEASUREMENT_ERROR,
        };
        catalog.put(key.clone(), cell).map_err(|error| error.0)?;
    }
    Ok(())
}

/// A workload's name in the catalog: the library's where it knows it, and with its software where that is said.
fn full_name(name: &str, stack: Option<&str>, names: &Names<'_>) -> String {
    let name = names.workload(name);
    match stack {
        Some(stack) => format!("{name}|{stack}"),
        None => name,
    }
}

fn read_kind(line: &Line<'_>, library: &Library) -> Result<Kind, String> {
    let kind = library.any_kind(line.required("kind")?)?;
    let limit = line.number("limit_watts", f64::MIN_POSITIVE, "watts, or nothing where there is no limit")?;
    match limit {
        // The limit as sold is none.
        Some(limit) if limit < kind.max_watts => kind.limited_to(limit).map_err(|e| e.to_string()),
        _ => Ok(kind),
    }
}

fn check_gang(gang: u32, partner: Option<&str>, kind: &Kind) -> Result<(), String> {
    match (gang, partner) {
        (0, _) => Err("gang is '0'; expected a whole number, 1 or more".into()),
        (2.., Some(partner)) => Err(format!(
            "gang is '{gang}' beside partner '{partner}'; only single GPUs are shared: leave one of the two out"
        )),
        (_, Some(partner)) if kind.max_jobs < 2 => {
            Err(format!("partner is '{partner}', and one GPU of kind {} takes 1 job only; remove this line", kind.name))
        }
        _ => Ok(()),
    }
}

fn read_traits(line: &Line<'_>) -> Result<Traits, String> {
    let text = |column: &str| line.get(column).map(str::to_owned);
    let positive = |column: &str| line.number(column, f64::MIN_POSITIVE, "more than 0, or nothing where it is unknown");
    let part = |column: &str| match line.number(column, 0.0, "a part, 0 to 1")? {
        Some(part) if part > 1.0 => Err(format!("{column} is '{part}'; expected a part, 0 to 1 (per cent over 100)")),
        part => Ok(part),
    };
    Ok(Traits {
        family: text("family"),
        model: text("workload"),
        stack: text("stack"),
        domain: text("domain"),
        mode: line.get("mode").map(|_| line.one_of("mode", &MODES)).transpose()?,
        precision: line.get("precision").map(|_| line.one_of("precision", &PRECISIONS)).transpose()?,
        batch: positive("batch")?,
        params: positive("params")?,
        flops_per_step: positive("flops_per_step")?,
        bytes_per_step: positive("bytes_per_step")?,
        kernels_per_step: positive("kernels_per_step")?,
        memory_gib: positive("memory_gib")?,
        gpu_utilisation: part("gpu_utilisation")?,
        bandwidth_utilisation: part("bandwidth_utilisation")?,
        power_ratio: part("power_utilisation")?,
    })
}

/// Puts what a line says of a workload to what others said; names must agree, of numbers the first stays.
fn agree(
    known: &mut BTreeMap<String, (Traits, usize)>,
    name: &str,
    traits: &Traits,
    number: usize,
) -> Result<(), String> {
    let Some((before, line)) = known.get_mut(name) else {
        known.insert(name.to_owned(), (traits.clone(), number));
        return Ok(());
    };
    if let (Some(one), Some(two)) = (&before.family, &traits.family)
        && one != two
    {
        return Err(format!("family of '{name}' is '{two}', and '{one}' in line {line}; a workload has one family"));
    }
    // What is said per step is said at this line's batch.
    let scaled = |x: Option<f64>| Some(x? * before.batch? / traits.batch?).or(x);
    let here = Traits {
        flops_per_step: scaled(traits.flops_per_step),
        bytes_per_step: scaled(traits.bytes_per_step),
        ..traits.clone()
    };
    *before = std::mem::take(before).or(here);
    Ok(())
}

#[cfg(test)]
mod tests;
