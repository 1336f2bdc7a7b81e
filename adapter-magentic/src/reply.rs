//! [`Reply`]: the reply to an interrupt as JSON for the Python side of the workflow.
//!
//! A forwarder passes `{"responses": {request id: value}}` to `workflow.run(responses=…)`, after it has rebuilt values with a
//! dataclass name under `__class__` and values with a `type` (by `from_dict`). A user of `as_agent()` sends the same reply as
//! content of a tool message ([`Reply::to_content`]).
//!
//! | request | value |
//! |---|---|
//! | approval of a call | `{"type": "function_approval_response", "id", "approved", "function_call"}` |
//! | review of an answer | `{"__class__": "AgentRequestInfoResponse", "messages": [Message]}`; empty: accepted |
//! | review of a plan | `{"__class__": "MagenticPlanReviewResponse", "review": [Message]}`; empty: accepted |
//! | the same, older packages | `{"__class__": "MagenticPlanReviewReply", "decision", "edited_plan_text"?, "comments"?}` |
//! | input of the user (handoff) | `[Message]`; empty: the workflow ends |
//! | any other | the payload, unchanged |

use aqueduct_core::InterruptReply;
use serde_json::{Map, Value, json};

use crate::error::Error;

/// A pending request of a workflow.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Request {
    pub(crate) id: String,
    pub(crate) kind: RequestKind,
}

/// The kind of a request, which determines the form of its reply.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RequestKind {
    /// Approval of a tool call.
    Approval { function_call: Value },
    /// Review of an answer.
    Review,
    /// Review of a plan.
    PlanReview,
    /// Review of a plan, in the older packages.
    LegacyPlanReview,
    /// Input of the user.
    UserInput,
    /// A request of the user's own workflow.
    Other,
}

/// A reply in the framework's form.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The id of the request.
    pub request_id: String,
    /// The value for the workflow.
    pub value: Value,
}

impl Reply {
    /// Returns the line for a forwarder: `{"responses": {request id: value}}`.
    pub fn to_line(&self) -> Value {
        let mut responses = Map::new();
        responses.insert(self.request_id.clone(), self.value.clone());
        json!({ "responses": responses })
    }

    /// Returns the content of a message to `as_agent()`: the approval itself, or the result of the pseudo call.
    pub fn to_content(&self) -> Value {
        if self.value.get("type").and_then(Value::as_str) == Some("function_approval_response") {
            return self.value.clone();
        }
        json!({"type": "function_result", "call_id": self.request_id, "result": self.value})
    }

    /// Converts a reply into the framework's form.
    pub(crate) fn new(request: &Request, reply: &InterruptReply) -> Result<Self, Error> {
        let answer = Answer { request, resolved: reply.resolved, payload: reply.payload.as_ref() };
        let value = match &request.kind {
            RequestKind::Approval { function_call } => json!({
                "type": "function_approval_response",
                "id": request.id,
                "approved": answer.approved()?,
                "function_call": function_call,
            }),
            RequestKind::Review => {
                json!({"__class__": "AgentRequestInfoResponse", "messages": answer.feedback("review of an answer")?})
            }
            RequestKind::PlanReview => {
                json!({"__class__": "MagenticPlanReviewResponse", "review": answer.plan_feedback()?})
            }
            RequestKind::LegacyPlanReview => answer.legacy_plan_reply()?,
            RequestKind::UserInput if !reply.resolved => json!([]),
            RequestKind::UserInput => Value::Array(answer.messages()?),
            RequestKind::Other if !reply.resolved => return Err(answer.cannot_decline("request")),
            RequestKind::Other => reply.payload.clone().unwrap_or_default(),
        };
        Ok(Self { request_id: request.id.clone(), value })
    }
}

/// A reply together with its request.
struct Answer<'a> {
    request: &'a Request,
    resolved: bool,
    payload: Option<&'a Value>,
}

