//! Our own trace file: comma-separated values with a header.
//!
//! One line per job, in order of arrival. The columns are [`COLUMNS`], in any order; `docs/traces.md` says what
//! each one means. Reading checks everything and hands over a whole trace or an error; writing a trace and
//! reading it again gives the same trace to the last bit (numbers are printed with as many digits as it takes),
//! provided its names stand in order of first use and all are used, as they do in any trace that was read.

use super::draft::Draft;
use super::fields::{Allow, Field, Source, expect_fields, positions};
use super::{Floor, Length, Trace, TraceError, TraceJob};
use arles_core::library::suggestion;
use std::collections::HashSet;
use std::io::{self, BufRead, Write};

/// The columns that a trace file may have. `job_id`, `workload`, `arrival_seconds` and one of the three lengths
/// must be there.
pub const COLUMNS: [&str; 16] = [
    "job_id",
    "tenant",
    "weight",
    "workload",
    "gang",
    "arrival_seconds",
    "steps",
    "duration_seconds",
    "period_seconds",
    "floor_rate",
    "floor_fraction",
    "job_weight",
    "restart_seconds",
    "kinds",
    "before_seconds",
    "largest_gang",
];

/// A column, by its place in [`COLUMNS`].
#[derive(Clone, Copy)]
enum Column {
    JobId,
    Tenant,
    Weight,
    Workload,
    Gang,
    Arrival,
    Steps,
    Duration,
    Period,
    FloorRate,
    FloorFraction,
    JobWeight,
    Restart,
    Kinds,
    Before,
    LargestGang,
}

impl Column {
    fn name(self) -> &'static str {
        COLUMNS[self as usize]
    }
}

/// Who submits where a line does not say.
const DEFAULT_TENANT: &str = "default";

/// Reads a trace; `origin` names the file in errors.
///
/// # Errors
/// At the first line that cannot be used; then nothing is read.
pub fn from_text(text: &str, origin: &str) -> Result<Trace, TraceError> {
    let source = Source { origin, text };
    let (mut lines, mut fields) = (source.commas(), Vec::new());
    if !lines.next_into(&mut fields)? {
        return Err(source.fault(format!("this file is empty; expected a header such as {}", COLUMNS.join(","))));
    }
    let columns = header(source, &fields)?;
    let width = fields.len();
    let (mut draft, mut ids) = (Draft::default(), HashSet::new());
    while lines.next_into(&mut fields)? {
        expect_fields(source, &fields, width)?;
        let line = Line { source, columns: &columns, fields: &fields };
        let job = line.job(&mut draft)?;
        if !ids.insert(job.id) {
            return Err(line.error(Column::JobId, format!("job_id {} occurs twice; give every job its own", job.id)));
        }
        if let Some(above) = draft.last().filter(|above| above.arrival_seconds > job.arrival_seconds) {
            let message = format!(
                "job {} arrives at {} s, before the job above it ({} s); sort the lines by arrival_seconds",
                job.id, job.arrival_seconds, above.arrival_seconds
            );
            return Err(line.error(Column::Arrival, message));
        }
        draft.push(job);
    }
    Ok(draft.finish())
}

/// Reads a trace from a stream.
///
/// # Errors
/// When the stream cannot be read or is not UTF-8, and as [`from_text`].
pub fn from_reader(mut reader: impl BufRead, origin: &str) -> Result<Trace, TraceError> {
    let mut text = String::new();
    match reader.read_to_string(&mut text) {
        Ok(_) => from_text(&text, origin),
        Err(error) => Err(Source { origin, text: "" }.fault(format!("cannot read this trace ({error})"))),
    }
}

fn header(source: Source<'_>, fields: &[Field<'_>]) -> Result<[Option<usize>; 16], TraceError> {
    for (i, field) in fields.iter().enumerate() {
        let name = field.text.trim();
        if !COLUMNS.contains(&name) {
            let hint = suggestion(name, COLUMNS);
            let message = format!("there is no column '{name}'{hint}; expected a header of {}", COLUMNS.join(", "));
            return Err(source.error(field.at, message));
        }
        if fields[..i].iter().any(|earlier| earlier.text.trim() == name) {
            return Err(source.error(field.at, format!("column '{name}' occurs twice; remove one of the two")));
        }
    }
    let columns = positions(fields, COLUMNS);
    let end = fields.last().map_or(0, |field| field.at);
    for required in [Column::JobId, Column::Workload, Column::Arrival] {
        if columns[required as usize].is_none() {
            return Err(source.error(end, format!("column '{}' is missing; add it to the header", required.name())));
        }
    }
    if [Column::Steps, Column::Duration, Column::Period].iter().all(|c| columns[*c as usize].is_none()) {
        let message = "no column says how long a job is; add steps, duration_seconds or period_seconds to the header";
        return Err(source.error(end, message));
    }
    Ok(columns)
}

