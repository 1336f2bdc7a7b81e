//! Every scenario to AG-UI, in every dialect and setting, judged by our own verifier at its strictest.

use aqueduct_adapter_agui::verify::{Level, verify, verify_sse};
use aqueduct_core::testing::{run_to_end, scenarios};
use aqueduct_tests::agui::{all_settings, convert, sse_body};

#[test]
fn every_scenario_in_every_setting_passes_the_strict_verifier() {
    for (name, events) in scenarios() {
        let blocks = run_to_end(events);
        for settings in all_settings() {
            let events = convert(&blocks, &settings);
            let found = verify(&events, settings.dialect, Level::Strict);
            assert!(found.is_empty(), "{name}, {settings:?}: {found:#?}\n{}", sse_body(&events));
            let found = verify_sse(sse_body(&events).as_bytes(), settings.dialect, Level::Strict);
            assert!(found.is_empty(), "{name}, {settings:?}: {found:#?}");
        }
    }
}
