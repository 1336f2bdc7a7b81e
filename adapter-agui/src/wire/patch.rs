//! RFC 6902 operations. They are open: members beyond the standard are kept.
//!
//! An operation is stored as received. [`PatchOperation::check`] returns whether a 1.0 client accepts it: a client drops an
//! unknown operation, and ends the stream at an invalid pointer.

use aqueduct_core::Metadata;
use serde_json::Value;

use super::object::{At, FromWire};
use crate::error::WireError;

/// One operation, as it stands on the wire.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PatchOperation(pub Metadata);

/// The operations of RFC 6902, in the order of their protobuf numbers.
pub(crate) const OPERATIONS: [&str; 6] = ["add", "remove", "replace", "move", "copy", "test"];

impl PatchOperation {
    /// Returns the operation; empty if it is missing.
    pub fn op(&self) -> &str {
        self.text("op")
    }

    /// Returns the target path.
    pub fn path(&self) -> &str {
        self.text("path")
    }

    /// Returns `true` if the operation is one of RFC 6902.
    pub fn is_known(&self) -> bool {
        OPERATIONS.contains(&self.op())
    }

    /// Checks whether a 1.0 client accepts the operation.
    ///
    /// # Errors
    ///
    /// Returns the expected member if it is missing or malformed.
    pub fn check(&self) -> Result<(), &'static str> {
        if !self.is_known() {
            return Err("one of the operations of RFC 6902 in `op`");
        }
        if !is_pointer(self.0.get("path")) {
            return Err("a JSON pointer in `path`");
        }
        if matches!(self.op(), "move" | "copy") && !is_pointer(self.0.get("from")) {
            return Err("a JSON pointer in `from`");
        }
        if matches!(self.op(), "add" | "replace" | "test") && !self.0.contains_key("value") {
            return Err("a `value`");
        }
        Ok(())
    }

    fn text(&self, name: &str) -> &str {
        self.0.get(name).and_then(Value::as_str).unwrap_or("")
    }
}

/// Returns `true` for `^(/([^/~]|~[01])*)*$`.
fn is_pointer(value: Option<&Value>) -> bool {
    let Some(pointer) = value.and_then(Value::as_str) else { return false };
    if !pointer.is_empty() && !pointer.starts_with('/') {
        return false;
    }
    let mut rest = pointer;
    while let Some((_, after)) = rest.split_once('~') {
        if !after.starts_with(['0', '1']) {
            return false;
        }
        rest = after;
    }
    true
}

impl FromWire for PatchOperation {
    const EXPECTED: &'static str = "an operation of RFC 6902";

    fn from_wire(value: Value, at: &At<'_>) -> Result<Self, WireError> {
        super::object::members(value, at).map(Self)
    }
}

impl serde::Serialize for PatchOperation {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(value: &Value) -> PatchOperation {
        PatchOperation(value.as_object().unwrap().clone())
    }

    #[test]
    fn pointers_follow_rfc_6901() {
        for good in ["", "/", "/a", "/a~0b/~1", "/a//b"] {
            assert!(is_pointer(Some(&Value::from(good))), "{good}");
        }
        for bad in ["a", "/~", "/~2", "a/b", "/a~"] {
            assert!(!is_pointer(Some(&Value::from(bad))), "{bad}");
        }
    }

    #[test]
    fn an_operation_needs_its_members() {
        assert!(operation(&serde_json::json!({"op": "add", "path": "/a", "value": null})).check().is_ok());
        assert!(operation(&serde_json::json!({"op": "add", "path": "/a"})).check().is_err());
        assert!(operation(&serde_json::json!({"op": "move", "path": "/a"})).check().is_err());
        assert!(operation(&serde_json::json!({"op": "jump", "path": "/a"})).check().is_err());
        assert!(operation(&serde_json::json!({"op": "remove", "path": "a"})).check().is_err());
    }
}
