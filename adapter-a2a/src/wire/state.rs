//! Task states and roles in all their spellings.
//!
//! | 1.0, all bindings | 0.3 JSON-RPC | 0.3 REST, gRPC | number | class |
//! |---|---|---|---|---|
//! | `TASK_STATE_UNSPECIFIED` | `unknown` | as 1.0 | 0 | active |
//! | `TASK_STATE_SUBMITTED` | `submitted` | as 1.0 | 1 | active |
//! | `TASK_STATE_WORKING` | `working` | as 1.0 | 2 | active |
//! | `TASK_STATE_COMPLETED` | `completed` | as 1.0 | 3 | terminal |
//! | `TASK_STATE_FAILED` | `failed` | as 1.0 | 4 | terminal |
//! | `TASK_STATE_CANCELED` | `canceled` | `TASK_STATE_CANCELLED` | 5 | terminal |
//! | `TASK_STATE_INPUT_REQUIRED` | `input-required` | as 1.0 | 6 | interrupted |
//! | `TASK_STATE_REJECTED` | `rejected` | as 1.0 | 7 | terminal |
//! | `TASK_STATE_AUTH_REQUIRED` | `auth-required` | as 1.0 | 8 | interrupted |
//!
//! Invariant: an unknown value is kept, not mapped to another, and is written back as it was read.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Visitor};

/// The state of a task.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum TaskState<'a> {
    /// Unspecified (`TASK_STATE_UNSPECIFIED`, `unknown`, or no state at all).
    #[default]
    Unspecified,
    /// Accepted, not started.
    Submitted,
    /// In progress.
    Working,
    /// Ended with a result.
    Completed,
    /// Ended by an error of the agent.
    Failed,
    /// Ended by a request of a client, or by the agent itself.
    Canceled,
    /// Waits for input of the user.
    InputRequired,
    /// Ended before it began: the agent refuses to work on it.
    Rejected,
    /// Waits for the user's authorisation.
    AuthRequired,
    /// A state that this crate does not know: its name, or its number in digits.
    Other(Cow<'a, str>),
}

/// What a state means for the stream and for messages to the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateClass {
    /// The task continues by itself.
    Active,
    /// The task waits for a message of the user. Whether a stream closes here differs between servers.
    Interrupted,
    /// The task has ended; its state does not change any more.
    Terminal,
}

impl<'a> TaskState<'a> {
    /// Parses any spelling: `TASK_STATE_INPUT_REQUIRED` (1.0), `input-required` (0.3), `TASK_STATE_CANCELLED` (0.3 over
    /// REST and gRPC).
    pub fn parse(name: Cow<'a, str>) -> Self {
        match &*name {
            "" | "TASK_STATE_UNSPECIFIED" | "unknown" => Self::Unspecified,
            "TASK_STATE_SUBMITTED" | "submitted" => Self::Submitted,
            "TASK_STATE_WORKING" | "working" => Self::Working,
            "TASK_STATE_COMPLETED" | "completed" => Self::Completed,
            "TASK_STATE_FAILED" | "failed" => Self::Failed,
            "TASK_STATE_CANCELED" | "TASK_STATE_CANCELLED" | "canceled" | "cancelled" => Self::Canceled,
            "TASK_STATE_INPUT_REQUIRED" | "input-required" => Self::InputRequired,
            "TASK_STATE_REJECTED" | "rejected" => Self::Rejected,
            "TASK_STATE_AUTH_REQUIRED" | "auth-required" => Self::AuthRequired,
            _ => Self::Other(name),
        }
    }

    /// Returns the state of a number in the proto file, which both versions share.
    pub fn of_number(number: i64) -> Self {
        match number {
            0 => Self::Unspecified,
            1 => Self::Submitted,
            2 => Self::Working,
            3 => Self::Completed,
            4 => Self::Failed,
            5 => Self::Canceled,
            6 => Self::InputRequired,
            7 => Self::Rejected,
            8 => Self::AuthRequired,
            _ => Self::Other(Cow::Owned(number.to_string())),
        }
    }

    /// Returns the 1.0 name.
    pub fn v1_name(&self) -> &str {
        match self {
            Self::Unspecified => "TASK_STATE_UNSPECIFIED",
            Self::Submitted => "TASK_STATE_SUBMITTED",
            Self::Working => "TASK_STATE_WORKING",
            Self::Completed => "TASK_STATE_COMPLETED",
            Self::Failed => "TASK_STATE_FAILED",
            Self::Canceled => "TASK_STATE_CANCELED",
            Self::InputRequired => "TASK_STATE_INPUT_REQUIRED",
            Self::Rejected => "TASK_STATE_REJECTED",
            Self::AuthRequired => "TASK_STATE_AUTH_REQUIRED",
            Self::Other(name) => name,
        }
    }

