//! Golden files: what a fixture looks like in a protocol, read through once by eye and compared ever after.
//!
//! `UPDATE_EXPECT=1` rewrites them; a missing one is an error, so that a new fixture cannot pass unread.

use std::path::Path;
use std::{env, fs};

/// Compares `text` with `tests/golden/<path>`.
#[track_caller]
pub fn check(path: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(path);
    if env::var_os("UPDATE_EXPECT").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
        return;
    }
    let golden = fs::read_to_string(&file)
        .unwrap_or_else(|error| panic!("{path}: {error}; UPDATE_EXPECT=1 writes it, then read it"));
    if golden != text {
        let line = golden.lines().zip(text.lines()).position(|(a, b)| a != b);
        let at = line.unwrap_or_else(|| golden.lines().count().min(text.lines().count()));
        let (was, is) = (golden.lines().nth(at), text.lines().nth(at));
        panic!("{path}, line {}:\n was {was:?}\n is  {is:?}\nUPDATE_EXPECT=1 rewrites it", at + 1);
    }
}
