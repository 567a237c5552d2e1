//! The committed description of the API is the one that the server gives.

use arles_daemon::http::{markdown, openapi};
use std::path::{Path, PathBuf};

const BLESS: &str = "write it anew with: ARLES_BLESS=1 cargo test --release -p arles-daemon --test http_openapi";
const BEGIN: &str = "<!-- routes: begin -->\n";
const END: &str = "<!-- routes: end -->";

fn docs(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}

fn compare(name: &str, there: &str, wanted: &str) {
    if there == wanted {
        return;
    }
    if std::env::var_os("ARLES_BLESS").is_some() {
        std::fs::write(docs(name), wanted).expect("the file can be written");
        return;
    }
    let line = there.lines().zip(wanted.lines()).position(|(there, wanted)| there != wanted);
    panic!(
        "docs/{name} is not what the table of routes says, from line {} on; {BLESS}",
        line.map_or(0, |line| line + 1)
    );
}

#[test]
fn the_openapi_file_is_fresh() {
    let there = std::fs::read_to_string(docs("openapi.json")).unwrap_or_default();
    compare("openapi.json", &there, &openapi());
}

#[test]
fn the_table_in_the_guide_is_fresh() {
    let there = std::fs::read_to_string(docs("api.md")).expect("docs/api.md is there");
    let (before, rest) = there.split_once(BEGIN).expect("docs/api.md has the line that begins the table");
    let (_, after) = rest.split_once(END).expect("docs/api.md has the line that ends the table");
    compare("api.md", &there, &format!("{before}{BEGIN}{}{END}{after}", markdown()));
}
