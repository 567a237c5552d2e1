//! Gavel's traces: one job per line, tab-separated, no header.
//!
//! Three generations are read, told apart by the number of fields: 7 (the MSR traces), 10 (Gavel as
//! published) and 12 (Shockwave's, which add a mode and a duration). Steps, gang, weight and arrival are
//! taken as they are. An SLO of s > 0 says the job must end within s times its duration alone, that is, keep
//! 1/s of its rate alone. The command line is dropped.

use super::super::fields::{Allow, Field, Source, expect_fields};
use super::super::{Floor, Length, TraceError, TraceJob};
use super::{Format, Import, ImportOptions, Imported};

pub(super) const FORMAT: Format = Format {
    name: "gavel",
    about: "Gavel and Shockwave: tab-separated, 7, 10 or 12 fields, no header",
    detect: |line| Layout::of(line.split('\t').count()).is_some(),
    read,
};

/// Where a generation of the format keeps what.
struct Layout {
    fields: usize,
    steps: usize,
    gang: usize,
    arrival: usize,
    weight: Option<usize>,
    slo: Option<usize>,
    mode: Option<usize>,
}

static LAYOUTS: [Layout; 3] = [
    Layout { fields: 7, steps: 4, gang: 6, arrival: 5, weight: None, slo: None, mode: None },
    Layout { fields: 10, steps: 5, gang: 6, arrival: 9, weight: Some(7), slo: Some(8), mode: None },
    Layout { fields: 12, steps: 5, gang: 6, arrival: 11, weight: Some(8), slo: Some(9), mode: Some(7) },
];

impl Layout {
    fn of(fields: usize) -> Option<&'static Layout> {
        LAYOUTS.iter().find(|layout| layout.fields == fields)
    }
}

fn read(source: Source<'_>, options: &ImportOptions) -> Result<Imported, TraceError> {
    let mut import = Import::new(options);
    let (mut lines, mut fields) = (source.tabs(), Vec::new());
    let mut layout = None;
    // Gavel numbers jobs by line, from 0; dropped ones keep their number.
    let mut id = 0;
    while lines.next_into(&mut fields)? {
        let layout: &Layout = match layout {
            Some(layout) => layout,
            None => layout.insert(first_layout(source, &fields)?),
        };
        expect_fields(source, &fields, layout.fields)?;
        if let Some(job) = job(source, layout, &fields, id, &mut import)? {
            import.draft.push(job);
        }
        id += 1;
    }
    import.finish(source, FORMAT.name)
}

fn first_layout(source: Source<'_>, fields: &[Field<'_>]) -> Result<&'static Layout, TraceError> {
    Layout::of(fields.len()).ok_or_else(|| {
        let message = format!(
            "this line has {} tab-separated field(s); a Gavel trace has 7, 10 or 12, with the workload first",
            fields.len()
        );
        source.error(fields[0].at, message)
    })
}

