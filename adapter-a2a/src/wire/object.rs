//! The parser of wire objects: one pass, borrowed, unknown members kept.
//!
//! `serde(flatten)` would keep unknown members too, but buffers the whole object first. So the `object!` macro
//! generates the visitor: known members are stored in their fields, all others in `extra`.
//!
//! Rules of every object:
//!
//! - `null` counts as absent, and an absent member has the default of its type: nothing is required.
//! - Of two members with one name the last wins, as in `ProtoJSON`.
//! - A member can have two spellings (`taskId`, `task_id`): `ProtoJSON` parsers must accept both.
//! - A known member of the wrong type is an error. Unknown members are not interpreted, so they cannot be wrong.

use serde::de::{Deserialize, Deserializer};

/// Parses `null` as the default value, so that `"parts": null` is an empty list and not an error.
pub(crate) struct Nullable<T>(pub(crate) T);

impl<'de, T: Deserialize<'de> + Default> Deserialize<'de> for Nullable<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::<T>::deserialize(deserializer).map(|value| Self(value.unwrap_or_default()))
    }
}

/// Declares structs of the wire model and their JSON parsers.
///
/// ```text
/// object! {
///     struct Task {
///         context_id: Text<'a> = "contextId" | "context_id",      a field, and the names of its member
///     }
/// }
/// ```
///
/// Each struct gets a lifetime `'a`, a field `extra`, and the derives that all of the model has.
macro_rules! object {
    ($($(#[$doc:meta])* $vis:vis struct $name:ident {
        $($(#[$field_doc:meta])* $field:ident : $type:ty = $($key:literal)|+),* $(,)?
    })+) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq)]
        $vis struct $name<'a> {
            $($(#[$field_doc])* $vis $field: $type,)*
            /// Unknown members.
            $vis extra: $crate::wire::text::Extra<'a>,
        }

        impl<'a> $name<'a> {
            /// Parses the value of the member whose name was just parsed.
            pub(crate) fn read_member<A: serde::de::MapAccess<'a>>(
                &mut self,
                key: $crate::wire::text::Text<'a>,
                map: &mut A,
            ) -> Result<(), A::Error> {
                match key.as_str() {
                    $($($key)|+ => {
                        self.$field = map.next_value::<$crate::wire::object::Nullable<$type>>()?.0;
                    })*
                    _ => {
                        let value = map.next_value::<$crate::wire::text::Raw<'a>>()?;
                        if !value.is_null() {
                            self.extra.0.push((key, value));
                        }
                    }
                }
                Ok(())
            }
        }

        impl<'de: 'a, 'a> serde::de::Deserialize<'de> for $name<'a> {
            fn deserialize<D: serde::de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct ObjectVisitor;
                impl<'a> serde::de::Visitor<'a> for ObjectVisitor {
                    type Value = $name<'a>;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str(concat!("an object (", stringify!($name), ")"))
                    }

                    fn visit_map<A: serde::de::MapAccess<'a>>(self, mut map: A) -> Result<$name<'a>, A::Error> {
                        let mut object = $name::default();
                        while let Some(key) = map.next_key::<$crate::wire::text::Text<'a>>()? {
                            object.read_member(key, &mut map)?;
                        }
                        Ok(object)
                    }
                }
                deserializer.deserialize_map(ObjectVisitor)
            }
        }
    )+ };
}
pub(crate) use object;
