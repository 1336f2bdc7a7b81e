//! JSON Patch (RFC 6902), applied as clients apply it: all operations or none.
//!
//! A patch comes from a foreign agent: some hundred bytes of `copy` operations double a state until memory is exhausted, and
//! `move` operations nest it until the stack overflows. So a patch is bounded by [`PatchLimits`], and every value is measured
//! before it is copied.
//!
//! Invariants: a patch that fails changes nothing; no result exceeds the limits, unless the value did before; a result can
//! be written, read and dropped without a stack overflow.

use serde_json::Value;

use crate::error::Error;
use crate::wire::PatchOperation;

aqueduct_core::with_defaults! {
    /// The limits of one patch.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct PatchLimits {
        /// Operations in one patch. Agents send one to some tens.
        pub operations: usize = 4096,
        /// The depth of the result. JSON is read up to 128 levels; an event adds some around its state.
        pub depth: usize = 96,
        /// Values in the result (objects, arrays, members and items). About 20 MB of memory at the limit.
        pub nodes: usize = 200_000,
        /// Bytes of texts and member names in the result.
        pub bytes: usize = 8 << 20,
        /// Values that all operations together may visit: bounds the time of one patch to some tens of milliseconds.
        pub work: usize = 2_000_000,
    }
}

/// Applies the operations in order, within the default limits.
///
/// # Errors
///
/// Returns the index of the operation that is malformed, does not match or exceeds a limit. The document is unchanged.
pub fn apply(target: &mut Value, operations: &[PatchOperation]) -> Result<(), Error> {
    apply_within(target, operations, &PatchLimits::default())
}

/// Applies the operations in order, within these limits.
///
/// # Errors
///
/// As [`apply`], by these limits.
pub fn apply_within(
    target: &mut Value,
    operations: &[PatchOperation],
    limits: &PatchLimits,
) -> Result<(), Error> {
    *target = patched(target, operations, limits)?;
    Ok(())
}

/// Returns the value after all operations.
///
/// # Errors
///
/// As [`apply_within`].
pub(super) fn patched(
    target: &Value,
    operations: &[PatchOperation],
    limits: &PatchLimits,
) -> Result<Value, Error> {
    if operations.len() > limits.operations {
        let (operation, max) = (limits.operations, limits.operations);
        return Err(Error::PatchLimit { operation, limit: "operations", max });
    }
    let mut patched = target.clone();
    let mut budget = Budget::new(&patched, limits);
    for (index, operation) in operations.iter().enumerate() {
        budget.operation = index;
        let refused = Error::PatchRefused { operation: index };
        apply_one(&mut patched, operation, &mut budget).map_err(|stop| match stop {
            Stop::Refused => refused,
            Stop::Limit(error) => error,
        })?;
    }
    Ok(patched)
}

/// Why an operation stops.
enum Stop {
    Refused,
    Limit(Error),
}

/// The size of a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Size {
    nodes: usize,
    bytes: usize,
    depth: usize,
}

/// Computes the size of a value. The recursion is bounded: every value was parsed, or bounded by [`PatchLimits::depth`].
fn size_of(value: &Value) -> Size {
    let mut size = Size { nodes: 1, bytes: 0, depth: 1 };
    match value {
        Value::Array(items) => items.iter().for_each(|item| size.add(size_of(item))),
        Value::Object(members) => {
            for (name, member) in members {
                size.add(size_of(member));
                size.bytes += name.len();
            }
        }
        Value::String(text) => size.bytes = text.len(),
        _ => {}
    }
    size
}

impl Size {
    fn add(&mut self, inner: Self) {
        self.nodes += inner.nodes;
        self.bytes += inner.bytes;
        self.depth = self.depth.max(inner.depth + 1);
    }
}

/// The budget of a patch.
struct Budget<'a> {
    limits: &'a PatchLimits,
    operation: usize,
    nodes: usize,
    bytes: usize,
    work: usize,
    /// The size of the value before the patch is always allowed.
    max_nodes: usize,
    max_bytes: usize,
}

