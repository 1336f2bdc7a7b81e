//! The targets, with their inputs and invariants.
//!
//! | target | input | invariant |
//! |---|---|---|
//! | `sse` | any bytes, split anywhere | the same events for every split; decoded events survive a round trip |
//! | `ws` | a WebSocket message, text or binary | parsed or rejected; addresses of binary messages survive a round trip |
//! | `a2a` | A2A payloads, 1.0 and 0.3, one per line, with cuts, answers and cancels | the events are balanced |
//! | `a2a-proto` | protobuf messages and requests of both packages | decoded or rejected; decoded messages survive a round trip |
//! | `a2a-card` | an agent card | parsed or rejected; an endpoint is chosen |
//! | `shapes` | a shape of streaming, and status texts of an A2A task | balanced |
//! | `agui` | AG-UI events as JSON lines | balanced; clients of both dialects accept the output |
//! | `agui-proto` | AG-UI protobuf frames | the same |
//! | `agui-input` | `RunAgentInput` | parsed or rejected; the converted input can be parsed again |
//! | `magentic` | lines of workflow events, three dialects | balanced, for every split into reads |
//! | `patch` | a JSON value and a JSON Patch | applied completely or not at all |
//! | `fold` | AG-UI events as JSON lines | folded into messages and state |
//! | `codec` | records of the run log | decoded or rejected; decoded records survive a round trip |
//! | `position` | `Last-Event-ID` | parsed or rejected; never before the start |
//! | `stream` | operations on the stream machine | balanced, for every end of the run |
//! | `log` | the same, as records of a log | the events survive a round trip |
//! | `takeover` | the same, cut anywhere and repeated by another replica | the whole is balanced |
//! | `coalesce` | the same, for a slow reader | no byte is lost, added or moved |
//! | `config` | a configuration file | parsed, or rejected with an error |
//! | `script` | a script of the mock agent | the same |
//! | `jwt` | a key set, and a token | parsed or rejected; the token proves nothing |

mod a2a;
mod agui;
mod gateway;
mod log;
mod machine;
mod magentic;
mod transports;

use aqueduct_core::SourceEvent;
use aqueduct_core::testing::{InvariantChecker, run_to_end};

use crate::Target;

const A2A: &[&str] = &["tests/fixtures/a2a"];
const AGUI: &[&str] = &["tests/fixtures/agui"];
const JSON: &[&str] =
    &["null", "true", "1e999", "-0", "\"\\ud800\"", "{}", "[]", "[[[[[[[[", "\"\"", ":", ","];
/// The seeds of targets whose input is operations; any fixtures serve.
const OPS: &[&str] = &["tests/fixtures/magentic/tool_seq.events.jsonl", "tests/fixtures/a2a/strands"];

