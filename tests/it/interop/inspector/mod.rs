//! The inspector of a real gateway in a headless Chromium: real clicks, real streams.
//!
//! Each scene is a function of `tests/interop/inspector/scenes-*.mjs`. The harness around it refuses any complaint in the
//! console, any request to another origin and any dialogue. Pictures and figures are left in `AQUEDUCT_INTEROP_CASES`.

mod replicas;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output};

use aqueduct_tests::process::Program;

use crate::interop::variable;

/// Words and calls of the long script in 50 lanes, half of them inside others: together more than 100,000 events.
const ROUNDS: usize = 20;
const WORDS: usize = 98;
const LANES: usize = 50;

/// The lane of a number; the main agent is the first.
fn lane(number: usize) -> String {
    match number {
        0 => String::new(),
        number if number % 2 == 0 => format!("agent {}/helper", number - 1),
        number => format!("agent {number}"),
    }
}

fn folder() -> PathBuf {
    variable("AQUEDUCT_INTEROP_DIR").join("inspector")
}

fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Many words and calls in many lanes, as fast as they can be sent.
fn long_script() -> String {
    let mut script = String::from("description = \"Says very much.\"\n");
    for round in 0..ROUNDS {
        for lane in (0..LANES).map(lane) {
            let agent = if lane.is_empty() { String::new() } else { format!("agent = \"{lane}\"\n") };
            let kind = if round % 4 == 3 { "thinking" } else { "text" };
            write!(script, "[[step]]\n{agent}{kind} = \"").unwrap();
            for word in 0..WORDS {
                write!(script, "word{word}{} ", if word % 25 == 24 { ".\\n\\n" } else { "" }).unwrap();
            }
            writeln!(
                script,
                "\"\n[[step]]\n{agent}tool = \"tool{round}\"\narguments = '{{}}'\nresult = \"ok\""
            )
            .unwrap();
        }
    }
    script
}

/// Fifty sub-agents with long names, ten at once.
fn wide_script() -> String {
    let mut script = String::from("description = \"Fifty sub-agents with long names.\"\n");
    for agent in 0..50 {
        write!(
            script,
            "[[step]]\ntogether = {}\nagent = \"a sub-agent with a name that is long enough to be cut somewhere {agent}\"\n\
             text = \"Some words of agent {agent}, which take their time.\"\npace = \"5ms\"\n",
            agent / 10 + 1
        )
        .unwrap();
    }
    script
}

/// A gateway with the agents of the scenes.
fn gateway(scene: &str) -> Program {
    let cases = variable("AQUEDUCT_INTEROP_CASES");
    // Tests run side by side: each has files of its own.
    let write_case = |name: &str, text: &str| {
        let path = cases.join(format!("{scene}-{name}"));
        std::fs::write(&path, text).unwrap();
        path
    };
    let agents = folder().join("agents");
    let hostile = std::fs::read_to_string(agents.join("hostile.toml")).unwrap();
    let huge = format!("{hostile}\n[[step]]\ntext = \"{}\"\n", "A".repeat(300_000));
    let demo = root().join("scripts");
    let mut config = String::from("inspector.enabled = true\nlog.level = \"warn\"\n");
    for (name, file) in [
        ("release", agents.join("release.toml")),
        ("slow", agents.join("slow.toml")),
        ("form", agents.join("form.toml")),
        ("media", agents.join("media.toml")),
        ("question", demo.join("demo-question.toml")),
        ("failure", demo.join("demo-failure.toml")),
        ("wide", write_case("wide.toml", &wide_script())),
        ("hostile", write_case("hostile.toml", &huge)),
        ("many", write_case("many.toml", &long_script())),
    ] {
        write!(config, "[agents.{name}.script]\nfile = \"{}\"\n", file.display()).unwrap();
    }
    let secret = write_case("secret.txt", "open sesame");
    write!(
        config,
        "[agents.guarded]\nscript.file = \"{}/demo-thinking.toml\"\ntokens = [\"file:{}\"]\n",
        demo.display(),
        secret.display()
    )
    .unwrap();
    let path = write_case("gateway.toml", &config);
    let args = ["serve", "--listen", "127.0.0.1:0", "--config", path.to_str().unwrap()];
    Program::start(variable("AQUEDUCT_INTEROP_GATEWAY"), &args)
}

