//! `aqueduct man`: manual pages, generated from the command line.
//!
//! Pages are generated, so that they cannot differ from `--help`. Without `--out` the page of the program is
//! written to standard output; with a folder, one page per command and subcommand (`aqueduct-config-check.1`),
//! as packages need them.

use std::io::Write;
use std::path::Path;

use anyhow::Context as _;
use clap::CommandFactory as _;
use clap_mangen::Man;

use crate::cli::{Cli, ManArgs};
use crate::exit;

/// Runs `aqueduct man`. Returns `exit::FAILED` if a page cannot be written.
pub(crate) fn command(args: &ManArgs, out: &mut dyn Write, notes: &mut dyn Write) -> exit::Code {
    let written = match &args.out {
        Some(folder) => write_all(folder),
        None => Man::new(Cli::command()).render(out).context("standard output"),
    };
    exit::finish("man", written, notes)
}

/// Writes the page of the program and one page per command. Creates the folder if it does not exist. Existing
/// pages are replaced.
fn write_all(folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    let mut program = Cli::command();
    // Building fills in what clap derives late, such as the names of subcommands in usage lines.
    program.build();
    write_page(folder, "aqueduct", program.clone())?;
    for command in program.get_subcommands().filter(|command| command.get_name() != "help") {
        let name = format!("aqueduct-{}", command.get_name());
        write_page(folder, &name, command.clone())?;
        for inner in command.get_subcommands().filter(|command| command.get_name() != "help") {
            write_page(folder, &format!("{name}-{}", inner.get_name()), inner.clone())?;
        }
    }
    Ok(())
}

/// Writes `NAME.1`. The page is rendered in memory first, so that a failure leaves no half-written file.
fn write_page(folder: &Path, name: &str, command: clap::Command) -> anyhow::Result<()> {
    let path = folder.join(format!("{name}.1"));
    let mut page = Vec::new();
    Man::new(command).title(name).render(&mut page)?;
    std::fs::write(&path, page).with_context(|| format!("{} cannot be written", path.display()))
}
