//! What becomes of a user's words, by what was asked.

use aqueduct_core::{Interrupt, RunInput};
use serde_json::{Value, json};

use super::resume_from_text;

fn asking(reason: &str, schema: Option<Value>) -> Interrupt {
    let mut interrupt = Interrupt::new("i", reason.to_owned());
    interrupt.response_schema = schema;
    interrupt
}

#[track_caller]
fn check(interrupt: &Interrupt, words: &str, payload: &Value) {
    let mut input = RunInput::prompt("t", "r", words);
    assert!(resume_from_text(&mut input, [interrupt]));
    assert_eq!(input.resume[0].payload.as_ref().unwrap(), payload, "{words}");
    assert!(input.resume[0].resolved && input.messages.is_empty());
}

#[test]
fn yes_and_no_are_what_the_schema_wants() {
    let flag =
        |name: &str| json!({"type": "object", "properties": {name: {"type": "boolean"}}, "required": [name]});
    for (words, yes) in [
        ("yes", true),
        ("Yes, please!", true),
        ("OK go ahead", true),
        ("approve", true),
        ("no", false),
        ("Decline.", false),
        ("don't", false),
        ("yes, but only the test cluster", false),
        ("what does it do?", false),
    ] {
        check(&asking("x", Some(json!({"type": "boolean"}))), words, &json!(yes));
        for name in ["approved", "accepted", "confirmed"] {
            check(&asking("x", Some(flag(name))), words, &json!({name: yes}));
        }
        check(&asking("confirmation", None), words, &json!({"approved": yes}));
    }
}

#[test]
fn a_refusal_says_why_where_there_is_room() {
    let schema = json!({"type": "object", "required": ["approved"], "properties": {
        "approved": {"type": "boolean"}, "editedArgs": {"type": "object"}, "reason": {"type": "string"}}});
    let asked = asking("tool_call", Some(schema));
    check(&asked, "yes", &json!({"approved": true}));
    check(&asked, "no, use test", &json!({"approved": false, "reason": "no, use test"}));
    check(&asked, "use test", &json!({"approved": false, "reason": "use test"}));
    let edited = json!({"approved": true, "editedArgs": {"cluster": "test"}});
    check(&asked, &edited.to_string(), &edited);
}

#[test]
fn other_schemas_get_their_kind_or_the_words() {
    let object = json!({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name"]});
    check(&asking("x", Some(object.clone())), "Ada", &json!({"name": "Ada"}));
    check(&asking("x", Some(object)), r#"{"name": "Ada", "age": 36}"#, &json!({"name": "Ada", "age": 36}));
    check(&asking("x", Some(json!({"type": "integer"}))), " 36 ", &json!(36));
    check(&asking("x", Some(json!({"enum": ["Red", "Blue"]}))), "blue", &json!("Blue"));
    check(&asking("x", Some(json!({"type": "string"}))), "true", &json!("true"));
    check(&asking("x", Some(json!({"anyOf": [{"type": "boolean"}, {"type": "null"}]}))), "yes", &json!(true));
    check(&asking("langgraph:interrupt", None), r#"{"a": 1}"#, &json!(r#"{"a": 1}"#));
    check(&asking("langgraph:interrupt", None), "Paris", &json!("Paris"));
}

#[test]
fn several_questions_get_an_answer_each() {
    let open: Vec<_> = ["a", "b"].map(|id| Interrupt::new(id, "input_required")).into();
    for (words, expected) in [
        ("one\ntwo", ["one", "two"]),
        (r#"["one", "two"]"#, ["one", "two"]),
        (r#"{"b": "two", "a": "one"}"#, ["one", "two"]),
        ("both", ["both", "both"]),
    ] {
        let mut input = RunInput::prompt("t", "r", words);
        assert!(resume_from_text(&mut input, &open));
        let payloads: Vec<_> = input.resume.iter().map(|reply| reply.payload.clone().unwrap()).collect();
        assert_eq!(payloads, expected, "{words}");
    }
}

#[test]
fn an_input_that_answers_itself_stays_as_it_is() {
    let open = asking("x", None);
    let mut plain = RunInput::prompt("t", "r", "hello");
    assert!(!resume_from_text(&mut plain, []));
    let mut command = RunInput::prompt("t", "r", "hello");
    command.forwarded = json!({"command": {"resume": "yes"}});
    let mut answered = RunInput::prompt("t", "r", "hello");
    assert!(resume_from_text(&mut answered, [&open]));
    for mut input in [command, answered] {
        let before = input.clone();
        assert!(!resume_from_text(&mut input, [&open]));
        assert_eq!(input, before);
    }
}
