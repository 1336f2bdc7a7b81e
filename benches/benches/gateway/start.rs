//! Time to the first answer, memory after it, and size of the program.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use aqueduct_benches::process::float;

use crate::relays::program;

const ROUNDS: usize = 20;

pub(crate) fn report() {
    let Some(program) = program() else { return };
    println!("\nthe program");
    let mut times: Vec<(f64, f64)> = (0..ROUNDS).map(|_| start(&program)).collect();
    times.sort_by(|one, other| one.0.total_cmp(&other.0));
    let cpu = times.iter().map(|time| time.1).fold(f64::INFINITY, f64::min);
    println!(
        "{:<36} {:>8.1} ms (best of {ROUNDS}; median {:.1} ms; CPU of it, best: {cpu:.1} ms)",
        "exec until /healthz answers 200",
        times[0].0,
        times[ROUNDS / 2].0
    );
    let (mut process, _) = answered(&program);
    std::thread::sleep(Duration::from_secs(1));
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    for (name, what) in [("VmRSS:", "resident, idle"), ("RssAnon:", "of that its own, not of the file")] {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        let kib: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
        println!("{what:<36} {:>8.1} MB", float(kib) * 1024.0 / 1e6);
    }
    end(&mut process);
    let size = std::fs::metadata(&program).unwrap().len();
    println!("{:<36} {:>8.1} MB", "size of the binary", float(size) / 1e6);
}

/// Returns milliseconds of wall-clock time and of CPU time.
fn start(program: &str) -> (f64, f64) {
    let (mut process, took) = answered(program);
    let schedstat = format!("/proc/{}/task", process.id());
    let threads = std::fs::read_dir(schedstat).unwrap().filter_map(Result::ok);
    let times = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("schedstat")).ok());
    let cpu: u64 = times.filter_map(|line| line.split(' ').next()?.parse::<u64>().ok()).sum();
    end(&mut process);
    (took.as_secs_f64() * 1e3, float(cpu) / 1e6)
}

/// Starts the program and waits for its first answer.
fn answered(program: &str) -> (Child, Duration) {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("aqueduct.toml");
    std::fs::write(&config, "[agents.a.a2a]\nurl = \"http://127.0.0.1:1\"\n").unwrap();
    let begun = Instant::now();
    let mut command = Command::new(program);
    command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(&config);
    let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let address = line.split("//").nth(1).unwrap().split('/').next().unwrap();
    let mut socket = TcpStream::connect(address).unwrap();
    socket.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    let took = begun.elapsed();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    (process, took)
}

fn end(process: &mut Child) {
    process.kill().unwrap();
    process.wait().unwrap();
}
