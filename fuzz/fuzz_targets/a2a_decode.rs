//! A2A of any shape, one payload per line, with cuts and reconnects: the client never panics, comes to an end, and what
//! comes of it is balanced.
#![no_main]

use aqueduct_adapter_a2a::call::{SendMessage, user_message};
use aqueduct_adapter_a2a::wire::Frame;
use aqueduct_adapter_a2a::{ClientConfig, TaskClient};
use aqueduct_core::ByteString;
use aqueduct_core::testing::{InvariantChecker, run_to_end};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let message = SendMessage::new(user_message("m", None, Vec::new()));
    let mut client = TaskClient::new(ClientConfig::default(), message);
    let mut events = Vec::new();
    for line in text.lines() {
        let planned = client.poll_request();
        match (line.as_bytes().first(), planned) {
            // A line of its own kind each for a stream that ends, an answer that is no stream, and a wish to stop.
            (Some(b'!'), _) => client.handle_stream_end(),
            (Some(b'?'), Some(planned)) => {
                let body = ByteString::from(line.trim_start_matches('?'));
                client.handle_response(planned.purpose, 200, &body);
            }
            (Some(b'#'), _) => client.handle_cancel(),
            _ => client.handle_frame(Frame::data(&ByteString::from(line))),
        }
        events.extend(std::iter::from_fn(|| client.poll_event()));
    }
    InvariantChecker::check_all(&run_to_end(events)).expect("balanced");
});
