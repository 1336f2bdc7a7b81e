//! Every key of the configuration: the one list that the reader, the environment overrides and the documentation
//! share.

use std::fmt::Write as _;

/// What a key holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    /// `http://…` or `https://…`.
    Url,
    /// `500ms`, `30s`, `5m`, `1h`.
    Duration,
    /// A whole number from 1.
    Count,
    /// Bytes: a whole number, or with a unit (`64KiB`, `10MiB`).
    Size,
    Flag,
    Word(&'static [&'static str]),
    /// Some of these, in any order.
    Words(&'static [&'static str]),
    /// A path, relative to the folder of the configuration file.
    File,
    /// `env:NAME` or `file:PATH`: the secret itself never stands in the file.
    Secret,
    Secrets,
    Texts,
    /// How fast a recording is played: a factor, or `max`.
    Speed,
    /// `ADDRESS:PORT`.
    Addresses,
}

impl Kind {
    /// What is expected, for messages and for the documentation.
    pub(crate) fn expected(self) -> String {
        match self {
            Self::Text => "text".to_owned(),
            Self::Url => "a URL (`http://…` or `https://…`)".to_owned(),
            Self::Duration => "a duration (`500ms`, `30s`, `5m`, `1h`)".to_owned(),
            Self::Count => "a whole number from 1".to_owned(),
            Self::Size => "a size in bytes (`65536`, `64KiB`, `10MiB`)".to_owned(),
            Self::Flag => "`true` or `false`".to_owned(),
            Self::Word(words) => {
                let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
                format!("one of {}", quoted.join(", "))
            }
            Self::Words(words) => {
                let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
                format!("a list of {}", quoted.join(", "))
            }
            Self::File => "the path of a file".to_owned(),
            Self::Secret => "a secret (`env:NAME` or `file:PATH`)".to_owned(),
            Self::Secrets => "a list of secrets (`env:NAME` or `file:PATH`)".to_owned(),
            Self::Texts => "a list of texts".to_owned(),
            Self::Speed => "a factor (`2`, `\"0.5\"`) or `max`".to_owned(),
            Self::Addresses => "a list of addresses (`127.0.0.1:8080`, `[::1]:8080`)".to_owned(),
        }
    }
}

/// One key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    /// Dotted; `*` stands for the name of an agent.
    pub(crate) path: &'static str,
    pub(crate) kind: Kind,
    /// As it would be written; empty for none.
    pub(crate) default: &'static str,
    pub(crate) about: &'static str,
}

const fn key(path: &'static str, kind: Kind, default: &'static str, about: &'static str) -> Key {
    Key { path, kind, default, about }
}

/// How an agent's stream can be had; exactly one of these tables must be there.
pub(crate) const SOURCES: [&str; 6] = ["a2a", "agui", "magentic", "script", "replay", "fan_out"];

