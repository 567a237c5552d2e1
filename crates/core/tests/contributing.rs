//! The policy in CONTRIBUTING.md is this file's neighbour to the byte: it compiles against what policies may use, and keeps
//! what it promises.

#[path = "contributing/allocate.rs"]
mod allocate;
#[path = "conformance/attained.rs"]
mod attained;
#[path = "conformance/draws.rs"]
mod draws;
#[path = "conformance/promises.rs"]
mod promises;
#[path = "conformance/reference.rs"]
mod reference;
#[path = "conformance/suite.rs"]
mod suite;

#[test]
fn the_page_shows_the_file_that_compiles() {
    let page = include_str!("../../../CONTRIBUTING.md");
    let shown: Vec<&str> = page.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    let file = include_str!("contributing/newest.rs");
    assert!(shown.contains(&file), "CONTRIBUTING.md does not show crates/core/tests/contributing/newest.rs as it is");
    for line in ["mod newest;", "newest::ENTRY,"] {
        assert!(shown.iter().any(|block| block.contains(line)), "CONTRIBUTING.md does not say '{line}'");
    }
}

#[test]
fn the_policy_of_the_page_keeps_its_promises() {
    let mut tally = suite::Tally::default();
    suite::run(allocate::POLICIES, 100, &mut tally).expect("every promise is kept");
    for &promise in allocate::POLICIES[0].promises {
        assert!(tally.checks[&("newest", promise)] >= 25, "{} was hardly checked: {tally:?}", promise.name());
    }
}
