//! CopilotKit and assistant-ui in a headless Chromium, before a real gateway: real clicks, real streams.
//!
//! Each scene is a function of `tests/interop/frontends/scenes.mjs`; one program plays all scenes of a page and judges by
//! what the page shows. Pictures are left in `AQUEDUCT_INTEROP_CASES`; those of the documentation are renewed with
//! `UPDATE_EXPECT=1`.

use std::path::PathBuf;
use std::process::{Command, Output};

use aqueduct_tests::process::Program;

use crate::interop::variable;

fn folder() -> PathBuf {
    variable("AQUEDUCT_INTEROP_DIR").join("frontends")
}

/// A gateway with the agents of `gateway.toml`.
fn gateway() -> Program {
    let config = folder().join("gateway.toml");
    let args = ["serve", "--listen", "127.0.0.1:0", "--config", config.to_str().unwrap()];
    Program::start(variable("AQUEDUCT_INTEROP_GATEWAY"), &args)
}

/// The command that plays scenes of a page.
fn play(page: &str, gateway: &Program) -> Command {
    let (base, _) = gateway.address.rsplit_once("/agents/").unwrap();
    let mut command = Command::new("node");
    command.arg(folder().join("play.mjs")).args(["--page", page, "--gateway", base]);
    command.arg("--pages").arg(variable("AQUEDUCT_INTEROP_PAGES"));
    command.arg("--runtime").arg(variable("AQUEDUCT_INTEROP_COPILOTKIT"));
    command.arg("--browser").arg(variable("AQUEDUCT_INTEROP_BROWSER"));
    command.arg("--chromium").arg(variable("AQUEDUCT_INTEROP_CHROMIUM"));
    command.arg("--out").arg(variable("AQUEDUCT_INTEROP_CASES"));
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        command.arg("--images").arg(folder().join("../../../docs/images"));
    }
    command
}

#[track_caller]
fn accepts(page: &str) {
    let gateway = gateway();
    let Output { status, stdout, stderr } = play(page, &gateway).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{page} ended with {status}\n{stdout}{stderr}");
}

#[test]
fn copilotkit_as_it_comes() {
    accepts("copilotkit-stock");
}

#[test]
fn copilotkit_with_our_components() {
    accepts("copilotkit-sdk");
}

#[test]
fn assistant_ui_as_it_comes() {
    accepts("assistant-stock");
}

#[test]
fn assistant_ui_with_our_components() {
    accepts("assistant-sdk");
}

/// The scenes can fail: an agent that hides its sub-agents is distinguished from one that shows them, on every page.
#[test]
fn a_page_without_sub_agents_is_refused() {
    let gateway = gateway();
    for page in ["copilotkit-stock", "copilotkit-sdk", "assistant-stock", "assistant-sdk"] {
        let mut command = play(page, &gateway);
        let Output { status, stderr, .. } =
            command.args(["--agent", "hidden", "--scene", "report", "--patience", "8000"]).output().unwrap();
        let stderr = String::from_utf8_lossy(&stderr);
        assert!(!status.success(), "{page} shows sub-agents that are hidden");
        assert!(stderr.contains("researcher"), "{page} failed for another reason\n{stderr}");
    }
}