fn command(scene: &str, address: &str) -> Command {
    let mut command = Command::new("node");
    command.arg(folder().join("scene.mjs")).args(["--scene", scene, "--url", address]);
    command.arg("--project").arg(variable("AQUEDUCT_INTEROP_BROWSER"));
    command.arg("--chromium").arg(variable("AQUEDUCT_INTEROP_CHROMIUM"));
    command.arg("--fixtures").arg(root().join("tests/fixtures"));
    command.arg("--out").arg(variable("AQUEDUCT_INTEROP_CASES"));
    command
}

/// Plays a scene, and gives what it printed.
#[track_caller]
fn plays(scene: &str) -> String {
    let gateway = gateway(scene);
    ends_well(scene, &mut command(scene, &gateway.address))
}

/// Runs a scene's command to its end, and gives what it printed.
#[track_caller]
fn ends_well(scene: &str, command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{scene} ended with {status}\n{stdout}{stderr}");
    // Figures are for people: `--no-capture` shows them.
    std::io::stdout().write_all(stdout.as_bytes()).unwrap();
    stdout.into_owned()
}

#[track_caller]
fn refuses(scene: &str, args: &[&str], seen: &[&str]) {
    let gateway = gateway(scene);
    let Output { status, stderr, .. } = command(scene, &gateway.address).args(args).output().unwrap();
    let stderr = String::from_utf8_lossy(&stderr);
    assert!(!status.success(), "{scene} accepted what is wrong");
    for words in seen {
        assert!(stderr.contains(words), "{scene} failed for another reason\n{stderr}");
    }
}

macro_rules! scenes {
    ($($name:ident)+) => { $(
        #[test]
        fn $name() {
            plays(stringify!($name));
        }
    )+ };
}

scenes! {
    run interrupt lanes filter resume reconnect stop past token
    drop_agui drop_a2a drop_a2a_0_3 drop_magentic drop_recording open_file state hostile nonsense
    keyboard
    exact merged found filters compare forms gone
    object_form input_side fork media zoom
}

#[test]
fn pure_modules_do_what_they_say() {
    let tests = ["api", "markdown", "parts", "reading", "reducer"]
        .map(|name| folder().join(format!("unit/{name}.test.mjs")));
    let Output { status, stdout, stderr } = Command::new("node").arg("--test").args(tests).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{stdout}{stderr}");
    assert!(stdout.contains("# fail 0") && !stdout.contains("# pass 0"), "{stdout}");
}

/// The figures are informative: machines differ, and a slow one is not a failure.
#[test]
fn a_hundred_thousand_events_in_fifty_lanes() {
    let measured = plays("many");
    std::fs::write(variable("AQUEDUCT_INTEROP_CASES").join("many.json"), measured).unwrap();
}

/// `UPDATE_EXPECT=1` renews the picture of the README.
#[test]
fn looks() {
    plays("looks");
    renew(&["inspector"]);
}

/// Copies pictures of scenes into the documentation, if they are to be renewed.
fn renew(pictures: &[&str]) {
    if std::env::var_os("UPDATE_EXPECT").is_none() {
        return;
    }
    for name in pictures {
        let file = format!("{name}.png");
        let picture = variable("AQUEDUCT_INTEROP_CASES").join(&file);
        std::fs::copy(picture, root().join("docs/images").join(file)).unwrap();
    }
}

#[test]
fn the_harness_can_say_no() {
    refuses(
        "run",
        &["--expect", "something else", "--patience", "2000"],
        &["the answer is The service is up"],
    );
    refuses("complaining", &[], &["console: a complaint", "foreign request: https://elsewhere.invalid"]);
}
