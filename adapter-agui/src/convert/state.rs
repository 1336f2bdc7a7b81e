//! Events of the shared state.

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
pub(super) fn operations(patch: &[Value]) -> Option<Vec<PatchOperation>> {
    patch
        .iter()
        .map(|operation| {
            let operation = PatchOperation(operation.as_object()?.clone());
            operation.check().is_ok().then_some(operation)
        })
        .collect()
}
