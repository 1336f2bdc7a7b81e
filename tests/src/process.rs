//! A program under test: started, its address read from its output, monitored, and ended with the test.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::SystemTime;

/// A program that prints where it listens on its first line.
#[derive(Debug)]
pub struct Program {
    child: Child,
    /// What it printed first.
    pub address: String,
    errors: Option<Lines<BufReader<ChildStderr>>>,
}

impl Program {
    /// Starts it, and waits until it listens.
    pub fn start(program: impl AsRef<OsStr>, args: &[&str]) -> Self {
        let mut command = Command::new(program.as_ref());
        command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {}: {error}", program.as_ref().display()));
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let errors = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut address = String::new();
        output.read_line(&mut address).unwrap();
        assert!(!address.is_empty(), "the program did not say where it listens");
        Self { child, address: address.trim().to_owned(), errors: Some(errors) }
    }

    /// Its process id, to send it signals.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end, at most that long. Returns `false` if it still runs.
    pub fn ends_within(&mut self, limit: std::time::Duration) -> bool {
        let begun = std::time::Instant::now();
        while begun.elapsed() < limit {
            if self.child.try_wait().unwrap().is_some() {
                return true;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        false
    }

    /// Returns the next line of its standard error. The test runner ends a test that waits without end.
    pub fn error_line(&mut self) -> String {
        let errors = self.errors.as_mut().expect("somebody else reads them");
        errors.next().expect("the program ended").unwrap()
    }

    /// Returns all lines of its standard error, each with the time when it was read. A thread reads them at once,
    /// whether they are received or not, so that a program with much output does not block.
    pub fn heard(&mut self) -> Receiver<(SystemTime, String)> {
        let errors = self.errors.take().expect("somebody else reads them");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in errors.map_while(Result::ok) {
                // A receiver that was dropped does not stop the program.
                sender.send((SystemTime::now(), line)).ok();
            }
        });
        lines
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended by itself, which is a failure that the test has seen already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A `POST` of JSON to `http://host:port/path`, as a plain socket sends it. The response is read as far as `read` likes.
pub fn post<T>(url: &str, body: &str, read: impl FnOnce(&mut dyn std::io::BufRead) -> T) -> T {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut socket = TcpStream::connect(host).unwrap();
    write!(
        socket,
        "POST /{path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    read(&mut BufReader::new(socket))
}

/// The whole response of such a `POST`: head and body, in chunks as they came.
pub fn post_whole(url: &str, body: &str) -> String {
    post(url, body, |response| {
        let mut text = String::new();
        response.read_to_string(&mut text).unwrap();
        text
    })
}

/// The `data:` payloads of an SSE response.
pub fn payloads(response: &str) -> Vec<serde_json::Value> {
    let data = response.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|payload| serde_json::from_str(payload).unwrap()).collect()
}
