//! The first bytes of a connection on a port for HTTP/2 alone.
//!
//! Every HTTP/2 connection starts with the same 24 bytes (RFC 9113, section 3.4). They are read with a time limit, because a
//! connection without them would never be closed, and put back for hyper. Any other protocol is answered with 505, and the
//! connection is closed.

use std::io;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::io::GuardedSocket;

const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A response that a peer of HTTP/1.1 understands.
const NOT_SUPPORTED: &[u8] =
    b"HTTP/1.1 505 HTTP Version Not Supported\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// Waits for the preface.
pub(super) async fn expect(socket: &mut GuardedSocket) -> io::Result<()> {
    let mut seen = [0; PREFACE.len()];
    let mut filled = 0;
    while let Some(rest) = seen.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        let read = socket.read(rest).await?;
        filled += read;
        if read == 0 || seen.get(..filled) != PREFACE.get(..filled) {
            if read > 0 {
                socket.write_all(NOT_SUPPORTED).await?;
                socket.shutdown().await?;
            }
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the peer does not speak HTTP/2"));
        }
    }
    socket.put_back(PREFACE);
    Ok(())
}