/// A line of the file with its columns named.
struct Line<'l, 't> {
    source: Source<'t>,
    columns: &'l [Option<usize>; 16],
    fields: &'l [Field<'t>],
}

impl<'l, 't> Line<'l, 't> {
    /// The field of a column, if it is there and not empty.
    fn get(&self, column: Column) -> Option<&'l Field<'t>> {
        self.columns[column as usize].map(|i| &self.fields[i]).filter(|field| !field.text.is_empty())
    }

    fn required(&self, column: Column) -> Result<&'l Field<'t>, TraceError> {
        self.get(column).ok_or_else(|| self.error(column, format!("{} is empty; every job needs one", column.name())))
    }

    fn number(&self, column: Column, allow: Allow) -> Result<Option<f64>, TraceError> {
        self.get(column).map(|field| self.source.number(field, column.name(), allow)).transpose()
    }

    /// An error at a column, or at the line's beginning if the file does not have it.
    fn error(&self, column: Column, message: impl Into<String>) -> TraceError {
        let field = &self.fields[self.columns[column as usize].unwrap_or_default()];
        self.source.error(field.at, message)
    }

    fn job(&self, draft: &mut Draft) -> Result<TraceJob, TraceError> {
        let arrival = self.required(Column::Arrival)?;
        let workload = self.required(Column::Workload)?;
        Ok(TraceJob {
            id: self.source.whole(self.required(Column::JobId)?, Column::JobId.name())?,
            tenant: self.tenant(draft)?,
            workload: draft.workload(&workload.text),
            gang: self.gang()?,
            largest_gang: self.largest_gang()?,
            arrival_seconds: self.source.number(arrival, Column::Arrival.name(), Allow::NotNegative)?,
            length: self.length()?,
            floor: self.floor()?,
            weight: self.number(Column::JobWeight, Allow::Positive)?.unwrap_or(1.0),
            restart_seconds: self.number(Column::Restart, Allow::NotNegative)?,
            before_seconds: self.number(Column::Before, Allow::Positive)?,
            kinds: self.kinds(draft)?,
        })
    }

    fn tenant(&self, draft: &mut Draft) -> Result<u32, TraceError> {
        let name = self.get(Column::Tenant).map_or(DEFAULT_TENANT, |field| &*field.text);
        let weight = self.number(Column::Weight, Allow::Positive)?;
        draft.tenant(name, weight).map_err(|first| {
            let weight = weight.unwrap_or(first);
            let message = format!(
                "tenant '{name}' weighs {weight} here but {first} above; give it the same weight on every line \
                 (empty means as above, 1 at first)"
            );
            self.error(Column::Weight, message)
        })
    }

    fn gang(&self) -> Result<u32, TraceError> {
        let gang = self.get(Column::Gang).map_or(Ok(1), |field| self.source.whole(field, Column::Gang.name()))?;
        if gang == 0 {
            return Err(self.error(Column::Gang, "gang is 0; a job holds at least 1 GPU"));
        }
        Ok(gang)
    }

    fn largest_gang(&self) -> Result<Option<u32>, TraceError> {
        let Some(field) = self.get(Column::LargestGang) else { return Ok(None) };
        let (least, most): (u32, u32) = (self.gang()?, self.source.whole(field, Column::LargestGang.name())?);
        if most < least {
            let message =
                format!("largest_gang is {most} and gang is {least}; give at least as many GPUs, or leave it empty");
            return Err(self.error(Column::LargestGang, message));
        }
        Ok(Some(most))
    }

    fn length(&self) -> Result<Length, TraceError> {
        let given = |column, length: fn(f64) -> Length| {
            let number = self.number(column, Allow::Positive)?;
            Ok(number.map(|number| (column, length(number))))
        };
        let steps = given(Column::Steps, Length::Steps)?;
        let duration = given(Column::Duration, Length::Duration)?;
        let period = given(Column::Period, Length::Period)?;
        let mut lengths = [steps, duration, period].into_iter().flatten();
        match (lengths.next(), lengths.next()) {
            (Some((_, length)), None) => Ok(length),
            (Some((first, _)), Some((second, _))) => {
                let message = format!("both {} and {} are given; leave one of them empty", first.name(), second.name());
                Err(self.error(second, message))
            }
            (None, _) => {
                let message = "this job has no length; give one of steps, duration_seconds and period_seconds";
                Err(self.error(Column::JobId, message))
            }
        }
    }

    fn floor(&self) -> Result<Option<Floor>, TraceError> {
        let rate = self.number(Column::FloorRate, Allow::Positive)?;
        let fraction = self.number(Column::FloorFraction, Allow::Positive)?;
        if rate.is_some() && fraction.is_some() {
            let message = "both floor_rate and floor_fraction are given; leave one of them empty";
            return Err(self.error(Column::FloorFraction, message));
        }
        Ok(rate.map(Floor::Rate).or(fraction.map(Floor::Fraction)))
    }