impl<'a> Budget<'a> {
    fn new(value: &Value, limits: &'a PatchLimits) -> Self {
        let Size { nodes, bytes, .. } = size_of(value);
        let (max_nodes, max_bytes) = (limits.nodes.max(nodes), limits.bytes.max(bytes));
        Self { limits, operation: 0, nodes, bytes, work: 0, max_nodes, max_bytes }
    }

    /// Returns an error that names the limit if `count` exceeds it.
    fn check(&self, count: usize, max: usize, limit: &'static str) -> Result<(), Stop> {
        if count <= max {
            return Ok(());
        }
        Err(Stop::Limit(Error::PatchLimit { operation: self.operation, limit, max }))
    }

    /// Returns the size of a value, and counts its nodes as work: measuring is what a patch bomb makes slow.
    fn measure(&mut self, value: &Value) -> Result<Size, Stop> {
        let size = size_of(value);
        self.spend(size.nodes)?;
        Ok(size)
    }

    fn spend(&mut self, nodes: usize) -> Result<(), Stop> {
        self.work = self.work.saturating_add(nodes);
        self.check(self.work, self.limits.work, "work")
    }

    /// Checks that a value of this size may be inserted at the path.
    fn admit(&mut self, size: Size, path: &[String]) -> Result<(), Stop> {
        self.check(path.len() + size.depth, self.limits.depth, "depth")?;
        self.nodes = self.nodes.saturating_add(size.nodes);
        self.bytes = self.bytes.saturating_add(size.bytes + path.last().map_or(0, String::len));
        self.check(self.nodes, self.max_nodes, "nodes")?;
        self.check(self.bytes, self.max_bytes, "bytes")
    }

    /// Subtracts a removed value.
    fn release(&mut self, size: Size) {
        self.nodes = self.nodes.saturating_sub(size.nodes);
        self.bytes = self.bytes.saturating_sub(size.bytes);
    }
}

/// Applies one operation within the budget.
fn apply_one(target: &mut Value, operation: &PatchOperation, budget: &mut Budget<'_>) -> Result<(), Stop> {
    operation.check().map_err(|_| Stop::Refused)?;
    let path = tokens(operation.path());
    let from = || tokens(operation.0.get("from").and_then(Value::as_str).unwrap_or_default());
    budget.check(path.len(), budget.limits.depth, "depth")?;
    let value = || operation.0.get("value").ok_or(Stop::Refused);
    match operation.op() {
        "add" => {
            let value = value()?;
            let size = budget.measure(value)?;
            budget.admit(size, &path)?;
            add(target, &path, value.clone(), budget)
        }
        "remove" => take(target, &path, budget).map(drop),
        "replace" => {
            let value = value()?;
            let place = find_mut(target, &path).ok_or(Stop::Refused)?;
            let (old, new) = (budget.measure(place)?, budget.measure(value)?);
            budget.release(old);
            budget.admit(new, &path)?;
            *place = value.clone();
            Ok(())
        }
        "move" => {
            let from = from();
            // A value cannot be moved into itself (section 4.4).
            if path.starts_with(&from) && path != from {
                return Err(Stop::Refused);
            }
            let (moved, size) = take(target, &from, budget)?;
            budget.admit(size, &path)?;
            add(target, &path, moved, budget)
        }
        "copy" => {
            let copied = find_mut(target, &from()).ok_or(Stop::Refused)?;
            let size = budget.measure(copied)?;
            budget.admit(size, &path)?;
            let copied = copied.clone();
            add(target, &path, copied, budget)
        }
        _ => {
            let place = find_mut(target, &path).ok_or(Stop::Refused)?;
            budget.measure(place)?;
            if place == value()? { Ok(()) } else { Err(Stop::Refused) }
        }
    }
}

/// Removes the value at a path and returns it with its size.
fn take(target: &mut Value, path: &[String], budget: &mut Budget<'_>) -> Result<(Value, Size), Stop> {
    let removed = remove(target, path, budget)?;
    let size = budget.measure(&removed)?;
    budget.release(size);
    Ok((removed, size))
}

/// Splits a pointer (RFC 6901): `~1` is `/`, `~0` is `~`, in this order.
fn tokens(pointer: &str) -> Vec<String> {
    pointer.split('/').skip(1).map(|token| token.replace("~1", "/").replace("~0", "~")).collect()
}

