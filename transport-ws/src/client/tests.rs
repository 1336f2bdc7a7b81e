//! What the server's side writes, this side reads.

use std::collections::VecDeque;

use aqueduct_core::service::PayloadSink;
use bytes::Bytes;
use proptest::prelude::*;
use tokio_tungstenite::tungstenite::Message;

use super::incoming::Incoming;
use super::run::{Event, Position};
use crate::driver::batch::Batch;
use crate::driver::envelope::{Envelope, EventWriter};

/// The messages that an event with these payloads becomes.
fn written(envelope: &Envelope, number: u64, payloads: &[String]) -> Vec<Bytes> {
    let mut batch = Batch::default();
    let mut writer = EventWriter::new(&mut batch, envelope, number, false);
    for payload in payloads {
        writer.push(&mut |out| out.extend_from_slice(payload.as_bytes()));
    }
    writer.finish();
    let mut outbox = VecDeque::new();
    batch.move_into(&mut outbox);
    let payload = |message| match message {
        Message::Frame(frame) => frame.into_payload(),
        other => panic!("{other:?}"),
    };
    outbox.into_iter().map(payload).collect()
}

proptest! {
    #[test]
    fn events_come_back_in_both_encodings(run in ".{0,30}", number in 1_u64.., texts in prop::collection::vec(".{0,30}", 1..4)) {
        let payloads: Vec<String> = texts.iter().map(|text| serde_json::to_string(text).unwrap()).collect();
        for (envelope, binary) in [(Envelope::json(&run), false), (Envelope::Binary(run.clone()), true)] {
            let messages = written(&envelope, number, &payloads);
            prop_assert_eq!(messages.len(), payloads.len());
            let mut position = Position::default();
            for (at, (message, payload)) in messages.iter().zip(&payloads).enumerate() {
                let read = if binary {
                    Incoming::parse_binary(message)
                } else {
                    Incoming::parse_text(std::str::from_utf8(message).unwrap(), message)
                };
                let Ok(Incoming::Event { run: of, event }) = read else { panic!("{read:?}") };
                let more = at + 1 < payloads.len();
                let expected =
                    Event { number, k: u32::try_from(at).unwrap(), more, data: Bytes::from(payload.clone()) };
                prop_assert_eq!((&of, &event), (&run, &expected));
                prop_assert!(position.advance(&event));
                prop_assert_eq!(position.resume_after(), if more { number - 1 } else { number });
            }
        }
    }

    #[test]
    fn arbitrary_text_of_a_server_is_refused_or_read(text in ".{0,60}") {
        let whole = Bytes::from(text.clone());
        drop(Incoming::parse_text(&text, &whole));
        drop(Incoming::parse_binary(&whole));
    }
}
