//! [`TextVerifier`]: verifies bytes, as SSE or as one JSON object per line.
//!
//! Framing is verified with the content: frames that are too large, CR LF where clients look for
//! LF LF, frames that are not JSON, bytes that are not UTF-8: clients read U+FFFD there, and so does
//! the rest of the verification. Bytes may be split anywhere.
//!
//! ```text
//! bytes ──SseSplitter──► frames ──► JSON value ──strict parse──► event ──► schema, thread, order
//!                          │            │            └ defect: reported, repaired, parsed again
//!                          │            └ not JSON: `not-json`
//!                          └ too large: `frame-too-large`
//! ```
//!
//! Typed events no longer show a `null` for an absent member, so this module judges the parse
//! errors themselves: which of them a client of the dialect forgives.

use serde_json::Value;

use super::Verifier;
use super::rule::{Level, Rule, Severity, Violation};
use crate::config::Dialect;
use crate::encode::MAX_FRAME;
use crate::error::{Problem, WireError};
use crate::wire::{Event, Message, Strictness};

/// Verifies a whole SSE stream.
pub fn verify_sse(bytes: &[u8], dialect: Dialect, level: Level) -> Vec<Violation> {
    let mut verifier = TextVerifier::new(Verifier::new(dialect, level));
    verifier.handle_bytes(bytes);
    verifier.handle_end()
}

/// Verifies a stream with one JSON object per line.
pub fn verify_json_lines(text: &str, dialect: Dialect, level: Level) -> Vec<Violation> {
    let mut verifier = TextVerifier::new(Verifier::new(dialect, level));
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        verifier.handle_payload(line);
    }
    verifier.handle_end()
}

/// Verifies the bytes of a response body.
#[derive(Debug)]
pub struct TextVerifier {
    verifier: Verifier,
    splitter: SseSplitter,
    crlf_reported: bool,
}

impl TextVerifier {
    /// Returns a front end for a verifier.
    pub fn new(verifier: Verifier) -> Self {
        Self { verifier, splitter: SseSplitter::default(), crlf_reported: false }
    }

    /// Declares the thread's history.
    pub fn with_history<'a>(mut self, messages: impl IntoIterator<Item = &'a Message>) -> Self {
        self.verifier = self.verifier.with_history(messages);
        self
    }

    /// Adds bytes, whatever their boundaries.
    pub fn handle_bytes(&mut self, bytes: &[u8]) {
        let mut frames = Vec::new();
        self.splitter.handle_bytes(bytes, &mut frames);
        for frame in &frames {
            self.handle_frame(frame);
        }
    }

    /// Verifies the payload of one frame.
    pub fn handle_payload(&mut self, payload: &str) {
        match serde_json::from_str::<Value>(payload) {
            Ok(value) => self.handle_value(value),
            Err(error) => self.refuse(Rule::NotJson, format!("the frame is not JSON: {error}")),
        }
    }

    /// Handles the end of the stream and returns all violations.
    pub fn handle_end(mut self) -> Vec<Violation> {
        let mut frames = Vec::new();
        self.splitter.handle_end(&mut frames);
        for frame in &frames {
            self.handle_frame(frame);
        }
        self.verifier.handle_end();
        self.verifier.take_violations()
    }

    fn handle_frame(&mut self, frame: &SseFrame) {
        // Reported once per stream: all frames of a server have the same line ends.
        if frame.crlf && !self.crlf_reported {
            self.crlf_reported = true;
            let what = "lines end with CR LF, and clients look for LF LF";
            self.report_frame(Rule::CrlfFraming, Severity::Rejected, what);
        }
        if frame.is_lossy {
            let what = "the frame is not UTF-8, and clients read U+FFFD for its invalid bytes";
            self.report_frame(Rule::InvalidUtf8, Severity::Unnoticed, what);
        }
        match &frame.data {
            Ok(data) => self.handle_payload(data),
            Err(size) => self.refuse(Rule::FrameTooLarge, format!("a frame of {size} bytes and more")),
        }
    }

    /// Reports a defect of the next frame, whose event is verified after it.
    fn report_frame(&mut self, rule: Rule, severity: Severity, what: &str) {
        self.verifier.report.add_at(self.verifier.next, String::new(), rule, severity, what);
    }

    /// Reports a frame that is not an event.
    fn refuse(&mut self, rule: Rule, what: String) {
        self.verifier.begin("");
        self.verifier.report.rejected(rule, what);
    }

    /// Parses a value strictly, and repairs it once per defect, so that all defects are reported. Ends
    /// at a defect that cannot be repaired; every repair removes or adds one member, so the loop ends.
    fn handle_value(&mut self, mut value: Value) {
        let dialect = self.verifier.dialect;
        let kind = value.get("type").and_then(Value::as_str).unwrap_or("").to_owned();
        self.verifier.begin(&kind);
        loop {
            match Event::from_value(value.clone(), Strictness::Strict) {
                Ok(event) => {
                    super::schema::check(&event, dialect, &mut self.verifier.report);
                    return self.verifier.follow(&event);
                }
                Err(error) => {
                    let (rule, severity) = judge(&error, dialect);
                    self.verifier.report.add(rule, severity, error.to_string());
                    if !repair(&mut value, &error) {
                        break;
                    }
                }
            }
        }
    }
}

