//! [`Model`]: the crates and files of the workspace, in memory, as the input of all checks.

/// The input of all checks.
#[derive(Debug, Default)]
pub(crate) struct Model {
    /// The crates.
    pub(crate) workspace: Workspace,
    /// The files.
    pub(crate) tree: Tree,
}

/// The crates of the workspace.
#[derive(Debug, Default)]
pub(crate) struct Workspace {
    /// Text of the root `Cargo.toml`.
    pub(crate) manifest: String,
    /// The member crates.
    pub(crate) members: Vec<Member>,
}

/// One crate of the workspace.
#[derive(Debug, Default)]
pub(crate) struct Member {
    /// The path of the folder from the root, with slashes.
    pub(crate) folder: String,
    /// The name of the package.
    pub(crate) name: String,
    /// The text of `Cargo.toml`.
    pub(crate) manifest: String,
    /// The declared dependencies, of every kind, including optional ones.
    pub(crate) declared: Vec<String>,
    /// The linked packages with all features: the tree of normal dependencies, the crate itself first. Loaded only for layers
    /// with a rule about it.
    pub(crate) linked: Vec<LinkedPackage>,
}

impl Member {
    /// Returns the path of the manifest from the root.
    pub(crate) fn manifest_path(&self) -> String {
        format!("{}/Cargo.toml", self.folder)
    }
}

/// One line of a dependency tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LinkedPackage {
    /// The distance from the member: 0 is the member itself.
    pub(crate) depth: usize,
    /// The name of the package.
    pub(crate) name: String,
}

/// The files of the project.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// The files, in the order of their paths.
    pub(crate) files: Vec<TextFile>,
}

/// One file, as text.
#[derive(Debug)]
pub(crate) struct TextFile {
    /// The path from the root, with slashes.
    pub(crate) path: String,
    /// The content.
    pub(crate) text: String,
}

impl TextFile {
    /// Returns `true` for Rust source.
    pub(crate) fn is_rust(&self) -> bool {
        self.has_extension("rs")
    }

    /// Returns `true` if the name has the extension.
    pub(crate) fn has_extension(&self, extension: &str) -> bool {
        self.path.rsplit_once('.').is_some_and(|(_, found)| found == extension)
    }

    /// Returns `true` for generated code: a file in a folder called `generated`.
    pub(crate) fn is_generated(&self) -> bool {
        self.path.split('/').any(|part| part == "generated")
    }

    /// Returns `true` if all of it is test code: `tests.rs`, or any file below a folder `tests`.
    pub(crate) fn is_test(&self) -> bool {
        self.path.split('/').any(|part| part == "tests" || part == "tests.rs")
    }
}

#[cfg(test)]
pub(crate) mod samples {
    //! Small models for the tests of the checks.

    use super::{LinkedPackage, Member, Model, TextFile, Tree, Workspace};

    /// A model with one file.
    pub(crate) fn file(path: &str, text: &str) -> Model {
        let files = vec![TextFile { path: path.to_owned(), text: text.to_owned() }];
        Model { tree: Tree { files }, ..Model::default() }
    }

    /// A model with crates only.
    pub(crate) fn crates(members: Vec<Member>) -> Model {
        Model { workspace: Workspace { members, ..Workspace::default() }, ..Model::default() }
    }

    /// A crate in a folder, with the dependencies it declares.
    pub(crate) fn member(folder: &str, declared: &[&str]) -> Member {
        let name = format!("aqueduct-{}", folder.replace('/', "-"));
        let declared: Vec<String> = declared.iter().map(|&name| name.to_owned()).collect();
        let lines = declared.iter().fold(String::new(), |text, name| text + name + ".workspace = true\n");
        let manifest = format!(
            "[package]\nname = \"{name}\"\nedition.workspace = true\n[dependencies]\n{lines}[lints]\nworkspace = true\n"
        );
        Member { folder: folder.to_owned(), name, manifest, declared, linked: Vec::new() }
    }

    /// The same, with what it links as (depth, name).
    pub(crate) fn linking(folder: &str, linked: &[(usize, &str)]) -> Member {
        let linked =
            linked.iter().map(|&(depth, name)| LinkedPackage { depth, name: name.to_owned() }).collect();
        Member { linked, ..member(folder, &[]) }
    }
}