/// Returns the value at a path (RFC 6901).
fn find_mut<'v>(target: &'v mut Value, path: &[String]) -> Option<&'v mut Value> {
    path.iter().try_fold(target, |at, token| match at {
        Value::Object(members) => members.get_mut(token),
        Value::Array(items) => items.get_mut(index(token)?),
        _ => None,
    })
}

/// Parses an array index: digits without leading zeros.
fn index(token: &str) -> Option<usize> {
    let is_number =
        token.bytes().all(|byte| byte.is_ascii_digit()) && (token == "0" || !token.starts_with('0'));
    is_number.then(|| token.parse().ok()).flatten()
}

/// Adds a value at a path (RFC 6902, section 4.1): the root, a member, an index, or `-` for the end of an array.
fn add(target: &mut Value, path: &[String], value: Value, budget: &mut Budget<'_>) -> Result<(), Stop> {
    let Some((last, parent)) = path.split_last() else {
        let old = budget.measure(target)?;
        budget.release(old);
        *target = value;
        return Ok(());
    };
    match find_mut(target, parent).ok_or(Stop::Refused)? {
        Value::Object(members) => {
            if let Some(old) = members.insert(last.clone(), value) {
                let old = budget.measure(&old)?;
                budget.release(old);
            }
        }
        Value::Array(items) if last == "-" => items.push(value),
        Value::Array(items) => {
            let at = index(last).filter(|at| *at <= items.len()).ok_or(Stop::Refused)?;
            budget.spend(items.len() - at)?;
            items.insert(at, value);
        }
        _ => return Err(Stop::Refused),
    }
    Ok(())
}

