//! [`Reply`] and the wire form of commands and replies: RESP2, as far as the engine on Redis uses it.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _};

/// Bytes of an argument, a key or a value.
pub type Text = Vec<u8>;

/// The most arguments of a command, so that a wrong length is an error and not an allocation.
const ARGUMENTS: usize = 1 << 16;

/// The answer to a command.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// No value.
    Nil,
    /// A status, for example `OK`.
    Status(&'static str),
    /// A number.
    Integer(i64),
    /// A text.
    Bulk(Text),
    /// Several answers.
    List(Vec<Reply>),
    /// An error, with its code first.
    Error(String),
}

impl Reply {
    /// The answer of commands that only succeed.
    pub const OK: Self = Self::Status("OK");

    /// Returns a text, or [`Reply::Nil`].
    pub fn text(text: Option<&Text>) -> Self {
        text.map_or(Self::Nil, |text| Self::Bulk(text.clone()))
    }

    /// Returns a list of texts.
    pub fn texts(texts: impl IntoIterator<Item = Text>) -> Self {
        Self::List(texts.into_iter().map(Self::Bulk).collect())
    }

    /// Returns a count.
    pub fn count(count: usize) -> Self {
        Self::Integer(i64::try_from(count).unwrap_or(i64::MAX))
    }

    /// Appends the wire form to `out`.
    pub fn write(&self, out: &mut Text) {
        match self {
            Self::Nil => out.extend(b"$-1\r\n"),
            Self::Status(word) => line(out, '+', word),
            Self::Integer(number) => line(out, ':', number),
            Self::Error(error) => line(out, '-', error),
            Self::Bulk(text) => {
                line(out, '$', text.len());
                out.extend(text);
                out.extend(b"\r\n");
            }
            Self::List(replies) => {
                line(out, '*', replies.len());
                for reply in replies {
                    reply.write(out);
                }
            }
        }
    }
}

fn line(out: &mut Text, kind: char, value: impl std::fmt::Display) {
    out.extend(format!("{kind}{value}\r\n").bytes());
}

/// Reads a command. Returns `None` at the end of the stream.
///
/// # Errors
///
/// Returns an error if the stream does not contain an array of bulk strings, or fails.
pub async fn read_command(from: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Vec<Text>>> {
    let Some(count) = read_length(from, '*').await? else { return Ok(None) };
    let mut command = Vec::with_capacity(count);
    for _ in 0..count {
        let length = read_length(from, '$').await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut text = vec![0; length + 2];
        from.read_exact(&mut text).await?;
        text.truncate(length);
        command.push(text);
    }
    Ok(Some(command))
}

async fn read_length(from: &mut (impl AsyncBufRead + Unpin), kind: char) -> io::Result<Option<usize>> {
    let mut line = String::new();
    if from.read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    let length = line.strip_prefix(kind).and_then(|length| length.trim_end().parse().ok());
    let is_sane = |length: &usize| kind == '$' || *length <= ARGUMENTS;
    length.filter(is_sane).map(Some).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}
