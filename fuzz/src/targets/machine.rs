//! The stream machine, and consumers of its events.

use std::collections::BTreeMap;

use aqueduct_core::coalesce::Coalescer;
use aqueduct_core::service::NumberedEvent;
use aqueduct_core::testing::InvariantChecker;
use aqueduct_core::{BlockEvent, History, Limits, RunInfo, StreamContext};

use crate::ops;

/// Runs any operations.
pub(super) fn stream(data: &[u8]) {
    InvariantChecker::check_all(&ops::run(data)).expect("balanced");
}

/// Cuts a run after some of its events, and lets its source repeat them. The first byte is the position of the cut.
pub(super) fn takeover(data: &[u8]) {
    let Some((cut, data)) = data.split_first() else { return };
    let events = ops::run(data);
    let past: Vec<BlockEvent> =
        events.iter().take_while(|event| !event.is_terminal()).take(usize::from(*cut)).cloned().collect();
    let mut history = History::default();
    let mut context = StreamContext::resuming(RunInfo::new("thread", "run"), Limits::default());
    for event in &past {
        history.handle_event(event);
        context.handle_past(event);
    }
    let (rest, _) = history.deduplicate(ops::source_events(data), |_| false);
    for event in rest {
        context.handle_event(event).ok();
    }
    context.handle_eof();
    let whole: Vec<BlockEvent> =
        past.into_iter().chain(std::iter::from_fn(|| context.poll_event())).collect();
    InvariantChecker::check_all(&whole).expect("the whole is balanced");
}

/// Returns the text of every block, and the number of the last event.
fn texts<'e>(events: impl Iterator<Item = &'e NumberedEvent>) -> (BTreeMap<String, String>, u64) {
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    let mut last = 0;
    for event in events {
        last = event.number;
        if let BlockEvent::BlockDelta { block, delta } = &event.event {
            texts.entry(block.id.to_string()).or_default().push_str(delta);
        }
    }
    (texts, last)
}

/// Coalesces events for a slow reader. The first byte is the limit of merged text.
pub(super) fn coalesce(data: &[u8]) {
    let Some((limit, data)) = data.split_first() else { return };
    let numbered = |(number, event)| NumberedEvent { number, event };
    let events: Vec<NumberedEvent> = (1..).zip(ops::run(data)).map(numbered).collect();
    let (mut coalescer, mut sent) = (Coalescer::default(), Vec::new());
    let mut flush = |coalescer: &mut Coalescer| {
        if let Some(gathered) = coalescer.take() {
            match gathered.merged() {
                Some(merged) => sent.push(merged),
                None => sent.extend(gathered.parts().cloned()),
            }
        }
    };
    for event in events.clone() {
        if let Some(back) = coalescer.handle_event(event, usize::from(*limit)) {
            flush(&mut coalescer);
            assert_eq!(
                coalescer.handle_event(back, usize::from(*limit)),
                None,
                "an empty coalescer takes anything"
            );
        }
    }
    flush(&mut coalescer);
    assert_eq!(texts(sent.iter()), texts(events.iter()));
    let others = |events: &[NumberedEvent]| -> Vec<NumberedEvent> {
        events.iter().filter(|event| !matches!(event.event, BlockEvent::BlockDelta { .. })).cloned().collect()
    };
    assert_eq!(others(&sent), others(&events));
    assert!(sent.is_sorted_by_key(|event| event.number));
}
