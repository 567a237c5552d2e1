//! `arles logs`: what a job printed.

use crate::fault::remark;
use crate::output::{self, Format};
use crate::server::{EXIT_CODES, JobFlags, Source};
use anyhow::Result;
use arles_api::JobLogs;
use clap::Args;
use std::io::{IsTerminal, Write};
use std::time::Duration;

/// Show what a job printed
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Logs {
    /// Go on until the job has ended
    #[arg(long, short)]
    follow: bool,
    /// Only the last N lines
    #[arg(long, short = 'n', value_name = "N")]
    lines: Option<u32>,
    /// Standard error, of a job that has a file of its own for it
    #[arg(long)]
    stderr: bool,
    #[command(flatten)]
    flags: JobFlags,
}

/// Pause before a job that printed nothing is asked again.
const PAUSE: Duration = Duration::from_millis(500);

impl Logs {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let (source, job) = self.flags.open()?;
        let ask = |from: u64| source.logs(job, self.stderr, from);
        let mut part = self.first(&ask)?;
        if self.lines.is_none() && part.oldest > 0 {
            remark(format_args!("arles: the first {} bytes are no longer kept", part.oldest));
        }
        let shown = Screen { terminal: std::io::stdout().is_terminal() };
        loop {
            match self.flags.read.format() {
                Format::Table => write!(out, "{}", shown.text(&part.text))?,
                _ => output::json(out, &part)?,
            }
            out.flush()?;
            if part.next >= part.end || part.text.is_empty() {
                if !self.follow || part.state.over() {
                    return Ok(());
                }
                std::thread::sleep(PAUSE);
            }
            let before = part.next;
            part = ask(before)?;
            if part.from > before {
                remark(format_args!("arles: {} bytes were gone before they could be shown", part.from - before));
            }
        }
    }

    /// The first stretch: from the beginning, or as far from the end as the lines reach.
    fn first(&self, ask: &dyn Fn(u64) -> Result<JobLogs>) -> Result<JobLogs> {
        let mut part = ask(0)?;
        let Some(lines) = self.lines else { return Ok(part) };
        // Further back until there are enough; lines are rarely longer than a terminal is wide.
        let mut back = 200 * u64::from(lines) + 1;
        loop {
            let from = part.end.saturating_sub(back).max(part.oldest);
            part = ask(from)?;
            let mut tail = part.clone();
            while tail.next < tail.end {
                let more = ask(tail.next)?;
                if more.text.is_empty() {
                    break;
                }
                tail.text += &more.text;
                (tail.next, tail.end, tail.state) = (more.next, more.end, more.state);
            }
            if let Some(at) = last_lines(&tail.text, lines as usize) {
                tail.text.drain(..at);
                return Ok(tail);
            }
            if from <= part.oldest {
                return Ok(tail);
            }
            back *= 4;
        }
    }
}

/// Where the last lines begin, if there are more than these.
fn last_lines(text: &str, lines: usize) -> Option<usize> {
    let body = text.strip_suffix('\n').unwrap_or(text);
    match lines {
        0 => Some(text.len()),
        lines => body.rmatch_indices('\n').nth(lines - 1).map(|(at, _)| at + 1),
    }
}

/// Where the text goes.
struct Screen {
    terminal: bool,
}

impl Screen {
    /// As it is for a file or a pipe. A terminal gets lines, progress bars and colours, but nothing else that it would obey.
    fn text(&self, text: &str) -> String {
        if !self.terminal {
            return text.to_owned();
        }
        let mut shown = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let colour = colour(rest);
            let length = if colour > 0 { colour } else { c.len_utf8() };
            match c {
                _ if colour > 0 => shown.push_str(&rest[..length]),
                '\n' | '\r' | '\t' => shown.push(c),
                c if c.is_control() => shown.extend(c.escape_unicode()),
                c => shown.push(c),
            }
            rest = &rest[length..];
        }
        shown
    }
}

/// The length of a sequence that sets colours and nothing else, if the text begins with one.
fn colour(text: &str) -> usize {
    let Some(rest) = text.strip_prefix("\u{1b}[") else { return 0 };
    let digits = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b';').count();
    if rest.as_bytes().get(digits) == Some(&b'm') { 2 + digits + 1 } else { 0 }
}

impl Source {
    fn logs(&self, job: u64, stderr: bool, from: u64) -> Result<JobLogs> {
        let stream = if stderr { "&stream=stderr" } else { "" };
        self.of_daemon(&format!("/v1/jobs/{job}/logs?from={from}{stream}"), "a journal has no logs of jobs")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_told_nothing_but_text_and_colours() {
        let check = |terminal, given: &str, shown: &str| assert_eq!(Screen { terminal }.text(given), shown);
        let nasty = "ok \u{1b}[31mred\u{1b}[0m 50 %\r\u{1b}[2J\u{1b}]0;title\u{7}\n";
        check(false, nasty, nasty);
        check(true, nasty, "ok \u{1b}[31mred\u{1b}[0m 50 %\r\\u{1b}[2J\\u{1b}]0;title\\u{7}\n");
        check(true, "\u{1b}[", "\\u{1b}[");
    }

    #[test]
    fn the_last_lines_are_found() {
        let check = |text: &str, lines, at| assert_eq!(last_lines(text, lines), at, "{text:?} {lines}");
        check("a\nb\nc\n", 1, Some(4));
        check("a\nb\nc", 2, Some(2));
        check("a\nb\n", 2, None);
        check("a\n", 0, Some(2));
        check("", 3, None);
    }
}
