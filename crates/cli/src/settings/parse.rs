//! How texts become values. Each either is one or gets a sentence that says what was expected.

use crate::cluster::{Counts, counts};
use crate::quantity::{positive_seconds, seconds, whole};
use arles_core::allocate::{POLICIES, PolicyEntry};
use arles_core::job::check_weight;
use arles_core::library::suggestion;
use arles_core::{Library, Tenant};
use arles_daemon::service::SharedEstimates;
use arles_engine::kubernetes::Mode;
use arles_engine::{MigLayout, Sharing};
use arles_sim::trace::Mix;
use arles_sim::trace::import::FORMATS;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The entry of a table with this name, or a sentence with the nearest name and all names; `what` is what the table lists.
pub(crate) fn find<T>(
    what: &str,
    name: &str,
    table: impl Iterator<Item = T> + Clone,
    name_of: fn(&T) -> &'static str,
) -> Result<T, String> {
    table.clone().find(|entry| name_of(entry) == name).ok_or_else(|| {
        let names: Vec<&str> = table.map(|entry| name_of(&entry)).collect();
        let near = suggestion(name, names.iter().copied());
        format!("there is no {what} '{name}'{near}; expected one of {}", names.join(", "))
    })
}

/// A path, unless the text is empty.
pub(super) fn path(text: &str) -> Result<Option<PathBuf>, String> {
    Ok(given(text).map(PathBuf::from))
}

/// GPUs of this machine, if any were declared.
pub(super) fn declared(text: &str) -> Result<Option<Counts>, String> {
    given(text).map(counts).transpose()
}

/// Whether unused GPUs are switched off: `on` or `off`.
pub(super) fn switched_off(text: &str) -> Result<bool, String> {
    match text.trim() {
        "on" => Ok(false),
        "off" => Ok(true),
        other => Err(format!("'{other}' is neither on nor off; unused GPUs stay on or are switched off")),
    }
}

/// Whether two jobs may share a GPU: `on` or `off`.
pub(super) fn switched_on(text: &str) -> Result<bool, String> {
    match text.trim() {
        "on" => Ok(true),
        "off" => Ok(false),
        other => Err(format!("'{other}' is neither on nor off; two jobs may share a GPU (on), or none does (off)")),
    }
}

/// A part of everybody's speed.
pub(super) fn epsilon(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(part) if (0.0..1.0).contains(&part) => Ok(part),
        _ => Err(format!(
            "'{text}' cannot be a part of anybody's speed; expected a number from 0 up to below 1, such as 0.05"
        )),
    }
}

/// When past use counts half; nothing if it does not count.
pub(super) fn half_life(text: &str) -> Result<Option<f64>, String> {
    given(text).map(positive_seconds).transpose()
}

/// How long a leader may be silent, in seconds.
pub(super) fn lease(text: &str) -> Result<f64, String> {
    match seconds(text)? {
        seconds if (0.3..=600.0).contains(&seconds) => Ok(seconds),
        _ => Err(format!("'{text}' cannot be a lease; expected 0.3 to 600 seconds, such as 3s")),
    }
}

/// The address of a daemon, if one was given.
pub(super) fn advertised(text: &str) -> Result<Option<String>, String> {
    match given(text) {
        Some(url) if !url.starts_with("http://") && !url.starts_with("https://") => {
            Err(format!("'{url}' is not the address of a daemon; expected something like http://scheduler-1:7117"))
        }
        url => Ok(url.map(str::to_owned)),
    }
}

/// Names, separated by commas.
pub(super) fn names(text: &str) -> Result<Vec<String>, String> {
    Ok(text.split(',').filter_map(given).map(str::to_owned).collect())
}

/// What arles does on Kubernetes.
pub(super) fn kubernetes_mode(text: &str) -> Result<Mode, String> {
    match text.trim() {
        "place" => Ok(Mode::Place),
        "advise" => Ok(Mode::Advise),
        other => Err(format!("'{other}' is no mode; expected place or advise")),
    }
}

/// A text, unless it is empty.
pub(super) fn given(text: &str) -> Option<&str> {
    Some(text.trim()).filter(|text| !text.is_empty())
}

pub(super) fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, String> {
    text.trim().parse().map_err(|error: T::Err| error.to_string())
}

pub(super) fn mix_or(text: &str, default: Mix<String>) -> Result<Mix<String>, String> {
    given(text).map_or(Ok(default), parsed)
}

/// A number of jobs that fits in a computer's memory.
pub(super) fn jobs(text: &str) -> Result<u64, String> {
    const MOST: u64 = 100_000_000;
    match whole(text, 1)? {
        jobs if jobs > MOST => Err(format!("'{text}' is too many; expected at most {MOST} jobs")),
        jobs => Ok(jobs),
    }
}

pub(super) fn kind(name: &str) -> Result<String, String> {
    Library::builtin().any_kind(name).map(|kind| kind.name).map_err(|e| format!("{e}; 'arles kinds' lists all"))
}

