//! The protobuf encoding, byte for byte as `@ag-ui/proto` 1.0.0 writes it (`proto/ag_ui.proto` has the schema).
//!
//! It is written by hand on top of the declarations of [`wire`](crate::wire), because generated code could not
//! take the shortcuts that make the bytes equal: fields in the order of their numbers; a plain text only if it
//! is not empty, an optional one whenever it is there; numbers in open JSON as doubles.
//!
//! What the encoding cannot carry is lost: members that no rule knows, further members of patch operations, and
//! the difference between an absent and an empty list. Unknown kinds of event have no place in it.

mod content;
mod event;
mod field;
mod json;
mod message;
mod outcome;
mod reader;
mod writer;

#[cfg(test)]
mod tests;

pub(crate) use event::{ProtoEvent, read_event, write_event};
pub use event::{decode_event, encode_event};
pub(crate) use field::{ProtoField, ProtoMessage, merge};
pub(crate) use reader::{Field, Reader};
pub(crate) use writer::{write_nested, write_text};
