//! Peers that are broken or hostile: a clear close code, no panic, nothing left behind.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Host, RawPeer, delta, frame, masked, request, within};

const MASK: Option<[u8; 4]> = Some([9, 8, 7, 6]);

async fn code(host: &Host, bytes: &[u8]) -> u16 {
    let mut peer = host.raw().await;
    // A server that has seen enough may stop reading.
    let _ = peer.io.write_all(bytes).await;
    peer.closed().await.expect("no close frame").0
}

#[tokio::test]
async fn oversized_frames_and_messages_are_1009() {
    let host = Host::new().await;
    let limit = 1024 * 1024;
    assert_eq!(code(&host, &masked(1, &vec![b' '; limit + 1])).await, 1009);
    // The header alone is enough: nothing is reserved for what will never come.
    for length in [limit as u64 + 1, 1 << 31, 1 << 62, u64::MAX] {
        let header = [&[0x81, 0xff][..], &length.to_be_bytes(), &[0; 4]].concat();
        assert_eq!(code(&host, &header).await, 1009, "{length}");
    }
    let part = vec![b' '; limit];
    let message =
        [frame(0x01, &part, MASK), frame(0x00, &part, MASK).repeat(3), frame(0x80, b" ", MASK)].concat();
    assert_eq!(code(&host, &message).await, 1009);
    let endless = frame(0x00, &vec![b' '; 100_000], MASK).repeat(20);
    assert_eq!(code(&host, &[frame(0x01, b"{", MASK), endless].concat()).await, 1009);
    host.settles().await;
}

#[tokio::test]
async fn text_that_is_no_message_is_4400() {
    let host = Host::new().await;
    let deep = format!(r#"{{"type":"start","ref":"d","input":{}1{}}}"#, "[".repeat(65), "]".repeat(65));
    let bottomless = "[".repeat(200_000);
    let texts =
        ["", "hello", "null", "[]", "{}", "{\"type\":", "{\"type\":null}", "\u{0}", &deep, &bottomless];
    for text in texts {
        assert_eq!(
            code(&host, &masked(1, text.as_bytes())).await,
            4400,
            "{}",
            text.get(..40).unwrap_or(text)
        );
    }
    // As deep as allowed.
    let mut peer = host.raw().await;
    let text = format!(
        r#"{{"type":"start","ref":"d","agent":"echo","input":{}1{}}}"#,
        "[".repeat(63),
        "]".repeat(63)
    );
    peer.text(&text).await;
    assert!(peer.message().await.text().contains(r#""code":"invalid""#));
    assert_eq!(code(&host, &masked(2, b"garbage")).await, 1003);
    assert_eq!(code(&host, &masked(2, b"")).await, 1003);
    drop(peer);
    host.settles().await;
}

#[tokio::test]
async fn a_peer_that_goes_is_noticed_at_once() {
    let host = Host::new().await;
    for (run, way) in [("close", 0), ("reset", 1), ("half", 2), ("frame", 3)] {
        let mut peer = host.raw().await;
        peer.text(&format!(r#"{{"type":"start","ref":"1","agent":"manual","input":{{"run":"{run}"}}}}"#))
            .await;
        assert!(peer.message().await.text().contains("started"));
        assert_eq!(host.service.watchers(), 1);
        match way {
            0 => drop(peer),
            1 => peer.reset(),
            2 => {
                peer.io.shutdown().await.unwrap();
                // The server hangs up as well.
                assert_eq!(peer.closed().await, None);
            }
            _ => {
                peer.write(&masked(8, &1001_u16.to_be_bytes())).await;
                assert_eq!(peer.closed().await.unwrap().0, 1001);
            }
        }
        assert!(within(Duration::from_secs(5), || host.service.watchers() == 0).await, "{run}");
        host.settles().await;
    }
    assert!(host.service.cancelled.lock().unwrap().is_empty(), "leaving is not cancelling");
}

/// Everything that a well-behaved peer says, as bytes.
fn conversation() -> Vec<u8> {
    let mut bytes = request("/ws", &[("Sec-WebSocket-Protocol", "aqueduct.v1.json")]).into_bytes();
    for text in [
        r#"{"type":"auth","token":"t"}"#,
        r#"{"type":"list","ref":"l"}"#,
        r#"{"type":"watch","ref":"w","run":"busy","after":1}"#,
        r#"{"type":"publish","ref":"p","agent":"a","run":"fed","format":"lines"}"#,
        r#"{"type":"payload","ref":"p","number":1,"data":{"x":1}}"#,
        r#"{"type":"cancel","run":"nothing"}"#,
        r#"{"type":"unwatch","run":"busy"}"#,
        r#"{"type":"finish","ref":"p"}"#,
    ] {
        bytes.extend(masked(1, text.as_bytes()));
    }
    bytes.extend(masked(9, b"ping"));
    bytes.extend(masked(8, &1000_u16.to_be_bytes()));
    bytes
}

#[tokio::test]
async fn ends_at_every_byte_leave_nothing_behind() {
    let host = Host::new().await;
    host.service.open_run("busy");
    for _ in 0..100 {
        host.service.push("busy", delta(&"x".repeat(200)));
    }
    let whole = conversation();
    for end in 0..=whole.len() {
        let mut peer = RawPeer::dial(host.address).await;
        peer.write(&whole[..end]).await;
        match end % 3 {
            0 => peer.reset(),
            1 => drop(peer),
            _ => {
                peer.io.shutdown().await.unwrap();
                let mut sink = Vec::new();
                // Whatever comes, it ends.
                let reading = tokio::time::timeout(Duration::from_secs(20), peer.io.read_to_end(&mut sink));
                let _ = reading.await.expect("the server does not hang up");
            }
        }
    }
    host.settles().await;
    // Somebody who behaves is served as ever.
    assert_eq!(host.client().await.list_agents().await.unwrap().len(), 2);
}

#[tokio::test]
async fn noise_ends_in_a_close_code_or_silence() {
    let host = Host::new().await;
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for round in 0..300 {
        let mut bytes: Vec<u8> = (0..random() % 400).map(|_| random().to_le_bytes()[0]).collect();
        if round % 2 == 0 {
            // Behind a valid start, noise reaches further.
            let text: String = bytes.iter().map(|byte| char::from(byte % 95 + 32)).collect();
            bytes = [masked(1, format!(r#"{{"type":"{text}"#).as_bytes()), bytes].concat();
        }
        let mut peer = host.raw().await;
        let _ = peer.io.write_all(&bytes).await;
        let _ = peer.io.shutdown().await;
        if let Some((code, reason)) = peer.closed().await {
            assert!(matches!(code, 1002 | 1003 | 1005 | 1007 | 1009 | 3000..=4999), "{code} {reason}");
        }
    }
    host.settles().await;
}

#[tokio::test]
async fn noise_instead_of_a_request_is_refused() {
    let host = Host::new().await;
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"[..],
        b"GET /ws HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET\r\n\r\n",
    ] {
        let mut peer = RawPeer::dial(host.address).await;
        peer.write(bytes).await;
        let answer = peer.read_head().await;
        assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    assert_eq!(host.service.calls(), 0);
    host.settles().await;
}
