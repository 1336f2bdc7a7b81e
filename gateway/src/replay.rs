//! `aqueduct replay`: replays a recorded stream, at the terminal or as an agent of a gateway.
//!
//! The recorded frames pass through the same decoder, stream machine and log as frames of a live agent; only
//! their source is a file, and their timing is that of the recording divided by `--speed`.

use std::io::Write;

use crate::cli::ReplayArgs;
use crate::config::AgentSource;
use crate::recording::Recording;
use crate::{chat, exit, serve};

/// The name of the agent that replays the recording.
const AGENT: &str = "replay";

/// Runs `aqueduct replay`.
///
/// With `--listen` the recording is served until a signal; every run replays it from the start. Otherwise it is
/// shown once, and the exit code is that of the recorded run. `exit::USAGE` if the file is not a recording or a
/// known stream.
pub fn command(args: &ReplayArgs, out: &mut dyn Write, notes: &mut dyn Write) -> exit::Code {
    // Loaded here for its prompt, and so that a bad file is reported before anything is started. The source
    // loads it again.
    let prompt = match Recording::load(&args.file) {
        Ok(recording) => recording.head.prompt,
        Err(error) => return exit::USAGE.report(notes, "replay", &error),
    };
    let source = AgentSource::Replay { file: args.file.clone(), speed: args.speed };
    let mut config = chat::one_agent(AGENT, source);
    if let Some(listen) = args.listen {
        config.server.listen = vec![listen];
        return serve::run_config("replay", config, out, notes);
    }
    let shown = chat::block_on(chat::converse(config, AGENT, &prompt, args.form, out));
    shown.unwrap_or_else(|error| exit::FAILED.report(notes, "replay", &error))
}
