//! A Redis server of the test's own: a free port, a temporary folder, its append-only file on.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use aqueduct_runlog::{LogLimits, RedisConfig, RedisLog};

/// A running server. Killed when it is dropped.
pub(in crate::interop) struct Server {
    process: Child,
    port: u16,
    folder: tempfile::TempDir,
}

impl Server {
    pub(in crate::interop) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let process = launch(port, folder.path());
        Self { process, port, folder }
    }

    /// Kills it with -9 and starts it again on what it wrote.
    pub(super) fn crash(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.process = launch(self.port, self.folder.path());
    }

    pub(in crate::interop) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// A connection to the log under that prefix, as a replica of its own.
    pub(super) fn log(&self, prefix: &str, limits: LogLimits) -> RedisLog {
        let config = RedisConfig { prefix: prefix.to_owned(), limits, ..RedisConfig::new(self.url()) };
        RedisLog::new(&config).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may be dead already, in which case a test has said so.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

fn launch(port: u16, folder: &Path) -> Child {
    let program = super::variable("AQUEDUCT_INTEROP_REDIS");
    let port_text = port.to_string();
    let mut process = Command::new(&program)
        .args(["--port", &port_text, "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes"])
        .args(["--appendfsync", "everysec", "--loglevel", "warning", "--dir"])
        .arg(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap_or_else(|error| panic!("cannot start {}: {error}", program.display()));
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(process.try_wait().unwrap().is_none(), "the server ended");
        std::thread::sleep(Duration::from_millis(10));
    }
    process
}
