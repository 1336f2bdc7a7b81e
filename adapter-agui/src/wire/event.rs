//! [`Event`]: one value for all 31 kinds of event, and [`EventType`], their names.
//!
//! The macro `events!` generates everything that has one case per kind from one table: the enums,
//! names, numbers, conversions, and the dispatch of both encodings. Adding an event means one line
//! in the table and one struct declared by `event!`.
//!
//! ```text
//! {"type":"STEP_STARTED","stepName":"plan"}     -> Event::StepStarted(StepStarted { step_name: "plan", .. })
//! {"type":"NEW_IN_2_0","x":1}                   -> Event::Unknown { kind: "NEW_IN_2_0", value: {"type": …, "x": 1} }
//! {"stepName":"plan"}                           -> error: event.type is missing
//! ```

use aqueduct_core::{ByteString, Metadata};
use serde::ser::SerializeMap as _;
use serde_json::Value;

use super::base::Base;
use super::object::{At, Object, Strictness, whole};
use crate::error::{Error, WireError};

/// The type that a variant holds. Large events are boxed, so that an `Event` with a delta, the most
/// frequent kind, stays small.
macro_rules! holder {
    ($type:ident boxed) => { Box<super::$type> };
    ($type:ident) => { super::$type };
}

/// The sub-agent of an event, whose member is required or optional. An `untagged` event has no such
/// member.
macro_rules! subagent {
    ($event:ident untagged) => {{
        let _ = $event;
        None
    }};
    ($event:ident) => {
        Option::from(&$event.subagent_run_id)
    };
}

/// Generates `Event` and `EventType` from the table below.
macro_rules! events {
    ($( $name:ident $($boxed:ident)? = $wire:literal, $number:literal, $arm:literal $(, $untagged:ident)? ; )+) => {
        /// One AG-UI event.
        #[derive(Debug, Clone, PartialEq)]
        #[expect(missing_docs, reason = "each variant holds the struct of the same name")]
        #[non_exhaustive]
        pub enum Event {
            $( $name(holder!($name $($boxed)?)), )+
            /// An unknown kind of event, with all members (including `type`).
            Unknown { kind: ByteString, value: Box<Metadata> },
        }

        /// The 31 kinds of event.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[expect(missing_docs, reason = "the names are those of the protocol")]
        #[non_exhaustive]
        pub enum EventType { $( $name, )+ }

        impl EventType {
            /// Every kind.
            pub const ALL: [Self; 31] = [ $( Self::$name, )+ ];

            /// Returns the name on the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $( Self::$name => $wire, )+ }
            }

            /// Returns the kind with that name.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $( $wire => Some(Self::$name), )+ _ => None }
            }

            /// Returns the number in the protobuf enumeration.
            #[cfg(feature = "proto")]
            pub(crate) const fn number(self) -> i32 {
                match self { $( Self::$name => $number, )+ }
            }
        }

        impl Event {
            /// Returns the kind of the event. Returns `None` for an unknown one.
            pub fn event_type(&self) -> Option<EventType> {
                match self {
                    $( Self::$name(_) => Some(EventType::$name), )+
                    Self::Unknown { .. } => None,
                }
            }

            /// Returns the members that all events share. Returns `None` for an unknown event.
            pub fn base(&self) -> Option<&Base> {
                match self {
                    $( Self::$name(event) => Some(&event.base), )+
                    Self::Unknown { .. } => None,
                }
            }

            /// Returns the members that all events share. Returns `None` for an unknown event.
            pub fn base_mut(&mut self) -> Option<&mut Base> {
                match self {
                    $( Self::$name(event) => Some(&mut event.base), )+
                    Self::Unknown { .. } => None,
                }
            }

            /// Returns the sub-agent of the event. Returns `None` for events of the parent agent.
            pub fn subagent_run_id(&self) -> Option<&ByteString> {
                match self {
                    $( Self::$name(event) => subagent!(event $($untagged)?), )+
                    Self::Unknown { .. } => None,
                }
            }

            /// Reads the members of a known kind.
            fn take(kind: EventType, members: Metadata, at: &At<'_>) -> Result<Self, WireError> {
                Ok(match kind {
                    $( EventType::$name => {
                        let event: super::$name = whole(members, at)?;
                        Self::from(event)
                    } )+
                })
            }

            /// Writes the members after `type`, which the caller has written. The members of an unknown event
            /// include `type`, which is skipped.
            fn write<M: serde::ser::SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
                match self {
                    $( Self::$name(event) => event.write(map), )+
                    Self::Unknown { value, .. } => {
                        value.iter().filter(|(name, _)| *name != "type")
                            .try_for_each(|(name, value)| map.serialize_entry(name, value))
                    }
                }
            }
        }

        $(
            impl From<super::$name> for Event {
                fn from(event: super::$name) -> Self {
                    Self::$name(event.into())
                }
            }
        )+

        #[cfg(feature = "proto")]
        impl Event {
            /// Writes the protobuf envelope: one field, whose number identifies the event.
            pub(crate) fn write_envelope(&self, out: &mut Vec<u8>) -> bool {
                match self {
                    $( Self::$name(event) => {
                        crate::proto::write_event(EventType::$name, $arm, &**holder_ref!(event $($boxed)?), out);
                        true
                    } )+
                    Self::Unknown { .. } => false,
                }
            }

            /// Reads the event of an envelope's field. Returns `None` for an unknown number.
            pub(crate) fn read_arm(
                arm: u32,
                reader: crate::proto::Reader,
            ) -> Result<Option<Self>, Error> {
                Ok(Some(match arm {
                    $( $arm => Self::from(
                        crate::proto::read_event::<super::$name>(EventType::$name, reader)?
                    ), )+
                    _ => return Ok(None),
                }))
            }
        }
    };
}