    /// Returns the 0.3 JSON-RPC name, which is also used in messages for people.
    pub fn v03_name(&self) -> &str {
        match self {
            Self::Unspecified => "unknown",
            Self::Submitted => "submitted",
            Self::Working => "working",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
            Self::InputRequired => "input-required",
            Self::Rejected => "rejected",
            Self::AuthRequired => "auth-required",
            Self::Other(name) => name,
        }
    }

    /// Returns the 0.3 name in `ProtoJSON`: two L in "cancelled".
    pub fn v03_proto_name(&self) -> &str {
        if matches!(self, Self::Canceled) { "TASK_STATE_CANCELLED" } else { self.v1_name() }
    }

    /// Returns what the state means for the stream. An unknown state ends nothing.
    pub fn class(&self) -> StateClass {
        match self {
            Self::Unspecified | Self::Submitted | Self::Working | Self::Other(_) => StateClass::Active,
            Self::InputRequired | Self::AuthRequired => StateClass::Interrupted,
            Self::Completed | Self::Failed | Self::Canceled | Self::Rejected => StateClass::Terminal,
        }
    }

    /// Returns the state with owned content.
    pub fn into_owned(self) -> TaskState<'static> {
        match self {
            Self::Other(name) => TaskState::Other(Cow::Owned(name.into_owned())),
            Self::Unspecified => TaskState::Unspecified,
            Self::Submitted => TaskState::Submitted,
            Self::Working => TaskState::Working,
            Self::Completed => TaskState::Completed,
            Self::Failed => TaskState::Failed,
            Self::Canceled => TaskState::Canceled,
            Self::InputRequired => TaskState::InputRequired,
            Self::Rejected => TaskState::Rejected,
            Self::AuthRequired => TaskState::AuthRequired,
        }
    }
}

impl fmt::Display for TaskState<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.v03_name())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for TaskState<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match Name::deserialize(deserializer)? {
            Name::Text(name) => Self::parse(name),
            Name::Number(number) => Self::of_number(number),
        })
    }
}

/// The sender of a message.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Role<'a> {
    /// Unspecified.
    #[default]
    Unspecified,
    /// The client.
    User,
    /// The agent.
    Agent,
    /// A role that this crate does not know: its name, or its number in digits.
    Other(Cow<'a, str>),
}

impl<'a> Role<'a> {
    /// Parses either spelling. REST and gRPC of 0.3 have the names of 1.0.
    pub fn parse(name: Cow<'a, str>) -> Self {
        match &*name {
            "" | "ROLE_UNSPECIFIED" => Self::Unspecified,
            "ROLE_USER" | "user" => Self::User,
            "ROLE_AGENT" | "agent" => Self::Agent,
            _ => Self::Other(name),
        }
    }

    /// Returns the 1.0 name.
    pub fn v1_name(&self) -> &str {
        match self {
            Self::Unspecified => "ROLE_UNSPECIFIED",
            Self::User => "ROLE_USER",
            Self::Agent => "ROLE_AGENT",
            Self::Other(name) => name,
        }
    }

    /// Returns the 0.3 JSON-RPC name; an unspecified role is the agent's, because 0.3 requires one.
    pub fn v03_name(&self) -> &str {
        match self {
            Self::User => "user",
            Self::Agent | Self::Unspecified => "agent",
            Self::Other(name) => name,
        }
    }

    /// Returns the role with owned content.
    pub fn into_owned(self) -> Role<'static> {
        match self {
            Self::Unspecified => Role::Unspecified,
            Self::User => Role::User,
            Self::Agent => Role::Agent,
            Self::Other(name) => Role::Other(Cow::Owned(name.into_owned())),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Role<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match Name::deserialize(deserializer)? {
            Name::Text(name) => Self::parse(name),
            Name::Number(0) => Self::Unspecified,
            Name::Number(1) => Self::User,
            Name::Number(2) => Self::Agent,
            Name::Number(number) => Self::Other(Cow::Owned(number.to_string())),
        })
    }
}

/// An enum of the proto file: by its name, or by its number, which `ProtoJSON` parsers must accept too.
enum Name<'a> {
    Text(Cow<'a, str>),
    Number(i64),
}

impl<'de: 'a, 'a> Deserialize<'de> for Name<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameVisitor;
        impl<'de> Visitor<'de> for NameVisitor {
            type Value = Name<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name or its number")
            }

            fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Name<'de>, E> {
                Ok(Name::Text(Cow::Borrowed(name)))
            }

            fn visit_str<E>(self, name: &str) -> Result<Name<'de>, E> {
                Ok(Name::Text(Cow::Owned(name.to_owned())))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Name<'de>, E> {
                Ok(Name::Number(number))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Name<'de>, E> {
                Ok(Name::Number(i64::try_from(number).unwrap_or(i64::MAX)))
            }
        }
        deserializer.deserialize_any(NameVisitor)
    }
}
