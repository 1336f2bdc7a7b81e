//! What grows with what: the cost of one event or one run while the number of runs, watchers, agents and threads grows.
//! `cargo xtask bench growth`.
//!
//! * `runs`: open runs with a watcher each, appended to in turn;
//! * `watchers`: watchers of one run;
//! * `agents`: agents by name, a run of ten texts each;
//! * `threads`: threads with an ended run each; another run in one of them;
//! * `memory`: bytes that the log in memory holds per text;
//! * `takeover`: a thousand runs of a killed replica, continued by another.
//!
//! Flat means: the figure of the last row is that of the first, but for the cache of the processor. CPU time of the thread.

#![expect(clippy::print_stdout, reason = "a bench is a program that prints")]

mod log;
mod memory;
mod service;
mod takeover;

use aqueduct_core::{RunId, Timestamp};
use aqueduct_runlog::RunMeta;

/// The reason why a case could not run.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The end of a lease that never lapses.
pub(crate) const FOREVER: Timestamp = Timestamp(1 << 52);

fn main() -> Result<(), Failure> {
    // Arguments that cargo adds.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["owner", url] => return takeover::run_owner(url),
        ["heir", url] => return takeover::run_heir(url),
        _ => {}
    }
    let is_wanted = |part: &str| arguments.is_empty() || arguments.contains(&part);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("load of the machine: {}", load.trim());
    for part in ["runs", "watchers", "agents", "threads", "memory", "takeover"] {
        if is_wanted(part) {
            report(part)?;
        }
    }
    Ok(())
}

fn report(part: &str) -> Result<(), Failure> {
    match part {
        "runs" => log::report_runs(),
        "watchers" => log::report_watchers(),
        "agents" => service::report_agents()?,
        "threads" => service::report_threads()?,
        "memory" => memory::report()?,
        _ => takeover::report()?,
    }
    Ok(())
}

/// Returns the head of a run.
pub(crate) fn meta(id: String, thread: String) -> RunMeta {
    RunMeta {
        run_id: RunId::from(id),
        thread_id: thread.into(),
        agent: "agent".to_owned(),
        owner: String::new(),
        opened_at: Timestamp(1),
    }
}
