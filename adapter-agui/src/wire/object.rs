//! Reading and writing of wire objects: one declaration per object, from which both encodings are generated.
//!
//! The macros of [`declare`](super::declare) take the members of an object with their JSON names (and their protobuf field
//! numbers, if the object has a plain protobuf message) and generate the struct, its reader and its writers. The *type* of a
//! member determines how it is read: `Option` may be absent, all others are required.
//!
//! Invariants: a `None` member is not written; an undeclared member is kept in `extra` and written back; an error contains
//! the path to the member.

use serde::ser::SerializeMap;
use serde_json::Value;

use crate::error::{Problem, WireError};

/// A JSON object's members, in their order.
pub(crate) type Members = serde_json::Map<String, Value>;

/// The handling of small deviations from the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Strictness {
    /// As the protocol defines it: `null` is not absent, a timestamp is an integer.
    #[default]
    Strict,
    /// Lenient: `null` counts as absent for an optional member, a timestamp with a fraction is rounded down, and members may be
    /// spelled in `snake_case`, as Python's models accept both.
    Forgiving,
}

/// The path to a value, for error messages. It is on the stack and becomes text only for an error.
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

/// The longest value that an error message quotes.
const QUOTED: usize = 40;

/// Returns a value in the form of an error message.
fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::String(text) if text.chars().count() > QUOTED => "a long string".to_owned(),
        other => other.to_string(),
    }
}

/// A value of a declared type: how it is read, and whether it is written.
pub(crate) trait FromWire: Sized {
    /// The expected value, for error messages.
    const EXPECTED: &'static str;

    fn from_wire(value: Value, at: &At<'_>) -> Result<Self, WireError>;

    /// Returns the value of an absent member, or an error.
    fn from_absent(at: &At<'_>) -> Result<Self, WireError> {
        Err(at.missing(Self::EXPECTED))
    }

    /// Returns `true` if the member is not written. An empty text or list is written: a client
    /// distinguishes it from an absent one.
    fn is_absent(&self) -> bool {
        false
    }
}

/// An object made of members.
pub(crate) trait Object: Sized {
    /// Takes the declared members out of `members`; the others stay.
    fn take(members: &mut Members, at: &At<'_>) -> Result<Self, WireError>;

    /// Stores the undeclared members.
    fn keep_extra(&mut self, extra: Members);

    /// Writes the members.
    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error>;
}

/// Reads one member of an object.
pub(crate) fn member<T: FromWire>(
    members: &mut Members,
    name: &'static str,
    at: &At<'_>,
) -> Result<T, WireError> {
    let at = at.member(name);
    // `shift_remove` keeps the order of the rest; objects are small.
    let value = members.shift_remove(name).or_else(|| {
        let other = snake_case(name).filter(|_| at.strictness == Strictness::Forgiving)?;
        members.shift_remove(&other)
    });
    match value {
        Some(value) => T::from_wire(value, &at),
        None => T::from_absent(&at),
    }
}

/// Returns the name in `snake_case`. Returns `None` if it is spelled the same.
fn snake_case(name: &str) -> Option<String> {
    if !name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return None;
    }
    let mut snake = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    Some(snake)
}

/// Reads a whole object, including undeclared members.
pub(crate) fn whole<T: Object>(mut members: Members, at: &At<'_>) -> Result<T, WireError> {
    let mut object = T::take(&mut members, at)?;
    if !members.is_empty() {
        object.keep_extra(members);
    }
    Ok(object)
}

/// Returns the members of a value, or an error if it is not an object.
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
    T: serde::Serialize + FromWire,
{
    if value.is_absent() { Ok(()) } else { map.serialize_entry(name, value) }
}
