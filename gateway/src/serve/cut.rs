//! Cuts connections where a script requests it, on servers of scripted agents.
//!
//! A script that cuts ends its run with the code [`CUT`]. Where that code is about to be sent, in any protocol, the
//! body ends with an error instead: HTTP/1.1 closes the connection in the middle of a chunk, HTTP/2 resets the stream.
//!
//! Only the servers of `aqueduct mock` and `aqueduct demo` have this layer. It finds the code in the bytes of the
//! response, because only there all protocols are alike; it would not be safe where agents send arbitrary text.
//! WebSocket and gRPC are not cut.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::middleware::map_response;
use axum::response::Response;
use futures_util::StreamExt as _;
use http::header;
use memchr::memmem;

use crate::source::script::CUT;

/// Ends a response body with an error where the code of a scripted cut would be sent. Only event streams are searched; a
/// complete response is sent unchanged.
pub(super) fn cutting(router: Router) -> Router {
    router.layer(map_response(async |response: Response| {
        let is_stream = response
            .headers()
            .get(header::CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        if is_stream { response.map(hanging_up) } else { response }
    }))
}

/// Returns the body with every chunk searched. The code is in one chunk, because an event is written as one.
fn hanging_up(body: Body) -> Body {
    Body::from_stream(body.into_data_stream().flat_map(|chunk| {
        let pieces = match chunk {
            Ok(chunk) => pieces(chunk),
            error => vec![error],
        };
        futures_util::stream::iter(pieces)
    }))
}

/// Returns a chunk unchanged; or the complete events before the one with the code, followed by an error.
fn pieces(chunk: Bytes) -> Vec<Result<Bytes, axum::Error>> {
    let Some(at) = memmem::find(&chunk, CUT.as_bytes()) else { return vec![Ok(chunk)] };
    let before = chunk.slice(..at);
    let complete = memmem::rfind(&before, b"\n\n").map_or(0, |end| end + 2);
    let cut = axum::Error::new(std::io::Error::other("the script hangs up"));
    vec![Ok(before.slice(..complete)), Err(cut)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_before_the_cut_is_heard() {
        let whole = Bytes::from_static(b"data: half\n\ndata: {\"code\":\"script_cut\"}\n\n");
        let pieces = pieces(whole);
        assert_eq!(pieces[0].as_ref().unwrap(), "data: half\n\n");
        assert!(pieces[1].is_err());
        assert_eq!(super::pieces(Bytes::from_static(b"data: x\n\n")).len(), 1);
    }
}
