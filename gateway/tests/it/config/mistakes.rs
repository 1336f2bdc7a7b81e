//! Wrong configurations: each gives exactly one error, with file, line, key and what to do.

use std::fs;
use std::path::PathBuf;

use aqueduct_gateway::config::{ConfigError, Location, load};

use crate::program::{aqueduct, code, text};

/// A folder with files that configurations name: two certificates with their keys, and files that are something else.
fn folder(name: &str) -> PathBuf {
    let folder = crate::scratch::folder().join(name);
    fs::create_dir_all(&folder).unwrap();
    for name in ["one", "two"] {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        fs::write(folder.join(format!("{name}.pem")), made.cert.pem()).unwrap();
        fs::write(folder.join(format!("{name}.key")), made.signing_key.serialize_pem()).unwrap();
    }
    for (name, text) in [("junk", "nothing of that kind\n"), ("empty", "\n"), ("lines", "one\ntwo\n")] {
        fs::write(folder.join(name), text).unwrap();
    }
    fs::write(folder.join("wrong-script.toml"), "[[step]]\ntexd = \"a\"\n").unwrap();
    folder
}

/// An agent, for mistakes elsewhere.
const AGENT: &str = "[agents.a.agui]\nurl = \"http://a\"\n";

/// Mistakes outside of agents; `AGENT` follows. The line, the key, and words of what to do.
const GENERAL: &[(&str, usize, &str, &str)] = &[
    ("[server\n", 1, "", "not TOML"),
    (
        "a = 1\n",
        1,
        "a",
        "expected one of server, log, runs, tee, telemetry, quotas, inspector, principals, issuers, agents",
    ),
    ("[servr]\n", 1, "servr", "did you mean `server`?"),
    ("[server]\nlissten = []\n", 2, "server.lissten", "expected one of listen"),
    ("[server]\nlissten = []\n", 2, "server.lissten", "did you mean `listen`?"),
    ("[server]\nlisten = \"127.0.0.1:80\"\n", 2, "server.listen", "a list of addresses"),
    (
        "[server]\nlisten = [\"localhost\"]\n",
        2,
        "server.listen",
        "(`127.0.0.1:8080`, `[::1]:8080`), found `localhost`",
    ),
    ("[server]\nlisten = []\n", 2, "server.listen", "at least one"),
    ("[server]\nlisten = [\"127.0.0.1:80\", \"127.0.0.1:80\"]\n", 2, "server.listen", "remove one"),
    ("[server]\nlisten = [\"127.0.0.1:80\"]\ngrpc = [\"127.0.0.1:80\"]\n", 3, "server.grpc", "another port"),
    ("[server]\n\ndrain = 5\n", 3, "server.drain", "a duration"),
    ("[server]\ncors = \"yes\"\n", 2, "server.cors", "`true` or `false`, found `yes`"),
    (
        "[server]\nallow_unauthenticated = true\nlisten = [\"0.0.0.0:80\"]\ncors = true\n",
        4,
        "server.cors",
        "name the origins",
    ),
    ("[server]\nhosts = [\"a.org\"]\nany_host = true\n", 2, "server.hosts", "remove one"),
    ("[server]\nhosts = [\"https://a.org\"]\n", 2, "server.hosts", "names of hosts"),
    ("[server]\norigins = [\"a.org\"]\n", 2, "server.origins", "origins (`https://example.org`"),
    ("[server]\norigins = [\"https://a.org/\"]\n", 2, "server.origins", "without a path"),
    ("[server]\npublic_url = \"a.org\"\n", 2, "server.public_url", "a URL"),
    ("[server]\npublic_url = \"http://a:99999\"\n", 2, "server.public_url", "a URL"),
    ("[server]\npush = \"publc\"\n", 2, "server.push", "did you mean `public`?"),
    ("server = 5\n", 1, "server", "expected a table, found a whole number"),
    ("[server]\ntokens = [\"hunter2\"]\n", 2, "server.tokens", "`env:NAME` or `file:PATH`"),
    ("[server]\ntokens = [\"env:NOT_SET\"]\n", 2, "server.tokens", "no NOT_SET: set that variable"),
    ("[server]\ntokens = [\"file:nowhere\"]\n", 2, "server.tokens", "put the secret there"),
    ("[server]\ntokens = [\"file:empty\"]\n", 2, "server.tokens", "put the secret there"),
    ("[server]\ntokens = [\"file:lines\"]\n", 2, "server.tokens", "put the secret alone there"),
    ("[server]\nlisten = [\"0.0.0.0:80\"]\ntokens = [\"env:NOT_SET\"]\n", 3, "server.tokens", "no NOT_SET"),
    ("[server]\nbody = \"10MB\"\n", 2, "server.body", "`10MiB`"),
    ("[server]\nconnections = -1\n", 2, "server.connections", "a whole number from 1"),
    ("[server.tls]\ncertificate = \"one.pem\"\n", 2, "server.tls.certificate", "needs `server.tls.key`"),
    ("[server.tls]\nkey = \"one.key\"\n", 2, "server.tls.key", "needs `server.tls.certificate`"),
    ("[server.tls]\nclient_ca = \"one.pem\"\n", 2, "server.tls.client_ca", "needs `server.tls.certificate`"),
    (
        "[server.tls]\ncertificate = \"junk\"\nkey = \"one.key\"\n",
        2,
        "server.tls.certificate",
        "give a PEM file",
    ),
    ("[server.tls]\ncertificate = \"one.pem\"\nkey = \"junk\"\n", 3, "server.tls.key", "give a PEM file"),
    (
        "[server.tls]\ncertificate = \"one.pem\"\nkey = \"two.key\"\n",
        2,
        "server.tls.certificate",
        "belong together",
    ),
    (
        "[server.tls]\ncertificate = \"one.pem\"\nkey = \"one.key\"\nclient_ca = \"junk\"\n",
        4,
        "server.tls.client_ca",
        "give a PEM file",
    ),
    ("[quotas]\nrate = 0\n", 2, "quotas.rate", "a whole number from 1, found 0"),
    ("[quotas]\nproxies = [\"10.0.0.0/33\"]\n", 2, "quotas.proxies", "addresses or networks"),
    ("[quotas.peer]\nmemory = 1\n", 2, "quotas.peer.memory", "no such key"),
    ("[runs]\nlimit = 0\n", 2, "runs.limit", "a whole number from 1, found 0"),
    ("[runs]\nlimit = 1.5\n", 2, "runs.limit", "found a number with a fraction"),
    ("[runs]\nlog = \"disc\"\n", 2, "runs.log", "did you mean `disk`?"),
    ("[runs]\nlog = \"disk\"\n", 2, "runs.log", "needs `runs.folder`"),
    ("[runs]\nlog = \"disk\"\nfolder = \"junk\"\n", 3, "runs.folder", "name one, or remove it"),
    ("[runs]\nfolder = \"runs\"\n", 2, "runs.folder", "has no effect"),
    ("[runs]\nlog = \"redis\"\n", 2, "runs.log", "needs `runs.redis`"),
    ("[runs]\nlog = \"redis\"\nredis = \"file:junk\"\n", 3, "runs.redis", "expected `redis://host`"),
    (
        "[runs]\nlog = \"redis\"\nredis = \"env:REDIS\"\nredis_ca = \"one.pem\"\n",
        4,
        "runs.redis_ca",
        "use `rediss://`",
    ),
    (
        "[runs]\nlog = \"redis\"\nredis = \"env:REDISS\"\nredis_ca = \"junk\"\n",
        4,
        "runs.redis_ca",
        "give a PEM file",
    ),
    (
        "[runs]\nlog = \"redis\"\nredis = \"env:REDISS\"\nredis_certificate = \"one.pem\"\n",
        4,
        "runs.redis_certificate",
        "needs `runs.redis_key`",
    ),
    (
        "[runs]\nlog = \"redis\"\nredis = \"env:REDIS\"\nredis_certificate = \"one.pem\"\nredis_key = \"one.key\"\n",
        4,
        "runs.redis_certificate",
        "use `rediss://`",
    ),
    (
        "[runs]\nlog = \"redis\"\nredis = \"env:REDISS\"\nredis_certificate = \"one.pem\"\nredis_key = \"two.key\"\n",
        4,
        "runs.redis_certificate",
        "belong together",
    ),
    (
        "[runs]\nlog = \"redis\"\nredis = \"env:REDIS\"\nredis_expiry = \"24h\"\n",
        4,
        "runs.redis_expiry",
        "at least 50h",
    ),
    ("[runs]\nredis_expiry = \"720h\"\n", 2, "runs.redis_expiry", "has no effect"),
    (
        "[agents.b.a2a]\nurl = \"http://b\"\nhosts = [\"https://c\"]\n",
        3,
        "agents.b.a2a.hosts",
        "names of hosts",
    ),
    ("[log]\nlevel = \"loud\"\n", 2, "log.level", "one of `error`"),
    ("[log]\nlevel = \"Info\"\n", 2, "log.level", "did you mean `info`?"),
    ("[tee]\nrelate_by = [\"tokn\"]\n", 2, "tee.relate_by", "did you mean `token`?"),
    ("[inspector]\ntrace = \"lots\"\n", 2, "inspector.trace", "a size in bytes"),
    ("[server]\norigins = [\"https://a.org:443\"]\n", 2, "server.origins", "or a default port"),
    (
        "[server]\nlisten = [\"127.0.0.1:80\"]\nadmin = [\"127.0.0.1:80\"]\n",
        3,
        "server.admin",
        "another port",
    ),
    ("[telemetry]\notlp = \"collector:4317\"\n", 2, "telemetry.otlp", "a URL"),
    ("[telemetry]\nmetrics = \"30s\"\n", 2, "telemetry.metrics", "has no effect without `telemetry.otlp`"),
    ("[telemetry]\notlp = \"http://c:4317\"\nmetrics = \"10ms\"\n", 3, "telemetry.metrics", "at least `1s`"),
    (
        "[telemetry]\notlp = \"http://c:4317\"\ntraces = false\n",
        3,
        "telemetry.traces",
        "leaves nothing to export",
    ),
    ("[telemetry]\nsample = 0.5\n", 2, "telemetry.sample", "has no effect without `telemetry.otlp`"),
    ("[telemetry]\notlp = \"http://c:4317\"\nsample = 2\n", 3, "telemetry.sample", "a number from 0 to 1"),
    (
        "[telemetry]\notlp = \"http://c:4317\"\nprotocol = \"htpp\"\n",
        3,
        "telemetry.protocol",
        "did you mean `http`?",
    ),
];

