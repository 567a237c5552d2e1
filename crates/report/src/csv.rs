//! Jobs as RFC 4180 CSV: comma, CRLF, quotes only where a field needs them. Numbers are written in full, as the shortest
//! text that reads back to the same value; what is unknown or not finite is an empty field.

use std::fmt::Write;

use super::completion_seconds;
use crate::record::{JobRecord, RunRecord};

const HEADER: &str = "policy,id,tenant,workload,gang,arrival_seconds,start_seconds,end_seconds,jct_seconds,wait_seconds,\
                      completed,restarts,gpu_seconds,due_seconds,violated_seconds,active_joules,idle_joules,restart_joules";

/// Every job of a run, a header first.
pub(super) fn jobs(run: &RunRecord) -> String {
    let tenants: Vec<String> = run.summary.tenants.iter().map(|t| quote(&t.name)).collect();
    let workloads: Vec<String> = run.workloads.iter().map(|w| quote(w)).collect();
    let policy = quote(&run.summary.policy);
    let mut out = String::with_capacity(HEADER.len() + 2 + 160 * run.jobs.len());
    out.push_str(HEADER);
    out.push_str("\r\n");
    for job in &run.jobs {
        // An index that names nothing is still worth printing.
        let name = |names: &[String], i: u32| names.get(i as usize).cloned().unwrap_or_else(|| format!("#{i}"));
        let (tenant, workload) = (name(&tenants, job.tenant), name(&workloads, job.workload));
        let _ = write!(out, "{policy},{},{tenant},{workload},{}", job.id, job.gang);
        numbers(&mut out, job);
        out.push_str("\r\n");
    }
    out
}

fn numbers(out: &mut String, job: &JobRecord) {
    let wait = job.start_seconds.map(|start| start - job.arrival_seconds);
    for value in [Some(job.arrival_seconds), job.start_seconds, job.end_seconds, completion_seconds(job), wait] {
        number(out, value);
    }
    let _ = write!(out, ",{},{}", job.completed, job.restarts);
    let joules = [job.active_joules, job.idle_joules, job.restart_joules];
    for value in [job.gpu_seconds, job.due_seconds, job.violated_seconds].into_iter().chain(joules) {
        number(out, Some(value));
    }
}

fn number(out: &mut String, value: Option<f64>) {
    out.push(',');
    if let Some(value) = value.filter(|v| v.is_finite()) {
        let _ = write!(out, "{value}");
    }
}

/// A name as a field: in quotes if it holds a comma, a quote or a line break, and with an apostrophe before what a spreadsheet would calculate.
fn quote(name: &str) -> String {
    let seen: String = name.chars().map(|c| if c != '\n' && super::text::unseen(c) { '\u{fffd}' } else { c }).collect();
    let formula = seen.starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠']);
    let field = if formula { format!("'{seen}") } else { seen };
    if field.contains([',', '"', '\r', '\n']) { format!("\"{}\"", field.replace('"', "\"\"")) } else { field }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_needed() {
        let check = |field: &str, want: &str| assert_eq!(quote(field), want);
        check("plain name", "plain name");
        check("a,b", "\"a,b\"");
        check("say \"hi\"", "\"say \"\"hi\"\"\"");
        check("two\nlines", "\"two\nlines\"");
        check("=1+1", "'=1+1");
        check("=1,2", "\"'=1,2\"");
        check("a\u{202e}b", "a\u{fffd}b");
    }
}