pub(super) fn format(name: &str) -> Result<String, String> {
    let format = find("trace format", name, FORMATS.iter(), |format| format.name)?;
    Ok(format.name.to_owned())
}

/// Looks a policy up.
pub(crate) fn policy(name: &str) -> Result<&'static PolicyEntry, String> {
    find("policy", name.trim(), POLICIES.iter(), |policy| policy.name)
}

pub(super) fn policies(text: &str) -> Result<Vec<&'static PolicyEntry>, String> {
    if text.trim() == "all" {
        return Ok(POLICIES.iter().collect());
    }
    let mut chosen: Vec<&'static PolicyEntry> = Vec::new();
    for name in text.split(',') {
        let entry = policy(name.trim())?;
        if chosen.iter().any(|known| known.name == entry.name) {
            return Err(format!("policy '{}' is listed twice in '{text}'; name it once", entry.name));
        }
        chosen.push(entry);
    }
    Ok(chosen)
}

/// Reads `127.0.0.1:7117`.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    let text = text.trim().replace("localhost", "127.0.0.1");
    text.parse()
        .map_err(|_| format!("'{text}' is not an address; expected ADDRESS:PORT such as 127.0.0.1:7117 or [::1]:7117"))
}

/// Whose measurements a tenant is told of: `own` or `shared`.
pub(super) fn estimates_shown(text: &str) -> Result<SharedEstimates, String> {
    match text.trim() {
        "own" => Ok(SharedEstimates::Own),
        "shared" => Ok(SharedEstimates::Shared),
        other => {
            Err(format!("'{other}' is neither own nor shared; a tenant is told of its own runs, or of everybody's"))
        }
    }
}

/// Reads `10/s`, `600/min` or `1000/h`: times per second.
pub(crate) fn frequency(text: &str) -> Result<f64, String> {
    let wrong =
        || format!("'{text}' is not a frequency; expected a number and a unit, such as 10/s, 600/min or 1000/h");
    let (number, unit) = text.split_once('/').ok_or_else(wrong)?;
    let seconds = match unit.trim() {
        "s" => 1.0,
        "min" | "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(wrong()),
    };
    let times: f64 = number.trim().parse().map_err(|_| wrong())?;
    let per_second = times / seconds;
    if per_second.is_finite() && per_second > 0.0 && per_second <= 1e6 { Ok(per_second) } else { Err(wrong()) }
}

/// Reads `research:2,vision`.
pub(super) fn tenants(text: &str) -> Result<Vec<Tenant>, String> {
    let mut tenants: Vec<Tenant> = Vec::new();
    for part in text.split(',').map(str::trim) {
        let (name, weight) = part.rsplit_once(':').map_or((part, "1"), |(name, weight)| (name.trim(), weight.trim()));
        if name.is_empty() || name.len() > 200 {
            return Err(format!("'{part}' is not a tenant; expected NAME or NAME:WEIGHT, such as research:2,vision"));
        }
        arles_core::name::check(name, 200)
            .map_err(|wrong| format!("the tenant's name '{}' {wrong}", name.escape_debug()))?;
        let weight = match weight.parse().ok().and_then(|weight| check_weight(weight).ok()) {
            Some(weight) => weight,
            None => {
                return Err(format!(
                    "'{weight}' in '{part}' is not a weight; expected a positive number such as {name}:2"
                ));
            }
        };
        if tenants.iter().any(|tenant| tenant.name == name) {
            return Err(format!("tenant '{name}' is listed twice in '{text}'"));
        }
        tenants.push(Tenant { name: name.to_owned(), weight });
    }
    Ok(tenants)
}

/// Reads `h200=3g.71gb+2g.35gb`; nothing is no layout.
pub(super) fn mig_layout(text: &str) -> Result<Option<MigLayout>, String> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let form =
        || format!("'{text}' is no layout of slices; expected KIND=SLICE+SLICE such as h200=3g.71gb+2g.35gb+2g.35gb");
    let (kind, slices) = text.split_once('=').ok_or_else(form)?;
    let kind = Library::builtin().kind(kind).map_err(|e| format!("{e}; 'arles kinds' lists all"))?;
    let slices: Vec<String> = slices.split('+').map(|slice| slice.trim().to_lowercase()).collect();
    if let Some(wrong) = slices.iter().find(|slice| kind.slice(slice).is_none()) {
        let name = &kind.name;
        return Err(format!(
            "'{wrong}' is no slice of {name}; expected a profile of the driver such as 3g.71gb ('nvidia-smi mig -lgip')"
        ));
    }
    Ok(Some(MigLayout { kind: kind.name.clone(), slices }))
}

/// How two jobs share a GPU.
pub(super) fn sharing(text: &str) -> Result<Sharing, String> {
    match text {
        "time-slicing" => Ok(Sharing::TimeSlicing),
        "mps" => Ok(Sharing::Mps),
        other => Err(format!("'{other}' is no way to share a GPU; expected time-slicing or mps")),
    }
}
