//! Whatever agents say, in whatever pieces, with or without ids: each message is told once per channel, to its agent.

use aqueduct_core::Channel;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{completed, invoked, merged, run_of, status, text, texts, update};

#[derive(Debug, Clone)]
struct Agent {
    /// What it says, message by message; texts may repeat.
    messages: Vec<Vec<String>>,
    has_ids: bool,
    /// Re-sends each whole text, as the Responses client does.
    repeats: bool,
    /// Uses a tool between its messages.
    tools: bool,
}

fn agent() -> impl Strategy<Value = Agent> {
    let message = prop::collection::vec("[ab ]{0,2}[abc]", 1..4);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    (prop::collection::vec(message, 1..4), flags).prop_map(|(messages, (has_ids, repeats, tools))| Agent {
        messages,
        has_ids,
        repeats,
        tools,
    })
}

impl Agent {
    fn id(&self, name: &str, message: usize) -> Value {
        if self.has_ids { json!(format!("{name}-{message}")) } else { Value::Null }
    }

    /// Its updates, in order.
    fn updates(&self, name: &str, kind: &str) -> Vec<Value> {
        let mut updates = Vec::new();
        for (at, chunks) in self.messages.iter().enumerate() {
            let id = self.id(name, at);
            for chunk in chunks {
                updates.push(update(kind, name, &json!({"contents": [text(chunk)], "message_id": id})));
            }
            if self.repeats {
                let whole = json!({"type": "text", "text": chunks.concat(), "merge_mode": "replace"});
                updates.push(update(kind, name, &json!({"contents": [whole], "message_id": id})));
            }
            updates.push(update(
                kind,
                name,
                &json!({"contents": [], "message_id": id, "finish_reason": "stop"}),
            ));
            if self.tools {
                let call = format!("{name}-call-{at}");
                let used = json!({"type": "function_call", "call_id": call, "name": "f", "arguments": "{}"});
                let result = json!({"type": "function_result", "call_id": call, "result": "ok"});
                updates.push(update(kind, name, &json!({"contents": [used], "message_id": id})));
                updates.push(update(kind, name, &json!({"contents": [result], "role": "tool"})));
            }
        }
        updates
    }

    fn whole(&self, name: &str) -> Vec<Value> {
        let message = |(at, chunks): (usize, &Vec<String>)| {
            json!({"type": "message", "role": "assistant", "author_name": name, "message_id": self.id(name, at),
                   "contents": [text(&chunks.concat())]})
        };
        self.messages.iter().enumerate().map(message).collect()
    }
}

/// What is said, agent by agent, in each one's order; white space at the ends does not count.
fn by_agent(said: impl IntoIterator<Item = (String, String)>) -> Vec<(String, String)> {
    let mut said: Vec<(String, String)> =
        said.into_iter().map(|(agent, text)| (agent, text.trim().to_owned())).collect();
    said.sort_by(|a, b| a.0.cmp(&b.0));
    said
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn everybody_is_heard_once(
        agents in prop::collection::vec(agent(), 1..4),
        order in prop::collection::vec(0_usize..4, 0..40),
        as_answer in any::<bool>(),
        streamed in any::<bool>(),
        aggregated in any::<bool>(),
    ) {
        let kind = if as_answer { "output" } else { "intermediate" };
        let names: Vec<String> = (0..agents.len()).map(|n| format!("agent{n}")).collect();
        let mut events: Vec<Value> = names.iter().map(|name| invoked(name)).collect();
        if streamed {
            let mut queues: Vec<_> =
                agents.iter().zip(&names).map(|(agent, name)| agent.updates(name, kind).into_iter()).collect();
            for at in order {
                events.extend(queues.get_mut(at % agents.len()).and_then(Iterator::next));
            }
            events.extend(queues.into_iter().flatten());
        } else {
            for (agent, name) in agents.iter().zip(&names) {
                events.push(json!({"type": kind, "executor_id": name, "data": {"type": "agent_response", "messages": agent.whole(name)}}));
            }
        }
        events.extend(names.iter().map(|name| completed(name)));
        if aggregated {
            let all: Vec<Value> = agents.iter().zip(&names).flat_map(|(agent, name)| agent.whole(name)).collect();
            events.push(invoked("aggregator"));
            events.push(json!({"type": "output", "executor_id": "aggregator", "data": {"type": "agent_response", "messages": all}}));
            events.push(completed("aggregator"));
        }
        events.push(status("IDLE"));

        let run = run_of(&events);
        let everything = by_agent(agents.iter().zip(&names).flat_map(|(agent, name)| {
            agent.messages.iter().map(|chunks| (name.clone(), chunks.concat()))
        }));
        let heard = |channel| by_agent(texts(&run.events, channel));
        let answer = if as_answer || aggregated { everything.clone() } else { Vec::new() };
        let work = if as_answer { Vec::new() } else { everything };
        prop_assert_eq!(heard(Channel::Answer), answer.clone());
        prop_assert_eq!(heard(Channel::Intermediate), work);

        let messages = merged(&run).response.messages;
        let said = messages.iter().filter(|m| m.channel == Channel::Answer && !m.text().is_empty());
        let said = by_agent(said.map(|m| (m.source.name().to_owned(), m.text())));
        prop_assert_eq!(said, answer);
    }
}
