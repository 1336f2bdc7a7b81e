//! `cargo xtask simulate`: worlds of replicas, faults and clients that replay from a seed (`tests/simulation`).
//!
//! The program is built with all features of the workspace, like the other steps of CI, so that nothing is built twice.

use anyhow::Result;

use crate::interop::programs;
use crate::project::Project;

/// The number of worlds in CI.
const CI: u64 = 2_000;

/// The options of `simulate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Worlds {
    /// How many worlds
    #[arg(long, default_value_t = CI)]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// One world only, with all that happens in it
    #[arg(long)]
    seed: Option<u64>,
    /// A fault to plant, to see that it is found: skip-fence, drop-goodbye, reuse-number, lose-reply, append-twice,
    /// accept-gap, share-runs, resume-late, panic-once
    #[arg(long)]
    plant: Option<String>,
    /// Lives every world twice, and reports those that differ from their repetition
    #[arg(long)]
    twice: bool,
}

impl Worlds {
    /// Returns the options of CI.
    pub(crate) fn of_ci() -> Self {
        Self { seeds: CI, from: 0, seed: None, plant: None, twice: false }
    }

    /// Returns the options of the nightly run, which continues after the worlds of CI.
    pub(crate) fn of_the_night() -> Self {
        Self { seeds: 50_000, from: CI, seed: None, plant: None, twice: false }
    }

    fn args(&self) -> Vec<String> {
        let mut args = match self.seed {
            Some(seed) => vec!["--seed".to_owned(), seed.to_string()],
            None => ["--seeds", &self.seeds.to_string(), "--from", &self.from.to_string()]
                .map(str::to_owned)
                .into(),
        };
        if let Some(plant) = &self.plant {
            args.extend(["--plant".to_owned(), plant.clone()]);
        }
        args.extend(self.twice.then(|| "--twice".to_owned()));
        args
    }
}

/// Builds the program and runs the worlds.
pub(crate) fn run(project: &Project, worlds: &Worlds) -> Result<()> {
    let program = programs::build_one(project, "simulate")?;
    let call = project.program(&program).args(worlds.args());
    println!("    {call}");
    call.run()
}