fn job(
    source: Source<'_>,
    layout: &Layout,
    fields: &[Field<'_>],
    id: u64,
    import: &mut Import<'_>,
) -> Result<Option<TraceJob>, TraceError> {
    let name = fields[0].text.trim();
    if name.is_empty() {
        return Err(source.error(fields[0].at, "the first field is empty; expected the name of a workload"));
    }
    let steps = source.number(&fields[layout.steps], "the number of steps", Allow::NotNegative)?;
    let gang: u32 = source.whole(&fields[layout.gang], "the scale factor (gang)")?;
    let arrival_seconds = source.number(&fields[layout.arrival], "the arrival time", Allow::NotNegative)?;
    let weight = match layout.weight {
        Some(at) => source.number(&fields[at], "the priority weight", Allow::Positive)?,
        None => 1.0,
    };
    let slo = match layout.slo {
        Some(at) => Some(source.number(&fields[at], "the SLO", Allow::Any)?).filter(|&slo| slo > 0.0),
        None => None,
    };
    if gang == 0 || steps == 0.0 {
        import.drop_line(if gang == 0 { "no GPUs" } else { "no steps" });
        return Ok(None);
    }
    if layout.mode.is_some_and(|at| fields[at].text.trim() != "static") {
        import.change("the batch size changes while the job runs (mode accordion or gns); imported with a fixed one");
    }
    Ok(Some(TraceJob {
        id,
        tenant: import.tenant("default"),
        workload: import.draft.workload(name),
        gang,
        arrival_seconds,
        length: Length::Steps(steps),
        floor: slo.map(|slo| Floor::Fraction(1.0 / slo)),
        weight,
        restart_seconds: None,
        before_seconds: None,
        largest_gang: None,
        kinds: Vec::new(),
    }))
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use super::*;

    fn import(text: &str) -> Result<Imported, TraceError> {
        from_text(text, "g.trace", Some("gavel"), &ImportOptions::default())
    }

    #[test]
    fn all_three_generations_say_the_same_job() {
        let check = |line: &str, floor: Option<Floor>, weight: f64| {
            let trace = import(line).unwrap().trace;
            assert_eq!(trace.workloads, ["LM (batch size 5)"]);
            assert_eq!(trace.tenants.len(), 1);
            let expected = TraceJob {
                id: 0,
                tenant: 0,
                workload: 0,
                gang: 2,
                arrival_seconds: 30.0,
                length: Length::Steps(500.0),
                floor,
                weight,
                restart_seconds: None,
                before_seconds: None,
                largest_gang: None,
                kinds: vec![],
            };
            assert_eq!(trace.jobs, [expected], "{line}");
        };
        check("LM (batch size 5)\tcmd\t-n\t1\t500\t30.000000\t2\n", None, 1.0);
        check("LM (batch size 5)\tcmd\tdir\t-n\t1\t500\t2\t1\t-1.000000\t30", None, 1.0);
        check("LM (batch size 5)\tcmd\tdir\t-n\t1\t500\t2\t5\t1.25\t30", Some(Floor::Fraction(0.8)), 5.0);
        check("LM (batch size 5)\tcmd\tdir\t-n\t1\t500\t2\tgns\t3\t2.0\t90\t30", Some(Floor::Fraction(0.5)), 3.0);
    }

    #[test]
    fn unsorted_arrivals_are_sorted_and_keep_their_numbers() {
        let text = "a\t-\t-\t1\t5\t9\t1\nb\t-\t-\t1\t5\t3\t1\nc\t-\t-\t1\t0\t1\t1\nd\t-\t-\t1\t5\t3\t1\n";
        let Imported { trace, report } = import(text).unwrap();
        assert_eq!(trace.jobs.iter().map(|j| j.id).collect::<Vec<_>>(), [1, 3, 0]);
        assert_eq!(report.to_string(), "3 jobs imported from the gavel format\n1 left out: no steps");
    }

    #[test]
    fn tenants_are_dealt_out_on_request() {
        let text = "a\t-\t-\t1\t5\t0\t1\n".repeat(6);
        let deal = |split| {
            let options = ImportOptions { tenants: Some(split), ..ImportOptions::default() };
            let trace = from_text(&text, "g", None, &options).unwrap().trace;
            (trace.tenants.len(), trace.jobs.iter().map(|j| j.tenant).collect::<Vec<_>>())
        };
        assert_eq!(deal(TenantSplit::RoundRobin(3)), (3, vec![0, 1, 2, 0, 1, 2]));
        assert_eq!(deal(TenantSplit::Seeded(2)), deal(TenantSplit::Seeded(2)));
    }

    #[test]
    fn wrong_lines_are_pointed_at() {
        let check = |text: &str, expected: &str| {
            let error = import(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}\n  should start with {expected}");
        };
        check("", "g.trace: there is no job");
        check("a\tb\n", "g.trace:1:1: this line has 2 tab-separated field(s); a Gavel trace has 7, 10 or 12");
        check("a\t-\t-\t1\t5\t9\t1\na\t-\t-\t1\t5\t9\n", "g.trace:2:1: this line has 6 fields; expected 7");
        check("a\t-\t-\t1\tfive\t9\t1\n", "g.trace:1:9: the number of steps is 'five'; expected a number");
        check("a\t-\t-\t1\t5\tNaN\t1\n", "g.trace:1:11: the arrival time is 'NaN'; expected a finite number");
        check("a\t-\t-\t1\t5\t-9\t1\n", "g.trace:1:11: the arrival time is '-9'; expected 0 or more");
        check("a\t-\t-\t1\t5\t9\t1.5\n", "g.trace:1:13: the scale factor (gang) is '1.5'; expected a whole number");
        check("\t-\t-\t1\t5\t9\t1\n", "g.trace:1:1: the first field is empty");
        check("a\t-\t-\t-\t1\t5\t1\t0\t-1\t0\n", "g.trace:1:15: the priority weight is '0'; expected more than 0");
        check("a\t-\t-\t1\t0\t9\t1\n", "g.trace: there is no job in this file that could be run");
    }
}