/// Returns the rule and severity of a decode error.
/// The exceptions are those of the clients' own parsers: every other defect ends the stream there.
fn judge(error: &WireError, dialect: Dialect) -> (Rule, Severity) {
    let (event, path) = error.place.split_once('.').unwrap_or((&error.place, ""));
    let member = path.rsplit('.').next().unwrap_or("");
    match &error.problem {
        // 0.0.59 does not know the member and ignores it.
        Problem::Null { .. } | Problem::Wrong { .. }
            if dialect == Dialect::V0_0_59 && (event, path) == ("RUN_STARTED", "protocolVersion") =>
        {
            (Rule::Schema, Severity::Unnoticed)
        }
        Problem::Null { .. } => {
            // Both clients treat these nulls as absent; all others end the stream.
            let forgiven = match (event, path) {
                (_, "rawEvent")
                | ("TOOL_CALL_START" | "TOOL_CALL_CHUNK", "parentMessageId")
                | ("RUN_FINISHED", "outcome" | "result")
                | ("SUBAGENT_FINISHED", "result")
                | ("RUN_STARTED", "input.forwardedProps") => true,
                ("RUN_STARTED", path) => path.ends_with("].parameters") || path.ends_with("].payload"),
                _ => false,
            };
            let media = member == "metadata" && path.contains("content[");
            let severity = if forgiven || media { Severity::Unnoticed } else { Severity::Rejected };
            (Rule::NullOptional, severity)
        }
        // 0.0.59 accepts any number as a timestamp, and does not require arbitrary values.
        Problem::Wrong { found, .. }
            if dialect == Dialect::V0_0_59 && path == "timestamp" && found.parse::<f64>().is_ok() =>
        {
            (Rule::Schema, Severity::Unnoticed)
        }
        Problem::Missing { .. }
            if dialect == Dialect::V0_0_59
                && matches!(
                    (event, path),
                    ("CUSTOM", "value") | ("RAW", "event") | ("STATE_SNAPSHOT", "snapshot")
                ) =>
        {
            (Rule::Schema, Severity::Unnoticed)
        }
        _ => (Rule::Schema, Severity::Rejected),
    }
}

