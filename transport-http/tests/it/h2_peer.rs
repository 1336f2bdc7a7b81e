//! An HTTP/2 client without an HTTP/2 library: it can break every rule of RFC 9113. Also used by the tests of gRPC.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Nothing here takes longer, unless it hangs.
const PATIENCE: Duration = Duration::from_secs(90);

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_HEADERS: u8 = 4;
#[allow(dead_code, reason = "the tests of gRPC need no end of a stream")]
pub(crate) const END_STREAM: u8 = 1;

pub(crate) const NO_ERROR: u32 = 0;
pub(crate) const REFUSED_STREAM: u32 = 7;
pub(crate) const ENHANCE_YOUR_CALM: u32 = 11;

/// One frame with all bits under control.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Header fields, each written out (RFC 7541, section 6.2.2).
pub(crate) fn fields(pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in pairs {
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).ok().filter(|length| *length < 127).unwrap());
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

/// The head of a request whose body follows.
pub(crate) fn post(stream: u32, path: &str, content_type: &str) -> Vec<u8> {
    let head = [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "localhost"),
        (":path", path),
        ("content-type", content_type),
        ("te", "trailers"),
    ];
    frame(HEADERS, END_HEADERS, stream, &fields(&head))
}

/// The ids that a client may use.
pub(crate) fn streams() -> impl Iterator<Item = u32> {
    (1..).step_by(2)
}

/// What the server said until it closed.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// The error code of its last GOAWAY.
    pub(crate) goaway: Option<u32>,
    /// Streams that it reset, with the code.
    pub(crate) resets: Vec<(u32, u32)>,
    /// Frames of all kinds.
    pub(crate) frames: usize,
}

/// A connection after the preface.
pub(crate) struct H2Peer(pub(crate) TcpStream);

impl H2Peer {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let mut socket = TcpStream::connect(address).await.unwrap();
        let preface = [PREFACE, &frame(SETTINGS, 0, 0, b"")].concat();
        socket.write_all(&preface).await.unwrap();
        Self(socket)
    }

    /// The next frame of the server but acknowledged settings: its kind and flags.
    #[allow(dead_code, reason = "the tests of gRPC read with a client")]
    pub(crate) async fn read_frame(&mut self) -> (u8, u8) {
        loop {
            let mut start = [0; 9];
            let reading = tokio::time::timeout(PATIENCE, self.0.read_exact(&mut start));
            reading.await.expect("the server is silent").unwrap();
            let length = usize::try_from(u32::from_be_bytes([0, start[0], start[1], start[2]])).unwrap();
            self.0.read_exact(&mut vec![0; length]).await.unwrap();
            if start[3] != SETTINGS {
                return (start[3], start[4]);
            }
        }
    }

    /// Writes until the server has had enough, and reads meanwhile until it closes.
    pub(crate) async fn flood(self, bytes: impl IntoIterator<Item = Vec<u8>>) -> Heard {
        let (mut read, mut write) = self.0.into_split();
        let mut heard = Heard::default();
        let writing = async {
            for part in bytes {
                if write.write_all(&part).await.is_err() {
                    break;
                }
            }
        };
        let reading = async {
            let mut start = [0; 9];
            while read.read_exact(&mut start).await.is_ok() {
                let length = usize::try_from(u32::from_be_bytes([0, start[0], start[1], start[2]])).unwrap();
                let mut payload = vec![0; length];
                if read.read_exact(&mut payload).await.is_err() {
                    break;
                }
                heard.take(start[3], u32::from_be_bytes([start[5], start[6], start[7], start[8]]), &payload);
            }
        };
        // The writer is dropped with its half of the socket only after the server has closed the other.
        tokio::time::timeout(PATIENCE, async { tokio::join!(writing, reading) })
            .await
            .expect("the server does not close the connection");
        heard
    }
}

impl Heard {
    fn take(&mut self, kind: u8, stream: u32, payload: &[u8]) {
        self.frames += 1;
        let number =
            |at: usize| payload.get(at..at + 4).map(|bytes| u32::from_be_bytes(bytes.try_into().unwrap()));
        match kind {
            GOAWAY => self.goaway = number(4),
            RST_STREAM => self.resets.extend(number(0).map(|code| (stream, code))),
            _ => {}
        }
    }
}
