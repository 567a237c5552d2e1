//! What an audit leaves behind: figures for every party, who envies whom, and the verdict in words. Made elsewhere, drawn here.

use serde::Serialize;

/// A lie about one's own speeds, and what it would have brought.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LieRecord {
    /// True utility after the lie over that of honesty; 1 when no lie paid.
    pub gain: f64,
    /// `inflated`, `deflated`, `mixed`, or `none` when no lie paid.
    pub slant: String,
    /// What the rates are told as, times the true ones, by kind; empty when no lie paid.
    pub factors: Vec<f64>,
    /// How many lies were tried.
    pub tried: usize,
}

/// A user or tenant of an audit.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PartyRecord {
    /// As the question, the trace or the daemon calls it.
    pub name: String,
    /// Its part of all claims.
    pub entitlement_ratio: f64,
    /// GPUs that it holds, by kind, on average over time.
    pub gpus: Vec<f64>,
    /// Utility over that of an equal division: below 1 it would be better off with its own part.
    pub sharing_ratio: Option<f64>,
    /// The strongest envy, above 1 if there is one.
    pub worst_envy: Option<f64>,
    /// Whom that is felt for.
    pub envied: Option<String>,
    /// Time to the end of its jobs over what that would be with its own part of the cluster: above 1 it is later.
    pub finish_time_ratio: Option<f64>,
    /// The same of its worst-off job.
    pub worst_finish_time_ratio: Option<f64>,
    /// Utility over what the policy itself gives it, where an allocation is laid beside a policy.
    pub beside_policy_ratio: Option<f64>,
    /// The best lie found.
    pub best_lie: Option<LieRecord>,
}

/// One property, and whether it holds.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct AuditVerdict {
    /// `envy-freeness`, `sharing incentive`, ….
    pub property: &'static str,
    /// Whether it holds; nothing where that was not looked at.
    pub holds: Option<bool>,
    /// The same in words, with the figures.
    pub words: String,
}

/// Everything that an audit found.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct AuditRecord {
    /// What was audited, in words.
    pub subject: String,
    /// The policy that divided, or that the division is laid beside.
    pub policy: Option<String>,
    /// Kinds; `gpus` and `factors` index them.
    pub kinds: Vec<String>,
    /// Users or tenants; `envy` indexes them both ways.
    pub parties: Vec<PartyRecord>,
    /// What the row's party would have with the GPUs of the column's, over what it has; empty where there are too many.
    pub envy: Vec<Vec<Option<f64>>>,
    /// How much the total could rise with nobody worse off, as a part of it.
    pub pareto_gap_ratio: Option<f64>,
    /// And how much it can rise at most.
    pub pareto_bound_ratio: Option<f64>,
    /// Jain's index of utilities per entitlement.
    pub jain_index: Option<f64>,
    /// Property by property.
    pub verdicts: Vec<AuditVerdict>,
    /// All of it in a sentence or two.
    pub verdict: String,
}
