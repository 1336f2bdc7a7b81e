//! JSON whose objects name each member once.
//!
//! A relay decides by the members that it reads, and forwards the text that it received. Parsers differ in which
//! of two members of one name they use, so a text with such members could mean something else to the agent than
//! to the relay, and a caller could name its own task to the relay and another one to the agent:
//!
//! ```text
//! {"id": "mine", "id": "theirs"}      one parser reads "mine", another "theirs"  ►  refused
//! ```
//!
//! So [`parse`] refuses such a text at any depth. The cost is a tree of the whole body, which only calls that are
//! checked pay. Nesting beyond 128 levels is refused by the parser.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Parses a text. Returns `None` if it is not JSON, or an object in it repeats a member.
pub(super) fn parse(text: &str) -> Option<Value> {
    serde_json::from_str::<Unique>(text).ok().map(|unique| unique.0)
}

/// A JSON value in which no object repeats a member.
pub(super) struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueVisitor).map(Self)
    }
}

/// Builds the value as `serde_json` does, and compares the names of members on the way.
pub(super) struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON without repeated members")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Unique(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some((name, Unique(value))) = members.next_entry::<String, Unique>()? {
            // Names are compared after their escapes are undone: `"\u0069d"` is `"id"`.
            if object.insert(name, value).is_some() {
                return Err(A::Error::custom("a member is there twice"));
            }
        }
        Ok(Value::Object(object))
    }
}
