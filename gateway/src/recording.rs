//! A recorded stream: the frames of an agent, unchanged, with their times.
//!
//! The format is JSON lines: a head that describes the recording, one line per frame, and a line that describes the
//! end.
//!
//! ```text
//! {"aqueduct": "recording", "version": 1, "dialect": "a2a", "agent": "http://…", "prompt": "…"}
//! {"at": 12, "data": "{…}"}                 milliseconds since the request, the frame's data
//! {"at": 15, "event": "error", "data": "…"} a frame with a name
//! {"at": 900, "end": "closed"}              or "cut", with a "reason"
//! ```
//!
//! A file without its last line is a recording that was cut. This module does not interpret frames.

use std::io::{BufRead, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use aqueduct_adapter_a2a::wire::Dialect as A2aDialect;
use aqueduct_core::ByteString;
use serde::{Deserialize, Serialize};

use crate::cli::FromDialect;
use crate::input::{Payload, PayloadReader};

/// The largest recording, in bytes. A recording is held in memory while it is replayed. 64 MiB is also the
/// limit of one run in the gateway, so a longer recording could not be replayed as a run.
const MAX_BYTES: u64 = 64 << 20;

/// The protocol of the frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Dialect {
    /// AG-UI, any version.
    #[serde(rename = "agui")]
    Agui,
    /// A2A 1.0.
    #[serde(rename = "a2a")]
    A2a,
    /// A2A 0.3 over JSON-RPC.
    #[serde(rename = "a2a-0.3")]
    A2a03,
    /// A2A 0.3 over HTTP+JSON.
    #[serde(rename = "a2a-0.3-rest")]
    A2a03Rest,
}

impl Dialect {
    /// Returns the recorded dialect for a dialect of A2A.
    pub(crate) fn of_a2a(dialect: A2aDialect) -> Self {
        match dialect {
            A2aDialect::V03JsonRpc => Self::A2a03,
            A2aDialect::V03Rest => Self::A2a03Rest,
            A2aDialect::V1 => Self::A2a,
        }
    }

    /// Returns the dialect of the A2A adapter, or `None` for AG-UI.
    pub(crate) fn a2a(self) -> Option<A2aDialect> {
        match self {
            Self::Agui => None,
            Self::A2a => Some(A2aDialect::V1),
            Self::A2a03 => Some(A2aDialect::V03JsonRpc),
            Self::A2a03Rest => Some(A2aDialect::V03Rest),
        }
    }
}

/// The first line of a recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    aqueduct: String,
    version: u32,
    /// The protocol of the frames.
    pub dialect: Dialect,
    /// The name or URL of the agent.
    #[serde(default)]
    pub agent: String,
    /// The prompt that was sent.
    #[serde(default)]
    pub prompt: String,
}

impl Head {
    /// Returns a head of the current version.
    pub fn new(dialect: Dialect, agent: impl Into<String>, prompt: impl Into<String>) -> Self {
        Self {
            aqueduct: "recording".to_owned(),
            version: 1,
            dialect,
            agent: agent.into(),
            prompt: prompt.into(),
        }
    }
}

/// Returns the dialect if the line is the head of a recording, else `None`.
pub(crate) fn head_of(line: &str) -> Option<Dialect> {
    let head: Head = line.contains("\"aqueduct\"").then(|| serde_json::from_str(line).ok())??;
    (head.aqueduct == "recording" && head.version == 1).then_some(head.dialect)
}

/// The event name and the data of a recorded frame.
pub(crate) type FrameText = (Option<ByteString>, ByteString);

/// A line of a recording after its head.
pub(crate) enum RecordedLine {
    Frame(FrameText),
    End,
}

/// Parses a line after the head, or returns `None` if it is not a line of a recording.
pub(crate) fn line_of(line: &str) -> Option<RecordedLine> {
    let line: Line<'_> = serde_json::from_str(line).ok()?;
    match (line.data, line.end) {
        (Some(data), None) => {
            let event = line.event.map(|event| event.as_ref().into());
            Some(RecordedLine::Frame((event, data.as_ref().into())))
        }
        (None, Some(_)) => Some(RecordedLine::End),
        _ => None,
    }
}

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The time of arrival, since the request.
    pub at: Duration,
    /// The SSE event name, if the frame has one.
    pub event: Option<ByteString>,
    /// The data of the frame.
    pub data: ByteString,
}

/// The end of a recorded stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// The time of the end, since the request.
    pub at: Duration,
    /// The reason why the stream was cut, or `None` if it was closed properly.
    pub cut: Option<String>,
}

/// A whole recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recording {
    /// The head.
    pub head: Head,
    /// The frames, in order of arrival.
    pub frames: Vec<Frame>,
    /// The end.
    pub end: End,
}

/// A line after the head, as JSON.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Line<'l> {
    at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    event: Option<std::borrow::Cow<'l, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<std::borrow::Cow<'l, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    end: Option<std::borrow::Cow<'l, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<std::borrow::Cow<'l, str>>,
}

