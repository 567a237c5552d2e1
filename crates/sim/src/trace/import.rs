//! Published traces, turned into ours.
//!
//! Every format is one file and one line of [`FORMATS`]; from that table come the names a user may give, the
//! automatic detection and the tests. An importer maps what the trace says, counts what it must leave out, and
//! never makes up a number without being told how (workload names come from a mix and a seed).
//!
//! All or nothing: a malformed line refuses the whole file, with its line and column.

mod gavel;
mod openb;
mod philly;
mod slurm;

use super::draft::Draft;
use super::fields::{Field, Source, positions};
use super::generate::default_workloads;
use super::mix::form;
use super::{Length, Mix, OptionError, Trace, TraceError, TraceJob, csv};
use crate::rng::Rng;
use arles_core::library::suggestion;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;

/// A kind of file that can be turned into a trace.
pub struct Format {
    /// What a user calls it.
    pub name: &'static str,
    /// One line for help texts.
    pub about: &'static str,
    /// Whether a file with this first line is likely one of these.
    detect: fn(&str) -> bool,
    /// Reads the whole file.
    read: fn(Source<'_>, &ImportOptions) -> Result<Imported, TraceError>,
}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Format").field("name", &self.name).field("about", &self.about).finish_non_exhaustive()
    }
}

/// Every format, in the order in which detection tries them.
pub static FORMATS: &[Format] = &[ARLES, gavel::FORMAT, philly::FORMAT, openb::FORMAT, slurm::FORMAT];

/// Our own file needs no translation; it is here so that one call reads any trace.
const ARLES: Format = Format {
    name: "arles",
    about: "our own CSV, with a header",
    // One sure column is enough: a slip in another then gets a sentence about that column.
    detect: |line| line.split(',').any(|field| field.trim() == "job_id"),
    read: |source, _| {
        let trace = csv::from_text(source.text, source.origin)?;
        let (dropped, changed) = (BTreeMap::new(), BTreeMap::new());
        let report = ImportReport { format: ARLES.name, imported: trace.jobs.len(), dropped, changed };
        Ok(Imported { trace, report })
    },
};

/// Choices an importer needs where the trace itself is silent. Our own file is never silent: it is read as it is.
#[derive(Clone, PartialEq, Debug)]
pub struct ImportOptions {
    /// Seed of every choice made at random.
    pub seed: u64,
    /// Overrides the trace's tenants; `None` keeps what the trace has.
    pub tenants: Option<TenantSplit>,
    /// What the jobs run where the trace does not say (openb, philly, slurm).
    pub workloads: Mix<String>,
    /// Kinds by the names the trace has for them, before the format's own table (openb, slurm).
    pub kind_names: Vec<(String, String)>,
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self { seed: 0, tenants: None, workloads: default_workloads(), kind_names: Vec::new() }
    }
}

/// How jobs are handed to tenants `tenant-1`, `tenant-2`, ... of equal weight. As text: `round-robin:N`, `seeded:N`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TenantSplit {
    /// One after the other, in the order of the file.
    RoundRobin(u32),
    /// At random, by the seed.
    Seeded(u32),
}

impl FromStr for TenantSplit {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        let (name, arguments) = form(text, &[("round-robin", "N"), ("seeded", "N")])?;
        let count = arguments[0].parse().ok().filter(|&n| n > 0).ok_or_else(|| {
            OptionError::new(format!(
                "'{text}' asks for '{}' tenants; expected a whole number, 1 or more",
                arguments[0]
            ))
        })?;
        Ok(if name == "seeded" { Self::Seeded(count) } else { Self::RoundRobin(count) })
    }
}

/// Reads `G2=a100,G3=a10` into names of a trace and kinds of ours.
///
/// # Errors
/// When a part is not of this form.
pub fn kind_names(text: &str) -> Result<Vec<(String, String)>, OptionError> {
    let pair = |part: &str| match part.split_once('=').map(|(theirs, ours)| (theirs.trim(), ours.trim())) {
        Some((theirs, ours)) if !theirs.is_empty() && !ours.is_empty() => Ok((theirs.to_owned(), ours.to_owned())),
        _ => Err(OptionError::new(format!("'{part}' in '{text}' names no kind; expected THEIRS=OURS such as G2=a100"))),
    };
    text.split(',').map(pair).collect()
}

/// A trace and what became of the file's lines.
#[derive(Clone, PartialEq, Debug)]
pub struct Imported {
    /// The jobs.
    pub trace: Trace,
    /// What was imported, left out and changed.
    pub report: ImportReport,
}