impl Answer<'_> {
    /// Returns a field of the reply. `null` counts as absent.
    fn field(&self, name: &str) -> Option<&Value> {
        self.payload?.get(name).filter(|value| !value.is_null())
    }

    /// Returns whether the user approved. A declined interrupt is not approved, whatever its payload.
    fn approved(&self) -> Result<bool, Error> {
        if !self.resolved {
            return Ok(false);
        }
        let given = self.payload.and_then(Value::as_bool);
        let given = given.or_else(|| self.field("approved").and_then(Value::as_bool));
        given.ok_or_else(|| self.wrong_shape("`true`, `false` or an object with `approved`"))
    }

    /// Returns no message if the human agrees, otherwise the requested changes.
    fn feedback(&self, kind: &'static str) -> Result<Vec<Value>, Error> {
        if !self.resolved {
            return Err(self.cannot_decline(kind));
        }
        let agrees = match self.payload {
            None | Some(Value::Null | Value::Bool(true)) => true,
            Some(Value::Object(fields)) => {
                !["feedback", "text", "messages", "comments"].iter().any(|key| fields.contains_key(*key))
            }
            Some(_) => false,
        };
        if agrees && self.field("approved").and_then(Value::as_bool) == Some(false) {
            return Err(self.wrong_shape("an object with `feedback` that says what to change"));
        }
        if agrees { Ok(Vec::new()) } else { self.messages() }
    }

    /// Returns the feedback on a plan; none if it is approved.
    fn plan_feedback(&self) -> Result<Vec<Value>, Error> {
        if self.field("approved").and_then(Value::as_bool) == Some(true) {
            return Ok(Vec::new());
        }
        self.feedback("review of a plan")
    }

    /// Returns the reply in the form of the older classes: a decision, an edited plan if there is one, and comments.
    fn legacy_plan_reply(&self) -> Result<Value, Error> {
        let feedback = self.plan_feedback()?;
        let edited = self.field("edited_plan_text");
        let mut value = json!({"__class__": "MagenticPlanReviewReply"});
        if let Some(fields) = value.as_object_mut() {
            let approves = feedback.is_empty();
            fields.insert("decision".to_owned(), json!(if approves { "approve" } else { "revise" }));
            if let Some(edited) = edited {
                fields.insert("edited_plan_text".to_owned(), edited.clone());
            }
            if !approves {
                let texts: Vec<String> = feedback.iter().map(message_text).collect();
                fields.insert("comments".to_owned(), json!(texts.join("\n")));
            }
        }
        Ok(value)
    }

    /// Returns the payload as messages of the user.
    fn messages(&self) -> Result<Vec<Value>, Error> {
        let wrong = || {
            self.wrong_shape(
                "a text, a list of texts or messages, or an object with `feedback`, `text` or `messages`",
            )
        };
        let text = ["messages", "feedback", "text", "comments"].iter().find_map(|key| self.field(key));
        match text.or(self.payload) {
            Some(Value::Array(items)) => items.iter().map(|item| message(item).ok_or_else(wrong)).collect(),
            Some(one) => Ok(vec![message(one).ok_or_else(wrong)?]),
            None => Err(wrong()),
        }
    }

    /// Returns the error for a reply without the fields that its request needs.
    fn wrong_shape(&self, expected: &'static str) -> Error {
        Error::WrongShape { id: self.request.id.clone(), expected }
    }

    /// Returns the error for a request that the framework cannot cancel.
    fn cannot_decline(&self, kind: &'static str) -> Error {
        Error::CannotDecline { id: self.request.id.clone(), kind }
    }
}

/// Returns a text or a message as a message.
fn message(value: &Value) -> Option<Value> {
    match value {
        Value::String(text) => {
            Some(json!({"type": "message", "role": "user", "contents": [{"type": "text", "text": text}]}))
        }
        Value::Object(fields) if fields.contains_key("contents") => Some(value.clone()),
        _ => None,
    }
}

fn message_text(message: &Value) -> String {
    let contents = message.get("contents").and_then(Value::as_array).into_iter().flatten();
    contents.filter_map(|content| content.get("text").and_then(Value::as_str)).collect()
}

#[cfg(test)]
mod tests {
    use aqueduct_core::InterruptId;

    use super::*;

