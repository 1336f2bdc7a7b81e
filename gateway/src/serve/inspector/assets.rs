//! The files of `gateway/inspector`, and the headers they are served with.
//!
//! The files are part of the binary, as text: the page works without a folder beside the program, and page and gateway
//! are always of one version. No file outside the table can be requested, whatever path a caller sends.

use aqueduct_transport_http::Refusal;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};

/// Scripts, styles and data come from this origin only; no inline code; text never becomes markup (`trusted-types`); no
/// other page may frame this one.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types 'none'";

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

// Embeds the files by their kind; a name that does not exist fails the build.
macro_rules! files {
    ($($kind:ident: $($name:literal)+;)+) => {
        &[$($(($name, $kind, include_str!(concat!("../../../inspector/", $name))),)+)+]
    };
}

/// Name, media type and text of each file.
const FILES: &[(&str, &str, &str)] = files! {
    HTML: "index.html";
    SVG: "icon.svg";
    CSS: "base.css" "page.css" "talk.css";
    SCRIPT: "a2ui.js" "agents-page.js" "api.js" "app.js" "artifacts.js" "block-view.js" "compare.js" "composer.js" "conversation.js"
        "diff.js" "dom.js" "drop.js" "filter.js" "follower.js" "forms-view.js" "history.js" "inline.js"
        "input-side.js" "interrupts.js" "main.js" "markdown-dom.js" "markdown.js" "media.js" "model.js"
        "open-file.js" "pace.js" "pages.js" "patch.js" "player.js" "problems.js" "raw-list.js" "recording.js" "reducer.js"
        "runs-page.js" "schema-form.js" "schema.js" "session.js" "sse.js" "stage.js" "state-tree.js"
        "stats-view.js" "stats.js" "tabs.js" "timeline-table.js" "timeline.js" "verdict.js" "window.js";
};

/// Returns a file with its headers.
///
/// A name that is not in the table is refused with 404.
pub(super) fn response(name: &str) -> Response {
    let Some((_, kind, text)) = FILES.iter().find(|(file, _, _)| *file == name) else {
        return Refusal::new(StatusCode::NOT_FOUND, "not_found", "the inspector has no such file")
            .into_response();
    };
    let headers = [
        (header::CONTENT_TYPE, *kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        // The page and its scripts must be of the same version: after an upgrade of the gateway no cached file may be
        // used.
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, *text).into_response()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn text_of(name: &str) -> &'static str {
        FILES.iter().find(|(file, _, _)| *file == name).unwrap().2
    }

    #[test]
    fn every_file_of_the_folder_is_served() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/inspector");
        let there: BTreeSet<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|file| file.unwrap().file_name().to_string_lossy().into_owned())
            // Only declares the scripts as modules for Node.js, which tests them.
            .filter(|name| name != "package.json")
            .collect();
        let served: BTreeSet<String> = FILES.iter().map(|(name, _, _)| (*name).to_owned()).collect();
        assert_eq!(there, served);
    }

    /// The scripts use nothing that the policy forbids, and import only files that are served.
    #[test]
    fn scripts_import_what_is_served_and_never_make_markup_of_text() {
        let banned =
            ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"];
        for (name, kind, text) in FILES {
            for word in banned {
                assert!(!text.contains(word), "{name}: {word}");
            }
            assert!(text.lines().count() <= 400, "{name} is too long to be read in one go");
            if *kind != SCRIPT {
                continue;
            }
            for line in
                text.lines().filter(|line| line.starts_with("import ") || line.starts_with("export {"))
            {
                if let Some(from) = line.split(" from \"./").nth(1) {
                    let imported = from.trim_end_matches(';').trim_end_matches('"');
                    text_of(imported);
                }
            }
        }
        let page = text_of("index.html");
        assert!(!page.contains("style=") && !page.contains("onclick") && !page.contains("<style"));
    }
}
