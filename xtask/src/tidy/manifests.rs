//! Every dependency has a line of reason: a comment above it, or above the group of lines that it is in. A crate of this workspace
//! and `NAME.workspace = true` need none; the workspace's own table has theirs.

use super::Found;

pub(super) fn check(text: &str) -> Found {
    let mut found = Found::new();
    let (mut dependencies, mut reason) = (false, false);
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.starts_with('[') {
            dependencies = line.trim_matches(['[', ']']).ends_with("dependencies");
            reason = false;
        } else if line.is_empty() {
            reason = false;
        } else if line.starts_with('#') {
            reason = true;
        } else if dependencies && !reason {
            let Some((name, value)) = line.split_once('=') else { continue };
            if !name.contains(".workspace") && !value.contains("path =") && !value.contains("workspace = true") {
                let name = name.trim();
                found.push((
                    number,
                    format!("the dependency '{name}' has no reason; say on the line above what it is for"),
                ));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn a_dependency_without_a_reason_is_found() {
        let found = check("[package]\nname = \"a\"\n[dependencies]\nb.workspace = true\nc = \"1\"\n");
        assert!(found.len() == 1 && found[0].0 == 5 && found[0].1.contains("'c'"), "{found:?}");
        assert_eq!(check("[dev-dependencies]\n# Why.\nc = \"1\"\n\nd = \"1\"\n").len(), 1);
    }

    #[test]
    fn reasons_paths_and_the_workspace_pass() {
        let text = "[dependencies]\na = { path = \"a\" }\n# HTTP, both ends.\nb = \"1\"\nc = { version = \"1\" }\n[[bench]]\nname = \"x\"\n";
        assert_eq!(check(text), []);
    }
}
