//! From what is known of a workload to the features that estimators compute with.
//!
//! A [`Profile`] may say anything or nothing. In order:
//!
//! 1. the features of a workload of the library that it is `like`, its memory and batch corrected by what was stated;
//! 2. parameters or a domain: the median of the [`NEAREST`] workloads of the library by what was stated, scaled to its parameters
//!    and its batch;
//! 3. less than that: no features. The estimate is then that of the population (`evidence/population.rs`).
//!
//! Each step costs certainty: [`Completed::standard_error`] is what estimators add to theirs. Numbers that make no sense count as not
//! stated; nothing here refuses. Utilisation seen in a run sets how much of a step no GPU shortens.

use crate::evidence::median;
use arles_core::{Kind, Library, Mode, Precision, Profile, Spread, Workload, model};

/// Workloads of the library that are averaged.
const NEAREST: usize = 5;
/// Standard error of ln rate where it is like another workload.
pub(crate) const LIKE: f64 = 0.15;
/// The same where features were completed from parameters, from a domain alone.
const FROM_PARAMS: f64 = 0.5;
const FROM_DOMAIN: f64 = 0.8;
/// No ratio of parameters scales further than this.
const FURTHEST: f64 = 10.0;

/// Features as far as they could be made up.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Completed {
    pub(crate) features: Option<Workload>,
    /// Device memory needed on one GPU; 0 where nobody knows, which fits everywhere.
    pub(crate) memory_gib: f64,
    /// Standard error of ln rate that comes from features that were made up.
    pub(crate) standard_error: f64,
}

impl Completed {
    /// Features that somebody described.
    pub(crate) fn described(features: Workload) -> Self {
        Self { memory_gib: features.memory_gib, features: Some(features), standard_error: 0.0 }
    }

    /// As far as a profile goes.
    pub(crate) fn from_profile(name: &str, profile: &Profile, library: &Library) -> Self {
        let stated = Stated::new(profile);
        let like = profile.like.as_deref().and_then(|like| library.workload(like).ok());
        let (features, standard_error) = match like {
            Some(like) => (Some(stated.adapted(like)), LIKE),
            None => stated.completed(library).unwrap_or((None, 0.0)),
        };
        let features = features.map(|w| {
            // What was completed is a family of its own: it is no batch size of any known model.
            let family = if w.family.is_empty() { name.to_owned() } else { w.family };
            Workload { name: name.to_owned(), family, aliases: Vec::new(), ..w }
        });
        // Memory that was only guessed keeps nothing out: a job that does not fit fails and says so.
        let guess = like.and(features.as_ref()).map_or(0.0, |w| w.memory_gib);
        Self { memory_gib: stated.memory_gib.unwrap_or(guess), features, standard_error }
    }
}

/// What a profile says, less what makes no sense.
struct Stated<'p> {
    domain: Option<&'p str>,
    mode: Option<Mode>,
    precision: Option<Precision>,
    batch: Option<f64>,
    params: Option<f64>,
    memory_gib: Option<f64>,
    gpu_utilisation: Option<f64>,
}

impl<'p> Stated<'p> {
    fn new(profile: &'p Profile) -> Self {
        let positive = |x: Option<f64>, most: f64| x.filter(|x| *x > 0.0 && *x <= most);
        Self {
            domain: profile.domain.as_deref().map(str::trim).filter(|domain| !domain.is_empty()),
            mode: profile.mode,
            precision: profile.precision,
            batch: profile.batch.filter(|batch| *batch > 0).map(f64::from),
            params: positive(profile.params, 1e15),
            memory_gib: positive(profile.memory_gib, 1e6),
            gpu_utilisation: positive(profile.gpu_utilisation, 1.0),
        }
    }

    /// A workload of the library with what was stated in its place.
    fn adapted(&self, like: &Workload) -> Workload {
        let batch = f64::from(like.batch.max(1));
        let larger = self.batch.map_or(1.0, |own| own / batch);
        let adapted = Workload {
            batch: self.batch.map_or(like.batch, |own| own as u32),
            precision: self.precision.unwrap_or(like.precision),
            mode: self.mode.unwrap_or(like.mode),
            flops_per_step: like.flops_per_step * larger,
            bytes_per_step: like.bytes_per_step * larger,
            memory_gib: self.memory_gib.unwrap_or(like.memory_gib),
            ..like.clone()
        };
        self.with_utilisation(adapted)
    }

