//! Lines of jobs in the caller's own format, as `squeue --format` has it, and orders to sort by.
//!
//! `%[.][width]letter`: with a width the text is cut or filled to it, with a dot it stands at the right. Letters are squeue's where it has one
//! for the same thing.

use super::{age, gpus_of, harmless, letters, remaining, standing};
use crate::quantity::{percent, span};
use arles_api::Job;
use std::cmp::Ordering;

/// One thing that can be said of a job, and sorted by.
struct Field {
    letter: char,
    name: &'static str,
    title: &'static str,
    text: fn(&Job, f64) -> String,
    order: fn(&Job, &Job, f64) -> Ordering,
}

fn number(a: Option<f64>, b: Option<f64>) -> Ordering {
    // What is unknown comes last.
    a.unwrap_or(f64::MAX).total_cmp(&b.unwrap_or(f64::MAX))
}

fn moment(at: Option<f64>, now: f64) -> String {
    at.map_or("-".into(), |at| format!("{} ago", span((now - at).max(0.0))))
}

const FIELDS: &[Field] = &[
    Field {
        letter: 'i',
        name: "job",
        title: "JOB",
        text: |job, _| job.id.to_string(),
        order: |a, b, _| a.id.cmp(&b.id),
    },
    Field {
        letter: 'j',
        name: "name",
        title: "NAME",
        text: |job, _| harmless(job.name.as_deref().unwrap_or("-")),
        order: |a, b, _| a.name.cmp(&b.name),
    },
    Field {
        letter: 'u',
        name: "tenant",
        title: "TENANT",
        text: |job, _| harmless(&job.tenant),
        order: |a, b, _| a.tenant.cmp(&b.tenant),
    },
    Field {
        letter: 'w',
        name: "workload",
        title: "WORKLOAD",
        text: |job, _| harmless(&job.workload),
        order: |a, b, _| a.workload.cmp(&b.workload),
    },
    Field {
        letter: 'b',
        name: "gpus",
        title: "GPUS",
        text: |job, _| gpus_of(job),
        order: |a, b, _| a.gang.cmp(&b.gang),
    },
    Field {
        letter: 't',
        name: "st",
        title: "ST",
        text: |job, _| letters(job.state).into(),
        order: |a, b, _| a.state.cmp(&b.state),
    },
    Field {
        letter: 'T',
        name: "state",
        title: "STATE",
        text: |job, _| job.state.name().into(),
        order: |a, b, _| a.state.cmp(&b.state),
    },
    Field {
        letter: 'M',
        name: "time",
        title: "TIME",
        text: |job, now| span(age(job, now)),
        order: |a, b, now| age(a, now).total_cmp(&age(b, now)),
    },
    Field {
        letter: 'c',
        name: "done",
        title: "DONE",
        text: |job, _| job.done_ratio.map_or("-".into(), |ratio| format!("{} %", percent(ratio))),
        order: |a, b, _| number(a.done_ratio, b.done_ratio),
    },
    Field {
        letter: 'L',
        name: "left",
        title: "LEFT",
        text: |job, now| remaining(job, now).map_or("-".into(), span),
        order: |a, b, now| number(remaining(a, now), remaining(b, now)),
    },
    Field {
        letter: 'V',
        name: "submitted",
        title: "SUBMITTED",
        text: |job, now| moment(Some(job.submitted_at), now),
        order: |a, b, _| a.submitted_at.total_cmp(&b.submitted_at),
    },
    Field {
        letter: 'S',
        name: "started",
        title: "STARTED",
        text: |job, now| moment(job.started_at, now),
        order: |a, b, _| number(a.started_at, b.started_at),
    },
    Field {
        letter: 'k',
        name: "kind",
        title: "KIND",
        text: |job, _| job.place.as_ref().map_or("-".into(), |place| place.kind.clone()),
        order: |a, b, _| a.place.as_ref().map(|p| &p.kind).cmp(&b.place.as_ref().map(|p| &p.kind)),
    },
    Field {
        letter: 'N',
        name: "nodes",
        title: "NODES",
        text: |job, _| job.place.as_ref().map_or("-".into(), |place| harmless(&place.nodes.join(","))),
        order: |a, b, _| a.place.as_ref().map(|p| &p.nodes).cmp(&b.place.as_ref().map(|p| &p.nodes)),
    },
    Field {
        letter: 'R',
        name: "reason",
        title: "LOCATION/REASON",
        text: |job, _| harmless(&standing(job)),
        order: |a, b, _| standing(a).cmp(&standing(b)),
    },
];

fn letters_in_words() -> String {
    FIELDS.iter().map(|field| format!("%{} {}", field.letter, field.name)).collect::<Vec<_>>().join(", ")
}

