//! Slurm's accounting: what `sacct -P` prints.
//!
//! A job with GPUs is a job of its account: it arrives when it was submitted and lasts from its start to its end on what it was given. The type in its
//! GPUs, where there is one, restricts it only if it asked for it (`ReqTRES`). Steps of jobs are left out, and so is what never ran.
//! Slurm does not know what a job computes, so workloads come from the mix.

use super::super::TraceError;
use super::super::fields::{Field, Source, expect_fields, positions};
use super::{Format, Import, ImportOptions, Imported, columns};

pub(super) const FORMAT: Format = Format {
    name: "slurm",
    about: "Slurm's accounting: 'sacct -P' with JobID, Account, Submit, Start, End and AllocTRES",
    detect: |line| line.contains("JobID|") && line.contains("AllocTRES"),
    read,
};

const COLUMNS: [&str; 6] = ["JobID", "Account", "Submit", "Start", "End", "AllocTRES"];

fn read(source: Source<'_>, options: &ImportOptions) -> Result<Imported, TraceError> {
    let mut import = Import::new(options);
    let (mut lines, mut fields) = (source.bars(), Vec::new());
    lines.next_into(&mut fields)?;
    let advice = "ask for it: sacct -a -P -X -o JobID,Account,Submit,Start,End,AllocTRES,ReqTRES -S 2026-01-01";
    let columns = columns(source, &fields, COLUMNS, advice)?;
    let [requested] = positions(&fields, ["ReqTRES"]);
    let (width, mut id) = (fields.len(), 0);
    while lines.next_into(&mut fields)? {
        expect_fields(source, &fields, width)?;
        job(source, columns.map(|at| &fields[at]), requested.map(|at| &fields[at]), id, &mut import)?;
        id += 1;
    }
    import.draft.start_at_zero();
    import.finish(source, FORMAT.name)
}