/// What became of the lines of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImportReport {
    /// Name of the format.
    pub format: &'static str,
    /// Jobs in the trace.
    pub imported: usize,
    /// Lines left out, by reason.
    pub dropped: BTreeMap<String, usize>,
    /// Jobs that lost something on the way, by what it was.
    pub changed: BTreeMap<String, usize>,
}

impl fmt::Display for ImportReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} jobs imported from the {} format", self.imported, self.format)?;
        for (reason, count) in &self.dropped {
            write!(f, "\n{count} left out: {reason}")?;
        }
        for (change, count) in &self.changed {
            write!(f, "\n{count} changed: {change}")?;
        }
        Ok(())
    }
}

/// Reads a trace of a named format, or of the one its first line looks like.
///
/// # Errors
/// When the format is unknown or cannot be told, and when any line is malformed.
pub fn from_text(
    text: &str,
    origin: &str,
    format: Option<&str>,
    options: &ImportOptions,
) -> Result<Imported, TraceError> {
    let source = Source { origin, text };
    let format = match format {
        Some(name) => named(source, name)?,
        None => detected(source)?,
    };
    (format.read)(source, options)
}

/// Reads a trace from a file, gzip-compressed or plain.
///
/// # Errors
/// When the file cannot be read, and as [`from_text`].
pub fn from_file(path: &Path, format: Option<&str>, options: &ImportOptions) -> Result<Imported, TraceError> {
    let origin = path.display().to_string();
    from_text(&text_of(path, &origin)?, &origin, format, options)
}

fn text_of(path: &Path, origin: &str) -> Result<String, TraceError> {
    let fault = |message: String| Source { origin, text: "" }.fault(message);
    let bytes = std::fs::read(path)
        .map_err(|error| fault(format!("cannot read this file ({error}); give the path of a trace")))?;
    let bytes = if bytes.starts_with(&[0x1f, 0x8b]) { unzipped(&bytes, MOST_UNZIPPED).map_err(fault)? } else { bytes };
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let text = String::from_utf8_lossy(valid);
        Source { origin, text: &text }.error(text.len(), "this byte is not UTF-8; save the trace as UTF-8 text")
    })
}

/// Bytes that a compressed trace may have. The largest published one has a hundredth of it, and a few kilobytes of gzip can hold
/// a thousand times as many bytes as they are.
const MOST_UNZIPPED: u64 = 1 << 30;

/// What was compressed, if it is no more than `most` bytes; else a sentence.
fn unzipped(bytes: &[u8], most: u64) -> Result<Vec<u8>, String> {
    let mut plain = Vec::new();
    let read = flate2::read::MultiGzDecoder::new(bytes).take(most + 1).read_to_end(&mut plain);
    read.map_err(|error| format!("the gzip compression of this file is damaged ({error}); fetch it again"))?;
    if plain.len() as u64 > most {
        return Err(format!(
            "this file of {} bytes is more than {most} bytes when it is decompressed, which no trace is; decompress it \
             yourself and look at it, and give the plain file if it is one",
            bytes.len()
        ));
    }
    Ok(plain)
}

