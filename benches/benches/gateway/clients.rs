//! The clients. They read bytes and search for marks; their own cost is not measured.
//!
//! * `drain <streams> <chunks>`: reads unpaced streams to their ends, one after another, and prints `done`;
//! * `hold <streams>`: opens streams, reads the first bytes of each, prints `open`, and holds them;
//! * `listen <streams> <seconds>`: opens paced streams, prints `open`, and after that time the latencies.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use aqueduct_benches::pace::{listen_for, read_times};

use crate::relays::{a2a_request, agui_request};

/// Enough bytes to know that the stream has started.
const FIRST_BYTES: usize = 100;

pub(crate) fn run(role: &str, arguments: &[&str]) {
    let [address, protocol, path, numbers @ ..] = arguments else { panic!("no address") };
    let numbers: Vec<usize> = numbers.iter().map(|number| number.parse().unwrap()).collect();
    let open = |number: usize| open(address, protocol, path, number);
    match (role, numbers.as_slice()) {
        ("drain", [streams, chunks]) => drain_all((0..*streams).map(open), *chunks as u64),
        ("hold", [streams]) => hold((0..*streams).map(open)),
        ("listen", [streams, seconds]) => listen((0..*streams).map(open), *seconds as u64),
        _ => panic!("no client {role}"),
    }
}

/// Requests a stream and reads the head of the response.
fn open(address: &str, protocol: &str, path: &str, number: usize) -> TcpStream {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_nodelay(true).unwrap();
    let request = match protocol {
        "a2a" => a2a_request(path),
        _ => agui_request(path, &format!("{}-{number}", std::process::id())),
    };
    socket.write_all(&request).unwrap();
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        socket.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    assert!(head.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&head));
    socket
}

/// Reads the stream to its end, and counts the marks of the texts in it.
fn drain(mut socket: TcpStream) -> u64 {
    let (mut marks, mut buffer) = (0, vec![0; 256 * 1024]);
    loop {
        match socket.read(&mut buffer).unwrap() {
            0 => return marks,
            read => {
                marks += u64::try_from(memchr::memchr_iter(b'~', &buffer[..read]).count()).unwrap();
            }
        }
    }
}

/// Reads the streams of one round, one after another.
fn drain_all(streams: impl Iterator<Item = TcpStream>, chunks: u64) {
    for socket in streams {
        let marks = drain(socket);
        assert!(marks >= chunks, "the relay passed on {marks} of {chunks} texts");
    }
    println!("done");
}

fn hold(streams: impl Iterator<Item = TcpStream>) {
    let open: Vec<_> = streams
        .map(|mut socket| {
            socket.read_exact(&mut [0; FIRST_BYTES]).unwrap();
            socket
        })
        .collect();
    println!("open");
    wait();
    drop(open);
}

/// Waits until the measuring process closes the pipe.
fn wait() {
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

#[tokio::main(flavor = "current_thread")]
async fn listen(streams: impl Iterator<Item = TcpStream>, seconds: u64) {
    let (latencies, mut collected) = tokio::sync::mpsc::channel(1024);
    for socket in streams {
        socket.set_nonblocking(true).unwrap();
        tokio::spawn(read_times(tokio::net::TcpStream::from_std(socket).unwrap(), latencies.clone()));
    }
    listen_for(&mut collected, Duration::from_secs(seconds)).await;
    tokio::task::spawn_blocking(wait).await.unwrap();
}
