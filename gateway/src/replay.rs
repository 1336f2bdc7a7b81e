//! `aqueduct replay`: replays a recorded stream, at the terminal or as an agent of a gateway.

use std::io::Write;

use crate::cli::ReplayArgs;
use crate::config::AgentSource;
use crate::recording::Recording;
use crate::{chat, exit, serve};

/// The name of the agent that replays the recording.
const AGENT: &str = "replay";

/// Runs `aqueduct replay`.
pub fn command(args: &ReplayArgs, out: &mut dyn Write, notes: &mut dyn Write) -> exit::Code {
    let prompt = match Recording::load(&args.file) {
        Ok(recording) => recording.head.prompt,
        Err(error) => {
            writeln!(notes, "aqueduct replay: {error:#}").ok();
            return exit::USAGE;
        }
    };
    let source = AgentSource::Replay { file: args.file.clone(), speed: args.speed };
    let mut config = chat::one_agent(AGENT, source);
    if let Some(listen) = args.listen {
        config.server.listen = vec![listen];
        return serve::run_config("replay", config, out, notes);
    }
    match chat::block_on(chat::converse(config, AGENT, &prompt, args.form, out)) {
        Ok(code) => code,
        Err(error) => {
            writeln!(notes, "aqueduct replay: {error:#}").ok();
            exit::FAILED
        }
    }
}