fn milliseconds(at: Duration) -> u64 {
    u64::try_from(at.as_millis()).unwrap_or(u64::MAX)
}

/// Writes a recording frame by frame.
///
/// A recording is valid after every line: [`Recording::read`] accepts a file that ends early, as cut.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use aqueduct_gateway::recording::{Dialect, Head, Recording, Writer};
///
/// let mut file = Vec::new();
/// let mut writer = Writer::new(&mut file, &Head::new(Dialect::Agui, "http://127.0.0.1:9000", "Hello"))?;
/// writer.frame(Duration::from_millis(12), None, "{}")?;
/// writer.end(Duration::from_millis(15), None)?;
///
/// let recording = Recording::read(&mut file.as_slice())?;
/// assert_eq!(recording.frames.len(), 1);
/// assert_eq!(recording.end.cut, None);
/// # Ok::<(), anyhow::Error>(())
/// ```
pub struct Writer<'w> {
    out: &'w mut dyn Write,
    /// The number of frames written.
    pub frames: u64,
    /// The number of data bytes written.
    pub bytes: u64,
}

impl<'w> Writer<'w> {
    /// Creates a writer and writes the head.
    ///
    /// # Errors
    ///
    /// The output cannot be written.
    pub fn new(out: &'w mut dyn Write, head: &Head) -> std::io::Result<Self> {
        writeln!(out, "{}", serde_json::to_string(head)?)?;
        Ok(Self { out, frames: 0, bytes: 0 })
    }

    /// Writes and flushes a frame, so that frames recorded before a crash are kept. `at` is the time since the
    /// request.
    ///
    /// # Errors
    ///
    /// The output cannot be written. The frame may be in the file in part, which [`Recording::read`] treats as
    /// the end.
    pub fn frame(&mut self, at: Duration, event: Option<&str>, data: &str) -> std::io::Result<()> {
        self.frames += 1;
        self.bytes += data.len() as u64;
        let line = Line {
            at: milliseconds(at),
            event: event.map(Into::into),
            data: Some(data.into()),
            ..Line::default()
        };
        self.line(&line)
    }

    /// Writes the end: closed, or cut for the reason `cut`. No frame may follow.
    ///
    /// # Errors
    ///
    /// The output cannot be written.
    pub fn end(&mut self, at: Duration, cut: Option<&str>) -> std::io::Result<()> {
        let word = if cut.is_some() { "cut" } else { "closed" };
        let line = Line {
            at: milliseconds(at),
            end: Some(word.into()),
            reason: cut.map(Into::into),
            ..Line::default()
        };
        self.line(&line)
    }

    fn line(&mut self, line: &Line<'_>) -> std::io::Result<()> {
        writeln!(self.out, "{}", serde_json::to_string(line)?)?;
        self.out.flush()
    }
}

impl std::fmt::Debug for Writer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("frames", &self.frames).finish_non_exhaustive()
    }
}

impl Recording {
    /// Reads a recording, or any other stream of AG-UI or A2A, from a file. A stream has no times, unless the
    /// inspector wrote them.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is longer than 64 MiB, or is neither a recording nor a stream of a known
    /// dialect.
    pub fn load(path: &Path) -> anyhow::Result<Self> {
        let file =
            std::fs::File::open(path).with_context(|| format!("{} cannot be opened", path.display()))?;
        let length = file.metadata().map(|about| about.len()).unwrap_or_default();
        anyhow::ensure!(length <= MAX_BYTES, "{} is longer than {MAX_BYTES} bytes", path.display());
        let text = std::io::read_to_string(file).with_context(|| path.display().to_string())?;
        // A head that is damaged still names its format, so it is refused as a recording instead of being read
        // as a stream.
        let is_recording = text.lines().next().is_some_and(|line| line.contains("\"aqueduct\""));
        let read = if is_recording { Self::read(&mut text.as_bytes()) } else { Self::of_stream(&text) };
        read.with_context(|| path.display().to_string())
    }

    /// Reads a stream that is not a recording. Its frames have the times that the inspector wrote beside them, else 0.
    fn of_stream(text: &str) -> anyhow::Result<Self> {
        let dialect = match crate::convert::detect(text.as_bytes()) {
            Some(FromDialect::Agui) => Dialect::Agui,
            Some(FromDialect::A2a) => Dialect::A2a,
            Some(FromDialect::A2a03) => Dialect::A2a03,
            _ => anyhow::bail!("neither a recording (`aqueduct record`) nor an AG-UI or A2A stream"),
        };
        let mut reader = PayloadReader::default();
        reader.handle_bytes(text.as_bytes()).and_then(|()| reader.handle_eof())?;
        let payloads: Vec<Payload> = std::iter::from_fn(|| reader.poll_payload()).collect();
        // The inspector writes the time of an event as a comment before it: `: at 120`. Times are used only if
        // every event has one.
        let times = text.lines().filter_map(|line| line.strip_prefix(": at ")?.trim().parse().ok());
        let times: Vec<u64> = times.collect();
        let at = |index: usize| {
            let known = times.get(index).filter(|_| times.len() == payloads.len());
            Duration::from_millis(known.copied().unwrap_or_default())
        };
        let frames = payloads.iter().enumerate();
        let frames: Vec<Frame> = frames
            .map(|(index, payload)| Frame {
                at: at(index),
                event: payload.event.clone(),
                data: payload.text.clone(),
            })
            .collect();
        let end = End { at: frames.last().map(|frame| frame.at).unwrap_or_default(), cut: None };
        Ok(Self { head: Head::new(dialect, "", ""), frames, end })
    }

