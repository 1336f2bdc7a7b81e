//! A Redis server of the bench: a free port, a temporary folder, its append-only file on.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::process::cpu_of;

/// A Redis server started by the bench.
#[derive(Debug)]
pub struct Server {
    process: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Server {
    /// Starts a server with its append-only file on. Returns `None` if `redis-server` is not installed.
    pub fn start() -> Option<Self> {
        let folder = tempfile::tempdir().ok()?;
        let port = TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?.port();
        let program = std::env::var("AQUEDUCT_REDIS").unwrap_or_else(|_| "redis-server".to_owned());
        let process = Command::new(program)
            .args([
                "--port",
                &port.to_string(),
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--appendonly",
                "yes",
                "--dir",
            ])
            .arg(folder.path())
            .stdout(Stdio::null())
            .spawn()
            .ok()?;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(Self { process, port, _folder: folder })
    }

    /// Returns the address of the server.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Returns the CPU time of the server, in nanoseconds.
    pub fn cpu(&self) -> u64 {
        cpu_of(self.process.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already; then the figures are missing.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}
