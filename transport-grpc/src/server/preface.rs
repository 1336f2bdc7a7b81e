//! The first bytes of a connection: HTTP/2 or not.
//!
//! Every HTTP/2 connection starts with the same 24 bytes (RFC 9113, section 3.4). They are read here with a limit of time,
//! because a connection that never sends them would be kept for ever, and given back to whoever reads next.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};

const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// What a peer that speaks HTTP/1.1 understands.
const SORRY: &[u8] =
    b"HTTP/1.1 505 HTTP Version Not Supported\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// Waits for the preface; anything else is answered and refused.
pub(super) async fn expect<I: AsyncRead + AsyncWrite + Unpin>(mut io: I) -> io::Result<Rewound<I>> {
    let mut seen = [0; PREFACE.len()];
    let mut filled = 0;
    while let Some(rest) = seen.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        let read = io.read(rest).await?;
        filled += read;
        if read == 0 || seen.get(..filled) != PREFACE.get(..filled) {
            if read > 0 {
                io.write_all(SORRY).await?;
                io.shutdown().await?;
            }
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the peer does not speak HTTP/2"));
        }
    }
    Ok(Rewound { io, unread: 0 })
}

pin_project! {
    /// A connection whose preface is read again from here.
    pub(super) struct Rewound<I> {
        #[pin]
        io: I,
        unread: usize,
    }
}

impl<I: AsyncRead> AsyncRead for Rewound<I> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.project();
        match PREFACE.get(*this.unread..) {
            Some(rest) if !rest.is_empty() => {
                let part = rest.get(..buffer.remaining()).unwrap_or(rest);
                buffer.put_slice(part);
                *this.unread += part.len();
                Poll::Ready(Ok(()))
            }
            _ => this.io.poll_read(cx, buffer),
        }
    }
}

impl<I: AsyncWrite> AsyncWrite for Rewound<I> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.project().io.poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.project().io.poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().io.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().io.poll_shutdown(cx)
    }
}
