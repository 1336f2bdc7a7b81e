//! Conversion of the framework's failures to a message and fields.
//!
//! By default its events contain only the class of an exception; the text leaves `run()` with the exception itself.
//!
//! ```text
//! executor_failed {"executor_id":"a","details":{"error_type":"E"}}     -> "executor a failed: E (the framework reveals no more)"
//! the exception that leaves run(): E("boom")                          -> "executor a failed: E: boom"
//! ```
//!
//! All fields of the details, the traceback included, become details of the failure.

use aqueduct_core::RunFailure;
use serde_json::{Map, Value, json};

use crate::wire::ErrorDetails;

/// Returns a failure from the framework's details, which often contain only the class of the exception.
pub(super) fn failure(executor: Option<&str>, details: Option<&ErrorDetails<'_>>) -> RunFailure {
    let executor = executor.or_else(|| details.and_then(|details| details.executor_id.as_deref()));
    let class = details.and_then(|details| details.error_type.as_deref());
    let text = details.and_then(|details| details.message.as_deref());
    let mut failure = RunFailure::new(RunFailure::AGENT_FAILED, sentence(executor, class, text));
    let mut fields = Map::new();
    if let Some(executor) = executor {
        fields.insert("executor_id".to_owned(), json!(executor));
    }
    if let Some(details) = details {
        let texts = [
            ("error_type", &details.error_type),
            ("message", &details.message),
            ("traceback", &details.traceback),
        ];
        for (key, text) in texts {
            if let Some(text) = text {
                fields.insert(key.to_owned(), json!(&**text));
            }
        }
        if let Some(extra) = details.extra {
            fields.insert("extra".to_owned(), extra.value());
        }
        for (key, value) in &details.unknown {
            fields.insert((**key).to_owned(), value.value());
        }
    }
    failure.details = Some(Value::Object(fields));
    failure
}

/// Adds the text of the exception that left the run.
pub(super) fn with_exception(mut failure: RunFailure, class: &str, text: &str) -> RunFailure {
    let fields = failure.details.get_or_insert_with(|| json!({}));
    let executor = fields.get("executor_id").and_then(Value::as_str).map(str::to_owned);
    if let Some(fields) = fields.as_object_mut() {
        fields.insert("error_type".to_owned(), json!(class));
        fields.insert("message".to_owned(), json!(text));
    }
    failure.message = sentence(executor.as_deref(), Some(class), Some(text)).into();
    failure
}

/// Returns the message of a failure: the executor, the class of the exception, and its text, as far as they are known.
fn sentence(executor: Option<&str>, class: Option<&str>, text: Option<&str>) -> String {
    let who = match executor {
        Some(executor) => format!("executor {executor} failed"),
        None => "the workflow failed".to_owned(),
    };
    match (class, text.filter(|text| !text.is_empty())) {
        (Some(class), Some(text)) if class != text => format!("{who}: {class}: {text}"),
        (Some(class), _) => format!("{who}: {class} (the framework reveals no more)"),
        (None, Some(text)) => format!("{who}: {text}"),
        (None, None) => format!("{who} without giving a reason"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_says_who_failed_and_what_is_known() {
        assert_eq!(sentence(Some("a"), Some("E"), Some("boom")), "executor a failed: E: boom");
        assert_eq!(
            sentence(None, Some("E"), Some("E")),
            "the workflow failed: E (the framework reveals no more)"
        );
        assert_eq!(sentence(None, None, Some("boom")), "the workflow failed: boom");
        assert_eq!(sentence(None, None, None), "the workflow failed without giving a reason");
    }

    #[test]
    fn the_text_of_the_exception_takes_the_place_of_its_class() {
        let failure = with_exception(failure(Some("a"), None), "E", "boom");
        assert_eq!(&*failure.message, "executor a failed: E: boom");
        assert_eq!(failure.details, Some(json!({"executor_id": "a", "error_type": "E", "message": "boom"})));
    }
}
