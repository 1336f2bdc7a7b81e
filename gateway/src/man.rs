//! `aqueduct man`: manual pages, generated from the command line.

use std::io::Write;
use std::path::Path;

use anyhow::Context as _;
use clap::CommandFactory as _;
use clap_mangen::Man;

use crate::cli::{Cli, ManArgs};
use crate::exit;

/// Runs `aqueduct man`.
pub(crate) fn command(args: &ManArgs, out: &mut dyn Write, notes: &mut dyn Write) -> exit::Code {
    let written = match &args.out {
        Some(folder) => write_all(folder),
        None => Man::new(Cli::command()).render(out).context("standard output"),
    };
    match written {
        Ok(()) => exit::OK,
        Err(error) => {
            writeln!(notes, "aqueduct man: {error:#}").ok();
            exit::FAILED
        }
    }
}

/// Writes the page of the program and one page per command.
fn write_all(folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    let mut program = Cli::command();
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

fn write_page(folder: &Path, name: &str, command: clap::Command) -> anyhow::Result<()> {
    let path = folder.join(format!("{name}.1"));
    let mut page = Vec::new();
    Man::new(command).title(name).render(&mut page)?;
    std::fs::write(&path, page).with_context(|| format!("{} cannot be written", path.display()))
}