fn named(source: Source<'_>, name: &str) -> Result<&'static Format, TraceError> {
    FORMATS.iter().find(|format| format.name == name).ok_or_else(|| {
        let hint = suggestion(name, FORMATS.iter().map(|f| f.name));
        source.fault(format!("there is no trace format '{name}'{hint}; expected one of {}", names()))
    })
}

fn detected(source: Source<'_>) -> Result<&'static Format, TraceError> {
    let first = source.text.trim_start_matches('\u{feff}').lines().find(|line| !line.trim().is_empty());
    let first = first.ok_or_else(|| source.fault("this file is empty; expected a trace"))?;
    FORMATS.iter().find(|format| (format.detect)(first)).ok_or_else(|| {
        source.error(0, format!("the first line fits no trace format; name one of {} with --format", names()))
    })
}

fn names() -> String {
    FORMATS.iter().map(|format| format.name).collect::<Vec<_>>().join(", ")
}

/// What importers share: a draft, the tally of its lines, and tenants by choice of the user.
struct Import<'o> {
    draft: Draft,
    dropped: BTreeMap<String, usize>,
    changed: BTreeMap<String, usize>,
    tenant_rng: Rng,
    workload_rng: Rng,
    options: &'o ImportOptions,
}

impl<'o> Import<'o> {
    fn new(options: &'o ImportOptions) -> Self {
        Self {
            draft: Draft::default(),
            dropped: BTreeMap::new(),
            changed: BTreeMap::new(),
            tenant_rng: Rng::new(options.seed).fork("import tenants"),
            workload_rng: Rng::new(options.seed).fork("import workloads"),
            options,
        }
    }

    fn drop_line(&mut self, reason: &str) {
        count(&mut self.dropped, reason);
    }

    fn change(&mut self, what: &str) {
        count(&mut self.changed, what);
    }

    /// The next job's tenant: the user's choice if there is one, else what the trace says.
    fn tenant(&mut self, in_trace: &str) -> u32 {
        let number = match self.options.tenants {
            None => None,
            Some(TenantSplit::RoundRobin(n)) => Some(self.draft.len() as u64 % u64::from(n.max(1))),
            Some(TenantSplit::Seeded(n)) => Some(self.tenant_rng.below(u64::from(n.max(1)))),
        };
        let chosen = number.map(|n| format!("tenant-{}", n + 1));
        // Imported tenants all weigh 1, so no two lines can disagree.
        self.draft.tenant(chosen.as_deref().unwrap_or(in_trace), None).unwrap_or_default()
    }

    /// A workload for a job whose trace does not name one.
    fn workload(&mut self) -> u32 {
        self.draft.workload(self.options.workloads.draw(&mut self.workload_rng))
    }

    /// A job of `seconds` on the reference kind, about which the trace says no more than this.
    fn push_timed(&mut self, id: u64, tenant: &str, gang: u32, arrival_seconds: f64, seconds: f64, kinds: Vec<u16>) {
        let job = TraceJob {
            id,
            tenant: self.tenant(tenant),
            workload: self.workload(),
            gang,
            arrival_seconds,
            length: Length::Duration(seconds),
            floor: None,
            weight: 1.0,
            restart_seconds: None,
            before_seconds: None,
            largest_gang: None,
            kinds,
        };
        self.draft.push(job);
    }

    fn finish(self, source: Source<'_>, format: &'static str) -> Result<Imported, TraceError> {
        let report = ImportReport { format, imported: self.draft.len(), dropped: self.dropped, changed: self.changed };
        if report.imported == 0 {
            return Err(source.fault(format!("there is no job in this file that could be run ({report})")));
        }
        Ok(Imported { trace: self.draft.finish(), report })
    }
}

fn count(tally: &mut BTreeMap<String, usize>, what: &str) {
    match tally.get_mut(what) {
        Some(count) => *count += 1,
        None => drop(tally.insert(what.to_owned(), 1)),
    }
}

/// Where a header has the columns that an importer cannot do without.
fn columns<const N: usize>(
    source: Source<'_>,
    header: &[Field<'_>],
    names: [&str; N],
    advice: &str,
) -> Result<[usize; N], TraceError> {
    let found = positions(header, names);
    let missing: Vec<&str> = names.iter().zip(found).filter(|(_, at)| at.is_none()).map(|(name, _)| *name).collect();
    if missing.is_empty() {
        return Ok(found.map(Option::unwrap_or_default));
    }
    let at = header.first().map_or(0, |field| field.at);
    Err(source.error(at, format!("the header lacks {}; {advice}", missing.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_from_text() {
        assert_eq!("round-robin:3".parse(), Ok(TenantSplit::RoundRobin(3)));
        assert_eq!("seeded:12".parse(), Ok(TenantSplit::Seeded(12)));
        assert_eq!(kind_names("G2=a100, G3 = a10").unwrap()[1], ("G3".into(), "a10".into()));
    }

    #[test]
    fn a_small_file_that_unpacks_to_a_huge_one_is_refused() {
        use std::io::Write;
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packer.write_all(&vec![b'0'; 3 << 20]).unwrap();
        let bomb = packer.finish().unwrap();
        assert!(bomb.len() < 1 << 14, "{} bytes", bomb.len());
        assert_eq!(unzipped(&bomb, 3 << 20).map(|plain| plain.len()), Ok(3 << 20));
        let refused = unzipped(&bomb, 1 << 20).unwrap_err();
        assert!(refused.contains("is more than 1048576 bytes when it is decompressed"), "{refused}");
        // Members one after another count together.
        let refused = unzipped(&[bomb.clone(), bomb].concat(), 4 << 20).unwrap_err();
        assert!(refused.contains("is more than 4194304 bytes"), "{refused}");
    }

    #[test]
    fn wrong_options_are_sentences() {
        let split = |text: &str| text.parse::<TenantSplit>().unwrap_err().to_string();
        assert_eq!(
            split("seed:3"),
            "'seed:3' is not known (did you mean seeded?); expected one of round-robin:N, seeded:N"
        );
        assert_eq!(split("seeded:0"), "'seeded:0' asks for '0' tenants; expected a whole number, 1 or more");
        assert_eq!(split("seeded"), "'seeded' has 0 number(s) after its name; expected seeded:N");
        let error = kind_names("G2=a100,G3").unwrap_err().to_string();
        assert_eq!(error, "'G3' in 'G2=a100,G3' names no kind; expected THEIRS=OURS such as G2=a100");
    }
}
