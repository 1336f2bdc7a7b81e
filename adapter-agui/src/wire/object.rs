//! How wire objects are read and written: one declaration per object, from which both encodings follow.
//!
//! [`object!`] and [`event!`] take the members of an object with their JSON names (and their protobuf field
//! numbers, where the object has a plain protobuf message) and make the struct, its reader and its writers. A
//! member is read by its *type*: `Option` may be absent, everything else is required.
//!
//! Invariants: what is `None` is not written; a member that no declaration knows is kept in `extra` and written
//! again; an error names the way to the member.

use serde::ser::SerializeMap;
use serde_json::Value;

use crate::error::{Problem, WireError};

/// A JSON object's members, in their order.
pub(crate) type Members = serde_json::Map<String, Value>;

/// How to take what is not quite right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Strictness {
    /// As the protocol says: `null` is not absent, a timestamp is an integer.
    #[default]
    Strict,
    /// As a peer that wants to understand: `null` in place of an optional member counts as absent, and a
    /// timestamp with a fraction is rounded down.
    Forgiving,
}

/// The way to a value, for error messages. Lives on the stack; becomes text only if there is an error.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    parent: Option<&'a At<'a>>,
    segment: Segment<'a>,
    pub(crate) strictness: Strictness,
}

#[derive(Clone, Copy)]
enum Segment<'a> {
    Root(&'a str),
    Member(&'static str),
    Index(usize),
}

impl<'a> At<'a> {
    pub(crate) fn root(name: &'a str, strictness: Strictness) -> Self {
        Self { parent: None, segment: Segment::Root(name), strictness }
    }

    pub(crate) fn member(&'a self, name: &'static str) -> At<'a> {
        At { parent: Some(self), segment: Segment::Member(name), strictness: self.strictness }
    }

    pub(crate) fn index(&'a self, index: usize) -> At<'a> {
        At { parent: Some(self), segment: Segment::Index(index), strictness: self.strictness }
    }

    pub(crate) fn missing(&self, expected: &'static str) -> WireError {
        self.error(Problem::Missing { expected })
    }

    pub(crate) fn null(&self, expected: &'static str) -> WireError {
        self.error(Problem::Null { expected })
    }

    pub(crate) fn wrong(&self, expected: &'static str, found: &Value) -> WireError {
        self.error(Problem::Wrong { expected, found: describe(found) })
    }

    fn error(&self, problem: Problem) -> WireError {
        let mut place = String::new();
        self.write(&mut place);
        WireError { place, problem }
    }

    fn write(&self, place: &mut String) {
        use std::fmt::Write as _;
        if let Some(parent) = self.parent {
            parent.write(place);
        }
        // Writing to a `String` cannot fail.
        let _written = match self.segment {
            Segment::Root(name) => write!(place, "{name}"),
            Segment::Member(name) => write!(place, ".{name}"),
            Segment::Index(index) => write!(place, "[{index}]"),
        };
    }
}

/// Longest value that an error message quotes.
const QUOTED: usize = 40;

/// A value in the words of an error message.
fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::String(text) if text.chars().count() > QUOTED => "a long string".to_owned(),
        other => other.to_string(),
    }
}

/// Reads a value of a known shape.
pub(crate) trait FromWire: Sized {
    /// What an error message says was expected.
    const EXPECTED: &'static str;

