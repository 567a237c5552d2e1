//! Progress in lines that somebody's code prints.
//!
//! A count that falls to less than half has begun anew: codes that count by epoch do that, and what was done before is added. A
//! smaller fall is two processes printing out of step, and is passed over. Of progress bars with a total, only the first total seen
//! counts: validation has a bar of its own.

use crate::fault::Hinted;
use anyhow::Result;
use regex_lite::Regex;

/// More of a line than this is not looked at.
const LINE_LIMIT: usize = 4096;

/// The forms that are known: what it is in, and the pattern. The first that fits a line is taken.
const KNOWN: &[&str] = &[
    // {"step": 120, ...}
    r#""(?:global_?)?step"\s*:\s*(?P<step>\d+(?:\.\d+)?)"#,
    // global_step=120
    r"(?i)\bglobal[_ ]?step\b['\x22]?\s*[=:]?\s*(?P<step>\d+)",
    // 120/500 [00:01<00:05, 3.2it/s], and s/it where it is slow
    r"(?P<step>\d+)/(?P<total>\d+)\s*\[[\d:]+<[^,\]]*(?:,\s*(?:(?P<rate>\d+(?:\.\d+)?)\s?[a-z]+/s|(?P<pace>\d+(?:\.\d+)?)\s?s/[a-z]+))?",
    // 120/500 [=====>....]
    r"(?P<step>\d+)/(?P<total>\d+)\s*\[[=>.]+\]",
    // step 120/1000, iter 120, Step: [120/1000], iteration=120
    r"(?i)\b(?:step|iter|iteration)\b['\x22]?\s*[=:#]?\s*[\[(]?\s*(?P<step>\d+)(?:\s*/\s*\d+)?\b",
    // Epoch 3/10: ... 120/500
    r"(?i)\bepoch\b\D{0,3}\d+(?:/\d+)?\b.*?[^\d/.](?P<step>\d+)/(?P<total>\d+)",
];

/// What a line tells.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(in crate::commands) struct Found {
    /// Steps done since the command began, as far as it counts them.
    pub(in crate::commands) steps: f64,
    /// Steps per second, where the line says so.
    pub(in crate::commands) rate: Option<f64>,
}

/// Finds counts of steps, line by line.
pub(in crate::commands) struct Finder {
    patterns: Vec<Regex>,
    /// Steps before the count began anew.
    before: f64,
    last: Option<f64>,
    total: Option<f64>,
}

impl Finder {
    pub(in crate::commands) fn new(pattern: Option<&str>) -> Result<Self> {
        let patterns = match pattern {
            None => KNOWN.iter().filter_map(|known| Regex::new(known).ok()).collect(),
            Some(text) => vec![given(text)?],
        };
        Ok(Self { patterns, before: 0.0, last: None, total: None })
    }

    pub(in crate::commands) fn find(&mut self, line: &[u8]) -> Option<Found> {
        let line = String::from_utf8_lossy(&line[..line.len().min(LINE_LIMIT)]);
        if !line.bytes().any(|b| b.is_ascii_digit()) {
            return None;
        }
        let groups = self.patterns.iter().find_map(|pattern| pattern.captures(&line))?;
        let number = |name: &str| {
            let text = groups.name(name)?.as_str();
            text.replace([',', '_'], "").parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0)
        };
        let count = number("step")?;
        if let Some(total) = number("total")
            && *self.total.get_or_insert(total) != total
        {
            return None;
        }
        match self.last {
            Some(last) if count * 2.0 < last => self.before += last,
            Some(last) if count < last => return None,
            _ => {}
        }
        self.last = Some(count);
        let paced = number("pace").filter(|pace| *pace > 0.0).map(|pace| 1.0 / pace);
        Some(Found { steps: self.before + count, rate: number("rate").or(paced) })
    }
}

/// A pattern as somebody wrote it.
fn given(text: &str) -> Result<Regex> {
    let pattern = Regex::new(text).map_err(|error| {
        Hinted::new(
            format!("--pattern '{text}' is not a regular expression ({error})"),
            r"write one such as 'done (?P<step>\d+) of'",
        )
    })?;
    if pattern.capture_names().flatten().all(|name| name != "step") {
        return Err(Hinted::new(
            format!("--pattern '{text}' has no group named step"),
            r"mark the count: 'done (?P<step>\d+) of'; a group (?P<rate>...) for steps per second is welcome too",
        )
        .into());
    }
    Ok(pattern)
}

/// Cuts bytes into lines, at line feeds and at the returns of progress bars.
#[derive(Default)]
pub(in crate::commands) struct Lines {
    kept: Vec<u8>,
}

