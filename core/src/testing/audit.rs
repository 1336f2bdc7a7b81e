//! The content audit: all content of the input appears in the output exactly once.
//!
//! A naive model that keeps every text computes the final text of each message; the emitted blocks, grouped by the source's
//! ids, must give the same. White space is not compared, because snapshots are compared without it. Not audited: lanes with
//! whole-text updates without message id (the text that they restate depends on the open block), and input after the end
//! of the run.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::block::{ContentBlock, ToolOutput};
use crate::event::{BlockEvent, SpanKind};
use crate::id::BlockId;
use crate::update::{Channel, Mode, SourceEvent, Update};

/// Source path, kind, channel, track and message: the identity of a text in its source.
type Key = (String, SpanKind, Channel, String, Option<String>);

/// Compares the content of the input with that of the output. Returns a description of the first difference.
pub fn audit_content(inputs: &[SourceEvent], outputs: &[BlockEvent]) -> Result<(), String> {
    let end = |event: &SourceEvent| matches!(event, SourceEvent::Finished { .. } | SourceEvent::Failed(_));
    let updates = inputs.iter().take_while(|event| !end(event)).filter_map(|event| match event {
        SourceEvent::Update(update) => Some(update),
        _ => None,
    });
    let mut model = Model::default();
    updates.for_each(|update| model.handle_update(update));
    compare_texts(&model, &emitted_texts(outputs))?;
    let results = outputs.iter().filter(|e| matches!(e, BlockEvent::ToolResult(_))).count();
    if results > model.results {
        return Err(format!("{results} tool results came out, only {} went in", model.results));
    }
    let customs = outputs.iter().filter(|e| matches!(e, BlockEvent::Custom(_))).count();
    if customs != model.customs {
        return Err(format!("{customs} custom blocks came out, {} went in", model.customs));
    }
    Ok(())
}

fn compare_texts(model: &Model, emitted: &BTreeMap<Key, String>) -> Result<(), String> {
    let keys: HashSet<&Key> = model.texts.keys().chain(emitted.keys()).collect();
    for key in keys {
        if model.unaudited.contains(&key.0) {
            continue;
        }
        let wanted: String = model.texts.get(key).into_iter().flatten().map(|g| g.text.as_str()).collect();
        let got = emitted.get(key).map_or("", String::as_str);
        if squeezed(&wanted) != squeezed(got) {
            return Err(format!("{key:?}: went in {wanted:?}, came out {got:?}"));
        }
    }
    Ok(())
}

#[derive(Debug, Default)]
struct Model {
    texts: HashMap<Key, Vec<Generation>>,
    unaudited: HashSet<String>,
    results: usize,
    customs: usize,
}

#[derive(Debug, Default)]
struct Generation {
    text: String,
    complete: bool,
}

impl Model {
    fn handle_update(&mut self, update: &Update) {
        match &update.block {
            ContentBlock::Text(part) => self.handle_text(SpanKind::Text, &part.text, update),
            ContentBlock::Thinking(part) => self.handle_text(SpanKind::Thinking, &part.text, update),
            ContentBlock::ToolUse(_) => {}
            ContentBlock::ToolResult(result) => match result.output {
                ToolOutput::Progress(_) => self.customs += 1,
                _ => self.results += 1,
            },
            ContentBlock::Custom(_) => self.customs += 1,
        }
    }

    fn handle_text(&mut self, kind: SpanKind, text: &str, update: &Update) {
        if update.mode != Mode::Append && update.message_id.is_none() {
            self.unaudited.insert(update.source.path().to_owned());
        }
        let message = update.message_id.as_ref().map(ToString::to_string);
        let track = update.track.as_str().to_owned();
        let key = (update.source.path().to_owned(), kind, update.channel, track, message);
        let generations = self.texts.entry(key).or_default();
        if !text.is_empty() {
            match update.mode {
                Mode::Append => append(generations, text),
                Mode::Snapshot | Mode::Replace => restate(generations, text, update.mode),
            }
        }
        if update.last
            && let Some(current) = generations.last_mut()
        {
            current.complete = true;
        }
    }
}

fn append(generations: &mut Vec<Generation>, text: &str) {
    match generations.last_mut() {
        Some(current) if !current.complete => current.text.push_str(text),
        _ => generations.push(Generation { text: text.to_owned(), complete: false }),
    }
}

fn restate(generations: &mut Vec<Generation>, text: &str, mode: Mode) {
    let fresh = Generation { text: text.to_owned(), complete: false };
    let Some(current) = generations.last_mut() else { return generations.push(fresh) };
    if text.trim() == current.text.trim() {
        return;
    }
    if extends(text, &current.text) || mode == Mode::Replace || !current.complete {
        *current = fresh;
    } else {
        generations.push(fresh);
    }
}

fn extends(text: &str, earlier: &str) -> bool {
    let (text, body) = (text.trim_start(), earlier.trim());
    let trail = earlier.trim_start().len() - earlier.trim().len();
    let Some(rest) = text.strip_prefix(body) else { return false };
    rest.split_at_checked(trail).is_some_and(|(space, _)| space.trim().is_empty())
}

/// Returns the final text of each message: that of the emitted blocks that were not replaced.
fn emitted_texts(outputs: &[BlockEvent]) -> BTreeMap<Key, String> {
    let mut heads = Vec::new();
    let mut texts: HashMap<BlockId, String> = HashMap::new();
    let mut previous: HashMap<BlockId, BlockId> = HashMap::new();
    let mut replaced: HashSet<BlockId> = HashSet::new();
    for event in outputs {
        match event {
            BlockEvent::BlockStarted(head) if head.kind != SpanKind::ToolUse => {
                previous.extend(head.continues.clone().map(|earlier| (head.id.clone(), earlier)));
                let mut gone = head.replaces.clone();
                while let Some(id) = gone {
                    gone = previous.get(&id).cloned();
                    replaced.insert(id);
                }
                heads.push(head);
            }
            BlockEvent::BlockDelta { block, delta } => {
                texts.entry(block.id.clone()).or_default().push_str(delta);
            }
            _ => {}
        }
    }
    let mut emitted: BTreeMap<Key, String> = BTreeMap::new();
    for head in heads.into_iter().filter(|head| !replaced.contains(&head.id)) {
        let message = head.origin.message_id.as_ref().map(ToString::to_string);
        let track = head.origin.track.as_str().to_owned();
        let key = (head.lane.source.path().to_owned(), head.kind, head.channel, track, message);
        emitted.entry(key).or_default().push_str(texts.get(&head.id).map_or("", String::as_str));
    }
    emitted
}

fn squeezed(text: &str) -> String {
    text.split_whitespace().collect()
}