    /// The median of the nearest, and its standard error; `None` where too little was stated.
    fn completed(&self, library: &Library) -> Option<(Option<Workload>, f64)> {
        if self.params.is_none() && self.domain.is_none() {
            return None;
        }
        let mut near: Vec<(f64, &Workload)> = library.workloads().iter().map(|w| (self.distance2(w), w)).collect();
        near.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.name.cmp(&b.1.name)));
        near.truncate(NEAREST);
        let first = near.first()?.1;
        let middle = |of: &dyn Fn(&Workload) -> f64| median(near.iter().map(|(_, w)| of(w)).collect()).unwrap_or(1.0);
        let per_sample = |x: f64, w: &Workload| x / f64::from(w.batch.max(1));
        let params = self.params.unwrap_or_else(|| middle(&|w| w.params));
        let batch = self.batch.unwrap_or_else(|| middle(&|w| f64::from(w.batch.max(1))).round());
        let larger = |w: &Workload| (params / w.params.max(1.0)).clamp(1.0 / FURTHEST, FURTHEST);
        let completed = Workload {
            name: String::new(),
            family: String::new(),
            domain: self.domain.unwrap_or(&first.domain).to_lowercase(),
            mode: self.mode.unwrap_or(first.mode),
            precision: self.precision.unwrap_or(first.precision),
            batch: batch as u32,
            params,
            flops_per_step: batch * middle(&|w| per_sample(w.flops_per_step, w) * larger(w)),
            bytes_per_step: batch * middle(&|w| per_sample(w.bytes_per_step, w) * larger(w)),
            synced_bytes: middle(&|w| w.synced_bytes * larger(w)),
            kernels_per_step: middle(&|w| w.kernels_per_step),
            memory_gib: self.memory_gib.unwrap_or_else(|| middle(&|w| w.memory_gib)),
            host_seconds: middle(&|w| w.host_seconds),
            aliases: Vec::new(),
        };
        let standard_error = if self.params.is_some() { FROM_PARAMS } else { FROM_DOMAIN };
        Some((Some(self.with_utilisation(completed)), standard_error))
    }

    /// Squared distance from a workload of the library, over what was stated.
    fn distance2(&self, w: &Workload) -> f64 {
        let apart = |own: Option<f64>, other: f64, typical: f64| {
            own.map_or(0.0, |own| ((own / other.max(1e-9)).ln() / typical).powi(2))
        };
        apart(self.params, w.params, 1.5)
            + apart(self.batch, f64::from(w.batch.max(1)), 3.0)
            + apart(self.memory_gib, w.memory_gib, 3.0)
            + self.domain.map_or(0.0, |domain| if domain.eq_ignore_ascii_case(&w.domain) { 0.0 } else { 4.0 })
            + self.mode.map_or(0.0, |mode| if mode == w.mode { 0.0 } else { 4.0 })
            + self.precision.map_or(0.0, |precision| if precision == w.precision { 0.0 } else { 1.0 })
    }

    /// The host's part of a step, from how busy the GPU was seen: of a step that keeps it busy for the part u, 1 − u is not the GPU's.
    fn with_utilisation(&self, w: Workload) -> Workload {
        let Some(busy) = self.gpu_utilisation else { return w };
        let without_host = Workload { host_seconds: 0.0, ..w.clone() };
        let kinds = Library::builtin().kinds();
        let typical: Vec<f64> = kinds.iter().filter_map(|k| step_seconds(&without_host, k)).collect();
        let gpu_seconds = median(typical).unwrap_or(w.host_seconds);
        Workload { host_seconds: gpu_seconds * (1.0 - busy) / busy.max(0.01), ..w }
    }
}

