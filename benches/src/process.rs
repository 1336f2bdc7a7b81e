//! Measured processes: their start, their resource usage, and their end.

#![expect(
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "a bench may stop at the first thing that is wrong"
)]

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

/// A process that communicates by lines and is killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Process {
    /// Starts this program in another role.
    pub fn own(arguments: &[&str]) -> Self {
        let program = std::env::current_exe().unwrap();
        Self::start(&program.to_string_lossy(), arguments)
    }

    /// Starts a program with the highest possible limit of open files.
    pub fn start(program: &str, arguments: &[&str]) -> Self {
        // Ten thousand sockets need a high limit of files; `exec` keeps the process id.
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -n $(ulimit -Hn); exec \"$0\" \"$@\"", program]).args(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// Reads the next line of the process.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "a process of the bench ended early");
        line.trim().to_owned()
    }

    /// Returns the CPU time of all its threads, in nanoseconds.
    pub fn cpu(&self) -> u64 {
        cpu_of(self.child.id())
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns its resident memory, in bytes.
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

/// Returns the CPU time of all threads of a process, in nanoseconds.
pub fn cpu_of(process: u32) -> u64 {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let files = threads.filter_map(|thread| Some(thread.ok()?.path().join("schedstat")));
    let times = files.filter_map(|file| std::fs::read_to_string(file).ok());
    times.filter_map(|line| line.split(' ').next()?.parse::<u64>().ok()).sum()
}

/// A server and its address.
#[derive(Debug)]
pub struct Server {
    /// The process.
    pub process: Process,
    /// The address that it printed.
    pub address: String,
}

impl Server {
    /// Starts a server of ours.
    pub fn own(role: &str, arguments: &[&str]) -> Self {
        Self::of(Process::own(&[&["server", role], arguments].concat()))
    }

    /// Starts a server in node: a script, the folder of its packages, and the arguments.
    pub fn node(script: &str, project: &str, arguments: &[&str]) -> Self {
        Self::of(Process::start("node", &[&[script, "--project", project], arguments].concat()))
    }

    /// Returns a server whose first line is its address.
    pub fn of(mut process: Process) -> Self {
        let address = process.line();
        Self { process, address }
    }

    /// Starts a client of ours against the server.
    pub fn client(&self, role: &str, arguments: &[&str]) -> Process {
        Process::own(&[&["client", role, &self.address], arguments].concat())
    }
}

/// Returns the bytes in the kernel's socket buffers, of all processes.
pub fn socket_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/net/sockstat").unwrap();
    let tcp = text.lines().find(|line| line.starts_with("TCP:")).unwrap();
    tcp.rsplit(' ').next().unwrap().parse::<u64>().unwrap() * 4096
}

/// Converts a count for a division.
#[expect(clippy::cast_precision_loss, reason = "counts of a bench are far below 2^53")]
pub fn float(count: u64) -> f64 {
    count as f64
}
