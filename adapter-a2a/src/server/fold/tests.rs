//! What limits leave of a task: every text lacks at most its end.

use super::*;

fn limits(artifact_bytes: usize, artifacts: usize) -> TaskLimits {
    TaskLimits { artifact_bytes, artifacts, ..TaskLimits::default() }
}

fn update(id: &str, text: &str, append: bool) -> ArtifactUpdate<'static> {
    let artifact_id = Text::from(id.to_owned());
    let artifact = Artifact { artifact_id, parts: vec![Part::text(text.to_owned())], ..Artifact::default() };
    ArtifactUpdate { artifact, append, ..ArtifactUpdate::default() }
}

/// Folds a chunk as an item, or without one.
fn add(folded: &mut Folded, (id, text, append): (&str, &str, bool), as_item: bool, limits: &TaskLimits) {
    if as_item {
        return folded.apply(StreamItem::Artifact(update(id, text, append)), "", limits);
    }
    let around = std::sync::Arc::new(update(id, "", append));
    folded.add_chunk(Chunk { around, words: text.into() }, limits);
}

fn texts(folded: &Folded) -> Vec<(&str, String)> {
    let artifacts = folded.task.artifacts.iter();
    artifacts.map(|artifact| (artifact.artifact_id.as_str(), artifact.text())).collect()
}

fn is_marked(folded: &Folded) -> bool {
    folded.task.metadata.as_ref().is_some_and(|raw| raw.as_str().contains(TRUNCATED))
}

#[test]
fn a_text_over_the_limit_lacks_only_its_end() {
    let limits = limits(30, 10);
    for as_item in [true, false] {
        let mut folded = Folded::new(Task::default());
        for chunk in [
            ("a", "0123456789", false),
            ("a", "this chunk is too long for the limit", true),
            ("a", "small", true),
            ("b", "another", false),
            ("c", "dropped, because it does not fit either", false),
            ("c", "its end", true),
        ] {
            add(&mut folded, chunk, as_item, &limits);
        }
        let expected = [("a", "0123456789".to_owned()), ("b", "another".to_owned())];
        assert_eq!(texts(&folded), expected, "{as_item}");
        assert!(is_marked(&folded));
    }
}

#[test]
fn a_text_that_is_replaced_goes_on_from_its_new_start() {
    let limits = limits(30, 10);
    for as_item in [true, false] {
        let mut folded = Folded::new(Task::default());
        for chunk in [
            ("a", "0123456789", false),
            ("a", "this chunk is too long for the limit", true),
            ("a", "new", false),
            ("a", " text", true),
        ] {
            add(&mut folded, chunk, as_item, &limits);
        }
        assert_eq!(texts(&folded), [("a", "new text".to_owned())], "{as_item}");
        // The old content is no longer counted.
        for _ in 0..10 {
            add(&mut folded, ("a", "0123456789 123456789", false), as_item, &limits);
        }
        assert_eq!(texts(&folded), [("a", "0123456789 123456789".to_owned())], "{as_item}");
    }
}

#[test]
fn a_replacement_over_the_limit_is_not_mixed_with_what_it_replaces() {
    let limits = limits(30, 10);
    let mut folded = Folded::new(Task::default());
    for chunk in
        [("a", "old", false), ("a", "this text is too long for the limit", false), ("a", "end", true)]
    {
        add(&mut folded, chunk, true, &limits);
    }
    assert_eq!(texts(&folded), [("a", "old".to_owned())]);
    assert!(is_marked(&folded));
}

#[test]
fn an_artifact_beyond_their_number_stops_no_other() {
    let limits = limits(1000, 1);
    let mut folded = Folded::new(Task::default());
    for chunk in [("a", "one", false), ("b", "two", false), ("b", "end", true), ("a", " more", true)] {
        add(&mut folded, chunk, true, &limits);
    }
    assert_eq!(texts(&folded), [("a", "one more".to_owned())]);
    assert!(is_marked(&folded));
}
