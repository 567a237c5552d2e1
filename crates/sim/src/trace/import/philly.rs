//! Microsoft's Philly trace (2017) as one CSV: `timestamp,duration,num_gpus,gpu_time,cluster`.
//!
//! A virtual cluster is a tenant. The duration is read as time alone on the reference kind, for lack of any
//! other: the trace does not say what hardware a job ran on, or what it ran (that comes from the mix). The file
//! is not in order of time; the trace is, and begins at its first job.

use super::super::TraceError;
use super::super::fields::{Allow, Field, Source, expect_fields};
use super::{Format, Import, ImportOptions, Imported, columns};
use time::Date;

pub(super) const FORMAT: Format = Format {
    name: "philly",
    about: "Microsoft Philly 2017: CSV of timestamp, duration, num_gpus, gpu_time, cluster",
    detect: |line| ["timestamp", "duration", "num_gpus", "cluster"].iter().all(|name| line.contains(name)),
    read,
};

fn read(source: Source<'_>, options: &ImportOptions) -> Result<Imported, TraceError> {
    let mut import = Import::new(options);
    let (mut lines, mut fields) = (source.commas(), Vec::new());
    lines.next_into(&mut fields)?;
    let advice = "a Philly trace has timestamp, duration, num_gpus, gpu_time and cluster";
    let [timestamp, duration, gpus, cluster] =
        columns(source, &fields, ["timestamp", "duration", "num_gpus", "cluster"], advice)?;
    let width = fields.len();
    let mut id = 0;
    while lines.next_into(&mut fields)? {
        expect_fields(source, &fields, width)?;
        let arrival = moment(source, &fields[timestamp])?;
        let seconds = source.number(&fields[duration], "duration", Allow::NotNegative)?;
        let gang: u32 = source.whole(&fields[gpus], "num_gpus")?;
        let tenant = fields[cluster].text.trim();
        if tenant.is_empty() {
            return Err(source.error(fields[cluster].at, "cluster is empty; expected the name of a virtual cluster"));
        }
        match (gang, seconds) {
            (0, _) => import.drop_line("no GPUs"),
            (_, 0.0) => import.drop_line("no duration"),
            _ => import.push_timed(id, tenant, gang, arrival, seconds, Vec::new()),
        }
        id += 1;
    }
    import.draft.start_at_zero();
    import.finish(source, FORMAT.name)
}

/// Seconds since 1970 of `2017-10-09 07:01:55`; time zones cancel out, since only differences are kept.
fn moment(source: Source<'_>, field: &Field<'_>) -> Result<f64, TraceError> {
    seconds_since_1970(field.text.trim()).map(|seconds| seconds as f64).ok_or_else(|| {
        let message = format!("timestamp is '{}'; expected a moment such as 2017-10-09 07:01:55", field.text);
        source.error(field.at, message)
    })
}

/// The Julian day of 1970-01-01.
const EPOCH: i32 = 2_440_588;

fn seconds_since_1970(text: &str) -> Option<i64> {
    let (date, time) = text.split_once([' ', 'T'])?;
    let [year, month, day] = numbers(date, '-')?;
    let [hour, minute, second] = numbers(time, ':')?;
    let (month, day) = (u8::try_from(month).ok()?, u8::try_from(day).ok()?);
    let date = Date::from_calendar_date(i32::try_from(year).ok()?, month.try_into().ok()?, day).ok()?;
    let days = i64::from(date.to_julian_day() - EPOCH);
    let valid = days >= 0 && hour < 24 && minute < 60 && second < 60;
    valid.then_some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

/// Exactly three unsigned numbers.
fn numbers(text: &str, separator: char) -> Option<[i64; 3]> {
    let mut parts = text.split(separator).map(|part| part.parse::<u32>().ok().map(i64::from));
    let three = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(three)
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use super::*;

    const HEADER: &str = "timestamp,duration,num_gpus,gpu_time,cluster\n";

    fn import(lines: &str) -> Result<Imported, TraceError> {
        from_text(&format!("{HEADER}{lines}"), "p.csv", None, &ImportOptions::default())
    }

    #[test]
    fn moments_are_counted_over_months_and_leap_years() {
        let check = |text: &str, expected| assert_eq!(seconds_since_1970(text), expected, "{text}");
        check("1970-01-01 00:00:00", Some(0));
        check("2000-02-29 12:00:00", Some(951_825_600));
        check("2017-10-09 07:01:55", Some(1_507_532_515));
        check("2024-12-31 23:59:59", Some(1_735_689_599));
        for wrong in ["", "2017-10-09", "2017-02-29 00:00:00", "2017-13-01 00:00:00", "2017-00-01 00:00:00"] {
            check(wrong, None);
        }
        for wrong in ["2017-10-09 24:00:00", "2017-10-09 07:01", "2017-10-09 07:01:55:1", "2017-10-0a 07:01:55"] {
            check(wrong, None);
        }
    }

    #[test]
    fn jobs_are_sorted_and_time_starts_at_the_first() {
        let lines = "2017-10-09 07:00:10,66.0,1,66.0,a\n2017-10-09 07:00:00,5,8,40,b\n\
                     2017-10-08 07:00:00,5,0,0,b\n2017-10-08 07:00:00,0,1,0,b\n\n";
        let Imported { trace, report } = import(lines).unwrap();
        let seen: Vec<_> = trace.jobs.iter().map(|j| (j.id, j.arrival_seconds, j.gang, j.length)).collect();
        assert_eq!(seen, [(1, 0.0, 8, Length::Duration(5.0)), (0, 10.0, 1, Length::Duration(66.0))]);
        assert_eq!(trace.tenants.iter().map(|t| &*t.name).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(report.dropped.into_iter().collect::<Vec<_>>(), [("no GPUs".into(), 1), ("no duration".into(), 1)]);
    }

    #[test]
    fn wrong_lines_are_pointed_at() {
        let check = |lines: &str, expected: &str| {
            let error = import(lines).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}\n  should start with {expected}");
        };
        check("", "p.csv: there is no job");
        check("yesterday,66.0,1,66.0,a\n", "p.csv:2:1: timestamp is 'yesterday'; expected a moment such as");
        check("2017-10-09 07:00:10,-6,1,66.0,a\n", "p.csv:2:21: duration is '-6'; expected 0 or more");
        check("2017-10-09 07:00:10,6,one,66.0,a\n", "p.csv:2:23: num_gpus is 'one'; expected a whole number");
        check("2017-10-09 07:00:10,6,1,6,\n", "p.csv:2:27: cluster is empty");
        check("2017-10-09 07:00:10,6,1\n", "p.csv:2:1: this line has 3 fields; expected 5");
        let error = from_text("timestamp,duration\n", "p.csv", Some("philly"), &ImportOptions::default()).unwrap_err();
        assert!(error.to_string().starts_with("p.csv:1:1: the header lacks num_gpus, cluster; "), "{error}");
    }
}
