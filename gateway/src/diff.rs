//! `aqueduct diff`: compares two streams by content, independent of chunk boundaries.
//!
//! ```text
//! file ──► convert (any dialect, recordings too) ──► each run as one value ──► ids by order of appearance ──► compare
//! ```
//!
//! So the same run recorded twice, or over A2A and over AG-UI, has no difference although every id, time and
//! chunk differs. Compared are outcome, messages with their authors, tool calls and results, custom content,
//! result, interrupts and usage.
//!
//! Comparison is positional: a message that is missing in the middle shifts all later ones. Differences are
//! listed with the path of the value in the merged run, such as `run[0].text`.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read, Write};

use anyhow::Context as _;
use serde_json::{Map, Value, json};

use crate::cli::{ConvertArgs, DiffArgs, FromDialect, ToDialect};
use crate::convert::convert;
use crate::exit;
use crate::progress::{count, shortened};

/// The longest value in the report, in characters.
const SHOWN: usize = 200;

/// Runs `aqueduct diff`.
///
/// Returns `exit::OK` without differences, `exit::FAILED` with at least one, and `exit::USAGE` if one of the
/// streams cannot be read. Standard input can be one of the streams; it is read once, so it cannot be both.
pub fn command(
    args: &DiffArgs,
    input: &mut dyn Read,
    out: &mut dyn Write,
    notes: &mut dyn Write,
) -> exit::Code {
    if args.left == "-" && args.right == "-" {
        let message = "standard input can be only one of the two streams: save the other one in a file";
        return exit::USAGE.report(notes, "diff", &message);
    }
    let read = |target: &str, input: &mut dyn Read| runs_of(target, args.from, input);
    let both = read(&args.left, input).and_then(|left| Ok((left, read(&args.right, input)?)));
    match both {
        Ok((left, right)) => {
            let found = differences(&left, &right);
            report(&found, args, out).ok();
            if found.is_empty() { exit::OK } else { exit::FAILED }
        }
        Err(error) => exit::USAGE.report(notes, "diff", &error),
    }
}

/// Returns the runs of a stream, each merged into one value. Warnings of the conversion are dropped: late
/// payloads have no place in a run that could be compared.
fn runs_of(target: &str, from: FromDialect, input: &mut dyn Read) -> anyhow::Result<Vec<Value>> {
    let args = ConvertArgs::plain(from, ToDialect::Response);
    let mut lines = Vec::new();
    let converted = if target == "-" {
        convert(&args, input, &mut lines, &mut std::io::sink())
    } else {
        let file = File::open(target).with_context(|| format!("{target} cannot be opened"))?;
        convert(&args, &mut BufReader::new(file), &mut lines, &mut std::io::sink())
    };
    converted.with_context(|| target.to_owned())?;
    let runs = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let runs: Result<Vec<Value>, _> = runs.map(serde_json::from_slice).collect();
    let mut runs = runs.with_context(|| target.to_owned())?;
    for run in &mut runs {
        Names::default().replace(run, "");
    }
    Ok(runs)
}

/// Members whose value is produced by the agent: it contains no ids to replace.
const CONTENT: [&str; 6] = ["value", "arguments", "output", "result", "metadata", "responseSchema"];

/// Replaces ids by their order of appearance: a run that is recorded twice has different ids, in the same
/// order.
#[derive(Default)]
struct Names(HashMap<String, String>);

impl Names {
    /// Replaces the ids in `value`, which is the member `key` of its object; an empty key is the run itself.
    ///
    /// Times, and the ids of thread, run, response and agent, are removed from the run: they always differ.
    fn replace(&mut self, value: &mut Value, key: &str) {
        match value {
            Value::Object(members) => {
                members.shift_remove("createdAt");
                if key.is_empty() {
                    for name in ["thread", "run", "response", "agent"] {
                        members.shift_remove(name);
                    }
                }
                // Content of the agent is compared as it is: an `id` in a tool result is a value and not an id
                // of the run.
                let own = members.iter_mut().filter(|(name, _)| !CONTENT.contains(&name.as_str()));
                for (name, member) in own {
                    self.replace(member, name);
                }
            }
            Value::Array(items) => {
                for item in items {
                    self.replace(item, key);
                }
            }
            Value::String(id) if matches!(key, "id" | "call") => {
                // The first appearance numbers the id; later references to the same id get the same name.
                let next = format!("{key}-{}", self.0.len() + 1);
                id.clone_from(self.0.entry(id.clone()).or_insert(next));
            }
            _ => {}
        }
    }
}

