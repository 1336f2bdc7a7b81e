//! Processes that are measured: how they are started, what they have used, and how they end.

#![expect(
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "a bench may stop at the first thing that is wrong"
)]

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

/// A process that talks by lines and is killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Process {
    /// This program in another role.
    pub fn own(arguments: &[&str]) -> Self {
        let program = std::env::current_exe().unwrap();
        Self::start(&program.to_string_lossy(), arguments)
    }

    /// A program with all the files that the machine allows.
    pub fn start(program: &str, arguments: &[&str]) -> Self {
        // Ten thousand sockets need as many files as the machine allows; `exec` keeps the process the one measured.
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -n $(ulimit -Hn); exec \"$0\" \"$@\"", program]).args(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// The next line it says.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "a process of the bench ended early");
        line.trim().to_owned()
    }

    /// Nanoseconds of CPU time of all its threads.
    pub fn cpu(&self) -> u64 {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let files = threads.filter_map(|thread| Some(thread.ok()?.path().join("schedstat")));
        let times = files.filter_map(|file| std::fs::read_to_string(file).ok());
        times.filter_map(|line| line.split(' ').next()?.parse::<u64>().ok()).sum()
    }

    /// Its id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Bytes of it that are in memory.
    pub fn memory(&self) -> u64 {
        let statm = std::fs::read_to_string(format!("/proc/{}/statm", self.child.id())).unwrap();
        statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A server and its address.
#[derive(Debug)]
pub struct Server {
    /// The process.
    pub process: Process,
    /// Where it listens, as it said itself.
    pub address: String,
}

impl Server {
    /// A server of ours.
    pub fn own(role: &str, arguments: &[&str]) -> Self {
        Self::of(Process::own(&[&["server", role], arguments].concat()))
    }

    /// A server that runs in node: a script, the folder with its packages, and what the script is told.
    pub fn node(script: &str, project: &str, arguments: &[&str]) -> Self {
        Self::of(Process::start("node", &[&[script, "--project", project], arguments].concat()))
    }

    /// A server whose first line is its address.
    pub fn of(mut process: Process) -> Self {
        let address = process.line();
        Self { process, address }
    }

    /// Runs a client of ours against it and gives its last line.
    pub fn client(&self, role: &str, arguments: &[&str]) -> Process {
        Process::own(&[&["client", role, &self.address], arguments].concat())
    }
}

/// Bytes that the kernel holds in socket buffers, of all processes.
pub fn socket_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/net/sockstat").unwrap();
    let tcp = text.lines().find(|line| line.starts_with("TCP:")).unwrap();
    tcp.rsplit(' ').next().unwrap().parse::<u64>().unwrap() * 4096
}

/// A count for a quotient.
#[expect(clippy::cast_precision_loss, reason = "counts of a bench are far below 2^53")]
pub fn float(count: u64) -> f64 {
    count as f64
}
