//! Runs the demo of an installed program as a newcomer does: start it, send one prompt, stop it with Ctrl-C.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::invocation::Invocation;

/// How long a step of the demo may take before the check fails: a bound against hanging, on machines that do much else.
const HANG: Duration = Duration::from_secs(180);

/// Starts `program demo`, lets one run end well, and stops the demo.
///
/// # Errors
///
/// Fails if the demo prints no address, the run does not succeed or has no text, or the demo ends with an error.
pub(super) fn check(program: &Invocation) -> Result<()> {
    let demo = Demo::start(program)?;
    demo.run(program)?;
    demo.stop()
}

/// Like [`check`], for a program that another one starts (npx, buildah), which itself ends by the signal, whatever its program returns.
///
/// `name` is what the demo calls the program in its commands to copy.
pub(super) fn check_by_launcher(program: &Invocation, name: &str) -> Result<()> {
    let demo = Demo::start(program)?;
    demo.expect_name(name)?;
    demo.run(program)?;
    demo.interrupt().map(drop)
}

/// A running demo; stopped when dropped.
pub(super) struct Demo {
    child: Child,
    lines: Receiver<String>,
    /// The address of the gateway, without a path.
    address: String,
}

impl Demo {
    /// Starts the demo on a free port, and waits until it prints its address.
    pub(super) fn start(program: &Invocation) -> Result<Self> {
        let call = program.clone().args(["demo", "--port", "0"]);
        let mut child = call.spawn()?;
        let output = child.stdout.take().context("the demo has no standard output")?;
        let (sender, lines) = channel();
        // The thread reads to the end of the output, so that the demo never waits for a reader.
        thread::spawn(move || {
            BufReader::new(output).lines().map_while(Result::ok).for_each(|line| {
                sender.send(line).ok();
            });
        });
        let mut demo = Self { child, lines, address: String::new() };
        demo.address = demo.wait_for_address().with_context(|| format!("`{call}`"))?;
        Ok(demo)
    }

    /// Returns the URL of an agent of the demo.
    pub(super) fn agent(&self, name: &str) -> String {
        format!("{}/agents/{name}", self.address)
    }

    /// Returns the URL of the probe for readiness.
    pub(super) fn probe(&self) -> String {
        format!("{}/readyz", self.address)
    }

    fn wait_for_address(&self) -> Result<String> {
        loop {
            match self.lines.recv_timeout(HANG) {
                Ok(line) => {
                    let address =
                        line.trim().strip_suffix("/inspector").filter(|it| it.starts_with("http://"));
                    if let Some(address) = address {
                        return Ok(address.to_owned());
                    }
                }
                Err(RecvTimeoutError::Timeout) => bail!("printed no address in {HANG:?}"),
                Err(RecvTimeoutError::Disconnected) => bail!("ended without an address"),
            }
        }
    }

    /// Requires that the commands to copy which the demo prints begin with `name`.
    pub(super) fn expect_name(&self, name: &str) -> Result<()> {
        while let Ok(line) = self.lines.recv_timeout(HANG) {
            if let Some((printed, _)) = line.split_once(" run http") {
                ensure!(
                    printed.trim() == name,
                    "the demo calls the program `{}`, not `{name}`",
                    printed.trim()
                );
                return Ok(());
            }
        }
        bail!("the demo prints no command to copy")
    }

    /// Sends one prompt with the same program, and requires an answer.
    fn run(&self, program: &Invocation) -> Result<()> {
        let call = program.clone().args(["run", &self.agent("demo"), "Write about Rust", "--json"]);
        let (sender, answered) = channel();
        let shown = call.to_string();
        thread::spawn(move || sender.send(call.output()).ok());
        // After this error the demo is stopped, which ends the call too.
        let answer = answered.recv_timeout(HANG).with_context(|| format!("`{shown}` did not end"))??;
        let answer: Value =
            serde_json::from_str(&answer).with_context(|| format!("`{shown}` wrote no JSON"))?;
        let field = |name: &str| answer.get(name).and_then(Value::as_str).unwrap_or_default();
        ensure!(
            field("status") == "success" && field("text").contains("borrow checker"),
            "`{shown}` wrote {answer}"
        );
        Ok(())
    }

    /// Interrupts the demo as a terminal does, and requires exit code 0.
    pub(super) fn stop(self) -> Result<()> {
        let status = self.interrupt()?;
        ensure!(status.success(), "the demo ended with {status} after Ctrl-C");
        Ok(())
    }

    /// Interrupts every process of the demo, and waits until all of them have ended.
    fn interrupt(mut self) -> Result<ExitStatus> {
        self.signal("INT")?;
        // The last process that ends closes the output.
        loop {
            match self.lines.recv_timeout(HANG) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => bail!("the demo still runs {HANG:?} after Ctrl-C"),
            }
        }
        self.child.wait().context("cannot wait for the demo")
    }

    /// Signals every process of the demo: a launcher may have started the binary as another one.
    fn signal(&mut self, name: &str) -> Result<()> {
        if cfg!(unix) {
            let group = format!("-{}", self.child.id());
            return Invocation::new("kill", Path::new("/"))
                .args([&format!("-{name}"), "--", &group])
                .output()
                .map(drop);
        }
        self.child.kill().context("cannot end the demo")
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal("KILL").ok();
            self.child.wait().ok();
        }
    }
}