    #[track_caller]
    fn check(kind: RequestKind, resolved: bool, payload: Value, expected: impl std::borrow::Borrow<Value>) {
        let request = Request { id: "r1".to_owned(), kind };
        let payload = Some(payload).filter(|payload| !payload.is_null());
        let reply = InterruptReply { id: InterruptId::from("r1"), resolved, payload };
        assert_eq!(Reply::new(&request, &reply).unwrap().value, *expected.borrow());
    }

    #[track_caller]
    fn refuse(kind: RequestKind, resolved: bool, payload: Value) -> Error {
        let request = Request { id: "r1".to_owned(), kind };
        let reply = InterruptReply { id: InterruptId::from("r1"), resolved, payload: Some(payload) };
        Reply::new(&request, &reply).unwrap_err()
    }

    fn user(text: &str) -> Value {
        json!({"type": "message", "role": "user", "contents": [{"type": "text", "text": text}]})
    }

    #[test]
    fn an_approval_carries_the_call_back() {
        let kind = || RequestKind::Approval { function_call: json!({"call_id": "c"}) };
        let expected = |approved: bool| json!({"type": "function_approval_response", "id": "r1", "approved": approved, "function_call": {"call_id": "c"}});
        check(kind(), true, json!({"approved": true}), expected(true));
        check(kind(), true, json!(false), expected(false));
        check(kind(), false, Value::Null, expected(false));
        assert!(matches!(refuse(kind(), true, json!("perhaps")), Error::WrongShape { .. }));
    }

    #[test]
    fn no_feedback_lets_an_answer_stand() {
        let stands = json!({"__class__": "AgentRequestInfoResponse", "messages": []});
        for payload in [Value::Null, json!(true), json!({}), json!({"approved": true})] {
            check(RequestKind::Review, true, payload, &stands);
        }
        let shorter = json!({"__class__": "AgentRequestInfoResponse", "messages": [user("Shorter please.")]});
        for payload in
            [json!("Shorter please."), json!({"feedback": "Shorter please."}), json!(["Shorter please."])]
        {
            check(RequestKind::Review, true, payload, &shorter);
        }
        assert!(matches!(refuse(RequestKind::Review, false, json!({})), Error::CannotDecline { .. }));
        assert!(matches!(
            refuse(RequestKind::Review, true, json!({"approved": false})),
            Error::WrongShape { .. }
        ));
    }

    #[test]
    fn a_plan_is_approved_or_revised_in_both_generations() {
        check(
            RequestKind::PlanReview,
            true,
            json!({"approved": true}),
            json!({"__class__": "MagenticPlanReviewResponse", "review": []}),
        );
        let revised = json!({"__class__": "MagenticPlanReviewResponse", "review": [user("add tests")]});
        check(RequestKind::PlanReview, true, json!({"approved": false, "feedback": "add tests"}), &revised);
        check(
            RequestKind::LegacyPlanReview,
            true,
            json!(true),
            json!({"__class__": "MagenticPlanReviewReply", "decision": "approve"}),
        );
        let revised =
            json!({"__class__": "MagenticPlanReviewReply", "decision": "revise", "comments": "add tests"});
        check(
            RequestKind::LegacyPlanReview,
            true,
            json!({"approved": false, "feedback": "add tests"}),
            revised,
        );
    }

    #[test]
    fn a_user_speaks_or_ends_a_handoff() {
        check(RequestKind::UserInput, true, json!({"text": "order 7"}), json!([user("order 7")]));
        check(RequestKind::UserInput, false, Value::Null, json!([]));
        assert!(matches!(refuse(RequestKind::UserInput, true, json!(7)), Error::WrongShape { .. }));
    }

    #[test]
    fn a_request_of_the_users_own_gets_the_payload_as_it_is() {
        check(RequestKind::Other, true, json!({"x": 1}), json!({"x": 1}));
        let reply = Reply { request_id: "r1".to_owned(), value: json!(7) };
        assert_eq!(reply.to_line(), json!({"responses": {"r1": 7}}));
        assert_eq!(reply.to_content(), json!({"type": "function_result", "call_id": "r1", "result": 7}));
    }
}
