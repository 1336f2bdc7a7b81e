//! Whatever a source sends, in whatever order, cut wherever: the stream is balanced and nothing is lost or doubled.

use proptest::prelude::*;

use crate::RunInfo;
use crate::stream::StreamContext;
use crate::testing::{
    InvariantChecker, arb_ending, arb_source_events, audit_content, run_context, run_to_end, scenarios, trace,
};

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn any_input_gives_a_balanced_stream_with_all_its_content(
        mut events in arb_source_events(40),
        ending in arb_ending(),
    ) {
        events.extend(ending);
        let out = run_to_end(events.clone());
        prop_assert_eq!(InvariantChecker::check_all(&out), Ok(()), "{}", trace(&out));
        prop_assert_eq!(audit_content(&events, &out), Ok(()), "{}", trace(&out));
    }

    #[test]
    fn ids_that_are_kept_change_nothing_but_ids(
        mut events in arb_source_events(40),
        ending in arb_ending(),
    ) {
        events.extend(ending);
        let context = StreamContext::new(RunInfo::new("thread", "run")).with_kept_ids(["m1"]);
        let out = run_context(context, events.clone());
        prop_assert_eq!(InvariantChecker::check_all(&out), Ok(()), "{}", trace(&out));
        prop_assert_eq!(audit_content(&events, &out), Ok(()), "{}", trace(&out));
        let kinds = |events: &[crate::BlockEvent]| events.iter().map(crate::BlockEvent::kind).collect::<Vec<_>>();
        prop_assert_eq!(kinds(&out), kinds(&run_to_end(events)));
    }
}

#[test]
fn every_scenario_is_balanced_with_all_its_content_and_repeats_itself() {
    for (name, events) in scenarios() {
        let out = run_to_end(events.clone());
        assert_eq!(InvariantChecker::check_all(&out), Ok(()), "{name}\n{}", trace(&out));
        assert_eq!(audit_content(&events, &out), Ok(()), "{name}\n{}", trace(&out));
        assert_eq!(run_to_end(events), out, "{name}");
    }
}
