//! The loop over generators, in a folder of its own, with a real .proto file.

use super::*;
use crate::codegen::proto;

const SAMPLE: &[Generator] = &[Generator {
    name: "the sample",
    folder: "proto",
    inputs: &["sample.proto"],
    output: "src/generated/sample.rs",
    run: |folder, inputs| proto::messages(folder, inputs, |_| {}),
}];

fn project(name: &str, proto: &str) -> Project {
    let root = std::env::temp_dir().join(format!("aqueduct-codegen-{}-{name}", std::process::id()));
    std::fs::create_dir_all(root.join("proto")).unwrap();
    std::fs::write(root.join("proto/sample.proto"), proto).unwrap();
    Project::locate(Some(root)).unwrap()
}

#[test]
fn writes_once_and_then_finds_it_current() {
    let project = project("write", "syntax = \"proto3\";\npackage sample;\nmessage One { string a = 1; }\n");
    let stale = run_all(&project, SAMPLE, true).unwrap_err().to_string();
    assert!(stale.contains("src/generated/sample.rs"), "{stale}");
    run_all(&project, SAMPLE, false).unwrap();
    run_all(&project, SAMPLE, true).unwrap();
    let text = std::fs::read_to_string(project.root().join("src/generated/sample.rs")).unwrap();
    assert!(text.starts_with("//! Code for the sample"), "{text}");
    assert!(text.contains("pub struct One {"), "{text}");
    std::fs::write(project.root().join("src/generated/sample.rs"), text + "// edited\n").unwrap();
    run_all(&project, SAMPLE, true).unwrap_err();
    std::fs::remove_dir_all(project.root()).unwrap();
}

#[test]
fn a_broken_input_names_the_generator_and_the_place() {
    let project = project("broken", "syntax = \"proto3\";\npackage sample;\nmessage One { string a = ; }\n");
    let error = format!("{:#}", run_all(&project, SAMPLE, false).unwrap_err());
    assert!(error.contains("cannot generate the sample") && error.contains("sample.proto"), "{error}");
    std::fs::remove_dir_all(project.root()).unwrap();
}

#[test]
fn an_empty_table_is_always_current() {
    let project = project("empty", "");
    run_all(&project, &[], true).unwrap();
    std::fs::remove_dir_all(project.root()).unwrap();
}