/// Removes the value at a path (RFC 6902, section 4.2) and returns it.
fn remove(target: &mut Value, path: &[String], budget: &mut Budget<'_>) -> Result<Value, Stop> {
    let Some((last, parent)) = path.split_last() else {
        return Ok(std::mem::take(target));
    };
    match find_mut(target, parent).ok_or(Stop::Refused)? {
        Value::Object(members) => {
            budget.spend(members.len())?;
            members.shift_remove(last).ok_or(Stop::Refused)
        }
        Value::Array(items) => {
            let at = index(last).filter(|at| *at < items.len()).ok_or(Stop::Refused)?;
            budget.spend(items.len() - at)?;
            Ok(items.remove(at))
        }
        _ => Err(Stop::Refused),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(before: Value, patch: Value, after: Option<Value>) {
        let Value::Array(patch) = patch else { panic!() };
        let operations: Vec<_> =
            patch.iter().map(|op| PatchOperation(op.as_object().unwrap().clone())).collect();
        let mut target = before.clone();
        assert_eq!(apply(&mut target, &operations).is_ok(), after.is_some(), "{patch:?}");
        assert_eq!(target, after.unwrap_or(before), "{patch:?}");
    }

    #[test]
    fn operations_do_what_the_standard_says() {
        let list = json!({ "a": [1, 2], "b": { "c/d": "x" } });
        check(
            list.clone(),
            json!([{ "op": "add", "path": "/a/1", "value": 9 }]),
            Some(json!({ "a": [1, 9, 2], "b": { "c/d": "x" } })),
        );
        check(
            list.clone(),
            json!([{ "op": "add", "path": "/a/-", "value": 9 }]),
            Some(json!({ "a": [1, 2, 9], "b": { "c/d": "x" } })),
        );
        check(
            list.clone(),
            json!([{ "op": "replace", "path": "/b/c~1d", "value": null }]),
            Some(json!({ "a": [1, 2], "b": { "c/d": null } })),
        );
        check(
            list.clone(),
            json!([{ "op": "remove", "path": "/a/0" }]),
            Some(json!({ "a": [2], "b": { "c/d": "x" } })),
        );
        check(
            list.clone(),
            json!([{ "op": "move", "from": "/a", "path": "/b/a" }]),
            Some(json!({ "b": { "c/d": "x", "a": [1, 2] } })),
        );
        check(
            list.clone(),
            json!([{ "op": "copy", "from": "/a/1", "path": "/z" }]),
            Some(json!({ "a": [1, 2], "b": { "c/d": "x" }, "z": 2 })),
        );
        check(list.clone(), json!([{ "op": "test", "path": "/a", "value": [1, 2] }]), Some(list.clone()));
        check(list, json!([{ "op": "add", "path": "", "value": 1 }]), Some(json!(1)));
    }

    #[test]
    fn one_operation_that_fails_undoes_all() {
        for bad in [
            json!({ "op": "add", "path": "/a/3", "value": 1 }),
            json!({ "op": "add", "path": "/a/01", "value": 1 }),
            json!({ "op": "add", "path": "/none/x", "value": 1 }),
            json!({ "op": "remove", "path": "/none" }),
            json!({ "op": "replace", "path": "/none", "value": 1 }),
            json!({ "op": "move", "from": "/a", "path": "/a/0" }),
            json!({ "op": "test", "path": "/a", "value": [] }),
            json!({ "op": "jump", "path": "/a" }),
        ] {
            let good = json!({ "op": "add", "path": "/new", "value": true });
            check(json!({ "a": [1, 2] }), json!([good, bad]), None);
        }
    }

    fn operations(all: impl IntoIterator<Item = Value>) -> Vec<PatchOperation> {
        all.into_iter().map(|op| PatchOperation(op.as_object().unwrap().clone())).collect()
    }

    #[track_caller]
    fn refused(before: &Value, patch: &[PatchOperation], name: &str) {
        let mut target = before.clone();
        let error = apply(&mut target, patch).unwrap_err();
        assert!(matches!(error, Error::PatchLimit { limit, .. } if limit == name), "{error}");
        assert_eq!(target, *before, "nothing is changed");
        assert!(error.to_string().contains(name), "{error}");
    }

    #[test]
    fn copies_that_double_the_state_are_refused() {
        let double = |at: usize| json!({ "op": "copy", "from": "", "path": format!("/{at}") });
        refused(&json!({}), &operations((0..30).map(double)), "nodes");
        let text = json!({ "a": "x".repeat(100_000) });
        let again = |at: usize| json!({ "op": "copy", "from": "/a", "path": format!("/b{at}") });
        refused(&text, &operations((0..200).map(again)), "bytes");
    }

    #[test]
    fn moves_that_nest_the_state_are_refused() {
        // Each round puts all that is there one level deeper.
        let rounds = (0..2_000).flat_map(|_| {
            [
                json!({ "op": "add", "path": "/next", "value": {} }),
                json!({ "op": "move", "from": "/all", "path": "/next/all" }),
                json!({ "op": "move", "from": "/next", "path": "/all" }),
            ]
        });
        let nested = operations(rounds.take(4_000));
        refused(&json!({ "all": 1 }), &nested, "depth");
        let copies = (0..200).map(|_| json!({ "op": "copy", "from": "", "path": "/a" }));
        refused(&json!({ "a": 1 }), &operations(copies), "depth");
        refused(
            &json!({}),
            &operations([json!({ "op": "add", "path": "/a".repeat(5_000), "value": 1 })]),
            "depth",
        );
    }

    #[test]
    fn long_patches_and_slow_ones_are_refused() {
        let many = operations((0..5_000).map(|_| json!({ "op": "test", "path": "", "value": {} })));
        refused(&json!({}), &many, "operations");
        let list = json!({ "list": (0..100_000).collect::<Vec<_>>() });
        let front = (0..100).map(|_| json!({ "op": "add", "path": "/list/0", "value": 1 }));
        refused(&list, &operations(front), "work");
    }

    #[test]
    fn a_state_over_the_limit_may_shrink() {
        let limits = PatchLimits { nodes: 2, ..PatchLimits::default() };
        let mut state = json!({ "a": [1, 2, 3], "b": 1 });
        let less = operations([json!({ "op": "remove", "path": "/a/0" })]);
        apply_within(&mut state, &less, &limits).unwrap();
        assert_eq!(state, json!({ "a": [2, 3], "b": 1 }));
        let more = operations([json!({ "op": "add", "path": "/c", "value": [1, 2, 3] })]);
        assert!(apply_within(&mut state, &more, &limits).is_err());
    }
}
