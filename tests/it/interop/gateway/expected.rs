//! What a frontend must hold after a mode, and the comparison.

use serde_json::{Value, json};

use super::frontend::Client;
use super::stage::script;

/// Stands for the words of the run's end.
const ERROR: &str = "{error}";

/// The turns of a mode, as the file has them.
fn turns(mode: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(script("expected.json")).unwrap();
    let modes: Value = serde_json::from_str(&text).unwrap();
    modes[mode].as_array().unwrap_or_else(|| panic!("nothing is said about {mode}")).clone()
}

/// Returns what the client of that version must hold after each turn; `answer` is the reply of the user to interrupts.
pub(super) fn expected(mode: &str, client: Client, answer: &str) -> Vec<Value> {
    let mut turns = turns(mode);
    let mut was_asked = false;
    for turn in &mut turns {
        let messages = turn["messages"].as_array_mut().unwrap();
        messages.iter_mut().for_each(count_up);
        if client == Client::V1_0 {
            continue;
        }
        // A failure is a text too, with the words of the run's end.
        if turn["outcome"] == "error" {
            turn["messages"].as_array_mut().unwrap().push(json!({ "role": "assistant", "content": ERROR }));
        }
        let messages = turn["messages"].as_array_mut().unwrap();
        // That client knows no interrupts: the question is a text, and the next message is the answer.
        if was_asked {
            messages.insert(0, json!({ "role": "user", "content": answer }));
        }
        was_asked = turn["outcome"] == "interrupt";
        if was_asked {
            let question = turn.as_object_mut().unwrap().remove("question").unwrap();
            let messages = turn["messages"].as_array_mut().unwrap();
            messages.push(json!({ "role": "assistant", "content": question }));
            turn["outcome"] = json!("success");
        }
    }
    turns
}

/// `count` stands for the numbers from 0, each with a space behind it.
fn count_up(message: &mut Value) {
    let Some(count) = message.as_object_mut().unwrap().remove("count") else { return };
    let numbers: Vec<String> = (0..count.as_u64().unwrap()).map(|number| number.to_string()).collect();
    message["content"] = json!(numbers.join(" ") + " ");
}

/// How a turn ended, in the words of the file.
pub(in crate::interop) fn outcome(turn: &Value) -> String {
    let [end] = turn["ends"].as_array().unwrap().as_slice() else {
        return format!("not one end, but {}", turn["ends"]);
    };
    let said = match end["type"].as_str().unwrap() {
        "RUN_ERROR" if end["code"] == "cancelled" => "cancelled",
        "RUN_ERROR" => "error",
        _ => end["outcome"]["type"].as_str().unwrap_or("success"),
    };
    said.to_owned()
}

/// What is not as expected of the turns of a case.
pub(super) fn differences(seen: &Value, expected: &[Value]) -> Vec<String> {
    let seen = seen.as_array().unwrap();
    if seen.len() != expected.len() {
        return vec![format!("{} turns instead of {}", seen.len(), expected.len())];
    }
    seen.iter().zip(expected).flat_map(|(seen, expected)| differences_of_turn(seen, expected)).collect()
}

fn differences_of_turn(seen: &Value, expected: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut check = |what: &str, seen: &Value, expected: &Value| {
        if seen != expected {
            wrong.push(format!("{what}: {}, not {}", shortened(seen), shortened(expected)));
        }
    };
    let mut messages = expected["messages"].clone();
    for message in messages.as_array_mut().into_iter().flatten().filter(|message| message["content"] == ERROR)
    {
        message["content"] = seen["ends"][0]["message"].clone();
    }
    check("messages", &seen["messages"], &messages);
    let none = json!([]);
    check("customs", &seen["customs"], expected.get("customs").unwrap_or(&none));
    check("outcome", &json!(outcome(seen)), &expected["outcome"]);
    let asked: Vec<&Value> =
        seen["questions"].as_array().unwrap().iter().map(|question| &question["message"]).collect();
    let question: Vec<&Value> = expected.get("question").into_iter().collect();
    check("question", &json!(asked), &json!(question));
    // A failure names its cause: the words of the agent, or some words where it has none.
    let error = seen["ends"][0]["message"].as_str().unwrap_or_default();
    if let Some(words) = expected["error"].as_str() {
        let is_named = !error.is_empty() && error.contains(words);
        check(&format!("cause {error:?}"), &json!(is_named), &json!(true));
    }
    wrong
}

fn shortened(value: &Value) -> String {
    let text = value.to_string();
    if text.len() <= 2_000 { text } else { format!("{} bytes: {:.500}…", text.len(), text) }
}
