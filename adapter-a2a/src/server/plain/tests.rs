//! What a view holds of a task.

use serde_json::json;

use super::*;

fn piece(id: &str, text: &str, replaces: Option<&str>, append: bool, last: bool) -> StreamItem<'static> {
    let mut mark = json!({"kind": "text"});
    if let Some(old) = replaces {
        mark["replaces"] = old.into();
    }
    let artifact = Artifact {
        artifact_id: Text::from(id.to_owned()),
        parts: vec![Part::text(text.to_owned())],
        metadata: Some(Raw::from_value(&json!({ mark::KEY: mark }))),
        ..Artifact::default()
    };
    StreamItem::Artifact(ArtifactUpdate { artifact, append, last_chunk: last, ..ArtifactUpdate::default() })
}

fn held(view: &PlainView) -> usize {
    view.artifacts.values().filter_map(|seen| seen.text.as_ref()).map(String::len).sum()
}

/// Replaced texts are not held any more: the last one still closes with its whole text.
#[test]
fn texts_that_are_replaced_do_not_count() {
    let mut view = PlainView::new(20);
    let mut out = VecDeque::new();
    view.handle_item(piece("0", "0123456789", None, false, false), &mut out);
    for turn in 1..10 {
        let (id, old) = (turn.to_string(), (turn - 1).to_string());
        view.handle_item(piece(&id, "01234", Some(&old), false, false), &mut out);
        // The same artifact once more.
        view.handle_item(piece(&id, "01234", None, false, false), &mut out);
        assert_eq!((view.bytes, held(&view)), (5, 5), "{turn}");
    }
    out.clear();
    view.handle_item(piece("9", "56789", None, true, true), &mut out);
    let Some(StreamItem::Artifact(closing)) = out.pop_back() else { panic!("{out:?}") };
    assert_eq!((closing.artifact.text(), closing.append), ("0123456789".to_owned(), false));
}

#[test]
fn a_view_never_holds_more_than_its_limit() {
    let mut view = PlainView::new(20);
    let mut out = VecDeque::new();
    for id in ["a", "b", "c"] {
        view.handle_item(piece(id, "0123456789", None, false, false), &mut out);
        assert_eq!(view.bytes, held(&view));
        assert!(view.bytes <= 20, "{id}");
    }
}
