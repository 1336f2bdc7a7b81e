//! `cargo xtask`: all tasks of a contributor, in one place and in one language.
//!
//! One file per subcommand. The tool depends on no crate of the workspace, so that a broken crate never prevents the tools from
//! building. Tests of a crate are not here: `xtask` only calls them.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool talks to its terminal")]

mod bench;
mod ci;
mod codegen;
mod dist;
mod files;
mod fuzz;
mod interop;
mod invocation;
mod mutants;
mod project;
mod release;
mod released;
mod simulate;
mod site;
mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::project::Project;

/// The tasks of this workspace.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", disable_help_subcommand = true)]
struct Cli {
    /// Root of the workspace to work on [default: the one xtask belongs to]
    #[arg(long, global = true, value_name = "DIR")]
    root: Option<PathBuf>,
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Run all that CI runs, in its order; stop at the first failure
    Ci(ci::Tier),
    /// The same as `ci`: the one command that decides whether a change is good
    Test(ci::Tier),
    /// Check the rules that no compiler knows: dependency direction, names, sizes, docs, paths
    Tidy,
    /// Write the generated code
    Codegen {
        /// Write nothing; fail if the code in the tree is not what would be generated
        #[arg(long)]
        check: bool,
    },
    /// Install the pinned real peers and let them judge our streams
    Interop {
        /// These suites only, by name, side by side [default: all but the nightly ones]
        suites: Vec<String>,
        /// Also run the suites that `test` leaves out: their peers take gigabytes and minutes
        #[arg(long)]
        nightly: bool,
        /// Build gateway and tests with optimisations (suites `scale` and `soak` only)
        #[arg(long)]
        optimised: bool,
    },
    /// Let three replicas and many clients live through random faults
    Soak {
        /// Where the faults come from: the same seed gives the same ones
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// How long
        #[arg(long, default_value_t = 2)]
        minutes: u64,
        /// How many clients
        #[arg(long, default_value_t = 300)]
        clients: u32,
        /// Build gateway and tests with optimisations
        #[arg(long)]
        optimised: bool,
    },
    /// Run fuzz targets, all or one
    Fuzz(fuzz::Fuzzing),
    /// Change the code in small ways and see whether a test notices
    Mutants(mutants::Mutations),
    /// Live worlds of replicas, faults and clients, and check what was seen in them
    Simulate(simulate::Worlds),
    /// Run the benches, all or one, with the rest of the arguments passed on
    Bench {
        /// Name of one bench [default: all]
        name: Option<String>,
        /// Arguments for the bench itself, after `--`
        #[arg(last = true)]
        args: Vec<String>,
    },
    /// Put the binary and the SDKs into packages: archive, wheel, npm, Debian; with checksums and a bill of materials
    Dist(dist::DistArgs),
    /// Render the documentation as a site, with mdBook
    Site,
    /// Check everything that a release needs; uploads nothing
    Release {
        /// Required: uploading is a person's step, listed in RELEASING.md
        #[arg(long)]
        dry_run: bool,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<()> {
    let project = Project::locate(cli.root)?;
    match cli.task {
        Task::Ci(tier) | Task::Test(tier) => ci::run(&project.without_lines(), &tier),
        Task::Tidy => tidy::run(&project),
        Task::Codegen { check } => codegen::run(&project, check),
        Task::Interop { suites, nightly, optimised } => {
            interop::run(&project.optimised(optimised), &suites, nightly)
        }
        Task::Dist(args) => dist::run(&project, &args),
        Task::Site => site::run(&project),
        Task::Release { dry_run } => release::run(&project, dry_run),
        Task::Soak { seed, minutes, clients, optimised } => {
            interop::soak(&project.optimised(optimised), seed, minutes, clients)
        }
        Task::Fuzz(fuzzing) => fuzz::run(&project, &fuzzing),
        Task::Mutants(mutations) => mutants::run(&project, &mutations),
        Task::Simulate(worlds) => simulate::run(&project, &worlds),
        Task::Bench { name, args } => bench::run(&project, name.as_deref(), &args),
    }
}
