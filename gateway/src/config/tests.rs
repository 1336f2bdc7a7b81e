//! The table of keys and the builder agree.

use std::collections::BTreeMap;
use std::path::Path;

use super::build::Builder;
use super::keys::KEYS;
use super::read::Settings;

#[test]
fn every_key_is_looked_at() {
    let mut settings = Settings::default();
    settings.read_file(Path::new("x.toml"), "[agents.a.agui]\nurl = \"http://a\"");
    let (_, _, read) = Builder::new(&settings, Path::new("x.toml"), &BTreeMap::new()).build();
    let unread: Vec<&str> = KEYS.iter().map(|key| key.path).filter(|path| !read.contains(path)).collect();
    assert_eq!(unread, Vec::<&str>::new());
}

#[test]
fn every_default_can_be_read() {
    let (settings, path) = (Settings::default(), Path::new("x.toml"));
    let (config, errors, _) = Builder::new(&settings, path, &BTreeMap::new()).build();
    assert_eq!(errors, []);
    assert_eq!(config.server.listen, ["127.0.0.1:8080".parse().unwrap()]);
    assert_eq!(config.server.drain.as_secs(), 20);
    assert_eq!(config.runs.bytes, 64 << 20);
    assert_eq!(config.log.level, "info");
}
