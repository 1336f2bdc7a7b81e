//! The conversion of stream items to protobuf and back.

mod client;
mod server;

use prost::Message as _;
use serde_json::json;

use super::*;
use crate::wire::{Content, Dialect, Frame, FrameContent, Part, Raw, StreamItem, TaskState};

fn through_v1(item: &StreamItem<'_>) -> StreamItem<'static> {
    let bytes = item.to_v1().encode_to_vec();
    StreamItem::from_v1(v1::StreamResponse::decode(&*bytes).unwrap()).unwrap()
}

fn through_v03(item: &StreamItem<'_>) -> StreamItem<'static> {
    let bytes = item.to_v03().encode_to_vec();
    StreamItem::from_v03(v03::StreamResponse::decode(&*bytes).unwrap()).unwrap()
}

/// Every recorded JSON stream is equal after a conversion through either package.
#[test]
fn recorded_items_survive_both_packages() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/a2a");
    let mut items = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "sse") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for line in text.lines().filter_map(|line| line.strip_prefix("data: ")) {
            let Ok(FrameContent::Item(item)) = Frame::data(&line.into()).parse(Dialect::V1).map(own) else {
                continue;
            };
            items += 1;
            let canonical = |item: &StreamItem<'_>| {
                let mut json = item.to_json(Dialect::V1);
                soften(&mut json);
                json
            };
            assert_eq!(canonical(&through_v1(&item)), canonical(&item), "{}", path.display());
            assert_eq!(canonical(&through_v03(&item)), canonical(&item), "{}", path.display());
        }
    }
    assert!(items > 400, "{items}");
}

fn own(content: FrameContent<'_>) -> FrameContent<'static> {
    let FrameContent::Item(item) = content else {
        return FrameContent::Unknown(Raw::from_value(&json!(null)));
    };
    let text = item.to_json(Dialect::V1).to_string();
    let leaked: &'static str = Box::leak(text.into_boxed_str());
    FrameContent::parse(leaked, Dialect::V1).unwrap()
}

/// Removes what protobuf cannot represent: the format of times, whole doubles, media types of data and text in 0.3.
fn soften(json: &mut serde_json::Value) {
    match json {
        serde_json::Value::Object(object) => {
            object.remove("timestamp");
            if object.contains_key("data") {
                object.remove("mediaType");
            }
            object.retain(|key, value| {
                !(key == "metadata" && value.as_object().is_some_and(serde_json::Map::is_empty))
            });
            object.values_mut().for_each(soften);
        }
        serde_json::Value::Array(list) => list.iter_mut().for_each(soften),
        serde_json::Value::Number(number) => {
            if let Some(float) = number.as_f64().filter(|float| float.fract() == 0.0) {
                *json = json!(format!("{float}"));
            }
        }
        _ => {}
    }
}

#[test]
fn times_states_and_files_survive() {
    let mut status = crate::wire::StatusUpdate { is_final: true, ..Default::default() };
    status.status.state = TaskState::Canceled;
    status.status.timestamp = "2026-11-16T01:49:08.831Z".into();
    let item = StreamItem::Status(status);
    let StreamItem::Status(read) = through_v03(&item) else { panic!() };
    assert_eq!((&read.status.state, read.is_final), (&TaskState::Canceled, true));
    assert!(read.status.timestamp.starts_with("2026-11-16T01:49:08.831"), "{:?}", read.status.timestamp);
    let file = Part {
        filename: "a.png".into(),
        media_type: "image/png".into(),
        ..Part::new(Content::Bytes("AAEC".into()))
    };
    assert_eq!(Part::from(v1::Part::from(&file)), file);
    assert_eq!(Part::from(v03::Part::from(&file)), file);
    // Python's SDKs send the base64 text instead of the bytes.
    let text = v03::file_part::File::FileWithBytes(b"AAEC".to_vec());
    let twice = v03::FilePart { file: Some(text), mime_type: "image/png".into(), name: "a.png".into() };
    let twice = v03::Part { part: Some(v03::part::Part::File(twice)), metadata: None };
    assert_eq!(Part::from(twice), file);
    assert_eq!(v1::Part::from(&file).content, Some(v1::part::Content::Raw(vec![0, 1, 2])));
    let list = Part::data(&json!([1, "x", null, {"k": 1.5}]));
    assert_eq!(Part::from(v1::Part::from(&list)), list);
    assert_eq!(Part::from(v03::Part::from(&list)), list, "data that is no object is wrapped and unwrapped");
}

#[test]
fn referenced_tasks_and_extensions_of_a_message_survive() {
    let message = crate::wire::Message {
        message_id: "m".to_owned().into(),
        reference_task_ids: vec!["t-1".to_owned().into(), "t-2".to_owned().into()],
        extensions: vec!["urn:x".to_owned().into()],
        ..crate::wire::Message::default()
    };
    let StreamItem::Message(read) = through_v1(&StreamItem::Message(message)) else { panic!("no message") };
    let texts =
        |list: &[crate::wire::Text<'_>]| list.iter().map(|text| text.as_str().to_owned()).collect::<Vec<_>>();
    assert_eq!(texts(&read.reference_task_ids), ["t-1", "t-2"]);
    assert_eq!(texts(&read.extensions), ["urn:x"]);
}

#[test]
fn numbers_that_no_name_has_are_kept() {
    let status = v1::TaskStatus { state: 42, ..v1::TaskStatus::default() };
    let read = crate::wire::TaskStatus::from(status.clone());
    assert_eq!(read.state, TaskState::Other("42".into()));
    assert_eq!(v1::TaskStatus::from(&read), status);
}

#[test]
fn field_numbers_are_the_protocols() {
    // 0.3: artifact name is field 3, final is 4; 1.0: artifact name is field 2.
    let name = v03::Artifact { name: "n".into(), ..v03::Artifact::default() };
    assert_eq!(name.encode_to_vec(), [3 << 3 | 2, 1, b'n']);
    let name = v1::Artifact { name: "n".into(), ..v1::Artifact::default() };
    assert_eq!(name.encode_to_vec(), [2 << 3 | 2, 1, b'n']);
    let done = v03::TaskStatusUpdateEvent { r#final: true, ..v03::TaskStatusUpdateEvent::default() };
    assert_eq!(done.encode_to_vec(), [4 << 3, 1]);
    let list = v1::ListTaskPushNotificationConfigsRequest { tenant: "t".into(), ..Default::default() };
    assert_eq!(list.encode_to_vec(), [4 << 3 | 2, 1, b't']);
    assert_eq!(v1::StreamResponse::default().payload, None);
    assert_eq!(StreamItem::from_v1(v1::StreamResponse::default()), None);
}