/// Mistakes of agents, and of configurations without one.
const AGENTS: &[(&str, usize, &str, &str)] = &[
    ("", 1, "agents", "add `[agents.NAME]`"),
    ("# nothing yet\n[log]\nlevel = \"info\"\n", 1, "agents", "add `[agents.NAME]`"),
    ("agents = 1\n", 1, "agents", "expected a table"),
    ("[agents.a]\n", 1, "agents.a", "exactly one source"),
    ("[agents.a]\nagui.url = \"http://a\"\na2a.url = \"http://b\"\n", 1, "agents.a", "found 2: keep one"),
    ("[agents.\"a b\"]\n", 1, "agents.a b", "letters, digits"),
    ("[agents.a]\nagui = \"http://a\"\n", 2, "agents.a.agui", "expected a table"),
    ("[agents.a]\nagiu.url = \"http://a\"\n", 2, "agents.a.agiu", "did you mean `agui`?"),
    ("[agents.a.agui]\n", 1, "agents.a.agui", "needs `url`"),
    (
        "[agents.a.a2a]\nbinding = \"rest\"\n",
        1,
        "agents.a.a2a",
        "needs `url` (the agent's address) or `card`",
    ),
    ("[agents.a.agui]\nurl = \"a\"\n", 2, "agents.a.agui.url", "a URL"),
    ("[agents.a.agui]\nuri = \"http://a\"\n", 2, "agents.a.agui.uri", "expected one of url"),
    ("[agents.a.agui]\nuri = \"http://a\"\n", 2, "agents.a.agui.uri", "did you mean `url`?"),
    (
        "[agents.a.a2a]\nurl = \"http://a\"\ncard = \"http://a\"\n",
        3,
        "agents.a.a2a.card",
        "found both: remove one",
    ),
    ("[agents.a.a2a]\nurl = \"http://a\"\nversion = \"2.0\"\n", 3, "agents.a.a2a.version", "`1.0`, `0.3`"),
    ("[agents.a.script]\nfile = \"nowhere.toml\"\n", 2, "agents.a.script.file", "correct the path"),
    ("[agents.a.replay]\nfile = \"junk\"\n", 2, "agents.a.replay.file", "`aqueduct record`"),
    ("[agents.a.fan_out]\nagents = []\n", 2, "agents.a.fan_out.agents", "at least one"),
    (
        "[agents.a.fan_out]\nagents = [\"b\"]\n",
        2,
        "agents.a.fan_out.agents",
        "no agent `b`: add `[agents.b]`",
    ),
    ("[agents.a.fan_out]\nagents = [\"a\"]\n", 2, "agents.a.fan_out.agents", "fans out itself"),
    (
        "[agents.a.fan_out]\nagents = [\"wether\"]\n[agents.weather.agui]\nurl = \"http://a\"\n",
        2,
        "agents.a.fan_out.agents",
        "did you mean `weather`?",
    ),
    (
        "[agents.a.fan_out]\nagents = [\"b\"]\n[agents.b.magentic]\ningest = true\n",
        2,
        "agents.a.fan_out.agents",
        "remove it",
    ),
    (
        "[agents.a]\nagui.url = \"http://a\"\ntimeouts.idle = \"soon\"\n",
        3,
        "agents.a.timeouts.idle",
        "`soon`",
    ),
    (
        "[agents.a]\nagui.url = \"http://a\"\nforward_headers = [\"a b\"]\n",
        3,
        "agents.a.forward_headers",
        "header",
    ),
    ("[agents.a]\nagui.url = \"http://a\"\ncredentials = \"k\"\n", 3, "agents.a.credentials", "env:NAME"),
    ("[agents.a]\nmagentic.ingest = true\ncredentials = \"env:T\"\n", 3, "agents.a.credentials", "remove it"),
    ("[agents.a]\nmagentic.ingest = true\nlimits.rate = 5\n", 3, "agents.a.limits.rate", "remove it"),
    ("[agents.a]\nmagentic.ingest = true\nretries = 5\n", 3, "agents.a.retries", "remove it"),
    ("[agents.a]\nagui.url = \"http://a\"\nretries = -1\n", 3, "agents.a.retries", "a whole number"),
    ("[agents.a]\nagui.url = \"http://a\"\ncircuit.pause = 5\n", 3, "agents.a.circuit.pause", "a duration"),
    (
        "[agents.a]\nagui.url = \"http://a\"\non_disconnect = \"cancel\"\ngrace = \"1s\"\n",
        4,
        "agents.a.grace",
        "remove one",
    ),
    ("[agents.a]\nagui.url = \"http://a\"\ntls.ca = \"c.pem\"\n", 3, "agents.a.tls.ca", "there is none"),
    ("[agents.a]\nagui.url = \"http://a\"\ntls.ca = \"junk\"\n", 3, "agents.a.tls.ca", "give a PEM file"),
    (
        "[agents.a]\nagui.url = \"http://a\"\n[agents.a.tls]\ncertificate = \"one.pem\"\nkey = \"two.key\"\n",
        4,
        "agents.a.tls.certificate",
        "belong together",
    ),
    (
        "[server]\nlisten = [\"0.0.0.0:80\"]\n[agents.a.agui]\nurl = \"http://a\"\n",
        2,
        "server.listen",
        "asks for no token: add `[principals.NAME]`",
    ),
];

