//! Where a tenant's fairness figures come from, in words: the policy, newer estimates, or rounding to whole gangs.

use arles_core::allocate::{Promise, find_policy};

/// A ratio this near to 1 is 1.
const LEVEL: f64 = 0.01;
/// Received and granted differ if they do by more than this part, and by more than this many GPUs.
const ROUNDED: f64 = 0.05;

/// One tenant's figures.
pub(super) struct Figures<'a> {
    /// The policy that decided; `None` if several did.
    pub(super) policy: Option<&'a str>,
    /// By the estimates of the decision.
    pub(super) sharing: Option<f64>,
    /// The strongest envy and whom it is felt for, by the estimates of the decision.
    pub(super) envy: Option<(f64, &'a str)>,
    /// The same two by the estimates of now, and the round that was decided.
    pub(super) again: Option<(f64, f64, u64)>,
    /// GPUs granted, all kinds.
    pub(super) granted: f64,
    /// GPUs held, all kinds.
    pub(super) received: f64,
    /// `holds` for a moment, `received` for a window.
    pub(super) verb: &'a str,
}

impl Figures<'_> {
    /// A sentence for each figure that is not as one would expect.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let low = self.sharing.filter(|&sharing| sharing < 1.0 - LEVEL);
        let envious = self.envy.filter(|&(ratio, _)| ratio > 1.0 + LEVEL);
        if let Some(sharing) = low {
            notes.push(format!("sharing ratio {sharing:.2}: {}", self.policy_says(Promise::SharingIncentive, "it")));
        }
        if let Some((ratio, whom)) = envious {
            let says = self.policy_says(Promise::EnvyFree, "envy-freeness");
            notes.push(format!("envy {} for {whom}: {says}", shown(ratio)));
        }
        if let Some((sharing, envy, round)) = self.again
            && low.is_none()
            && envious.is_none()
            && (sharing < 1.0 - LEVEL || envy > 1.0 + LEVEL)
        {
            notes.push(format!(
                "fair by the estimates of round {round}; by the newest ones the sharing ratio would be {sharing:.2} and envy {}, and the next decision \
                 uses those",
                shown(envy)
            ));
        }
        let apart = (self.received - self.granted).abs();
        if apart > ROUNDED * self.granted && apart > ROUNDED {
            let (verb, received, granted) = (self.verb, self.received, self.granted);
            notes.push(format!(
                "{verb} {received:.1} GPUs where {granted:.1} are granted: whole gangs take turns, and idle GPUs are lent"
            ));
        }
        notes
    }

    fn policy_says(&self, promise: Promise, what: &str) -> String {
        match self.policy.and_then(find_policy) {
            None => "several policies were in force".into(),
            Some(policy) if policy.promises.contains(&promise) => {
                format!(
                    "{} promises {what} only where no job limit, floor or shared GPU stands in the way",
                    policy.name
                )
            }
            Some(policy) => format!("{} does not promise {what}", policy.name),
        }
    }
}

fn shown(ratio: f64) -> String {
    if ratio >= 10.0 { "above 10".into() } else { format!("{ratio:.2}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> Figures<'static> {
        let envy = Some((1.0, "team-b"));
        Figures {
            policy: Some("oef-coop"),
            sharing: Some(1.2),
            envy,
            again: None,
            granted: 4.0,
            received: 4.0,
            verb: "holds",
        }
    }

    #[test]
    fn a_fair_decision_needs_no_words() {
        assert!(figures().notes().is_empty());
    }

    #[test]
    fn each_cause_is_named_apart() {
        let newer = Figures { again: Some((0.97, 1.03, 17)), ..figures() }.notes();
        assert_eq!(newer.len(), 1);
        assert!(newer[0].starts_with("fair by the estimates of round 17; by the newest ones"), "{newer:?}");
        let rounded = Figures { received: 3.0, ..figures() }.notes();
        assert_eq!(rounded, ["holds 3.0 GPUs where 4.0 are granted: whole gangs take turns, and idle GPUs are lent"]);
        let blind = Figures { policy: Some("fifo"), envy: Some((10.0, "team-b")), ..figures() }.notes();
        assert_eq!(blind, ["envy above 10 for team-b: fifo does not promise envy-freeness"]);
    }
}