/// Repairs a defect, so that the rest of the event is verified, too. Returns `false` if the defect
/// cannot be repaired without inventing content: a wrong type, or a missing required member.
fn repair(value: &mut Value, error: &WireError) -> bool {
    let Some((_, path)) = error.place.split_once('.') else { return false };
    let (parent, name) = path.rsplit_once('.').unwrap_or(("", path));
    let Some(Value::Object(members)) = find(value, parent) else { return false };
    match &error.problem {
        Problem::Null { .. } => members.shift_remove(name).is_some(),
        Problem::Wrong { .. } if matches!(name, "timestamp" | "protocolVersion") => {
            members.shift_remove(name).is_some()
        }
        Problem::Missing { .. } if matches!(name, "value" | "event" | "snapshot") && parent.is_empty() => {
            members.insert(name.to_owned(), Value::Null);
            true
        }
        _ => false,
    }
}

/// Returns the value at a path like `a.b[2].c`.
fn find<'a>(value: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    let mut at = value;
    for segment in path.split('.').filter(|segment| !segment.is_empty()) {
        let (name, indices) = segment.split_once('[').unwrap_or((segment, ""));
        at = at.get_mut(name)?;
        for index in indices.split('[').filter(|index| !index.is_empty()) {
            at = at.get_mut(index.trim_end_matches(']').parse::<usize>().ok()?)?;
        }
    }
    Some(at)
}

/// One frame of an SSE stream.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SseFrame {
    /// The `data:` lines, joined; or the size of the frame if it exceeds the limit.
    pub data: Result<String, usize>,
    /// Set if a line ended with CR LF.
    pub crlf: bool,
    /// Set if bytes of `data` were not UTF-8: U+FFFD stands in their place.
    pub is_lossy: bool,
}

/// Splits an SSE stream into frames, as far as verification needs it: AG-UI clients read only `data:` lines.
#[derive(Debug, Default)]
pub struct SseSplitter {
    line: Vec<u8>,
    data: Option<String>,
    size: usize,
    crlf: bool,
    is_lossy: bool,
}

impl SseSplitter {
    /// Adds bytes, whatever their boundaries, and appends the complete frames.
    pub fn handle_bytes(&mut self, bytes: &[u8], frames: &mut Vec<SseFrame>) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            // Counted over the whole frame. Bytes beyond the limit are counted but not stored.
            self.size += piece.len();
            if self.size <= MAX_FRAME {
                self.line.extend_from_slice(piece);
            }
            if piece.ends_with(b"\n") {
                self.handle_line(frames);
            }
        }
    }

    /// Handles the end of the stream: the rest is a frame, even without an empty line.
    pub fn handle_end(&mut self, frames: &mut Vec<SseFrame>) {
        self.handle_line(frames);
        self.handle_blank(frames);
    }

    /// Handles one complete line. An empty line ends the frame, and so does a line beyond the limit, of
    /// which nothing was stored.
    fn handle_line(&mut self, frames: &mut Vec<SseFrame>) {
        let mut line = std::mem::take(&mut self.line);
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        if line.last() == Some(&b'\r') {
            line.pop();
            self.crlf = true;
        }
        if line.is_empty() && self.size <= MAX_FRAME {
            return self.handle_blank(frames);
        }
        if let Some(data) = line.strip_prefix(b"data:") {
            let data = data.strip_prefix(b" ").unwrap_or(data);
            self.is_lossy |= std::str::from_utf8(data).is_err();
            let data = String::from_utf8_lossy(data);
            match &mut self.data {
                Some(earlier) => {
                    earlier.push('\n');
                    earlier.push_str(&data);
                }
                None => self.data = Some(data.into_owned()),
            }
        }
        if line.is_empty() {
            self.handle_blank(frames);
        }
    }

    /// Ends the frame. A frame without `data:` (a comment, a heartbeat) yields nothing.
    fn handle_blank(&mut self, frames: &mut Vec<SseFrame>) {
        let Self { data, size, crlf, is_lossy, .. } = std::mem::take(self);
        if size > MAX_FRAME {
            frames.push(SseFrame { data: Err(size), crlf, is_lossy });
        } else if let Some(data) = data {
            frames.push(SseFrame { data: Ok(data), crlf, is_lossy });
        }
    }
}
