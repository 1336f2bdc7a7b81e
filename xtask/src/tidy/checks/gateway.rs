//! The gateway is configuration, identity, tee and command line: it drives no run, serves no protocol and accepts no socket.
//! Each of these is in a library, so that the agents of every program take the same path.
//!
//! The check searches for the names with which such code would start. Tests may use them.

use crate::tidy::finding::Finding;
use crate::tidy::model::Model;

/// A banned name, the files of the gateway that may use it, and the replacement.
struct Ban {
    name: &'static str,
    allowed: &'static str,
    help: &'static str,
}

const NOWHERE: &str = "\0";

const fn ban(name: &'static str, allowed: &'static str, help: &'static str) -> Ban {
    Ban { name, allowed, help }
}

const ROUTERS: &str =
    "serve it by the routers of `aqueduct` (`agui`, `a2a`, `ws`, `grpc`), and give them what is missing";
const RUNS: &str = "runs are driven by `aqueduct-runs`: add a seam there";

const BANS: [Ban; 12] = [
    // A filter of recorded streams has no run.
    ban("StreamContext::", "gateway/src/convert/", RUNS),
    // The minimal peer against which the gateway is measured.
    ban("TcpListener", "gateway/src/bench/", "sockets are accepted by the server of `transport-http`"),
    ban("UnixListener", NOWHERE, "sockets are accepted by the server of `transport-http`"),
    ban("TlsAcceptor", NOWHERE, "TLS is set up by the server of `transport-http`"),
    ban("AgentServer", NOWHERE, ROUTERS),
    ban("TaskClient", NOWHERE, "remote agents are `aqueduct::a2a::RemoteAgent`"),
    ban("start_run(", NOWHERE, ROUTERS),
    ban("watch_run(", NOWHERE, ROUTERS),
    ban("stream_response(", NOWHERE, ROUTERS),
    ban("read_input(", NOWHERE, ROUTERS),
    ban("Services::new(", NOWHERE, ROUTERS),
    ban("Endpoint::new(", NOWHERE, ROUTERS),
];

/// Checks that no module of the gateway does the work of a library.
pub(crate) fn check(model: &Model, findings: &mut Vec<Finding>) {
    let is_code = |path: &str| {
        let is_rust =
            path.rsplit_once('.').is_some_and(|(name, end)| end == "rs" && !name.ends_with("tests"));
        is_rust && path.starts_with("gateway/src/")
    };
    for file in model.tree.files.iter().filter(|file| is_code(&file.path)) {
        let code = file.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for (index, line) in code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"))
        {
            for ban in
                BANS.iter().filter(|ban| line.contains(ban.name) && !file.path.starts_with(ban.allowed))
            {
                let what = format!("`{}` in the gateway", ban.name);
                findings.push(Finding::error("gateway", &file.path, Some(index + 1), what, ban.help));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::checks::found;
    use crate::tidy::model::samples::file;

    #[test]
    fn every_ban_is_found_in_the_gateway_and_nowhere_else() {
        for ban in BANS {
            let text = format!("//! Docs.\nlet x = {}new();\n", ban.name);
            let seen = found(check, &file("gateway/src/serve/a.rs", &text));
            assert!(seen[0].starts_with("gateway/src/serve/a.rs:2: error[gateway]"), "{seen:?}");
            for allowed in ["aqueduct/src/a.rs", "gateway/tests/it/a.rs", "gateway/src/serve/tests.rs"] {
                assert_eq!(found(check, &file(allowed, &text)), [""; 0], "{}", ban.name);
            }
        }
    }

    #[test]
    fn comments_tests_and_what_is_allowed_pass() {
        let text =
            "//! `StreamContext::new`\n#[cfg(test)]\nmod tests {\n    let x = StreamContext::new();\n}\n";
        assert_eq!(found(check, &file("gateway/src/tee/a.rs", text)), [""; 0]);
        let listens = "let socket = TcpListener::bind(address).await?;\n";
        assert_eq!(found(check, &file("gateway/src/bench/upstream.rs", listens)), [""; 0]);
    }
}