impl Lines {
    pub(in crate::commands) fn feed(&mut self, bytes: &[u8], mut each: impl FnMut(&[u8])) {
        for part in bytes.split_inclusive(|b| matches!(b, b'\n' | b'\r')) {
            let ends = part.last().is_some_and(|b| matches!(b, b'\n' | b'\r'));
            let room = LINE_LIMIT.saturating_sub(self.kept.len());
            self.kept.extend_from_slice(&part[..part.len().min(room)]);
            if ends {
                each(&self.kept);
                self.kept.clear();
            }
        }
    }

    /// What came after the last line end; progress bars print the return first.
    pub(in crate::commands) fn end(&mut self, mut each: impl FnMut(&[u8])) {
        if !self.kept.is_empty() {
            each(&self.kept);
            self.kept.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(pattern: Option<&str>, lines: &[&str]) -> Vec<Option<(f64, Option<f64>)>> {
        let mut finder = Finder::new(pattern).unwrap();
        lines.iter().map(|line| finder.find(line.as_bytes()).map(|found| (found.steps, found.rate))).collect()
    }

    #[test]
    fn the_common_forms_are_known() {
        assert_eq!(KNOWN.len(), Finder::new(None).unwrap().patterns.len(), "every pattern compiles");
        let check = |line: &str, steps: f64, rate: Option<f64>| {
            assert_eq!(all(None, &[line]), [Some((steps, rate))], "{line}");
        };
        check("step 120/1000", 120.0, None);
        check("Step: 120, loss: 0.3", 120.0, None);
        check("[12:00:01] iter 120: loss 3.2, time 12ms", 120.0, None);
        check(" iteration      120/  500000 | consumed samples: 4096 |", 120.0, None);
        check("Iter: [120/500]", 120.0, None);
        check("global_step=120 loss=2", 120.0, None);
        check(r#"{"loss": 0.5, "step": 120, "epoch": 1.2}"#, 120.0, None);
        check("{'loss': 0.5, 'step': 120}", 120.0, None);
        check("Epoch 3:  24%|██▍   | 120/500 [00:01<00:05, 3.2it/s]", 120.0, Some(3.2));
        check(" 24%|██▍   | 120/500 [00:01<00:05,  2.00s/it, loss=0.31]", 120.0, Some(0.5));
        check("120/500 [00:01<?, ?it/s]", 120.0, None);
        check("120/500 [=====>........] - ETA: 3s - loss: 0.5", 120.0, None);
        check("Epoch 1/10, batch 120/500", 120.0, None);
        check("Train Epoch: 1 [120/500]", 120.0, None);
    }

    #[test]
    fn what_is_not_progress_is_not_found() {
        for line in [
            "",
            "Epoch 3/10",
            "epoch 13/20",
            "total steps: 1000",
            "max_steps=500",
            "warmup_steps 10",
            "loss 0.5",
            "step one",
        ] {
            assert_eq!(all(None, &[line]), [None], "{line}");
        }
        assert_eq!(all(None, &[&"x1".repeat(100_000)]), [None]);
    }

    #[test]
    fn epochs_add_up_and_other_bars_do_not_count() {
        let bar = |n: u32, total: u32| format!("{n}/{total} [00:01<00:05]");
        let lines = [bar(400, 500), bar(500, 500), bar(10, 50), bar(50, 50), bar(3, 500), bar(250, 500)];
        let steps: Vec<_> = all(None, &lines.each_ref().map(String::as_str)).iter().map(|f| f.map(|f| f.0)).collect();
        assert_eq!(steps, [Some(400.0), Some(500.0), None, None, Some(503.0), Some(750.0)]);
        let steps = all(None, &["step 100", "step 99", "step 101"]);
        assert_eq!(steps, [Some((100.0, None)), None, Some((101.0, None))]);
    }

    #[test]
    fn a_pattern_must_name_the_step() {
        assert_eq!(all(Some(r"did (?P<step>\d+) at (?P<rate>[\d.]+)"), &["did 7 at 2.5"]), [Some((7.0, Some(2.5)))]);
        for (wrong, why) in [("(", "not a regular expression"), (r"(\d+)", "no group named step")] {
            assert!(Finder::new(Some(wrong)).map(|_| ()).unwrap_err().to_string().contains(why), "{wrong}");
        }
    }

    #[test]
    fn lines_end_at_returns_too_and_may_be_anything() {
        let mut lines = Lines::default();
        let mut seen = Vec::new();
        for part in [&b"a\rb"[..], b"c\n\xff\xfe", b"\n", &[b'x'; 10_000], b"\nlast"] {
            lines.feed(part, |line| seen.push(line.to_vec()));
        }
        lines.end(|line| seen.push(line.to_vec()));
        let lengths: Vec<usize> = seen.iter().map(Vec::len).collect();
        assert_eq!(lengths, [2, 3, 3, LINE_LIMIT, 4]);
    }
}