/// Every key.
pub(crate) const KEYS: &[Key] = &[
    key("server.listen", Kind::Addresses, r#"["127.0.0.1:8080"]"#, "Where to listen."),
    key(
        "server.public_url",
        Kind::Url,
        "",
        "The address under which clients reach the gateway, for A2A cards; without it, the `Host` they ask for.",
    ),
    key(
        "server.push",
        Kind::Word(&["off", "public", "any"]),
        "public",
        "Where A2A clients may want to be called back: nowhere, at public addresses, or anywhere the gateway reaches.",
    ),
    key(
        "server.grpc",
        Kind::Addresses,
        "",
        "Where to listen for gRPC alone, with health, reflection and publishing; running and watching work on `listen` too.",
    ),
    key(
        "server.allow_unauthenticated",
        Kind::Flag,
        "false",
        "Listens beyond loopback although some agent asks for no token. For networks that keep strangers out by themselves.",
    ),
    key(
        "server.hosts",
        Kind::Texts,
        "[]",
        "Names under which the gateway may be asked, beside those of loopback: `example.org` or `example.org:8443`.",
    ),
    key(
        "server.any_host",
        Kind::Flag,
        "false",
        "Lets every `Host` pass: for a gateway behind a proxy that checks it.",
    ),
    key("server.origins", Kind::Texts, "[]", "Origins of web pages that may ask, beside those of loopback."),
    key(
        "server.cors",
        Kind::Flag,
        "false",
        "Tells browsers that pages of allowed origins may read the answers.",
    ),
    key("server.tokens", Kind::Secrets, "[]", "Bearer tokens that are good for every agent."),
    key("server.drain", Kind::Duration, "20s", "How long open runs may take to end after SIGTERM."),
    key("server.connections", Kind::Count, "10000", "Connections at once. Those above wait to be accepted."),
    key("server.body", Kind::Size, "1MiB", "The longest request body: a whole history with its attachments."),
    key(
        "server.merge",
        Kind::Size,
        "4KiB",
        "Text that waits for a reader that is behind is merged up to this size: much for a network, little for an eye. 1 merges nothing.",
    ),
    key(
        "server.tls.certificate",
        Kind::File,
        "",
        "Certificate chain (PEM). With it and `key`, the gateway speaks TLS.",
    ),
    key("server.tls.key", Kind::File, "", "Private key (PEM)."),
    key(
        "server.tls.client_ca",
        Kind::File,
        "",
        "Authorities (PEM) whose clients are let in; without it, any client is.",
    ),
    key(
        "log.level",
        Kind::Word(&["error", "warn", "info", "debug", "trace"]),
        "info",
        "The least that is logged.",
    ),
    key("log.format", Kind::Word(&["text", "json"]), "text", "How lines look."),
    key("runs.limit", Kind::Count, "10000", "Runs at once. Those above are refused as busy."),
    key(
        "runs.log",
        Kind::Word(&["memory", "disk", "redis"]),
        "memory",
        "Where runs are kept: in this process, in `folder`, or on the server `redis`, which several gateways share.",
    ),
    key(
        "runs.folder",
        Kind::Text,
        "",
        "The folder of the log on disk, relative to the configuration. One gateway uses it.",
    ),
    key(
        "runs.redis",
        Kind::Secret,
        "",
        "Where the Redis server is: `redis://[user:password@]host[:port][/database]`, with TLS `rediss://…`. Redis 6.2 or later, or Valkey. Of a cluster any node, or several with commas between them.",
    ),
    key(
        "runs.redis_ca",
        Kind::File,
        "",
        "Authorities (PEM) to trust instead of the public ones, for `rediss://`.",
    ),
    key("runs.prefix", Kind::Text, "aqueduct", "What all keys on the Redis server begin with."),
    key(
        "runs.lease",
        Kind::Duration,
        "10s",
        "How long a run may go without a sign of life of the gateway that drives it, before another takes it over.",
    ),
    key("runs.keep", Kind::Duration, "1h", "How long an ended run can be watched again."),
    key("runs.events", Kind::Count, "1000000", "Events of one run. A run with more is a loop, and fails."),
    key("runs.bytes", Kind::Size, "64MiB", "Memory of one run's events. A run with more fails."),
    key(
        "runs.memory",
        Kind::Size,
        "1GiB",
        "Memory of all runs, for the log in memory. Past it ended runs are forgotten, oldest end first; with none left, runs fail.",
    ),
    key(
        "tee.relate_by",
        Kind::Words(&["token", "trace", "context"]),
        r#"["token", "trace", "context"]"#,
        "What relates the call of a sub-agent to a run, in this order; `[]` relates nothing.",
    ),
    key(
        "inspector.enabled",
        Kind::Flag,
        "false",
        "Serves the inspector, a page for developers, at `/inspector`.",
    ),
    key(
        "inspector.trace",
        Kind::Size,
        "32MiB",
        "The longest trace that the inspector converts or judges: 50,000 events are some 10 MiB.",
    ),
    key("agents.*.description", Kind::Text, "", "What the agent is for, as `GET /agents` tells it."),
    key(
        "agents.*.a2a.url",
        Kind::Url,
        "",
        "An A2A agent by its address. Its card is looked up there, unless `binding` is set.",
    ),
    key("agents.*.a2a.card", Kind::Url, "", "An A2A agent by the address of its card, instead of `url`."),
    key(
        "agents.*.a2a.binding",
        Kind::Word(&["jsonrpc", "rest", "grpc"]),
        "",
        "How to talk to `url` without a card; with a card, the binding to prefer.",
    ),
    key(
        "agents.*.a2a.version",
        Kind::Word(&["1.0", "0.3"]),
        "1.0",
        "The version that is spoken without a card.",
    ),
    key(
        "agents.*.a2a.expose",
        Kind::Word(&["proxy", "serve"]),
        "proxy",
        "What is at `/a2a/NAME`: `proxy` passes calls through to the agent, `serve` answers them with runs of the gateway.",
    ),
    key("agents.*.agui.url", Kind::Url, "", "An AG-UI agent by its address."),
    key(
        "agents.*.magentic.ingest",
        Kind::Flag,
        "true",
        "An agent whose runs a framework publishes itself, as lines of workflow events.",
    ),
    key("agents.*.script.file", Kind::File, "", "A scripted agent: the file that says what it says."),
    key(
        "agents.*.replay.file",
        Kind::File,
        "",
        "A recorded stream that comes again: the file that `aqueduct record` wrote.",
    ),
    key("agents.*.replay.speed", Kind::Speed, "1", "How fast it comes, against how it was recorded."),
    key(
        "agents.*.fan_out.agents",
        Kind::Texts,
        "",
        "Agents that are all asked at once; each answers in a lane of its own.",
    ),
    key(
        "agents.*.dialect",
        Kind::Word(&["auto", "1.0", "0.0.59"]),
        "auto",
        "The AG-UI dialect of the output; `auto` goes by what the client declares.",
    ),
    key(
        "agents.*.subagents",
        Kind::Word(&["attributed", "inline", "hidden"]),
        "",
        "How sub-agents are shown. Without it: `attributed` in 1.0, `inline` in 0.0.59.",
    ),
    key(
        "agents.*.intermediate",
        Kind::Word(&["reasoning", "text", "hidden"]),
        "reasoning",
        "How the work on the way to the answer is shown.",
    ),
    key(
        "agents.*.interrupts",
        Kind::Word(&["interrupt", "text"]),
        "",
        "How questions to a human are shown. Without it: `interrupt` in 1.0, `text` in 0.0.59.",
    ),
    key(
        "agents.*.card",
        Kind::Word(&["agent", "public"]),
        "agent",
        "Who may see its A2A card: whoever may use the agent, or everybody.",
    ),
    key("agents.*.timeouts.connect", Kind::Duration, "5s", "For the connection to the agent."),
    key("agents.*.timeouts.response", Kind::Duration, "5m", "From a request to the head of its answer."),
    key("agents.*.timeouts.idle", Kind::Duration, "5m", "Without a byte of the agent's stream."),
    key("agents.*.timeouts.run", Kind::Duration, "1h", "For a whole run."),
    key(
        "agents.*.limits.frame",
        Kind::Size,
        "10MiB",
        "One event of the agent's stream. Frontends take no more.",
    ),
    key("agents.*.limits.lanes", Kind::Count, "1024", "Sub-agents open at once in one run."),
    key("agents.*.limits.blocks", Kind::Count, "256", "Blocks open at once in one sub-agent."),
    key(
        "agents.*.forward_headers",
        Kind::Texts,
        "[]",
        "Headers of the caller that the agent gets too, by name.",
    ),
    key("agents.*.credentials", Kind::Secret, "", "The bearer token that the agent gets."),
    key("agents.*.tokens", Kind::Secrets, "[]", "Bearer tokens that are good for this agent."),
    key(
        "agents.*.on_disconnect",
        Kind::Word(&["continue", "cancel"]),
        "continue",
        "What becomes of a run that nobody watches any more.",
    ),
    key(
        "agents.*.grace",
        Kind::Duration,
        "60s",
        "How long a run that goes on unwatched waits for somebody to come back, before it is cancelled.",
    ),
    key("agents.*.tls.ca", Kind::File, "", "Authorities (PEM) to trust instead of the public ones."),
    key("agents.*.tls.certificate", Kind::File, "", "Certificate chain (PEM) to show to the agent."),
    key("agents.*.tls.key", Kind::File, "", "Its private key (PEM)."),
];

/// The key of a path in which agents have names.
pub(crate) fn find(path: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| matches(key.path, path))
}

