//! The envelope of an event: the address that is written around its payload.
//!
//! The encoder appends the bytes of the payload, which are not parsed here:
//!
//! ```text
//! {"type":"event","run":"r1","number":7,"k":1,"data": ⟨payload⟩ ,"more":true}
//! └──────── made once per run ────────┘
//! ```
//!
//! One event may become several payloads, which share its number and count in `k`; all but the last have `more`, so that a
//! reader knows which events are complete.

use std::io::Write as _;

use aqueduct_core::service::PayloadSink;

use super::batch::Batch;
use crate::message::binary;

/// The addressing of one run's events.
#[derive(Debug)]
pub(crate) enum Envelope {
    /// None: a plain connection has one run.
    Plain,
    /// JSON; contains everything before the number.
    Json(Vec<u8>),
    /// A binary header; contains the run.
    Binary(String),
}

impl Envelope {
    /// Returns the JSON envelope of a run.
    pub(crate) fn json(run: &str) -> Self {
        let mut head = br#"{"type":"event","run":"#.to_vec();
        // Writing text into memory cannot fail.
        serde_json::to_writer(&mut head, run).unwrap_or_default();
        head.extend_from_slice(br#","number":"#);
        Self::Json(head)
    }

    /// Writes the part before the payload.
    fn begin(&self, number: u64, k: u32, out: &mut Vec<u8>) {
        match self {
            Self::Plain => {}
            Self::Binary(run) => binary::write_event(run, number, k, out),
            Self::Json(head) => {
                out.extend_from_slice(head);
                write!(out, "{number}").unwrap_or_default();
                if k > 0 {
                    write!(out, ",\"k\":{k}").unwrap_or_default();
                }
                out.extend_from_slice(br#","data":"#);
            }
        }
    }

    /// Writes the part after the payload, or sets the bit of a binary header.
    fn end(&self, start: usize, more: bool, out: &mut Vec<u8>) {
        match self {
            Self::Json(_) if more => out.extend_from_slice(br#","more":true}"#),
            Self::Json(_) => out.push(b'}'),
            Self::Binary(_) if more => {
                if let Some(k) = out.get_mut(start + binary::K_OFFSET) {
                    *k |= binary::MORE_BIT;
                }
            }
            Self::Binary(_) | Self::Plain => {}
        }
    }
}

/// Appends the payloads of one event to a batch.
pub(crate) struct EventWriter<'a> {
    batch: &'a mut Batch,
    envelope: &'a Envelope,
    number: u64,
    payloads: u32,
    binary: bool,
}

impl<'a> EventWriter<'a> {
    /// Returns a writer of the payloads of one event. The message is text or binary, as the envelope determines.
    pub(crate) fn new(batch: &'a mut Batch, envelope: &'a Envelope, number: u64, binary: bool) -> Self {
        // With a JSON envelope the message is text, whatever the encoder is.
        let binary = match envelope {
            Envelope::Plain => binary,
            Envelope::Json(_) => false,
            Envelope::Binary(_) => true,
        };
        Self { batch, envelope, number, payloads: 0, binary }
    }

    /// Ends the last payload.
    pub(crate) fn finish(mut self) {
        self.end_payload(false);
    }

    /// Ends the current payload, if there is one. `more` is set if another payload of the same event follows.
    fn end_payload(&mut self, more: bool) {
        if self.payloads > 0 {
            let start = self.batch.start();
            self.envelope.end(start, more, self.batch.bytes());
            self.batch.end_message(self.binary);
        }
    }
}

impl PayloadSink for EventWriter<'_> {
    fn push(&mut self, write: &mut dyn FnMut(&mut Vec<u8>)) {
        self.end_payload(true);
        self.envelope.begin(self.number, self.payloads, self.batch.bytes());
        write(self.batch.bytes());
        self.payloads += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use tokio_tungstenite::tungstenite::Message;

    use super::*;

    fn written(envelope: &Envelope, payloads: &[&str]) -> Vec<Vec<u8>> {
        let mut batch = Batch::default();
        let mut writer = EventWriter::new(&mut batch, envelope, 7, false);
        for payload in payloads {
            writer.push(&mut |out| out.extend_from_slice(payload.as_bytes()));
        }
        writer.finish();
        let mut outbox = VecDeque::new();
        batch.move_into(&mut outbox);
        outbox
            .into_iter()
            .map(|message| match message {
                Message::Frame(frame) => frame.payload().to_vec(),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn payloads_of_one_event_share_its_number() {
        let messages = written(&Envelope::json("a\"b"), &["{}", "[1]"]);
        assert_eq!(messages[0], br#"{"type":"event","run":"a\"b","number":7,"data":{},"more":true}"#);
        assert_eq!(messages[1], br#"{"type":"event","run":"a\"b","number":7,"k":1,"data":[1]}"#);
    }

    #[test]
    fn binary_and_plain_carry_the_payload_as_it_is() {
        let messages = written(&Envelope::Binary("r".into()), &["x", "y"]);
        assert_eq!(binary::read_event(&messages[0]), Some(("r", 7, 0, true, messages[0].len() - 1)));
        assert_eq!(binary::read_event(&messages[1]), Some(("r", 7, 1, false, messages[1].len() - 1)));
        assert_eq!(written(&Envelope::Plain, &["x", "y"]), [b"x", b"y"]);
        assert!(written(&Envelope::Plain, &[]).is_empty());
    }
}
