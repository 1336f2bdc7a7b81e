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

/// Declares enums of the proto file: each value with its number, its 1.0 name and its other spellings, the first of
/// which is that of 0.3 over JSON-RPC. A value that is not declared is kept in `Other`.
macro_rules! proto_enum {
    ($(
        $(#[$doc:meta])*
        pub enum $name:ident {
            $( $(#[$about:meta])* $value:ident = $number:literal, $v1:literal, $short:literal $(| $other:literal)*; )+
        }
    )+) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
        #[non_exhaustive]
        pub enum $name<'a> {
            $( $(#[$about])* $value, )+
            /// A value that this crate does not know: its name, or its number in digits.
            Other(Cow<'a, str>),
        }

        impl<'a> $name<'a> {
            /// Parses any spelling. An unknown one is kept.
            pub fn parse(name: Cow<'a, str>) -> Self {
                match &*name {
                    $( $v1 | $short $(| $other)* => Self::$value, )+
                    _ => Self::Other(name),
                }
            }

            /// Returns the value of a number in the proto file, which both versions share.
            fn with_number(number: i64) -> Self {
                match number {
                    $( $number => Self::$value, )+
                    _ => Self::Other(Cow::Owned(number.to_string())),
                }
            }

            /// Returns the 1.0 name.
            pub fn v1_name(&self) -> &str {
                match self {
                    $( Self::$value => $v1, )+
                    Self::Other(name) => name,
                }
            }

            /// Returns the spelling of 0.3 over JSON-RPC.
            fn short_name(&self) -> &str {
                match self {
                    $( Self::$value => $short, )+
                    Self::Other(name) => name,
                }
            }

            /// Returns the value with owned content.
            pub fn into_owned(self) -> $name<'static> {
                match self {
                    $( Self::$value => $name::$value, )+
                    Self::Other(name) => $name::Other(Cow::Owned(name.into_owned())),
                }
            }
        }

        impl<'de: 'a, 'a> Deserialize<'de> for $name<'a> {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Ok(match Name::deserialize(deserializer)? {
                    Name::Text(name) => Self::parse(name),
                    Name::Number(number) => Self::with_number(number),
                })
            }
        }
    )+ };
}

proto_enum! {
    /// The state of a task.
    pub enum TaskState {
        /// Unspecified (`TASK_STATE_UNSPECIFIED`, `unknown`, or no state at all).
        #[default]
        Unspecified = 0, "TASK_STATE_UNSPECIFIED", "unknown" | "";
        /// Accepted, not started.
        Submitted = 1, "TASK_STATE_SUBMITTED", "submitted";
        /// In progress.
        Working = 2, "TASK_STATE_WORKING", "working";
        /// Ended with a result.
        Completed = 3, "TASK_STATE_COMPLETED", "completed";
        /// Ended by an error of the agent.
        Failed = 4, "TASK_STATE_FAILED", "failed";
        /// Ended by a request of a client, or by the agent itself.
        Canceled = 5, "TASK_STATE_CANCELED", "canceled" | "TASK_STATE_CANCELLED" | "cancelled";
        /// Waits for input of the user.
        InputRequired = 6, "TASK_STATE_INPUT_REQUIRED", "input-required";
        /// Ended before it began: the agent refuses to work on it.
        Rejected = 7, "TASK_STATE_REJECTED", "rejected";
        /// Waits for the user's authorisation.
        AuthRequired = 8, "TASK_STATE_AUTH_REQUIRED", "auth-required";
    }

    /// The sender of a message.
    pub enum Role {
        /// Unspecified.
        #[default]
        Unspecified = 0, "ROLE_UNSPECIFIED", "";
        /// The client.
        User = 1, "ROLE_USER", "user";
        /// The agent.
        Agent = 2, "ROLE_AGENT", "agent";
    }
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

impl TaskState<'_> {
    /// Returns the state of a number in the proto file, which both versions share.
    pub fn of_number(number: i64) -> Self {
        Self::with_number(number)
    }

    /// Returns the 0.3 JSON-RPC name, which is also used in messages for people.
    pub fn v03_name(&self) -> &str {
        self.short_name()
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
}

impl fmt::Display for TaskState<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.v03_name())
    }
}

impl Role<'_> {
    /// Returns the 0.3 JSON-RPC name; an unspecified role is the agent's, because 0.3 requires one.
    pub fn v03_name(&self) -> &str {
        if matches!(self, Self::Unspecified) { "agent" } else { self.short_name() }
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
