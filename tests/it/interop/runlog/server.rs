//! A Redis server of the test's own: a free port, a temporary folder, its append-only file on.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use aqueduct_runlog::{ClientIdentity, LogLimits, RedisConfig, RedisLog};

/// A running server. Killed when it is dropped.
pub(in crate::interop) struct Server {
    process: Child,
    port: u16,
    /// How it listens, for when it is started again.
    listen: Vec<String>,
    folder: tempfile::TempDir,
    /// The server's certificate (PEM), if it speaks TLS.
    pub(super) certificate: Option<String>,
    /// The certificate and key (PEM) that its clients need.
    pub(super) client: Option<ClientIdentity>,
}

impl Server {
    pub(in crate::interop) fn start() -> Self {
        let port = free_port();
        Self::listening(port, vec!["--port".to_owned(), port.to_string()])
    }

    /// A node of a cluster. Nodes talk to each other on ports of their own ([`Self::bus`]).
    pub(super) fn start_node() -> Self {
        let (port, bus) = (free_port().to_string(), free_port().to_string());
        let listen = ["--cluster-port", &bus, "--port", &port, "--cluster-enabled", "yes"];
        Self::listening(port.parse().unwrap(), listen.map(str::to_owned).to_vec())
    }

    /// A server that follows another.
    pub(super) fn start_replica_of(leader: &Self) -> Self {
        let (port, of) = (free_port(), leader.port.to_string());
        let listen = ["--port", &port.to_string(), "--replicaof", "127.0.0.1", &of].map(str::to_owned);
        Self::listening(port, listen.to_vec())
    }

    /// A sentinel that watches `leader` as `service`, and looks twice a second.
    pub(super) fn start_sentinel(leader: &Self, service: &str) -> Self {
        let (port, folder) = (free_port(), tempfile::tempdir().unwrap());
        let file = folder.path().join("sentinel.conf");
        let text = format!(
            "sentinel monitor {service} 127.0.0.1 {} 1\nsentinel down-after-milliseconds {service} 500\n\
             sentinel failover-timeout {service} 10000\n",
            leader.port
        );
        std::fs::write(&file, text).unwrap();
        let listen = vec![
            file.to_str().unwrap().to_owned(),
            "--sentinel".to_owned(),
            "--port".to_owned(),
            port.to_string(),
        ];
        let process = start(port, folder.path(), &listen);
        Self { process, port, listen, folder, certificate: None, client: None }
    }

    fn listening(port: u16, listen: Vec<String>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let process = launch(port, folder.path(), &listen);
        Self { process, port, listen, folder, certificate: None, client: None }
    }

    pub(in crate::interop) fn port(&self) -> u16 {
        self.port
    }

    /// The port on which a node talks to other nodes.
    pub(super) fn bus(&self) -> &str {
        &self.listen[1]
    }

    /// A server that speaks nothing but TLS, with a certificate that it made itself.
    pub(super) fn start_tls() -> Self {
        Self::speaking_tls(false)
    }

    /// The same, for clients with a certificate alone.
    pub(super) fn start_mutual_tls() -> Self {
        Self::speaking_tls(true)
    }

    fn speaking_tls(is_mutual: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let certificate = made.cert.pem();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let (chain, key) =
            (file("server.pem", &certificate), file("server.key", &made.signing_key.serialize_pem()));
        let own = rcgen::generate_simple_self_signed(vec!["gateway".to_owned()]).unwrap();
        let trusted = file("clients.pem", &own.cert.pem());
        let client = is_mutual.then(|| ClientIdentity {
            certificate: own.cert.pem().into_bytes(),
            key: own.signing_key.serialize_pem().into_bytes(),
        });
        let port = free_port();
        let text = port.to_string();
        let tls = ["--port", "0", "--tls-port", &text, "--tls-cert-file", &chain, "--tls-key-file", &key];
        let wants = if is_mutual { "yes" } else { "no" };
        let all = [&tls[..], &["--tls-ca-cert-file", &trusted, "--tls-auth-clients", wants]].concat();
        let listen: Vec<String> = all.into_iter().map(str::to_owned).collect();
        let process = launch(port, folder.path(), &listen);
        Self { process, port, listen, folder, certificate: Some(certificate), client }
    }

    /// Kills it with -9 and starts it again on what it wrote.
    pub(in crate::interop) fn crash(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.process = launch(self.port, self.folder.path(), &self.listen);
    }

    /// Has a line answered by the server. What it answers is not looked at, but for errors.
    pub(in crate::interop) fn tell(&self, line: &str) {
        self.try_tell(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    }

    /// As [`tell`](Self::tell), with the error that the server answers.
    pub(in crate::interop) fn try_tell(&self, line: &str) -> Result<(), String> {
        use std::io::{BufRead as _, BufReader, Write as _};
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(format!("{line}\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).unwrap();
        if answer.starts_with('-') { Err(answer) } else { Ok(()) }
    }

    /// Sends it a signal.
    pub(in crate::interop) fn signal(&self, name: &str) {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }

    /// Whether it takes writes.
    pub(in crate::interop) fn is_leader(&self) -> bool {
        use std::io::{BufRead as _, BufReader, Write as _};
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else { return false };
        stream.write_all(b"ROLE\r\n").unwrap();
        let lines = BufReader::new(stream).lines().map_while(Result::ok).take(3);
        lines.last().is_some_and(|role| role == "master")
    }

    /// Forgets everything.
    pub(super) fn flush(&self) {
        self.tell("FLUSHALL");
    }

    pub(in crate::interop) fn url(&self) -> String {
        match self.certificate {
            Some(_) => format!("rediss://localhost:{}", self.port),
            None => format!("redis://127.0.0.1:{}", self.port),
        }
    }

    /// A connection to the log under that prefix, as a replica of its own.
    pub(super) fn log(&self, prefix: &str, limits: LogLimits) -> RedisLog {
        let authorities = self.certificate.clone().map(String::into_bytes);
        let (prefix, identity) = (prefix.to_owned(), self.client.clone());
        let own = RedisConfig::new(self.url());
        RedisLog::new(&RedisConfig { prefix, limits, authorities, identity, ..own }).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may be dead already, in which case a test has reported it.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn launch(port: u16, folder: &Path, listen: &[String]) -> Child {
    let kept = ["--save", "", "--appendonly", "yes", "--appendfsync", "everysec"];
    start(port, folder, &[listen, &kept.map(str::to_owned)].concat())
}

fn start(port: u16, folder: &Path, arguments: &[String]) -> Child {
    let program = crate::interop::variable("AQUEDUCT_INTEROP_REDIS");
    let mut process = Command::new(&program)
        .args(arguments)
        .args(["--bind", "127.0.0.1", "--loglevel", "warning", "--dir"])
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
