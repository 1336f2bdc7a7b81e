//! A protocol of your own: `{"prompt": …}` in, `{"say": …}`, `{"think": …}` and `{"end": …}` out.
//!
//! Converters receive balanced events and keep no state, so they cannot produce an unbalanced stream.

use aqueduct::core::convert::ConverterSet;
use aqueduct::core::event::EventKind;
use aqueduct::core::protocol::{Encoding, Protocol, ReadInput};
use aqueduct::core::service::{EventEncoder, PayloadSink, RefusalKind, ServiceError};
use aqueduct::core::{BlockEvent, RunInput};
use aqueduct::prelude::{Value, json};

/// The protocol: reads prompts, and creates encoders.
#[derive(Debug)]
pub(crate) struct Plain;

impl Protocol for Plain {
    fn read_input(&self, _: &str, bytes: &[u8], _: Encoding) -> Result<ReadInput, ServiceError> {
        let input: Value = serde_json::from_slice(bytes).unwrap_or_default();
        let member = |name| input.get(name).and_then(Value::as_str).map(str::to_owned);
        let (Some(prompt), Some(id)) = (member("prompt"), member("id")) else {
            let message = "send {\"id\": \"…\", \"prompt\": \"…\"}, with an id of your own";
            return Err(ServiceError::new(RefusalKind::Invalid, message));
        };
        Ok(ReadInput::new(RunInput::prompt(id.clone(), id, &prompt), Box::new(Encoder::new())))
    }

    fn encoder(&self, _: &str, _: Option<&str>, _: Encoding) -> Box<dyn EventEncoder> {
        Box::new(Encoder::new())
    }
}

struct Encoder {
    converters: ConverterSet<Value>,
    out: Vec<Value>,
}

impl Encoder {
    fn new() -> Self {
        let nothing = |_: &BlockEvent, _: &mut Vec<Value>| {};
        let delta = |name: &'static str| {
            move |event: &BlockEvent, out: &mut Vec<Value>| {
                if let BlockEvent::BlockDelta { delta, .. } = event {
                    out.push(json!({ name: &**delta }));
                }
            }
        };
        let end = |event: &BlockEvent, out: &mut Vec<Value>| match event {
            BlockEvent::RunFinished(_) => out.push(json!({ "end": "well" })),
            BlockEvent::RunFailed(_) => out.push(json!({ "end": "badly" })),
            _ => {}
        };
        let converters = ConverterSet::uniform(nothing)
            .with(EventKind::Text, delta("say"))
            .with(EventKind::Thinking, delta("think"))
            .with(EventKind::Run, end);
        Self { converters, out: Vec::new() }
    }
}

impl EventEncoder for Encoder {
    fn encode(&mut self, event: &BlockEvent, sink: &mut dyn PayloadSink) {
        self.converters.convert(event, &mut self.out);
        for value in self.out.drain(..) {
            sink.push(&mut |bytes| bytes.extend(value.to_string().into_bytes()));
        }
    }

    fn media_type(&self) -> &'static str {
        "text/event-stream"
    }

    fn is_binary(&self) -> bool {
        false
    }
}
