//! Crates that do no IO ban clocks, threads and locks by lint: each has a `clippy.toml` with the bans of `core`.
//!
//! Clippy reads one configuration file per crate, so the bans cannot be inherited; this check keeps the copies complete.

use crate::tidy::finding::Finding;
use crate::tidy::layer::Layer;
use crate::tidy::model::Model;

/// The calls that the lint configuration of such a crate must ban.
const BANS: [&str; 6] = [
    "std::time::Instant::now",
    "std::time::SystemTime::now",
    "std::thread::spawn",
    "std::thread::sleep",
    "std::sync::Mutex",
    "std::sync::RwLock",
];

/// Checks that every crate of a layer without IO bans all of them.
pub(crate) fn check(model: &Model, findings: &mut Vec<Finding>) {
    for member in &model.workspace.members {
        if !Layer::of(&member.folder).is_some_and(Layer::is_sans_io) {
            continue;
        }
        let path = format!("{}/clippy.toml", member.folder);
        let text = model.tree.files.iter().find(|file| file.path == path).map(|file| file.text.as_str());
        for ban in BANS.iter().filter(|ban| !text.is_some_and(|text| text.contains(&format!("\"{ban}\"")))) {
            let what = format!("{} does not ban `{ban}`", member.name);
            let help = "time, tasks and locks belong to the host: copy the bans of core/clippy.toml";
            findings.push(Finding::error("sans-io", &path, None, what, help));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::checks::found;
    use crate::tidy::model::samples::{crates, member};
    use crate::tidy::model::{TextFile, Tree};

    fn model(text: &str) -> Model {
        let files = vec![TextFile { path: "adapter-agui/clippy.toml".to_owned(), text: text.to_owned() }];
        Model { tree: Tree { files }, ..crates(vec![member("adapter-agui", &[]), member("runlog", &[])]) }
    }

    #[test]
    fn a_missing_ban_is_found_and_only_where_no_io_is_done() {
        let all = BANS.map(|ban| format!("{{ path = \"{ban}\" }}")).join("\n");
        assert_eq!(found(check, &model(&all)), [""; 0]);
        let some = all.replace("std::sync::Mutex", "std::sync::Arc");
        let found_now = found(check, &model(&some));
        assert_eq!(found_now.len(), 1, "{found_now:?}");
        assert!(found_now[0].contains("does not ban `std::sync::Mutex`"), "{found_now:?}");
        assert_eq!(found(check, &model("")).len(), BANS.len());
    }
}
