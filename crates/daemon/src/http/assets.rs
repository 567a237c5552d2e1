//! Files of the dashboard, compiled in.
//!
//! A file is added by a line in [`ASSETS`] and its name in [`NAMES`]; a test compares both with the folder.

/// A file of the dashboard.
pub(super) struct Asset {
    pub(super) name: &'static str,
    pub(super) media_type: &'static str,
    pub(super) bytes: &'static [u8],
}

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

macro_rules! asset {
    ($name:literal, $media_type:expr) => {
        Asset { name: $name, media_type: $media_type, bytes: include_bytes!(concat!("../../dashboard/", $name)) }
    };
}

/// All files of the dashboard.
pub(super) const ASSETS: &[Asset] = &[
    asset!("api.js", SCRIPT),
    asset!("app.js", SCRIPT),
    asset!("base.js", SCRIPT),
    asset!("cluster.js", SCRIPT),
    asset!("decisions.js", SCRIPT),
    asset!("drawer.js", SCRIPT),
    asset!("energy.js", SCRIPT),
    asset!("estimates.js", SCRIPT),
    asset!("fairness.js", SCRIPT),
    asset!("history.js", SCRIPT),
    asset!("index.html", HTML),
    asset!("jobs.js", SCRIPT),
    asset!("queue.js", SCRIPT),
    asset!("style.css", STYLE),
    asset!("submit.js", SCRIPT),
    asset!("window.js", SCRIPT),
];

/// Their names, as the table of routes wants them.
pub(super) const NAMES: &[&str] = &[
    "api.js",
    "app.js",
    "base.js",
    "cluster.js",
    "decisions.js",
    "drawer.js",
    "energy.js",
    "estimates.js",
    "fairness.js",
    "history.js",
    "index.html",
    "jobs.js",
    "queue.js",
    "style.css",
    "submit.js",
    "window.js",
];

/// Their media types.
pub(super) const TYPES: &[&str] = &[HTML, SCRIPT, STYLE];

/// The file of that name.
pub(super) fn find(name: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_the_folder() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("dashboard");
        let mut there: Vec<String> = std::fs::read_dir(folder)
            .expect("the folder of the dashboard")
            .filter_map(|entry| entry.ok().filter(|entry| entry.path().is_file())?.file_name().into_string().ok())
            .collect();
        there.sort();
        let mut listed: Vec<&str> = ASSETS.iter().map(|asset| asset.name).collect();
        assert_eq!(listed, NAMES, "ASSETS and NAMES are in the same order");
        listed.sort_unstable();
        assert_eq!(listed, there, "http/assets.rs lists every file of crates/daemon/dashboard");
        assert!(ASSETS.iter().all(|asset| TYPES.contains(&asset.media_type)));
    }
}
