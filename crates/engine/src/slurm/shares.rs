//! What accounts are entitled to by Slurm's database: the fair shares of its associations, as weights of tenants.
//!
//! An account's part of the cluster is its share over the shares of its siblings, times the part of its parent. Weights are these parts times the number of
//! accounts without children, so that equal accounts weigh 1 as tenants do by default.

use super::controller::Controller;
use arles_core::engine::EngineError;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// An account: its parent's name, and its share among the children of that.
type Accounts = BTreeMap<String, (String, f64)>;

/// Weights of all accounts that Slurm's database has of this cluster; nothing where there is no database. `conf`: Slurm's configuration, where it is
/// not in its usual place.
///
/// # Errors
/// When there is one and it does not answer.
pub fn share_weights(conf: Option<PathBuf>) -> Result<BTreeMap<String, f64>, EngineError> {
    let controller = Controller::new(None, conf);
    let configuration = String::from_utf8_lossy(&controller.run(&["scontrol", "show", "config"])?).into_owned();
    let value = |name: &str| {
        let lines = configuration.lines().filter_map(|line| line.split_once('='));
        lines.into_iter().find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
    };
    if !value("AccountingStorageType").is_some_and(|kind| kind.ends_with("/slurmdbd")) {
        return Ok(BTreeMap::new());
    }
    let cluster = format!("cluster={}", value("ClusterName").unwrap_or_default());
    let question = ["sacctmgr", "-nP", "show", "assoc", "where", &cluster, "format=Account,ParentName,User,Share"];
    let text = controller.run(&question)?;
    Ok(weights(&read(&String::from_utf8_lossy(&text))))
}

/// Reads `ACCOUNT|PARENT|USER|SHARE`; lines with a user are of people, not of accounts.
fn read(text: &str) -> Accounts {
    let mut accounts = Accounts::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split('|').collect();
        if let [account, parent, "", share] = fields[..]
            && account != "root"
        {
            // "parent" means: as if its users were its parent's.
            accounts.insert(account.to_owned(), (parent.to_owned(), share.parse().unwrap_or(1.0)));
        }
    }
    accounts
}

fn weights(accounts: &Accounts) -> BTreeMap<String, f64> {
    let is_parent = |name: &str| accounts.values().any(|(parent, _)| parent == name);
    let leaves = accounts.keys().filter(|name| !is_parent(name)).count() as f64;
    accounts.keys().map(|name| (name.clone(), leaves * part(accounts, name, accounts.len()))).collect()
}

/// The part of the cluster that is an account's; `depth` ends what a loop of parents would not.
fn part(accounts: &Accounts, name: &str, depth: usize) -> f64 {
    let Some((parent, share)) = accounts.get(name) else { return 1.0 };
    let siblings: f64 = accounts.values().filter(|(other, _)| other == parent).map(|(_, share)| share).sum();
    let above = if depth == 0 { 1.0 } else { part(accounts, parent, depth - 1) };
    if siblings > 0.0 { above * share / siblings } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What sacctmgr 22.05 prints.
    const SHOWN: &str = "root|||1\nroot||root|1\ncontrol|root||1\ncontrol||root|1\nscience|root||3\nlanguage|science||1\n\
                         language||root|1\nvision|science||2\nvision||ada|1\nvision||root|1\n";

    #[test]
    fn shares_of_a_tree_become_weights() {
        let found = weights(&read(SHOWN));
        let shown: Vec<(&str, f64)> = found.iter().map(|(name, weight)| (name.as_str(), *weight)).collect();
        assert_eq!(shown, [("control", 0.75), ("language", 0.75), ("science", 2.25), ("vision", 1.5)]);
    }

    #[test]
    fn equal_accounts_weigh_one_and_nonsense_ends() {
        assert_eq!(weights(&read("a|root||5\nb|root||5\n"))["a"], 1.0);
        assert_eq!(weights(&read("a|root||parent\n"))["a"], 1.0);
        assert_eq!(weights(&read("a|root||0\n"))["a"], 0.0);
        assert!(weights(&read("a|b||1\nb|a||1\n")).values().all(|weight| weight.is_finite()));
        assert!(weights(&read("no such thing")).is_empty());
    }
}
