//! Two agents that need no model.

use std::time::Duration;

use aqueduct_core::{ContentBlock, Message, RunInput, RunOutcome, SourceEvent, Update};
use futures_util::stream::{self, BoxStream, StreamExt as _};

/// Thinks, calls a tool, and says what the user said, word by word.
pub fn echo(input: &RunInput) -> BoxStream<'static, SourceEvent> {
    let asked = input.latest_user_message().map(Message::text).unwrap_or_default();
    let mut script = vec![
        SourceEvent::from(Update::new(ContentBlock::thinking("The user wants an echo."))),
        Update::new(ContentBlock::tool_use("call_1", "split", r#"{"by":" "}"#)).into(),
        Update::new(ContentBlock::tool_result("call_1", "done")).into(),
    ];
    script.extend(asked.split_inclusive(' ').map(|word| Update::text(word.to_owned()).into()));
    script.push(SourceEvent::Finished { outcome: RunOutcome::Success, result: None });
    stream::iter(script).boxed()
}

/// Counts every 20 ms for a minute.
pub fn slow(_: &RunInput) -> BoxStream<'static, SourceEvent> {
    let count = stream::iter(1..=3000).then(async |number: u32| {
        tokio::time::sleep(Duration::from_millis(20)).await;
        SourceEvent::from(Update::text(format!("{number} ")))
    });
    let end = SourceEvent::Finished { outcome: RunOutcome::Success, result: None };
    count.chain(stream::iter([end])).boxed()
}