    /// Reads a recording.
    ///
    /// # Errors
    ///
    /// Returns an error with the number of the line that is malformed.
    pub fn read(input: &mut dyn BufRead) -> anyhow::Result<Self> {
        let mut lines = input.lines();
        let first = lines.next().transpose()?.unwrap_or_default();
        let head: Head = serde_json::from_str(&first).context(
            "line 1: expected the head of a recording (`{\"aqueduct\": \"recording\", \"version\": 1, …}`)",
        )?;
        let is_ours = head.aqueduct == "recording" && head.version == 1;
        anyhow::ensure!(is_ours, "line 1: expected a recording of version 1, found version {}", head.version);
        // Replaced by the end line. Without one, the replay ends as cut, because the recorder did not see the
        // end.
        let cut = "the recording ends here".to_owned();
        let mut end = End { at: Duration::ZERO, cut: Some(cut) };
        let mut frames = Vec::new();
        for (index, text) in lines.enumerate() {
            let number = index + 2;
            let text = text.with_context(|| format!("line {number}"))?;
            let line: Line<'_> = match serde_json::from_str(&text) {
                Ok(line) => line,
                // The recorder was stopped while it wrote this line.
                Err(error) if error.is_eof() => break,
                Err(error) => return Err(error).with_context(|| format!("line {number}")),
            };
            let at = Duration::from_millis(line.at);
            match (line.data, line.end) {
                (Some(data), None) => frames.push(Frame {
                    at,
                    event: line.event.map(|event| ByteString::from(event.as_ref())),
                    data: ByteString::from(data.as_ref()),
                }),
                (None, Some(word)) => {
                    let reason = line.reason.map_or_else(|| "it was cut".to_owned(), Into::into);
                    end = End { at, cut: (word != "closed").then_some(reason) };
                }
                _ => anyhow::bail!("line {number}: expected `data` or `end`"),
            }
            // A recording without its last line ends at its last frame.
            end.at = end.at.max(at);
        }
        Ok(Self { head, frames, end })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(cut: Option<&str>) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out, &Head::new(Dialect::A2a03, "http://a", "hi")).unwrap();
        writer.frame(Duration::from_millis(5), None, "{\"x\":\"é\"}").unwrap();
        writer.frame(Duration::from_millis(70), Some("error"), "bad\nline").unwrap();
        writer.end(Duration::from_millis(80), cut).unwrap();
        out
    }

    #[test]
    fn what_is_written_is_read_again() {
        let recording = Recording::read(&mut &*written(Some("reset"))).unwrap();
        assert_eq!(recording.head.dialect, Dialect::A2a03);
        assert_eq!(recording.frames.len(), 2);
        assert_eq!(recording.frames[1].event.as_deref(), Some("error"));
        assert_eq!(&*recording.frames[1].data, "bad\nline");
        assert_eq!(recording.end, End { at: Duration::from_millis(80), cut: Some("reset".to_owned()) });
        assert_eq!(Recording::read(&mut &*written(None)).unwrap().end.cut, None);
    }

    /// A recorder that was killed at any byte leaves a recording that reads as cut.
    #[test]
    fn a_recording_cut_at_any_byte_is_read_as_cut() {
        let whole = written(None);
        let head = whole.iter().position(|byte| *byte == b'\n').unwrap();
        for length in head..whole.len() - 1 {
            let Ok(text) = std::str::from_utf8(&whole[..length]) else { continue };
            let recording = Recording::read(&mut text.as_bytes()).unwrap();
            assert!(recording.end.cut.is_some(), "{length}");
        }
    }

    #[test]
    fn what_is_no_recording_is_told_with_its_line() {
        for (text, words) in [
            ("", "line 1"),
            ("{}\n", "line 1"),
            ("data: {}\n", "line 1"),
            ("{\"aqueduct\":\"recording\",\"version\":2,\"dialect\":\"a2a\"}\n", "found version 2"),
            ("{\"aqueduct\":\"recording\",\"version\":1,\"dialect\":\"a2a\"}\nno\n", "line 2"),
            (
                "{\"aqueduct\":\"recording\",\"version\":1,\"dialect\":\"a2a\"}\n{\"at\":1}\n",
                "line 2: expected `data`",
            ),
        ] {
            let error = Recording::read(&mut text.as_bytes()).unwrap_err();
            assert!(format!("{error:#}").contains(words), "{text}: {error:#}");
        }
    }
}
