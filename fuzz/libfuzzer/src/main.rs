//! Runs one target under libFuzzer, selected by the variable `AQUEDUCT_FUZZ_TARGET`. Built and called by `cargo xtask fuzz`.
#![no_main]

use std::sync::LazyLock;

use aqueduct_fuzz::Target;
use libfuzzer_sys::fuzz_target;

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("AQUEDUCT_FUZZ_TARGET").unwrap_or_default();
    aqueduct_fuzz::target(&name).unwrap_or_else(|| panic!("AQUEDUCT_FUZZ_TARGET: there is no target {name:?}"))
});

fuzz_target!(|data: &[u8]| (TARGET.run)(data));
