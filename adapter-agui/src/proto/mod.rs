//! The protobuf encoding, byte for byte as `@ag-ui/proto` 1.0.0 writes it (`proto/ag_ui.proto` has the schema).
//!
//! It is written by hand on the declarations of [`wire`](crate::wire), because generated code does not produce equal bytes:
//! fields in the order of their numbers; a plain text only if it is not empty, an optional one whenever it is present;
//! numbers in arbitrary JSON as doubles.
//!
//! The encoding loses: undeclared members, further members of patch operations, and the difference between an absent and an
//! empty list. It has no form for unknown kinds of event.

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

pub(crate) use event::{HasBase, ProtoEvent, read_event, write_event};
pub use event::{decode_event, encode_event};
pub(crate) use field::{ProtoField, ProtoMessage, merge};
pub(crate) use reader::{Field, Reader};
pub(crate) use writer::{write_nested, write_text};