fn step_seconds(w: &Workload, kind: &Kind) -> Option<f64> {
    let kind = Kind { memory_gib: f64::INFINITY, ..kind.clone() };
    model::alone(w, &kind, 1, Spread::Packed).map(|p| 1.0 / p.rate)
}

/// What two profiles say together: the newer one first.
pub(crate) fn merged(newer: &Profile, older: &Profile) -> Profile {
    Profile {
        like: newer.like.clone().or_else(|| older.like.clone()),
        domain: newer.domain.clone().or_else(|| older.domain.clone()),
        mode: newer.mode.or(older.mode),
        precision: newer.precision.or(older.precision),
        batch: newer.batch.or(older.batch),
        params: newer.params.or(older.params),
        memory_gib: newer.memory_gib.or(older.memory_gib),
        gpu_utilisation: newer.gpu_utilisation.or(older.gpu_utilisation),
        bandwidth_utilisation: newer.bandwidth_utilisation.or(older.bandwidth_utilisation),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn completed(profile: &Profile) -> Completed {
        Completed::from_profile("of-our-own", profile, Library::builtin())
    }

    #[test]
    fn what_is_like_another_has_its_features_and_its_family() {
        let like = Library::builtin().workload("resnet50-b32").unwrap();
        let found = completed(&Profile { like: Some("resnet50-b32".into()), ..Profile::default() });
        assert_eq!(found.features, Some(Workload { name: "of-our-own".into(), aliases: Vec::new(), ..like.clone() }));
        assert_eq!((found.memory_gib, found.standard_error), (like.memory_gib, LIKE));
        let twice = Profile { like: Some("resnet50-b32".into()), batch: Some(64), ..Profile::default() };
        assert_eq!(completed(&twice).features.unwrap().flops_per_step, 2.0 * like.flops_per_step);
    }

    #[test]
    fn parameters_and_a_domain_are_enough_and_less_is_not() {
        let language = Profile { params: Some(3e8), domain: Some("language".into()), ..Profile::default() };
        let found = completed(&language);
        let w = found.features.unwrap();
        assert!(w.flops_per_step > 1e9 && w.bytes_per_step > 1e6 && w.memory_gib > 0.1, "{w:?}");
        assert_eq!((found.standard_error, found.memory_gib), (FROM_PARAMS, 0.0));
        let domain = Profile { domain: Some("vision".into()), ..Profile::default() };
        assert_eq!(completed(&domain).standard_error, FROM_DOMAIN);
        let little = Profile { batch: Some(8), memory_gib: Some(30.0), ..Profile::default() };
        assert_eq!(completed(&little), Completed { memory_gib: 30.0, ..Completed::default() });
        assert_eq!(completed(&Profile::default()), Completed::default());
    }

    #[test]
    fn a_gpu_that_was_seen_idle_waits_for_its_host() {
        let busy = |u| Profile { like: Some("resnet50-b32".into()), gpu_utilisation: Some(u), ..Profile::default() };
        let host = |u| completed(&busy(u)).features.unwrap().host_seconds;
        assert!(host(0.2) > 5.0 * host(0.9) && host(1.0) == 0.0);
    }

    proptest! {
        #[test]
        fn nothing_that_is_stated_makes_nonsense(
            params in prop::option::of(any::<f64>()), memory in prop::option::of(any::<f64>()),
            busy in prop::option::of(any::<f64>()), batch in prop::option::of(any::<u32>()),
            domain in prop::option::of("[a-z]{0,6}"), like in prop::option::of("[a-z0-9-]{0,6}"),
        ) {
            let profile = Profile {
                like, domain, batch, params, memory_gib: memory, gpu_utilisation: busy, ..Profile::default()
            };
            let found = completed(&profile);
            prop_assert!(found.memory_gib.is_finite() && found.memory_gib >= 0.0 && found.standard_error.is_finite());
            if let Some(w) = found.features {
                for kind in Library::builtin().kinds() {
                    let seconds = step_seconds(&w, kind);
                    prop_assert!(seconds.is_none_or(|s| s.is_finite() && s > 0.0), "{:?} on {}", w, kind.name);
                }
            }
        }
    }
}