/// A piece of a format.
#[derive(Clone)]
enum Piece {
    Text(String),
    Field { field: &'static Field, width: Option<usize>, right: bool },
}

/// How a line of a job reads.
#[derive(Clone)]
pub(crate) struct LineFormat(Vec<Piece>);

impl std::str::FromStr for LineFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text.chars().peekable();
        while let Some(c) = rest.next() {
            if c != '%' {
                plain.push(c);
                continue;
            }
            if rest.next_if_eq(&'%').is_some() {
                plain.push('%');
                continue;
            }
            let right = rest.next_if_eq(&'.').is_some();
            let digits: String = std::iter::from_fn(|| rest.next_if(char::is_ascii_digit)).collect();
            let width = match digits.parse::<usize>() {
                Ok(width) if (1..=400).contains(&width) => Some(width),
                Ok(width) => return Err(format!("width {width} in '{text}'; expected 1 to 400")),
                Err(_) if digits.is_empty() => None,
                Err(_) => return Err(format!("'{digits}' in '{text}' is not a width; expected 1 to 400")),
            };
            let letter = rest.next().ok_or_else(|| format!("'{text}' ends with a %; expected a letter after it"))?;
            let field = FIELDS.iter().find(|field| field.letter == letter).ok_or_else(|| {
                format!("'%{letter}' in '{text}' is not a field; expected one of {}", letters_in_words())
            })?;
            if !plain.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut plain)));
            }
            pieces.push(Piece::Field { field, width, right });
        }
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Ok(Self(pieces))
    }
}

impl LineFormat {
    /// The titles.
    pub(crate) fn head(&self) -> String {
        self.line(|field| field.title.into())
    }

    /// A line, without the break at its end.
    pub(crate) fn job(&self, job: &Job, now: f64) -> String {
        self.line(|field| (field.text)(job, now))
    }

    fn line(&self, text: impl Fn(&Field) -> String) -> String {
        let mut line = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(plain) => line.push_str(plain),
                Piece::Field { field, width: None, .. } => line.push_str(&text(field)),
                Piece::Field { field, width: Some(width), right } => {
                    let cut: String = text(field).chars().take(*width).collect();
                    let width = *width;
                    line.push_str(&if *right { format!("{cut:>width$}") } else { format!("{cut:<width$}") });
                }
            }
        }
        line.trim_end().to_owned()
    }
}

/// What to sort by: a field, and whether the largest comes first.
#[derive(Clone)]
pub(crate) struct SortKey(&'static Field, bool);

impl std::str::FromStr for SortKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bare = text.trim();
        let (name, down) = match bare.strip_prefix('-') {
            Some(name) => (name, true),
            None => (bare.strip_prefix('+').unwrap_or(bare), false),
        };
        let fits = |field: &&Field| field.name == name || name.chars().eq([field.letter]);
        FIELDS.iter().find(fits).map(|field| Self(field, down)).ok_or_else(|| {
            let names: Vec<&str> = FIELDS.iter().map(|field| field.name).collect();
            format!(
                "'{text}' is not a field to sort by; expected {}, with a - before it for the largest first",
                names.join(", ")
            )
        })
    }
}

/// Sorts jobs; the first key counts most, and jobs that are alike keep their order.
pub(crate) fn sort(jobs: &mut [Job], keys: &[SortKey], now: f64) {
    if keys.is_empty() {
        return;
    }
    jobs.sort_by(|a, b| {
        let by = |SortKey(field, down): &SortKey| {
            let order = (field.order)(a, b, now);
            if *down { order.reverse() } else { order }
        };
        keys.iter().map(by).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_read_as_squeue_reads_them() {
        let format: LineFormat = "%.5i %-10".parse::<LineFormat>().err().map_or_else(
            || unreachable!("a minus is no letter"),
            |why| {
                assert!(why.starts_with("'%-' in '%.5i %-10' is not a field"), "{why}");
                "%.5i|%4u|%%|%t".parse().expect("a format")
            },
        );
        assert_eq!(format.head(), "  JOB|TENA|%|ST");
        for (wrong, says) in [("%", "ends with a %"), ("%0i", "width 0"), ("%999i", "width 999"), ("%z", "'%z'")] {
            let why = wrong.parse::<LineFormat>().err().expect(wrong);
            assert!(why.contains(says), "{why}");
        }
    }

    #[test]
    fn keys_to_sort_by_have_names_and_letters() {
        assert!("-done".parse::<SortKey>().is_ok_and(|key| key.1 && key.0.letter == 'c'));
        assert!("i".parse::<SortKey>().is_ok_and(|key| !key.1));
        assert!("colour".parse::<SortKey>().err().is_some_and(|why| why.contains("expected job, name")));
    }
}
