//! The gateways of the soak: replicas on Redis, and one with its log on disk whose files can be limited.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use aqueduct_tests::process::Program;
use tempfile::TempDir;

use super::super::runlog::replicas::{Alive, Speech, on_disk_at, task_at};

/// The folder in which the logs of gateways are kept, if any.
fn logs() -> Option<PathBuf> {
    std::env::var_os("AQUEDUCT_SOAK_LOGS").map(PathBuf::from)
}

/// Reads what a gateway logs: one that nothing reads stops when the pipe is full.
fn follow(gateway: &mut Program) {
    let lines = gateway.heard();
    let Some(folder) = logs() else { return };
    let file = folder.join(format!("{}.log", gateway.id()));
    let mut file = OpenOptions::new().create(true).append(true).open(file).unwrap();
    std::thread::spawn(move || {
        for (_, line) in lines {
            writeln!(file, "{line}").ok();
        }
    });
}

/// Lets gateways log more, where it is kept.
fn verbose(folder: TempDir) -> TempDir {
    if logs().is_some() {
        let file = folder.path().join("aqueduct.toml");
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(file, text.replace("level = \"error\"", "level = \"info\"")).unwrap();
    }
    folder
}

/// The configuration of the replicas.
pub(super) struct Gateways(TempDir);

impl Gateways {
    pub(super) fn on_redis(redis: &str, speech: Speech, agent: &str) -> Self {
        Self(verbose(task_at(redis, speech, agent)))
    }

    pub(super) fn start(&self, alive: &Alive) -> Program {
        let mut gateway = alive.start(self.0.path());
        follow(&mut gateway);
        gateway
    }
}

/// A gateway with its log on disk.
pub(super) struct DiskGateway {
    pub(super) alive: Alive,
    folder: TempDir,
    gateway: Option<Program>,
}

impl DiskGateway {
    pub(super) fn start(speech: Speech, agent: &str) -> Self {
        let (alive, folder) = (Alive::default(), verbose(on_disk_at(speech, agent)));
        let mut disk = Self { alive, folder, gateway: None };
        disk.go_on();
        disk
    }

    fn go_on(&mut self) {
        let mut gateway = self.alive.start_with_limits(self.folder.path());
        follow(&mut gateway);
        self.gateway = Some(gateway);
    }

    pub(super) fn gateway(&self) -> &Program {
        self.gateway.as_ref().unwrap()
    }

    /// Kills it with -9 and starts it again on what it wrote.
    pub(super) fn kill(&mut self) {
        self.alive.kill(self.gateway.take().unwrap());
        self.go_on();
    }

    pub(super) fn limit_files(&self, size: &str) {
        let (id, limit) = (self.gateway().id().to_string(), format!("--fsize={size}:"));
        let limited = Command::new("prlimit").args(["--pid", &id, &limit]).status().unwrap();
        assert!(limited.success(), "prlimit");
    }
}
