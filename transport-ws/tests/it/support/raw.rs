//! A WebSocket client without a WebSocket library: it can break every rule.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

const PATIENCE: Duration = Duration::from_secs(60);
const MASK: [u8; 4] = [0x12, 0x34, 0x56, 0x78];

/// A frame as it was received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) fin: bool,
    pub(crate) opcode: u8,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    pub(crate) fn text(&self) -> &str {
        assert_eq!(self.opcode, 1, "{self:?}");
        std::str::from_utf8(&self.payload).unwrap()
    }

    /// Code and reason of a close frame.
    pub(crate) fn close(&self) -> (u16, String) {
        assert_eq!(self.opcode, 8, "{self:?} {}", String::from_utf8_lossy(&self.payload));
        match self.payload.split_first_chunk::<2>() {
            None => (1005, String::new()),
            Some((code, reason)) => (u16::from_be_bytes(*code), String::from_utf8(reason.to_vec()).unwrap()),
        }
    }
}

/// A frame of a client, with all bits under control.
pub(crate) fn frame(first: u8, payload: &[u8], mask: Option<[u8; 4]>) -> Vec<u8> {
    let mut out = vec![first];
    let bit = if mask.is_some() { 0x80 } else { 0 };
    match payload.len() {
        length @ 0..=125 => out.push(bit | u8::try_from(length).unwrap()),
        length @ 126..=0xffff => {
            out.push(bit | 0x7e);
            out.extend_from_slice(&u16::try_from(length).unwrap().to_be_bytes());
        }
        length => {
            out.push(bit | 0x7f);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    out.extend(mask.into_iter().flatten());
    let mask = mask.unwrap_or_default();
    out.extend(payload.iter().enumerate().map(|(at, byte)| byte ^ mask[at % 4]));
    out
}

/// A final, masked frame.
pub(crate) fn masked(opcode: u8, payload: &[u8]) -> Vec<u8> {
    frame(0x80 | opcode, payload, Some(MASK))
}

/// The peer, on any kind of socket.
pub(crate) struct RawPeer<IO = TcpStream> {
    pub(crate) io: IO,
}

/// A request for an upgrade; a header that is given replaces the usual one.
pub(crate) fn request(path: &str, extra: &[(&str, &str)]) -> String {
    let usual = [
        ("Host", "localhost"),
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    let mut text = format!("GET {path} HTTP/1.1\r\n");
    let kept = usual.iter().filter(|(name, _)| !extra.iter().any(|(other, _)| other == name));
    for (name, value) in kept.chain(extra.iter().filter(|(_, value)| !value.is_empty())) {
        text.extend([name, ": ", value, "\r\n"]);
    }
    text + "\r\n"
}

impl RawPeer<TcpStream> {
    pub(crate) async fn dial(address: SocketAddr) -> Self {
        let io = TcpStream::connect(address).await.unwrap();
        io.set_nodelay(true).unwrap();
        Self { io }
    }

    /// Ends the connection with a reset instead of an orderly end.
    pub(crate) fn reset(self) {
        socket2::SockRef::from(&self.io).set_linger(Some(Duration::ZERO)).unwrap();
    }

    /// Connects and upgrades.
    pub(crate) async fn connect(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Self {
        let mut peer = Self::dial(address).await;
        let head = peer.upgrade(path, headers).await;
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        peer
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> RawPeer<IO> {
    /// Asks for an upgrade and gives the head of the answer (with its body, if it is refused).
    pub(crate) async fn upgrade(&mut self, path: &str, headers: &[(&str, &str)]) -> String {
        self.write(request(path, headers).as_bytes()).await;
        self.read_head().await
    }

    pub(crate) async fn read_head(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let read = tokio::time::timeout(PATIENCE, self.io.read_u8()).await.expect("no answer");
            let Ok(byte) = read else { return String::new() };
            head.push(byte);
        }
        let text = String::from_utf8(head).unwrap();
        let length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        let reading = self.io.read_exact(&mut body);
        tokio::time::timeout(PATIENCE, reading).await.expect("no body").unwrap();
        text + std::str::from_utf8(&body).unwrap()
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        self.io.write_all(bytes).await.unwrap();
    }

    pub(crate) async fn text(&mut self, text: &str) {
        self.write(&masked(1, text.as_bytes())).await;
    }

    /// The next frame; none at the end of the connection, however it ends.
    pub(crate) async fn read(&mut self) -> Option<Frame> {
        tokio::time::timeout(PATIENCE, self.read_frame()).await.expect("the server is silent")
    }

    /// The next frame that is no ping.
    pub(crate) async fn message(&mut self) -> Frame {
        loop {
            let frame = self.read().await.expect("the connection ended");
            if frame.opcode != 9 {
                return frame;
            }
        }
    }

    async fn read_frame(&mut self) -> Option<Frame> {
        let first = self.io.read_u8().await.ok()?;
        let second = self.io.read_u8().await.ok()?;
        assert_eq!(second & 0x80, 0, "a server does not mask");
        let length = match second {
            126 => u64::from(self.io.read_u16().await.ok()?),
            127 => self.io.read_u64().await.ok()?,
            length => u64::from(length),
        };
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        self.io.read_exact(&mut payload).await.ok()?;
        Some(Frame { fin: first & 0x80 != 0, opcode: first & 0x0f, payload })
    }

    /// Reads to the end of the connection; gives the code with which the server closed it.
    pub(crate) async fn closed(&mut self) -> Option<(u16, String)> {
        let mut close = None;
        while let Some(frame) = self.read().await {
            if frame.opcode == 8 {
                close = Some(frame.close());
                // The server waits for this before it hangs up.
                let answer = masked(8, &frame.payload);
                let _ = self.io.write_all(&answer).await;
            }
        }
        close
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> RawPeer<IO> {
    /// The code of the next close frame, which is not answered. Waits as long as it takes.
    pub(crate) async fn io_close_code(&mut self) -> u16 {
        loop {
            let frame = self.read_frame().await.expect("the connection ended");
            if frame.opcode == 8 {
                return frame.close().0;
            }
        }
    }
}
