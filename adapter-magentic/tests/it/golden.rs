//! Every fixture has a golden trace of its canonical events. `UPDATE_EXPECT=1` writes them anew.

use std::fmt::Write;
use std::path::Path;

use aqueduct_core::testing::trace;

use crate::support::{fixture, fixture_names, runs};

#[test]
fn every_fixture_has_the_trace_that_was_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    let mut wrong = Vec::new();
    for name in fixture_names() {
        let mut text = String::new();
        for run in runs(&fixture(&name)) {
            writeln!(text, "{}", trace(&run.events)).unwrap();
        }
        let path = folder.join(format!("{}.trace", name.trim_end_matches('l').trim_end_matches(".json")));
        if update {
            std::fs::write(&path, &text).unwrap();
        } else if std::fs::read_to_string(&path).ok().as_deref() != Some(&text) {
            wrong.push(name);
        }
    }
    assert!(wrong.is_empty(), "other traces than expected (UPDATE_EXPECT=1 writes them): {wrong:?}");
}