/// All targets.
pub const ALL: &[Target] = &[
    Target {
        name: "sse",
        run: transports::sse,
        seeds: &["tests/fixtures/a2a", "tests/fixtures/agui/langgraph"],
        words: &["data:", "id:", "event:", "retry:", ":", "\r\n", "\r", "\n\n", "\u{feff}", "\0"],
    },
    Target {
        name: "ws",
        run: transports::ws,
        seeds: &[],
        words: &[
            "\"type\":\"start\"",
            "\"type\":\"publish\"",
            "\"ref\":\"a\"",
            "\"after\":18446744073709551615",
            "\x01",
            "\x02",
        ],
    },
    Target {
        name: "a2a",
        run: a2a::json,
        seeds: A2A,
        words: &[
            "!\n",
            "?{}\n",
            "#\n",
            "\"append\":true",
            "\"lastChunk\":true",
            "\"state\":\"TASK_STATE_COMPLETED\"",
            "\"kind\":\"status-update\"",
            "\"parts\":[]",
            "null",
        ],
    },
    Target {
        name: "a2a-proto",
        run: a2a::proto,
        seeds: &[],
        words: &["\x0a\x02", "\x12\x00", "\x1a\x04", "\u{7f}"],
    },
    Target {
        name: "a2a-card",
        run: a2a::card,
        seeds: &["tests/fixtures/a2a/v1-agent-card.json", "tests/fixtures/a2a/v03-agent-card.json"],
        words: JSON,
    },
    Target {
        name: "shapes",
        run: a2a::shapes,
        seeds: &[],
        words: &[
            "🔧 Calling tool: **x**\n",
            "✅ Tool **x** completed\n",
            "❌ Tool **x** failed\n",
            "Hello",
            "Hello world",
            "\n",
            " ",
        ],
    },
    Target {
        name: "agui",
        run: agui::json,
        seeds: AGUI,
        words: &[
            "\"type\":\"TEXT_MESSAGE_CHUNK\"",
            "\"messageId\":\"m\"",
            "\"delta\":\"\"",
            "\"type\":\"RUN_STARTED\"",
            "null",
        ],
    },
    Target {
        name: "agui-proto",
        run: agui::proto,
        seeds: &[],
        words: &["\0\0\0\x05", "\x0a\x02", "\x12\x00"],
    },
    Target {
        name: "agui-input",
        run: agui::input,
        seeds: AGUI,
        words: &[
            "\"role\":\"tool\"",
            "\"toolCallId\":\"c\"",
            "\"resume\":[]",
            "\"content\":null",
            "\"forwardedProps\":{}",
        ],
    },
    Target {
        name: "magentic",
        run: magentic::lines,
        seeds: &["tests/fixtures/magentic"],
        words: &["\"type\":\"output\"", "\"status\"", "\"executor_id\":\"a\"", "null", "\r\n"],
    },
    Target {
        name: "patch",
        run: agui::patch,
        seeds: &[],
        words: &[
            "\"op\":\"move\"",
            "\"path\":\"/-\"",
            "\"path\":\"\"",
            "\"from\":\"/a\"",
            "~0",
            "~1",
            "/0",
            "\"value\":[]",
        ],
    },
    Target {
        name: "fold",
        run: agui::fold,
        seeds: AGUI,
        words: &[
            "\"type\":\"MESSAGES_SNAPSHOT\"",
            "\"type\":\"STATE_DELTA\"",
            "\"delta\":[]",
            "\"messages\":[]",
        ],
    },
    Target { name: "codec", run: log::codec, seeds: &[], words: &["\x01", "\x01\0", "\u{7f}"] },
    Target {
        name: "position",
        run: transports::position,
        seeds: &[],
        words: &[".0", ".1", "%2E", "%", "18446744073709551615", ".", "%C3%A9"],
    },
    Target { name: "stream", run: machine::stream, seeds: OPS, words: &["\0", "\x01\x01"] },
    Target { name: "log", run: log::records, seeds: OPS, words: &["\0", "\x01\x01"] },
    Target { name: "takeover", run: machine::takeover, seeds: OPS, words: &["\0", "\x01\x01"] },
    Target { name: "coalesce", run: machine::coalesce, seeds: OPS, words: &["\0", "\x01\x01"] },
    Target {
        name: "config",
        run: gateway::config,
        seeds: &[
            "deploy/compose/aqueduct.toml",
            "examples/supervisor-langgraph/aqueduct.toml",
            "tests/interop/frontends/gateway.toml",
            "tests/interop/resume/gateway.toml",
        ],
        words: &["[server]", "[agents.a]", "= ", "\"", "'''", "[[", "${X}", "1h", "true"],
    },
    Target {
        name: "script",
        run: gateway::script,
        seeds: &["scripts", "tests/interop/a2a/agent.toml", "tests/interop/inspector/agents"],
        words: &["[[rules]]", "text = ", "when = ", "\"", "[[rules.steps]]", "wait = "],
    },
    Target {
        name: "jwt",
        run: gateway::jwt,
        seeds: &[],
        words: &[
            "eyJhbGciOiJFUzI1NiJ9",
            "eyJhbGciOiJub25lIn0",
            "eyJhbGciOiJIUzI1NiJ9",
            ".",
            "\"kty\":\"oct\"",
            "\"use\":\"enc\"",
            "\"crv\":\"P-384\"",
        ],
    },
];

/// Checks that a run of these events is balanced.
fn check_balanced(events: Vec<SourceEvent>) {
    InvariantChecker::check_all(&run_to_end(events)).expect("balanced");
}

/// Returns the lines of a text; none if the bytes are not UTF-8.
fn lines(data: &[u8]) -> impl Iterator<Item = &str> {
    data.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok())
}
