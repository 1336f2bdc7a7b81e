//! The HTTP request before the upgrade, for a server with a port of its own. Only a head is read: a WebSocket request
//! has no body.

use std::time::Duration;

use http::{HeaderName, HeaderValue, Request, Response, StatusCode, Version, request};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time;

use crate::handshake::Refusal;

/// Header lines of one request. Browsers send about twenty.
const MOST_HEADERS: usize = 64;

/// A request head, and what arrived behind it.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) parts: request::Parts,
    pub(crate) unread: Vec<u8>,
}

/// Why there is no head.
#[derive(Debug)]
pub(crate) enum HeadError {
    /// The peer left.
    Gone,
    /// What it sent is no request.
    Refused(Refusal),
}

/// Reads a head of at most `limit` bytes.
pub(crate) async fn read<IO: AsyncRead + Unpin>(io: &mut IO, limit: usize) -> Result<Head, HeadError> {
    let mut received = Vec::with_capacity(1024);
    loop {
        let before = received.len();
        if io.read_buf(&mut received).await.map_err(|_| HeadError::Gone)? == 0 {
            return Err(HeadError::Gone);
        }
        // The end may have been split: look three bytes back.
        if let Some(end) = find_end(&received, before.saturating_sub(3)) {
            let unread = received.split_off(end);
            let parts = parse(&received).map_err(HeadError::Refused)?;
            return Ok(Head { parts, unread });
        }
        if received.len() >= limit {
            let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
            let message = format!("a request head of more than {limit} bytes");
            return Err(HeadError::Refused(Refusal::new(status, message)));
        }
    }
}

fn find_end(received: &[u8], from: usize) -> Option<usize> {
    let at = received.get(from..)?.windows(4).position(|window| window == b"\r\n\r\n")?;
    Some(from + at + 4)
}

fn parse(head: &[u8]) -> Result<request::Parts, Refusal> {
    let bad = |problem: &dyn std::fmt::Display| {
        Refusal::new(StatusCode::BAD_REQUEST, format!("no HTTP request: {problem}"))
    };
    let mut lines = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut lines);
    request.parse(head).map_err(|error| bad(&error))?;
    let version = if request.version == Some(1) { Version::HTTP_11 } else { Version::HTTP_10 };
    let builder = Request::builder()
        .method(request.method.unwrap_or_default())
        .uri(request.path.unwrap_or_default())
        .version(version);
    let (mut parts, ()) = builder.body(()).map_err(|error| bad(&error))?.into_parts();
    for line in &*request.headers {
        let name = HeaderName::from_bytes(line.name.as_bytes()).map_err(|error| bad(&error))?;
        let value = HeaderValue::from_bytes(line.value).map_err(|error| bad(&error))?;
        parts.headers.append(name, value);
    }
    Ok(parts)
}

/// The `101` response as bytes.
pub(crate) fn write_upgrade(response: &Response<()>) -> Vec<u8> {
    let mut out = b"HTTP/1.1 101 Switching Protocols\r\n".to_vec();
    write_headers(response, &mut out);
    out.extend_from_slice(b"\r\n");
    out
}

/// Answers with a refusal and hangs up, after the peer has had a chance to read it.
pub(crate) async fn refuse<IO>(mut io: IO, refusal: &Refusal, patience: Duration)
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let response = refusal.response();
    let mut out = format!("HTTP/1.1 {}\r\n", response.status()).into_bytes();
    write_headers(&response, &mut out);
    let body = response.body();
    out.extend_from_slice(
        format!("content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len()).as_bytes(),
    );
    let farewell = async {
        io.write_all(&out).await?;
        io.shutdown().await?;
        // Unread bytes would turn the close into a reset, which can overtake the answer.
        let mut space = [0_u8; 256];
        while io.read(&mut space).await? > 0 {}
        Ok::<(), std::io::Error>(())
    };
    // The peer was refused; whether it heard why is its own affair.
    drop(time::timeout(patience, farewell).await);
}

fn write_headers<T>(response: &Response<T>, out: &mut Vec<u8>) {
    for (name, value) in response.headers() {
        out.extend_from_slice(name.as_str().as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_now(bytes: &[u8], limit: usize) -> Result<Head, HeadError> {
        let mut io = bytes;
        futures_util::FutureExt::now_or_never(read(&mut io, limit)).unwrap()
    }

    #[test]
    fn what_follows_the_head_is_kept() {
        let head = read_now(b"GET /ws?x=1 HTTP/1.1\r\nHost: a\r\nX: 1\r\nx: 2\r\n\r\nrest", 1000).unwrap();
        assert_eq!((head.parts.uri.path(), head.parts.version), ("/ws", Version::HTTP_11));
        assert_eq!(head.parts.headers.get_all("x").iter().count(), 2);
        assert_eq!(head.unread, b"rest");
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_are_refused_or_read(text in "(GET|[A-Z]{0,4}) ?[/a-z*:]{0,9} ?(HTTP/1.[01])?\r\n([a-z:\u{e9} ]{0,9}\r\n){0,3}\r\n", limit in 1_usize..80) {
            drop(read_now(text.as_bytes(), limit));
        }
    }
}
