//! RFC 6902, applied as clients apply it: all operations or none.

use serde_json::Value;

use crate::wire::PatchOperation;

/// Applies the operations in order; false, and nothing is changed, if one of them cannot be.
pub fn apply(target: &mut Value, operations: &[PatchOperation]) -> bool {
    let mut patched = target.clone();
    let done = operations.iter().all(|operation| apply_one(&mut patched, operation).is_some());
    if done {
        *target = patched;
    }
    done
}

fn apply_one(target: &mut Value, operation: &PatchOperation) -> Option<()> {
    operation.check().ok()?;
    let path = tokens(operation.path());
    let value = || operation.0.get("value").cloned();
    let from = || tokens(operation.0.get("from").and_then(Value::as_str).unwrap_or_default());
    match operation.op() {
        "add" => add(target, &path, value()?),
        "remove" => remove(target, &path).map(drop),
        "replace" => {
            *find_mut(target, &path)? = value()?;
            Some(())
        }
        "move" => {
            let from = from();
            // A place cannot be moved into itself (section 4.4).
            if path.starts_with(&from) && path != from {
                return None;
            }
            let moved = remove(target, &from)?;
            add(target, &path, moved)
        }
        "copy" => {
            let copied = find_mut(target, &from())?.clone();
            add(target, &path, copied)
        }
        _ => (find_mut(target, &path)? == &value()?).then_some(()),
    }
}

/// RFC 6901: `~1` is `/`, `~0` is `~`, in this order.
fn tokens(pointer: &str) -> Vec<String> {
    pointer.split('/').skip(1).map(|token| token.replace("~1", "/").replace("~0", "~")).collect()
}

fn find_mut<'v>(target: &'v mut Value, path: &[String]) -> Option<&'v mut Value> {
    path.iter().try_fold(target, |at, token| match at {
        Value::Object(members) => members.get_mut(token),
        Value::Array(items) => items.get_mut(index(token)?),
        _ => None,
    })
}

/// Digits without leading zeros.
fn index(token: &str) -> Option<usize> {
    let is_number =
        token.bytes().all(|byte| byte.is_ascii_digit()) && (token == "0" || !token.starts_with('0'));
    is_number.then(|| token.parse().ok()).flatten()
}

fn add(target: &mut Value, path: &[String], value: Value) -> Option<()> {
    let Some((last, parent)) = path.split_last() else {
        *target = value;
        return Some(());
    };
    match find_mut(target, parent)? {
        Value::Object(members) => {
            members.insert(last.clone(), value);
        }
        Value::Array(items) if last == "-" => items.push(value),
        Value::Array(items) => {
            let at = index(last).filter(|at| *at <= items.len())?;
            items.insert(at, value);
        }
        _ => return None,
    }
    Some(())
}

fn remove(target: &mut Value, path: &[String]) -> Option<Value> {
    let Some((last, parent)) = path.split_last() else {
        return Some(std::mem::take(target));
    };
    match find_mut(target, parent)? {
        Value::Object(members) => members.shift_remove(last),
        Value::Array(items) => {
            let at = index(last).filter(|at| *at < items.len())?;
            Some(items.remove(at))
        }
        _ => None,
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
        assert_eq!(apply(&mut target, &operations), after.is_some(), "{patch:?}");
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
}