    fn from_wire(value: Value, at: &At<'_>) -> Result<Self, WireError>;

    /// What to do if the member is not there.
    fn from_absent(at: &At<'_>) -> Result<Self, WireError> {
        Err(at.missing(Self::EXPECTED))
    }
}

/// Tells whether a member is to be written.
pub(crate) trait MaybeAbsent {
    fn is_absent(&self) -> bool {
        false
    }
}

/// An object made of members.
pub(crate) trait Object: Sized {
    /// Takes the members it knows out of `members`; the rest stays.
    fn take(members: &mut Members, at: &At<'_>) -> Result<Self, WireError>;

    /// Takes over what no declaration knows.
    fn keep_extra(&mut self, extra: Members);

    /// Writes its members.
    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error>;
}

/// Reads one member out of an object.
pub(crate) fn member<T: FromWire>(
    members: &mut Members,
    name: &'static str,
    at: &At<'_>,
) -> Result<T, WireError> {
    let at = at.member(name);
    // `shift_remove` keeps the order of what stays; objects are small.
    match members.shift_remove(name) {
        Some(value) => T::from_wire(value, &at),
        None => T::from_absent(&at),
    }
}

/// Reads a whole object, unknown members included.
pub(crate) fn whole<T: Object>(mut members: Members, at: &At<'_>) -> Result<T, WireError> {
    let mut object = T::take(&mut members, at)?;
    if !members.is_empty() {
        object.keep_extra(members);
    }
    Ok(object)
}

/// The members of a value that must be an object.
pub(crate) fn members(value: Value, at: &At<'_>) -> Result<Members, WireError> {
    match value {
        Value::Object(members) => Ok(members),
        other => Err(at.wrong("an object", &other)),
    }
}

/// Writes `value` unless it is absent.
pub(crate) fn put<M, T>(map: &mut M, name: &'static str, value: &T) -> Result<(), M::Error>
where
    M: SerializeMap,
    T: serde::Serialize + MaybeAbsent,
{
    if value.is_absent() { Ok(()) } else { map.serialize_entry(name, value) }
}

/// Declares an object that stands inside others. See the module documentation.
macro_rules! object {
    (
        $(#[$doc:meta])*
        pub struct $name:ident {
            $( $(#[$field_doc:meta])* $field:ident : $type:ty = $wire:literal $(@ $tag:literal)? ,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Default)]
        pub struct $name {
            $( $(#[$field_doc])* pub $field: $type, )*
            /// Members that no rule knows; written again as they were.
            pub extra: Option<Box<aqueduct_core::Metadata>>,
        }

        impl crate::wire::object::Object for $name {
            fn take(
                members: &mut crate::wire::object::Members,
                at: &crate::wire::object::At<'_>,
            ) -> Result<Self, crate::error::WireError> {
                let _ = (&members, at);
                Ok(Self {
                    $( $field: crate::wire::object::member(members, $wire, at)?, )*
                    extra: None,
                })
            }

            fn keep_extra(&mut self, extra: crate::wire::object::Members) {
                self.extra = Some(Box::new(extra));
            }

            fn write<M: serde::ser::SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
                $( crate::wire::object::put(map, $wire, &self.$field)?; )*
                for (name, value) in self.extra.iter().flat_map(|extra| extra.iter()) {
                    map.serialize_entry(name, value)?;
                }
                Ok(())
            }
        }

        crate::wire::object::object_traits!($name);
        crate::wire::object::proto_message!($name { $( $field $(@ $tag)? , )* });
    };
}

/// Declares an event: an object with the members that all events share.
macro_rules! event {
    (
        $(#[$doc:meta])*
        pub struct $name:ident {
            $( $(#[$field_doc:meta])* $field:ident : $type:ty = $wire:literal $(@ $tag:literal)? ,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Default)]
        pub struct $name {
            /// What all events have.
            pub base: crate::wire::Base,
            $( $(#[$field_doc])* pub $field: $type, )*
        }

        impl crate::wire::object::Object for $name {
            fn take(
                members: &mut crate::wire::object::Members,
                at: &crate::wire::object::At<'_>,
            ) -> Result<Self, crate::error::WireError> {
                Ok(Self {
                    base: crate::wire::Base::take(members, at)?,
                    $( $field: crate::wire::object::member(members, $wire, at)?, )*
                })
            }

            fn keep_extra(&mut self, extra: crate::wire::object::Members) {
                self.base.rare_mut().extra = extra;
            }

            fn write<M: serde::ser::SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
                self.base.write(map)?;
                $( crate::wire::object::put(map, $wire, &self.$field)?; )*
                self.base.write_extra(map)
            }
        }

        crate::wire::object::object_traits!($name);
        crate::wire::object::proto_event!($name { $( $field $(@ $tag)? , )* });
    };
}

/// The traits that every declared object has.
macro_rules! object_traits {
    ($name:ident) => {
        impl crate::wire::object::FromWire for $name {
            const EXPECTED: &'static str = "an object";

            fn from_wire(
                value: serde_json::Value,
                at: &crate::wire::object::At<'_>,
            ) -> Result<Self, crate::error::WireError> {
                crate::wire::object::whole(crate::wire::object::members(value, at)?, at)
            }
        }

        impl crate::wire::object::MaybeAbsent for $name {}

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap as _;
                let mut map = serializer.serialize_map(None)?;
                crate::wire::object::Object::write(self, &mut map)?;
                map.end()
            }
        }

        crate::wire::object::deserialize_strictly!($name);
    };
}

/// Reading through `serde` is strict.
macro_rules! deserialize_strictly {
    ($name:ident) => {
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let value = serde_json::Value::deserialize(deserializer)?;
                let at = crate::wire::object::At::root(stringify!($name), crate::wire::Strictness::Strict);
                crate::wire::object::FromWire::from_wire(value, &at).map_err(serde::de::Error::custom)
            }
        }
    };
}

/// Declares a union of objects that are told apart by one member, with a variant for what no rule knows.
macro_rules! union {
    (
        $(#[$doc:meta])*
        pub enum $name:ident by $by:literal {
            $( $(#[$variant_doc:meta])* $variant:ident($type:ty) = $wire:literal ,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq)]
        pub enum $name {
            $( $(#[$variant_doc])* $variant($type), )*
            /// A kind that no rule knows, whole.
            Unknown(aqueduct_core::Metadata),
        }

        impl $name {
            /// The member that tells the kinds apart, as it stands on the wire.
            pub fn kind(&self) -> &str {
                match self {
                    $( Self::$variant(_) => $wire, )*
                    Self::Unknown(members) => members.get($by).and_then(|kind| kind.as_str()).unwrap_or(""),
                }
            }
        }

        impl crate::wire::object::FromWire for $name {
            const EXPECTED: &'static str = "an object";

            fn from_wire(
                value: serde_json::Value,
                at: &crate::wire::object::At<'_>,
            ) -> Result<Self, crate::error::WireError> {
                let mut members = crate::wire::object::members(value, at)?;
                let by = at.member($by);
                let kind = match members.get($by) {
                    Some(serde_json::Value::String(kind)) => kind.as_str(),
                    Some(other) => return Err(by.wrong("a string", other)),
                    None => return Err(by.missing("a string")),
                };
                match kind {
                    $( $wire => {
                        members.shift_remove($by);
                        Ok(Self::$variant(crate::wire::object::whole(members, at)?))
                    } )*
                    _ => Ok(Self::Unknown(members)),
                }
            }
        }

        impl crate::wire::object::MaybeAbsent for $name {}

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap as _;
                let mut map = serializer.serialize_map(None)?;
                match self {
                    $( Self::$variant(object) => {
                        map.serialize_entry($by, $wire)?;
                        crate::wire::object::Object::write(object, &mut map)?;
                    } )*
                    Self::Unknown(members) => {
                        for (name, value) in members {
                            map.serialize_entry(name, value)?;
                        }
                    }
                }
                map.end()
            }
        }

        crate::wire::object::deserialize_strictly!($name);
    };
}

/// The protobuf message of an object whose members all have a field number.
macro_rules! proto_message {
    ($name:ident { $( $field:ident @ $tag:literal , )+ }) => {
        #[cfg(feature = "proto")]
        impl crate::proto::ProtoMessage for $name {
            fn write_fields(&self, out: &mut Vec<u8>) {
                $( crate::proto::ProtoField::write(&self.$field, $tag, out); )*
            }

            fn read_field(
                &mut self,
                number: u32,
                field: &crate::proto::Field,
            ) -> Result<(), crate::error::DecodeError> {
                match number {
                    $( $tag => crate::proto::ProtoField::read(&mut self.$field, field), )*
                    _ => Ok(()),
                }
            }
        }

        crate::wire::object::proto_nested!($name);
    };
    // Without numbers there is no message, or one written by hand.
    ($name:ident { $($rest:tt)* }) => {};
}

/// The protobuf message of an event whose members all have a field number; number 1 is the base.
macro_rules! proto_event {
    ($name:ident { $( $field:ident @ $tag:literal , )* }) => {
        #[cfg(feature = "proto")]
        impl crate::proto::ProtoEvent for $name {
            fn base(&self) -> &crate::wire::Base {
                &self.base
            }

            fn base_mut(&mut self) -> &mut crate::wire::Base {
                &mut self.base
            }

            fn write_own(&self, out: &mut Vec<u8>) {
                $( crate::proto::ProtoField::write(&self.$field, $tag, out); )*
            }

            fn read_own(
                &mut self,
                number: u32,
                field: &crate::proto::Field,
            ) -> Result<(), crate::error::DecodeError> {
                match number {
                    $( $tag => crate::proto::ProtoField::read(&mut self.$field, field), )*
                    _ => Ok(()),
                }
            }
        }
    };
    ($name:ident { $($rest:tt)* }) => {};
}

/// A protobuf message as a field of another: always written, read by merging.
macro_rules! proto_nested {
    ($name:ident) => {
        #[cfg(feature = "proto")]
        impl crate::proto::ProtoField for $name {
            fn write(&self, tag: u32, out: &mut Vec<u8>) {
                crate::proto::write_nested(tag, out, |out| {
                    crate::proto::ProtoMessage::write_fields(self, out);
                });
            }

            fn read(&mut self, field: &crate::proto::Field) -> Result<(), crate::error::DecodeError> {
                crate::proto::merge(self, field.message()?)
            }
        }
    };
}

pub(crate) use {
    deserialize_strictly, event, object, object_traits, proto_event, proto_message, proto_nested, union,
};
