//! Loads the [`Model`] from cargo, git and the disk. Only this part of tidy does IO.

use std::path::Path;

use anyhow::{Context as _, Result};

use crate::files::read;
use crate::invocation::Invocation;
use crate::project::{Package, Project};
use crate::tidy::layer::Layer;
use crate::tidy::model::{LinkedPackage, Member, Model, TextFile, Tree, Workspace};

/// Folders without files of ours, for trees without git.
const FOREIGN_FOLDERS: [&str; 4] = [".git", "node_modules", "__pycache__", "target"];

/// Loads the whole model.
pub(crate) fn model(project: &Project) -> Result<Model> {
    let root = project.root();
    let metadata = project.metadata()?;
    let members = metadata.packages().map(|package| member(project, package)).collect::<Result<_>>()?;
    let manifest = read(&root.join("Cargo.toml"))?;
    let mut paths = paths(root)?;
    paths.sort();
    let files = paths.into_iter().filter_map(|path| text_file(root, path)).collect();
    Ok(Model { workspace: Workspace { manifest, members }, tree: Tree { files } })
}

fn member(project: &Project, package: Package<'_>) -> Result<Member> {
    let manifest_path = package.manifest_path();
    let folder = manifest_path.parent().and_then(|folder| folder.strip_prefix(project.root()).ok());
    let folder = with_slashes(folder.with_context(|| format!("{} is outside", manifest_path.display()))?);
    let sans_io = Layer::of(&folder).is_some_and(Layer::is_sans_io);
    Ok(Member {
        name: package.name().to_owned(),
        manifest: read(manifest_path)?,
        declared: package.dependencies().map(str::to_owned).collect(),
        linked: if sans_io { linked(project, package.name())? } else { Vec::new() },
        folder,
    })
}

/// Returns what a package links, by `cargo tree` and not by the graph of `cargo metadata`: the latter unifies the features of
/// the whole workspace, so an optional dependency that only the gateway enables would appear below the adapter. All features
/// of the package itself are enabled.
fn linked(project: &Project, package: &str) -> Result<Vec<LinkedPackage>> {
    let call = project.cargo(["tree", "--edges", "normal", "--target", "all", "--prefix", "depth"]);
    let text = call.args(["--format", " {p}", "--all-features", "--package", package]).output()?;
    Ok(text.lines().filter_map(linked_package).collect())
}

fn linked_package(line: &str) -> Option<LinkedPackage> {
    let mut words = line.split_whitespace();
    let depth = words.next()?.parse().ok()?;
    Some(LinkedPackage { depth, name: words.next()?.to_owned() })
}

/// Returns the files that git tracks or would track; outside the root of a git checkout, every file.
fn paths(root: &Path) -> Result<Vec<String>> {
    let git = |args: &[&str]| Invocation::new("git", root).args(args.iter().copied()).output();
    let top = git(&["rev-parse", "--show-toplevel"]).ok();
    if top.is_none_or(|top| Path::new(top.trim()).canonicalize().ok().as_deref() != Some(root)) {
        return walk(root, root);
    }
    let listed = git(&["ls-files", "-z", "--cached", "--others", "--exclude-standard"])?;
    Ok(listed.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect())
}

fn walk(root: &Path, folder: &Path) -> Result<Vec<String>> {
    let mut paths = Vec::new();
    for entry in folder.read_dir().with_context(|| format!("cannot list {}", folder.display()))? {
        let entry = entry?;
        let path = entry.path();
        if !entry.file_type()?.is_dir() {
            paths.extend(path.strip_prefix(root).ok().map(with_slashes));
        } else if !FOREIGN_FOLDERS.iter().any(|foreign| entry.file_name() == *foreign) {
            paths.extend(walk(root, &path)?);
        }
    }
    Ok(paths)
}

/// Reads a file. Returns `None` for a file that git still lists but that was deleted. Invalid UTF-8 is replaced, so that the
/// legible parts of a recording are checked, too.
fn text_file(root: &Path, path: String) -> Option<TextFile> {
    let bytes = std::fs::read(root.join(&path)).ok()?;
    Some(TextFile { path, text: String::from_utf8_lossy(&bytes).into_owned() })
}

fn with_slashes(path: &Path) -> String {
    let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_cargo_tree_gives_depth_and_name() {
        let found = linked_package("2 bytes v1.11.0 (*)").unwrap();
        assert_eq!(found, LinkedPackage { depth: 2, name: "bytes".to_owned() });
        assert_eq!(linked_package(""), None);
    }
}
