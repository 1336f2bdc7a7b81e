//! Shared by the integration tests: reading fixtures, and the reference fold.

pub(crate) mod fold;

use std::path::PathBuf;

use aqueduct_adapter_agui::decode::read_payload;
use aqueduct_adapter_agui::verify::SseSplitter;
use aqueduct_adapter_agui::wire::{Event, RunAgentInput};

/// The folder of the recorded streams.
pub(crate) fn fixtures() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/agui")
}

/// A recorded stream and what was posted for it.
pub(crate) struct Recorded {
    pub(crate) name: String,
    pub(crate) payloads: Vec<String>,
    pub(crate) input: Option<RunAgentInput>,
}

impl Recorded {
    pub(crate) fn events(&self) -> Vec<Event> {
        self.payloads.iter().map(|payload| read_payload(&payload.as_str().into()).unwrap()).collect()
    }
}

/// Every recorded stream, by name.
pub(crate) fn recorded() -> Vec<Recorded> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(fixtures()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "sse") {
            let mut frames = Vec::new();
            let mut splitter = SseSplitter::default();
            splitter.handle_bytes(&std::fs::read(&path).unwrap(), &mut frames);
            splitter.handle_end(&mut frames);
            let input = std::fs::read_to_string(path.with_extension("req.json")).ok();
            all.push(Recorded {
                name: path.file_stem().unwrap().to_string_lossy().into_owned(),
                payloads: frames.into_iter().map(|frame| frame.data.unwrap()).collect(),
                input: input.map(|input| serde_json::from_str(&input).unwrap()),
            });
        }
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(all.len() >= 29, "the fixtures are there");
    all
}