/// Dereferences a boxed event once more than a plain one, so that both yield a reference to the
/// event.
#[cfg(feature = "proto")]
macro_rules! holder_ref {
    ($event:ident boxed) => {
        $event
    };
    ($event:ident) => {
        &$event
    };
}

// Name, wire name, number in the enumeration, number of the envelope's field. The two numberings differ.
// `untagged` events have no sub-agent.
events! {
    TextMessageStart = "TEXT_MESSAGE_START", 0, 1;
    TextMessageContent = "TEXT_MESSAGE_CONTENT", 1, 2;
    TextMessageEnd = "TEXT_MESSAGE_END", 2, 3;
    TextMessageChunk boxed = "TEXT_MESSAGE_CHUNK", 19, 17;
    ToolCallStart = "TOOL_CALL_START", 3, 4;
    ToolCallArgs = "TOOL_CALL_ARGS", 4, 5;
    ToolCallEnd = "TOOL_CALL_END", 5, 6;
    ToolCallChunk boxed = "TOOL_CALL_CHUNK", 20, 18;
    ToolCallResult boxed = "TOOL_CALL_RESULT", 21, 22;
    StateSnapshot = "STATE_SNAPSHOT", 6, 7;
    StateDelta = "STATE_DELTA", 7, 8;
    MessagesSnapshot = "MESSAGES_SNAPSHOT", 8, 9, untagged;
    ActivitySnapshot boxed = "ACTIVITY_SNAPSHOT", 22, 23;
    ActivityDelta = "ACTIVITY_DELTA", 23, 24;
    Raw = "RAW", 9, 10;
    Custom = "CUSTOM", 10, 11;
    RunStarted boxed = "RUN_STARTED", 11, 12, untagged;
    RunFinished boxed = "RUN_FINISHED", 12, 13, untagged;
    RunError = "RUN_ERROR", 13, 14, untagged;
    StepStarted = "STEP_STARTED", 14, 15;
    StepFinished = "STEP_FINISHED", 15, 16;
    ReasoningStart = "REASONING_START", 24, 25;
    ReasoningMessageStart = "REASONING_MESSAGE_START", 25, 26;
    ReasoningMessageContent = "REASONING_MESSAGE_CONTENT", 26, 27;
    ReasoningMessageEnd = "REASONING_MESSAGE_END", 27, 28;
    ReasoningMessageChunk = "REASONING_MESSAGE_CHUNK", 28, 29;
    ReasoningEnd = "REASONING_END", 29, 30;
    ReasoningEncryptedValue = "REASONING_ENCRYPTED_VALUE", 30, 31;
    SubagentStarted boxed = "SUBAGENT_STARTED", 16, 19;
    SubagentFinished boxed = "SUBAGENT_FINISHED", 17, 20;
    SubagentError = "SUBAGENT_ERROR", 18, 21;
}

impl Event {
    /// Returns the `type` on the wire.
    pub fn kind(&self) -> &str {
        match self {
            Self::Unknown { kind, .. } => kind,
            known => known.event_type().map_or("", EventType::as_str),
        }
    }

    /// Parses one JSON object.
    ///
    /// An unknown `type` is not an error: the event is [`Event::Unknown`] with all its members.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not JSON, if it is not an object with a textual, non-empty
    /// `type`, or if a required member of a known type is missing or of a wrong type. All are faults of
    /// the peer.
    pub fn from_json(text: &str, strictness: Strictness) -> Result<Self, Error> {
        Ok(Self::from_value(serde_json::from_str(text)?, strictness)?)
    }

    /// Reads an event from a JSON value.
    ///
    /// # Errors
    ///
    /// As [`from_json`](Self::from_json), except that the value is valid JSON.
    pub fn from_value(value: Value, strictness: Strictness) -> Result<Self, WireError> {
        let at = At::root("event", strictness);
        let mut members = super::object::members(value, &at)?;
        let kind = match members.get("type") {
            Some(Value::String(kind)) if !kind.is_empty() => ByteString::from(kind.as_str()),
            Some(other) => return Err(at.member("type").wrong("the name of an event", other)),
            None => return Err(at.member("type").missing("the name of an event")),
        };
        let Some(event_type) = EventType::from_name(&kind) else {
            return Ok(Self::Unknown { kind, value: Box::new(members) });
        };
        // Errors inside the event name its type: `TEXT_MESSAGE_CONTENT.delta`, not `event.delta`.
        members.shift_remove("type");
        Self::take(event_type, members, &At::root(event_type.as_str(), strictness))
    }
}

impl serde::Serialize for Event {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", self.kind())?;
        self.write(&mut map)?;
        map.end()
    }
}

impl<'de> serde::Deserialize<'de> for Event {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Self::from_value(value, Strictness::Strict).map_err(serde::de::Error::custom)
    }
}
