//! How the values of `arles submit` are written.

use crate::quantity;
use arles_api as api;
use arles_core::library::suggestion;

/// How many GPUs, and of which kind if that is said with it.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Gang {
    pub(super) gpus: u32,
    /// The most, where the scheduler may choose.
    pub(super) most: Option<u32>,
    pub(super) kind: Option<String>,
}

impl Gang {
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let bare = text.trim();
        let bare = bare.strip_prefix("gpu:").unwrap_or(bare);
        let (kind, count) = bare.rsplit_once(':').map_or((None, bare), |(kind, count)| (Some(kind), count));
        let (least, most) = count.split_once('-').map_or((count, None), |(least, most)| (least, Some(most)));
        let number = |text: &str| text.trim().parse::<u32>().ok().filter(|gpus| *gpus > 0);
        let (gpus, limit) = (number(least), most.map(number));
        match (gpus, limit) {
            (Some(gpus), None) if named(kind) => {
                Ok(Self { gpus, most: None, kind: kind.map(|kind| kind.trim().to_owned()) })
            }
            (Some(gpus), Some(Some(most))) if named(kind) && most >= gpus => {
                Ok(Self { gpus, most: Some(most), kind: kind.map(|kind| kind.trim().to_owned()) })
            }
            _ => Err(format!(
                "'{text}' is not a number of GPUs; expected a number such as 2, a range such as 1-4, or v100:2, or gpu:v100:2"
            )),
        }
    }
}

/// Whether a kind that is given has a name.
fn named(kind: Option<&str>) -> bool {
    kind.is_none_or(|kind| !kind.trim().is_empty())
}

/// Reads `1-100%8`, `1-9:2` and `1,5,7`.
pub(super) fn array(text: &str) -> Result<api::ArrayRequest, String> {
    let wrong = || {
        format!("'{text}' is not a list of indices; expected 1-100, 1-9:2 or 1,5,7, and %8 at its end for 8 at once")
    };
    let (list, at_most) = match text.split_once('%') {
        Some((list, most)) => (list, most.trim().parse().ok().filter(|most| *most > 0).ok_or_else(wrong)?),
        None => (text, 0),
    };
    let number = |text: &str| text.trim().parse::<u32>().map_err(|_| wrong());
    let range = |part: &str| -> Result<(u32, u32, u32), String> {
        let Some((first, rest)) = part.split_once('-') else {
            let index = number(part)?;
            return Ok((index, index, 1));
        };
        let (last, step) = rest.split_once(':').unwrap_or((rest, "1"));
        let (first, last, step) = (number(first)?, number(last)?, number(step)?);
        if first > last || step == 0 { Err(wrong()) } else { Ok((first, last, step)) }
    };
    let ranges = list.split(',').map(range).collect::<Result<Vec<_>, _>>()?;
    if let [(first, last, step)] = ranges[..] {
        let (from, to, step) = (Some(first), Some(last), (step > 1).then_some(step));
        return Ok(api::ArrayRequest { from, to, step, indices: Vec::new(), at_most });
    }
    let most = 10_000;
    let tasks: u64 = ranges.iter().map(|(first, last, step)| u64::from((last - first) / step) + 1).sum();
    if tasks > most {
        return Err(format!("'{text}' has {tasks} indices; expected at most {most}"));
    }
    let indices = ranges.iter().flat_map(|(first, last, step)| (*first..=*last).step_by(*step as usize)).collect();
    Ok(api::ArrayRequest { indices, at_most, ..api::ArrayRequest::default() })
}

/// Reads `ok:17`; a plain number is `ok`.
pub(super) fn dependency(text: &str) -> Result<api::Dependency, String> {
    let (word, job) = text.split_once(':').unwrap_or(("ok", text));
    let names = || api::Outcome::ALL.iter().map(|outcome| outcome.name());
    let Some(outcome) = api::Outcome::ALL.into_iter().find(|outcome| outcome.name() == word.trim()) else {
        let near = suggestion(word, names());
        return Err(format!("'{word}' in '{text}' is not an outcome{near}; expected ok, not-ok or any"));
    };
    match job.trim().parse::<u64>() {
        Ok(job @ 1..) => Ok(api::Dependency { job, outcome }),
        _ => Err(format!("'{job}' in '{text}' is not a job; expected a number such as {word}:17")),
    }
}

/// Reads `NAME=VALUE`, or `NAME` for the value that is set here.
pub(super) fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (text, std::env::var(text).ok()),
    };
    let mut letters = name.chars();
    let sound = letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && letters.all(|c| c.is_ascii_alphanumeric() || c == '_');
    match value {
        _ if !sound => Err(format!("'{text}' is not an environment variable; expected NAME=VALUE")),
        Some(value) => Ok((name.to_owned(), value)),
        None => Err(format!("'{name}' is not set here; expected NAME=VALUE")),
    }
}

