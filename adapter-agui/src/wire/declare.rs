//! The macros that declare wire objects: `object!`, `event!` and `union!`, and their helpers.
//!
//! Each takes one or more declarations. A declaration lists the members with their JSON names and, if
//! the object has a plain protobuf message, their field numbers; the macro generates the struct, its
//! reader and its writers. See [`object`](super::object) for the rules.
//!
//! ```text
//! event! {
//!     /// Documentation of the event.
//!     pub struct StepStarted {
//!         /// Documentation of the member.
//!         step_name: ByteString = "stepName" @ 2,
//!         subagent_run_id: Option<ByteString> = "subagentRunId" @ 3,
//!     }
//! }
//! ```
//!
//! | macro | generates |
//! |---|---|
//! | `object!` | struct with `extra`, `Object`, `FromWire`, `Serialize`, `Deserialize`; `ProtoMessage` if all members have numbers |
//! | `event!` | struct with `base`, the same traits; `ProtoEvent` if all members have numbers |
//! | `union!` | enum with a variant `Unknown`, `FromWire`, `Serialize`, `Deserialize`; no protobuf form |
//!
//! One declaration per object keeps both encodings, the field order of the output and the paths in
//! error messages consistent: none of them is written twice.

/// Declares objects that are members of others.
///
/// Members are written in the order of their declaration, undeclared ones after them.
/// `#[derive(Default)]` is needed by the protobuf reader, which fills a default value field by
/// field.
macro_rules! object {
    ($(
        $(#[$doc:meta])*
        pub struct $name:ident {
            $( $(#[$field_doc:meta])* $field:ident : $type:ty = $wire:literal $(@ $tag:literal)? ,)*
        }
    )+) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Default)]
        pub struct $name {
            $( $(#[$field_doc])* pub $field: $type, )*
            /// Undeclared members, written back unchanged.
            pub extra: Option<Box<aqueduct_core::Metadata>>,
        }

        impl crate::wire::object::Object for $name {
            fn take(
                members: &mut crate::wire::object::Members,
                at: &crate::wire::object::At<'_>,
            ) -> Result<Self, crate::error::WireError> {
                // An object without members would leave both parameters unused.
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

        crate::wire::declare::object_traits!($name);
        crate::wire::declare::proto_message!($name { $( $field $(@ $tag)? , )* });
    )+ };
}

/// Declares events: objects with the members that all events share.
///
/// The undeclared members are kept in the rarely used part of the base instead of a field, so that
/// a delta event without them stays small.
macro_rules! event {
    ($(
        $(#[$doc:meta])*
        pub struct $name:ident {
            $( $(#[$field_doc:meta])* $field:ident : $type:ty = $wire:literal $(@ $tag:literal)? ,)*
        }
    )+) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Default)]
        pub struct $name {
            /// The members that all events share.
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

        #[cfg(feature = "proto")]
        impl crate::proto::HasBase for $name {
            fn base(&self) -> &crate::wire::Base {
                &self.base
            }

            fn base_mut(&mut self) -> &mut crate::wire::Base {
                &mut self.base
            }
        }

        crate::wire::declare::object_traits!($name);
        crate::wire::declare::proto_event!($name { $( $field $(@ $tag)? , )* });
    )+ };
}

/// Implements the traits of every declared object: reading from a JSON value, writing as a JSON
/// object, and strict `Deserialize`.
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

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap as _;
                let mut map = serializer.serialize_map(None)?;
                crate::wire::object::Object::write(self, &mut map)?;
                map.end()
            }
        }

        crate::wire::declare::deserialize_strictly!($name);
    };
}

/// Implements `Deserialize` with strict reading, for users of the types. Lenient reading needs the
/// argument `Strictness`, which serde cannot pass: see `Event::from_json`.
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

/// Declares unions of objects with a discriminating member (`by "type"`, `by "role"`), and a
/// variant for unknown kinds.
///
/// A missing or non-textual discriminator is an error. An unknown one is not: the members are kept
/// unchanged, including the discriminator, and are written back unchanged.
macro_rules! union {
    ($(
        $(#[$doc:meta])*
        pub enum $name:ident by $by:literal {
            $( $(#[$variant_doc:meta])* $variant:ident($type:ty) = $wire:literal ,)*
        }
    )+) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq)]
        pub enum $name {
            $( $(#[$variant_doc])* $variant($type), )*
            /// An unknown kind, with all members.
            Unknown(aqueduct_core::Metadata),
        }

        impl $name {
            /// Returns the value of the discriminating member.
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
                    // The variant implies the discriminator; it is not a member of the object.
                    $( $wire => {
                        members.shift_remove($by);
                        Ok(Self::$variant(crate::wire::object::whole(members, at)?))
                    } )*
                    _ => Ok(Self::Unknown(members)),
                }
            }
        }

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

        crate::wire::declare::deserialize_strictly!($name);
    )+ };
}

/// Implements the protobuf message of an object whose members all have a field number. Fields must
/// be declared in the order of their numbers: they are written in the order of declaration, and the
/// reference implementation writes them by number.
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
            ) -> Result<(), crate::error::Error> {
                match number {
                    $( $tag => crate::proto::ProtoField::read(&mut self.$field, field), )*
                    _ => Ok(()),
                }
            }
        }

        crate::wire::declare::proto_nested!($name);
    };
    // Without field numbers there is no message, or a hand-written one.
    ($name:ident { $($rest:tt)* }) => {};
}

/// Implements the protobuf message of an event whose members all have a field number; number 1 is the base.
macro_rules! proto_event {
    ($name:ident { $( $field:ident @ $tag:literal , )* }) => {
        #[cfg(feature = "proto")]
        impl crate::proto::ProtoEvent for $name {
            fn write_own(&self, out: &mut Vec<u8>) {
                $( crate::proto::ProtoField::write(&self.$field, $tag, out); )*
            }

            fn read_own(
                &mut self,
                number: u32,
                field: &crate::proto::Field,
            ) -> Result<(), crate::error::Error> {
                match number {
                    $( $tag => crate::proto::ProtoField::read(&mut self.$field, field), )*
                    _ => Ok(()),
                }
            }
        }
    };
    // As above: an event with a member without number implements `ProtoEvent` by hand.
    ($name:ident { $($rest:tt)* }) => {};
}

/// Implements a protobuf message as a field of another: always written, read by merging.
macro_rules! proto_nested {
    ($name:ident) => {
        #[cfg(feature = "proto")]
        impl crate::proto::ProtoField for $name {
            fn write(&self, tag: u32, out: &mut Vec<u8>) {
                crate::proto::write_nested(tag, out, |out| {
                    crate::proto::ProtoMessage::write_fields(self, out);
                });
            }

            fn read(&mut self, field: &crate::proto::Field) -> Result<(), crate::error::Error> {
                crate::proto::merge(self, field.message()?)
            }
        }
    };
}

pub(crate) use {
    deserialize_strictly, event, object, object_traits, proto_event, proto_message, proto_nested, union,
};