/// One difference: its path, and the value on each side; `None` if that side has no such value.
#[derive(Debug, PartialEq)]
struct Difference {
    path: String,
    left: Option<Value>,
    right: Option<Value>,
}

/// Compares two lists of runs.
fn differences(left: &[Value], right: &[Value]) -> Vec<Difference> {
    let mut found = Vec::new();
    compare_lists(left, right, "run", &mut found);
    found
}

/// Compares two values and appends the differences, with paths below `path`.
fn compare(left: &Value, right: &Value, path: &str, found: &mut Vec<Difference>) {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => compare_objects(left, right, path, found),
        (Value::Array(left), Value::Array(right)) => compare_lists(left, right, path, found),
        (left, right) if left == right => {}
        (left, right) => found.push(Difference {
            path: path.to_owned(),
            left: Some(left.clone()),
            right: Some(right.clone()),
        }),
    }
}

/// Compares members by name; their order has no meaning. A member on one side only is a difference.
fn compare_objects(
    left: &Map<String, Value>,
    right: &Map<String, Value>,
    path: &str,
    found: &mut Vec<Difference>,
) {
    let names = left.keys().chain(right.keys().filter(|name| !left.contains_key(*name)));
    for name in names {
        let path = format!("{path}.{name}");
        match (left.get(name), right.get(name)) {
            (Some(left), Some(right)) => compare(left, right, &path, found),
            (left, right) => found.push(Difference { path, left: left.cloned(), right: right.cloned() }),
        }
    }
}

/// Compares elements by position.
fn compare_lists(left: &[Value], right: &[Value], path: &str, found: &mut Vec<Difference>) {
    for index in 0..left.len().max(right.len()) {
        let path = format!("{path}[{index}]");
        match (left.get(index), right.get(index)) {
            (Some(left), Some(right)) => compare(left, right, &path, found),
            (left, right) => found.push(Difference { path, left: left.cloned(), right: right.cloned() }),
        }
    }
}

/// Writes the differences: as JSON lines with complete values, or as text with values of at most [`SHOWN`]
/// characters.
fn report(found: &[Difference], args: &DiffArgs, out: &mut dyn Write) -> std::io::Result<()> {
    for Difference { path, left, right } in found {
        if args.json {
            writeln!(out, "{}", json!({ "path": path, "left": left, "right": right }))?;
            continue;
        }
        writeln!(out, "{path}")?;
        for (sign, side) in [('-', left), ('+', right)] {
            if let Some(value) = side {
                writeln!(out, "  {sign} {}", shown(value))?;
            }
        }
    }
    if !args.json {
        let words = if found.is_empty() {
            "no difference in content".to_owned()
        } else {
            format!("{} (- {}, + {})", count(found.len() as u64, "difference"), args.left, args.right)
        };
        writeln!(out, "{words}")?;
    }
    Ok(())
}

fn shown(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), |text| format!("{text:?}"));
    shortened(&text, SHOWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_times_are_no_content() {
        let run = |id: &str, text: &str| {
            let mut run = json!({
                "response": id, "run": id, "thread": id, "status": "success", "text": text,
                "messages": [{ "id": id, "agent": "a", "createdAt": id, "contents": [{ "kind": "toolUse", "call": id }] }],
            });
            Names::default().replace(&mut run, "");
            run
        };
        assert_eq!(differences(&[run("x", "hi")], &[run("y", "hi")]), []);
        let found = differences(&[run("x", "hi")], &[run("y", "ho"), run("z", "hi")]);
        assert_eq!(found.iter().map(|one| one.path.as_str()).collect::<Vec<_>>(), ["run[0].text", "run[1]"]);
    }
}
