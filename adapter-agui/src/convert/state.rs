//! Events of the shared state.
//!
//! The state belongs to the run, not to a lane: changes by hidden sub-agents are shown as well,
//! because a later patch may refer to what they added.

use aqueduct_core::{BlockEvent, BlockEventConverter, ByteString};
use serde_json::{Value, json};

use super::show::converter;
use crate::wire::{Event, PatchOperation, Raw, StateDelta, StateSnapshot};

converter! {
    /// `STATE_SNAPSHOT`, `STATE_DELTA`. An invalid patch would end the stream of a 1.0 client, so it becomes `RAW`.
    StateConverter
}

impl BlockEventConverter<Event> for StateConverter {
    fn convert(&self, event: &BlockEvent, out: &mut Vec<Event>) {
        match event {
            BlockEvent::StateSnapshot { lane, state } => {
                out.push(Event::StateSnapshot(StateSnapshot {
                    snapshot: state.clone(),
                    subagent_run_id: self.settings.tag(lane),
                    ..StateSnapshot::default()
                }));
            }
            BlockEvent::StateDelta { lane, patch } => {
                let subagent_run_id = self.settings.tag(lane);
                out.push(match operations(patch) {
                    Some(delta) => {
                        Event::StateDelta(StateDelta { delta, subagent_run_id, ..StateDelta::default() })
                    }
                    None => Event::Raw(Raw {
                        event: json!({ "stateDelta": patch }),
                        source: Some(ByteString::from_static("aqueduct")),
                        subagent_run_id,
                        ..Raw::default()
                    }),
                });
            }
            _ => {}
        }
    }
}

/// Returns operations that every client accepts. Returns `None` if one of them is not of RFC 6902.
/// A single invalid operation makes the whole patch unusable: RFC 6902 applies a patch completely
/// or not at all. Activities use the same check.
pub(super) fn operations(patch: &[Value]) -> Option<Vec<PatchOperation>> {
    patch
        .iter()
        .map(|operation| {
            let operation = PatchOperation(operation.as_object()?.clone());
            operation.check().is_ok().then_some(operation)
        })
        .collect()
}