    fn kinds(&self, draft: &mut Draft) -> Result<Vec<u16>, TraceError> {
        let mut kinds = Vec::new();
        let Some(field) = self.get(Column::Kinds) else { return Ok(kinds) };
        for name in field.text.split('|') {
            if name.is_empty() {
                let message = format!(
                    "kinds is '{}'; expected names such as v100|a100 with nothing between bars empty",
                    field.text
                );
                return Err(self.source.error(field.at, message));
            }
            let kind = draft.kind(name).ok_or_else(|| {
                self.source.error(field.at, format!("kind '{name}' is one too many; a trace can name 65536 kinds"))
            })?;
            if kinds.contains(&kind) {
                return Err(self.source.error(field.at, format!("kind '{name}' is listed twice; name it once")));
            }
            kinds.push(kind);
        }
        Ok(kinds)
    }
}

/// Writes a trace.
///
/// # Errors
/// When the stream cannot be written, and when a name is empty or a kind's name has a `|` in it, which the
/// format cannot hold.
pub fn write(trace: &Trace, out: impl Write) -> io::Result<()> {
    let mut writer = Writer::new(out, trace)?;
    for job in &trace.jobs {
        writer.write(job)?;
    }
    writer.finish()
}

/// Writes a trace job by job, for traces that need not be in memory as a whole.
pub struct Writer<'n, W: Write> {
    out: io::BufWriter<W>,
    names: &'n Trace,
    /// How many of [`COLUMNS`] there are: files without deadlines or elastic jobs look as they always did.
    columns: usize,
}

impl<'n, W: Write> Writer<'n, W> {
    /// Writes the header. The jobs to come refer to the tenants, workloads and kinds of `names`.
    ///
    /// # Errors
    /// As [`write()`].
    pub fn new(out: W, names: &'n Trace) -> io::Result<Self> {
        let mut out = io::BufWriter::new(out);
        let tenants = names.tenants.iter().map(|tenant| &tenant.name);
        if tenants.chain(&names.workloads).chain(&names.kinds).any(String::is_empty) {
            return Err(unwritable("a tenant, workload or kind has an empty name; give it one"));
        }
        if let Some(kind) = names.kinds.iter().find(|kind| kind.contains('|')) {
            return Err(unwritable(&format!("kind '{kind}' has a | in its name, which separates kinds; rename it")));
        }
        let deadlines = names.jobs.iter().any(|job| job.before_seconds.is_some());
        let elastic = names.jobs.iter().any(|job| job.largest_gang.is_some());
        let columns = match (elastic, deadlines) {
            (true, _) => COLUMNS.len(),
            (false, true) => Column::LargestGang as usize,
            (false, false) => Column::Before as usize,
        };
        writeln!(out, "{}", COLUMNS[..columns].join(","))?;
        Ok(Self { out, names, columns })
    }

    /// Writes one job.
    ///
    /// # Errors
    /// When the stream cannot be written.
    pub fn write(&mut self, job: &TraceJob) -> io::Result<()> {
        let tenant = &self.names.tenants[job.tenant as usize];
        let out = &mut self.out;
        write!(out, "{},", job.id)?;
        quoted(out, &tenant.name)?;
        write!(out, ",{},", tenant.weight)?;
        quoted(out, &self.names.workloads[job.workload as usize])?;
        write!(out, ",{},{}", job.gang, job.arrival_seconds)?;
        match job.length {
            Length::Steps(steps) => write!(out, ",{steps},,")?,
            Length::Duration(seconds) => write!(out, ",,{seconds},")?,
            Length::Period(seconds) => write!(out, ",,,{seconds}")?,
        }
        match job.floor {
            None => write!(out, ",,")?,
            Some(Floor::Rate(rate)) => write!(out, ",{rate},")?,
            Some(Floor::Fraction(fraction)) => write!(out, ",,{fraction}")?,
        }
        write!(out, ",{},", job.weight)?;
        if let Some(seconds) = job.restart_seconds {
            write!(out, "{seconds}")?;
        }
        let kinds: Vec<&str> = job.kinds.iter().map(|kind| &*self.names.kinds[usize::from(*kind)]).collect();
        write!(out, ",")?;
        quoted(out, &kinds.join("|"))?;
        let last =
            [job.before_seconds.map(|seconds| seconds.to_string()), job.largest_gang.map(|most| most.to_string())];
        for field in last.iter().take(self.columns - Column::Before as usize) {
            write!(out, ",{}", field.as_deref().unwrap_or_default())?;
        }
        writeln!(out)
    }

    /// Flushes what is still held back.
    ///
    /// # Errors
    /// When the stream cannot be written.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn unwritable(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

/// Writes a name, in quotes where it needs them.
fn quoted(out: &mut impl Write, name: &str) -> io::Result<()> {
    if name.contains([',', '"', '\n', '\r']) {
        write!(out, "\"{}\"", name.replace('"', "\"\""))
    } else {
        write!(out, "{name}")
    }
}

#[cfg(test)]
mod tests;