/// Reads `params=1.3e9,batch=32,precision=fp16`.
pub(super) fn profile(text: &str) -> Result<api::Profile, String> {
    const KEYS: [&str; 9] = [
        "like",
        "domain",
        "mode",
        "precision",
        "batch",
        "params",
        "memory",
        "gpu-utilisation",
        "bandwidth-utilisation",
    ];
    let mut profile = api::Profile::default();
    for part in text.split(',') {
        let Some((key, value)) = part.split_once('=') else {
            return Err(format!("'{part}' says nothing; expected KEY=VALUE such as params=1.3e9"));
        };
        let (key, value) = (key.trim(), value.trim());
        let about = |sentence: String| format!("{key}: {sentence}");
        let number = |least, most| quantity::number(value, least, most).map_err(about);
        match key {
            "like" => profile.like = Some(value.to_owned()),
            "domain" => profile.domain = Some(value.to_owned()),
            "mode" => profile.mode = Some(word(key, value, &["training", "inference"])?),
            "precision" => profile.precision = Some(word(key, value, &["fp32", "tf32", "fp16", "int8"])?),
            "batch" => profile.batch = Some(quantity::whole(value, 1).map_err(about)?),
            "params" => profile.params = Some(number(1.0, 1e15)?),
            "memory" => profile.memory_gib = Some(quantity::gib(value).map_err(about)?),
            "gpu-utilisation" => profile.gpu_utilisation = Some(number(0.0, 1.0)?),
            "bandwidth-utilisation" => profile.bandwidth_utilisation = Some(number(0.0, 1.0)?),
            _ => {
                let near = suggestion(key, KEYS);
                return Err(format!("there is no '{key}' in a profile{near}; expected one of {}", KEYS.join(", ")));
            }
        }
    }
    Ok(profile)
}

fn word<T: serde::de::DeserializeOwned>(key: &str, value: &str, words: &[&str]) -> Result<T, String> {
    let known = serde_json::from_value(serde_json::Value::String(value.to_owned()));
    known.map_err(|_| format!("{key}: '{value}' cannot be used; expected {}", words.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gangs_are_read_in_four_forms() {
        let gang = |gpus, kind: Option<&str>| Ok(Gang { gpus, most: None, kind: kind.map(str::to_owned) });
        assert_eq!(Gang::read("v100:1-4"), Ok(Gang { most: Some(4), ..gang(1, Some("v100")).unwrap() }));
        assert!(Gang::read("4-1").is_err() && Gang::read("1-").is_err());
        assert_eq!(Gang::read("2"), gang(2, None));
        assert_eq!(Gang::read("v100:2"), gang(2, Some("v100")));
        assert_eq!(Gang::read("gpu:v100:2"), gang(2, Some("v100")));
        assert_eq!(Gang::read("gpu:2"), gang(2, None));
        for wrong in ["", "0", "v100", "v100:", ":2", "gpu:v100:x", "-1"] {
            assert!(Gang::read(wrong).unwrap_err().contains("expected a number such as 2"), "{wrong}");
        }
    }

    #[test]
    fn arrays_are_read_as_slurm_writes_them() {
        let range = |from, to, step, at_most| {
            Ok(api::ArrayRequest { from: Some(from), to: Some(to), step, indices: vec![], at_most })
        };
        assert_eq!(array("1-100%8"), range(1, 100, None, 8));
        assert_eq!(array("0-9:3"), range(0, 9, Some(3), 0));
        assert_eq!(array("7"), range(7, 7, None, 0));
        assert_eq!(array("1,5-9:2%2").map(|array| (array.indices, array.at_most)), Ok((vec![1, 5, 7, 9], 2)));
        for wrong in ["", "a", "1-", "3-1", "1-9:0", "1%0", "1%x", "-1", "1,,2"] {
            assert!(array(wrong).unwrap_err().contains("is not a list of indices"), "{wrong}");
        }
        assert!(array("1-4000000000,5").unwrap_err().contains("expected at most 10000"));
    }

    #[test]
    fn dependencies_variables_and_profiles_are_read() {
        assert_eq!(dependency("ok:17"), Ok(api::Dependency { job: 17, outcome: api::Outcome::Ok }));
        assert_eq!(dependency("18"), Ok(api::Dependency { job: 18, outcome: api::Outcome::Ok }));
        assert_eq!(dependency("not-ok:1").map(|d| d.outcome), Ok(api::Outcome::NotOk));
        assert!(dependency("nok-ok:1").unwrap_err().contains("did you mean not-ok?"));
        assert!(dependency("ok:x").unwrap_err().contains("is not a job"));
        assert_eq!(variable("A=b=c"), Ok(("A".into(), "b=c".into())));
        assert!(variable("1A=b").is_err() && variable("ARLES_TEST_NOT_SET").unwrap_err().contains("is not set here"));
        let known = profile("params=1.3e9, batch=32,precision=fp16,memory=20G").expect("a profile");
        assert_eq!((known.params, known.batch, known.memory_gib), (Some(1.3e9), Some(32), Some(20.0)));
        assert_eq!(known.precision, Some(api::Precision::Fp16));
        assert!(profile("parms=1").unwrap_err().contains("did you mean params?"));
        assert!(profile("precision=fp17").unwrap_err().contains("expected fp32, tf32, fp16, int8"));
    }
}