fn job(
    source: Source<'_>,
    fields: [&Field<'_>; 6],
    requested: Option<&Field<'_>>,
    id: u64,
    import: &mut Import<'_>,
) -> Result<(), TraceError> {
    let [name, account, submit, start, end, allocated] = fields;
    if name.text.contains('.') {
        import.drop_line("a step of a job");
        return Ok(());
    }
    let Some((_, gang)) = gpus(&allocated.text) else {
        import.drop_line("no GPUs");
        return Ok(());
    };
    let (Some(from), Some(to)) = (moment(source, start, "Start")?, moment(source, end, "End")?) else {
        import.drop_line("never started, or not over");
        return Ok(());
    };
    let Some(submitted) = moment(source, submit, "Submit")? else {
        return Err(source.error(submit.at, "Submit is not a time; expected one such as 2026-01-31T12:00:00"));
    };
    if to <= from {
        import.drop_line("no duration");
        return Ok(());
    }
    let tenant = account.text.trim();
    if tenant.is_empty() {
        return Err(source.error(account.at, "Account is empty; expected the account that the job was charged to"));
    }
    let mut kinds = Vec::new();
    if let Some(kind) = requested.and_then(|field| gpus(&field.text)).and_then(|(kind, _)| kind) {
        let given = import.options.kind_names.iter().find(|(name, _)| *name == kind).map(|(_, kind)| kind.clone());
        kinds.extend(import.draft.kind(&given.unwrap_or(kind)));
    }
    import.push_timed(id, tenant, gang, submitted, to - from, kinds);
    Ok(())
}

/// Type, if there is one, and number of GPUs in a list such as `cpu=4,gres/gpu=2,gres/gpu:v100=2`.
fn gpus(list: &str) -> Option<(Option<String>, u32)> {
    let parts = list.split(',').filter_map(|part| part.trim().strip_prefix("gres/gpu")?.split_once('='));
    let mut found = None;
    for (kind, count) in parts {
        let Some(count) = count.parse().ok().filter(|count| *count > 0) else { continue };
        match kind.strip_prefix(':') {
            Some(kind) => return Some((Some(kind.to_owned()), count)),
            None => found = Some((None, count)),
        }
    }
    found
}

/// Seconds since 1970 of a time as sacct prints it, in the cluster's own zone; nothing for `Unknown` and `None`.
fn moment(source: Source<'_>, field: &Field<'_>, name: &str) -> Result<Option<f64>, TraceError> {
    let text = field.text.trim();
    if matches!(text, "" | "Unknown" | "None") {
        return Ok(None);
    }
    if let Ok(seconds) = text.parse::<f64>().map(f64::floor)
        && seconds >= 0.0
    {
        return Ok(Some(seconds));
    }
    let read = || {
        let (date, time) = text.split_once('T')?;
        let mut date = date.splitn(3, '-').map(str::parse::<i64>);
        let (year, month, day) = (date.next()?.ok()?, date.next()?.ok()?, date.next()?.ok()?);
        let mut time = time.splitn(3, ':').map(str::parse::<i64>);
        let (hour, minute, second) = (time.next()?.ok()?, time.next()?.ok()?, time.next()?.ok()?);
        let sound = (1970..10_000).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
        let sound = sound && (0..24).contains(&hour) && (0..60).contains(&minute) && (0..=60).contains(&second);
        sound.then(|| (days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second) as f64)
    };
    let expected = || format!("{name} is '{text}'; expected a time such as 2026-01-31T12:00:00, or Unknown");
    read().map(Some).ok_or_else(|| source.error(field.at, expected()))
}

/// Days from 1970 to a date: years are counted from March, so that the day that is not always there comes last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let of_year = (153 * month + 2) / 5 + day - 1;
    365 * year + year / 4 - year / 100 + year / 400 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::super::*;

    const HEADER: &str = "JobID|Account|Submit|Start|End|AllocTRES|ReqTRES\n";

    fn import(lines: &str) -> Result<Imported, TraceError> {
        from_text(&format!("{HEADER}{lines}"), "s.txt", None, &ImportOptions::default())
    }

    #[test]
    fn jobs_with_gpus_are_taken_and_the_rest_is_counted() {
        let lines = "7|vision|2026-02-28T23:59:00|2026-03-01T00:01:00|2026-03-01T00:11:00|cpu=4,gres/gpu:v100=2,gres/gpu=2|gres/gpu=2\n\
                     7.batch|vision|2026-02-28T23:59:00|2026-03-01T00:01:00|2026-03-01T00:11:00|cpu=4,gres/gpu=2|\n\
                     8_3|nlp|2026-03-01T00:00:00|2026-03-01T01:00:00|2026-03-01T02:00:00|gres/gpu=1|gres/gpu:k80=1\n\
                     9|nlp|2026-03-01T00:00:00|Unknown|Unknown|gres/gpu=1|\n\
                     10|nlp|2026-03-01T00:00:00|2026-03-01T01:00:00|2026-03-01T02:00:00|cpu=1|cpu=1\n";
        let Imported { trace, report } = import(lines).unwrap();
        let seen: Vec<_> = trace.jobs.iter().map(|j| (j.gang, j.arrival_seconds, j.length, j.kinds.clone())).collect();
        let duration = Length::Duration;
        assert_eq!(seen, [(2, 0.0, duration(600.0), vec![]), (1, 60.0, duration(3600.0), vec![0])]);
        assert_eq!(trace.kinds, ["k80"]);
        assert_eq!(report.dropped.values().sum::<usize>(), 3, "{report}");
    }

    #[test]
    fn wrong_lines_are_pointed_at() {
        let check = |lines: &str, expected: &str| {
            let error = import(lines).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}\n  should start with {expected}");
        };
        check(
            "7|a|yesterday|2026-03-01T01:00:00|2026-03-01T02:00:00|gres/gpu=1|\n",
            "s.txt:2:5: Submit is 'yesterday'",
        );
        check("7||0|1|2|gres/gpu=1|\n", "s.txt:2:3: Account is empty");
        check("7|a|0|1|2\n", "s.txt:2:1: this line has 5 fields; expected 7");
        let error = from_text("JobID|AllocTRES\n", "s.txt", None, &ImportOptions::default()).unwrap_err().to_string();
        assert!(error.contains("the header lacks Account, Submit, Start, End; ask for it: sacct"), "{error}");
    }
}
