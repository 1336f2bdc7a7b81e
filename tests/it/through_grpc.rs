//! A run as a client of the gRPC stream service reads it: every event to a message and back.

use aqueduct_core::service::NumberedEvent;
use aqueduct_core::{BlockEvent, RunId};
use aqueduct_transport_grpc::convert::{EventReader, EventWriter};

/// The events of a run after the way over `aqueduct.v1`, a message each.
pub(crate) fn through_grpc(run: &[BlockEvent]) -> Vec<BlockEvent> {
    let mut writer = EventWriter::new(&RunId::from("run"));
    let mut reader = EventReader::new();
    let mut events = Vec::new();
    for (event, number) in run.iter().zip(1..) {
        writer.push(&NumberedEvent { number, event: event.clone() }).unwrap();
        reader.read(writer.take(), |event| events.push(event.event)).unwrap();
    }
    assert_eq!(reader.skipped(), 0);
    events
}