fn environment() -> Vec<(String, String)> {
    let set = [("T", "token"), ("REDIS", "redis://localhost"), ("REDISS", "rediss://localhost")];
    set.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
}

fn told(errors: &[ConfigError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn each_mistake_is_told_with_line_and_key() {
    let file = folder("mistakes").join("aqueduct.toml");
    let general = GENERAL.iter().map(|(toml, line, key, words)| (format!("{toml}{AGENT}"), line, key, words));
    let agents = AGENTS.iter().map(|(toml, line, key, words)| ((*toml).to_owned(), line, key, words));
    for (toml, line, key, words) in general.chain(agents) {
        let Err(errors) = load(&file, &toml, environment()) else { panic!("nothing is wrong with\n{toml}") };
        let [error] = errors.as_slice() else { panic!("one mistake, one error:\n{toml}\n{}", told(&errors)) };
        let Location::File { path, line: at, .. } = &error.place else { panic!("{error}") };
        assert_eq!(path, &file, "{error}");
        assert_eq!((at, error.key.as_str()), (line, *key), "{toml}\n{error}");
        assert!(error.what.contains(words), "{toml}\n{error}");
    }
}

/// What is wrong with a script stands in the script.
#[test]
fn a_mistake_of_a_script_names_its_file() {
    let folder = folder("mistaken-script");
    let toml = "[agents.a.script]\nfile = \"wrong-script.toml\"\n";
    let errors = load(&folder.join("aqueduct.toml"), toml, []).unwrap_err();
    let place = format!("{}:2:1: `step[1].texd`: ", folder.join("wrong-script.toml").display());
    assert!(errors.len() == 1 && told(&errors).starts_with(&place), "{}", told(&errors));
    assert!(told(&errors).contains("did you mean `text`?"), "{}", told(&errors));
}

/// Files that are what they should be pass every check.
#[test]
fn good_files_are_taken() {
    let file = folder("good-files").join("aqueduct.toml");
    let toml = "[server.tls]\ncertificate = \"one.pem\"\nkey = \"one.key\"\nclient_ca = \"two.pem\"\n\
                [agents.a]\nagui.url = \"https://a\"\ntls = { ca = \"one.pem\", certificate = \"two.pem\", key = \"two.key\" }\n\
                [runs]\nlog = \"redis\"\nredis = \"env:REDISS\"\nredis_ca = \"one.pem\"\n\
                redis_certificate = \"two.pem\"\nredis_key = \"two.key\"\n\
                [agents.b.a2a]\nurl = \"https://b\"\nhosts = [\"c\", \"d:8443\"]\n";
    let config = load(&file, toml, environment());
    assert!(config.is_ok(), "{}", told(&config.unwrap_err()));
}

/// Every mistake is one error from the program too: the same one from `config check` and from `serve`.
#[test]
fn check_and_serve_name_each_mistake_alike() {
    let folder = folder("mistaken-programs");
    let general = GENERAL.iter().map(|(toml, line, key, words)| (format!("{toml}{AGENT}"), line, key, words));
    let agents = AGENTS.iter().map(|(toml, line, key, words)| ((*toml).to_owned(), line, key, words));
    let mut seen = 0;
    for (toml, line, key, words) in general.chain(agents) {
        let file = folder.join("aqueduct.toml");
        fs::write(&file, &toml).unwrap();
        let run = |command: &[&str]| {
            let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_aqueduct"));
            program.args(command).arg("--config").arg(&file).envs(environment());
            program.output().unwrap()
        };
        let (check, serve) = (run(&["config", "check"]), run(&["serve"]));
        assert_eq!((code(&check), code(&serve)), (1, 1), "{toml}{}", text(&serve.stderr));
        let said = text(&serve.stderr);
        assert_eq!(text(&check.stdout), said, "{toml}");
        let place = format!("{}:{line}:", file.display());
        assert!(said.starts_with(&place) && said.lines().count() == 1, "{toml}{said}");
        assert!(said.contains(&format!("`{key}`")) || key.is_empty(), "{toml}{said}");
        assert!(said.contains(words), "{toml}{said}");
        seen += 1;
    }
    assert!(seen >= 40, "{seen}");
}

/// `serve` refuses what `config check` finds, in the same words.
#[test]
fn serve_refuses_what_the_check_finds() {
    let folder = folder("refused");
    let file = folder.join("aqueduct.toml");
    let tls = "[server.tls]\ncertificate = \"one.pem\"\nkey = \"two.key\"\n";
    fs::write(&file, format!("{tls}[log]\nlevle = \"info\"\n{AGENT}")).unwrap();
    let arguments = ["--config", file.to_str().unwrap()];
    let check = aqueduct(&[&["config", "check"][..], &arguments].concat(), b"");
    let serve = aqueduct(&[&["serve"][..], &arguments].concat(), b"");
    assert_eq!((code(&check), code(&serve)), (1, 1), "{}", text(&serve.stderr));
    assert_eq!(text(&check.stdout), text(&serve.stderr));
    assert_eq!(text(&check.stdout).lines().count(), 2, "{}", text(&check.stdout));
}