/// True if `path` is the beginning of a key: a table.
pub(crate) fn is_table(path: &str) -> bool {
    let depth = path.split('.').count();
    KEYS.iter().any(|key| {
        let segments: Vec<&str> = key.path.split('.').collect();
        segments.len() > depth && segments.get(..depth).is_some_and(|head| matches(&head.join("."), path))
    })
}

/// What can stand in the table at `path`.
pub(crate) fn members(path: &str) -> Vec<&'static str> {
    let depth = if path.is_empty() { 0 } else { path.split('.').count() };
    let mut names: Vec<&str> = Vec::new();
    for key in KEYS {
        let segments: Vec<&'static str> = key.path.split('.').collect();
        let head = segments.get(..depth).unwrap_or_default().join(".");
        if let Some(name) = segments.get(depth)
            && (path.is_empty() || matches(&head, path))
            && !names.contains(name)
        {
            names.push(name);
        }
    }
    names
}

fn matches(pattern: &str, path: &str) -> bool {
    let (mut pattern, mut path) = (pattern.split('.'), path.split('.'));
    loop {
        match (pattern.next(), path.next()) {
            (None, None) => return true,
            (Some(wanted), Some(given)) if wanted == "*" || wanted == given => {}
            _ => return false,
        }
    }
}

/// All keys as tables for `docs/configuration.md`, one per section.
pub fn reference() -> String {
    let mut text = String::new();
    let mut section = "";
    for key in KEYS {
        let of = section_of(key.path);
        if of != section {
            section = of;
            // Writing to a `String` cannot fail.
            write!(text, "\n### `[{section}]`\n\n| key | what | default | meaning |\n|---|---|---|---|\n")
                .ok();
        }
        let default = if key.default.is_empty() { "none".to_owned() } else { format!("`{}`", key.default) };
        let expected = key.kind.expected();
        writeln!(text, "| `{}` | {expected} | {default} | {} |", key.path, key.about).ok();
    }
    text
}

fn section_of(path: &'static str) -> &'static str {
    if path.starts_with("agents.") { "agents.NAME" } else { path.split('.').next().unwrap_or(path) }
}
