//! The wheel of the Python SDK, out of `pyproject.toml` and the sources.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use toml::{Table, Value};

use crate::dist::payload::{File, HOMEPAGE};
use crate::dist::wheel::Wheel;
use crate::files;

/// The licences of the wheel.
const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// Writes `NAME-VERSION-py3-none-any.whl`.
///
/// # Errors
///
/// Fails if `pyproject.toml` lacks a field, or has another version than the workspace.
pub(super) fn write(sdk: &Path, version: &str, out: &Path) -> Result<()> {
    let manifest = files::read(&sdk.join("pyproject.toml"))?.parse::<Table>();
    let manifest = manifest.context("cannot parse sdk/python/pyproject.toml")?;
    let project =
        manifest.get("project").and_then(Value::as_table).context("pyproject.toml has no [project]")?;
    let found = field(project, "version")?;
    ensure!(
        found == version,
        "sdk/python/pyproject.toml: expected version {version}, the version of the workspace, not {found}"
    );
    let readme = files::read(&sdk.join(field(project, "readme")?))?;
    let package = field(project, "name")?.replace('-', "_");
    let mut sources = Vec::new();
    add_sources(&mut sources, &sdk.join("src").join(&package), &package)?;
    ensure!(
        sources.iter().any(|file| file.path.ends_with("/py.typed")),
        "the SDK has no py.typed: its types are not seen"
    );
    let licences = LICENCES.iter().map(|name| Ok(File::new(*name, files::read_bytes(&sdk.join(name))?)));
    let wheel = Wheel {
        stem: format!("{package}-{version}"),
        tag: "py3-none-any".to_owned(),
        is_pure: true,
        metadata: metadata(project, &readme)?,
        files: sources,
        licences: licences.collect::<Result<_>>()?,
    };
    wheel.save(out)
}

fn field<'a>(project: &'a Table, name: &str) -> Result<&'a str> {
    let value = project.get(name).and_then(Value::as_str);
    value.with_context(|| format!("sdk/python/pyproject.toml: [project] has no text `{name}`"))
}

/// Adds the sources below `folder`, in a fixed order; what the interpreter left there is not one of them.
fn add_sources(sources: &mut Vec<File>, folder: &Path, prefix: &str) -> Result<()> {
    for path in files::list(folder)? {
        let name = files::name(&path)?;
        let inside = format!("{prefix}/{name}");
        if path.is_dir() && name != "__pycache__" {
            add_sources(sources, &path, &inside)?;
        } else if name == "py.typed" || path.extension().is_some_and(|extension| extension == "py") {
            sources.push(File::new(inside, files::read_bytes(&path)?));
        }
    }
    Ok(())
}

fn metadata(project: &Table, readme: &str) -> Result<String> {
    let mut head = String::from("Metadata-Version: 2.4\n");
    // Writing into a string cannot fail.
    let mut line = |name: &str, value: &str| writeln!(head, "{name}: {value}").unwrap_or_default();
    for (name, key) in [
        ("Name", "name"),
        ("Version", "version"),
        ("Summary", "description"),
        ("License-Expression", "license"),
        ("Requires-Python", "requires-python"),
    ] {
        line(name, field(project, key)?);
    }
    for licence in LICENCES {
        line("License-File", licence);
    }
    line("Project-URL", &format!("Homepage, {HOMEPAGE}"));
    texts(project.get("classifiers")).for_each(|classifier| line("Classifier", classifier));
    texts(project.get("dependencies")).for_each(|dependency| line("Requires-Dist", dependency));
    for (extra, dependencies) in
        project.get("optional-dependencies").and_then(Value::as_table).into_iter().flatten()
    {
        line("Provides-Extra", extra);
        texts(Some(dependencies))
            .for_each(|it| line("Requires-Dist", &format!("{it}; extra == \"{extra}\"")));
    }
    line("Description-Content-Type", "text/markdown");
    Ok(format!("{head}\n{readme}"))
}

fn texts(list: Option<&Value>) -> impl Iterator<Item = &str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extras_and_classifiers_are_in_the_metadata() {
        let project = "name = \"a\"\nversion = \"1.0\"\ndescription = \"d\"\nlicense = \"MIT\"\nrequires-python = \">=3.10\"\n\
            classifiers = [\"Typing :: Typed\"]\n[optional-dependencies]\nwebsocket = [\"websockets>=14\"]\n";
        let metadata = metadata(&project.parse().unwrap(), "# A\n").unwrap();
        for line in [
            "Name: a\n",
            "Classifier: Typing :: Typed\n",
            "Provides-Extra: websocket\n",
            "Requires-Dist: websockets>=14; extra == \"websocket\"\n",
            "text/markdown\n\n# A\n",
        ] {
            assert!(metadata.contains(line), "{line}: {metadata}");
        }
        assert!(super::metadata(&Table::new(), "").unwrap_err().to_string().contains("`name`"));
    }
}
