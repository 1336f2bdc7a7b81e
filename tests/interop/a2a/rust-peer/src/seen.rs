//! What a reader of a task's stream ends up with.

use a2a::{Artifact, Message, Part, PartContent, StreamResponse, TaskState, TaskStatus};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) task_id: String,
    pub(crate) context_id: String,
    pub(crate) events: usize,
    first: Option<&'static str>,
    state: Option<TaskState>,
    /// In the order in which they began.
    artifacts: Vec<(String, String)>,
    statuses: Vec<String>,
    files: Vec<Value>,
    data: Vec<Value>,
    message: Option<String>,
}

impl Seen {
    pub(crate) fn take(&mut self, event: StreamResponse) {
        self.events += 1;
        match event {
            StreamResponse::Task(task) => {
                self.first.get_or_insert("task");
                (self.task_id, self.context_id, self.state) =
                    (task.id, task.context_id, Some(task.status.state));
                for artifact in task.artifacts.unwrap_or_default() {
                    self.artifact(artifact, false);
                }
            }
            StreamResponse::Message(message) => {
                self.first.get_or_insert("message");
                self.message = Some(words(&message));
            }
            StreamResponse::StatusUpdate(update) => {
                self.first.get_or_insert("status_update");
                (self.task_id, self.context_id) = (update.task_id, update.context_id);
                self.status(update.status);
            }
            StreamResponse::ArtifactUpdate(update) => {
                self.first.get_or_insert("artifact_update");
                self.artifact(update.artifact, update.append.unwrap_or_default());
            }
        }
    }

    fn status(&mut self, status: TaskStatus) {
        self.statuses.extend(status.message.as_ref().map(words));
        self.state = Some(status.state);
    }

    fn artifact(&mut self, artifact: Artifact, append: bool) {
        let text = self.parts(artifact.parts);
        match self.artifacts.iter_mut().find(|(id, _)| *id == artifact.artifact_id) {
            Some((_, known)) if append => known.push_str(&text),
            Some((_, known)) => *known = text,
            None => self.artifacts.push((artifact.artifact_id, text)),
        }
    }

    fn parts(&mut self, parts: Vec<Part>) -> String {
        let mut text = String::new();
        for Part { content, filename, media_type, .. } in parts {
            match content {
                PartContent::Text(words) => text.push_str(&words),
                PartContent::Raw(bytes) => {
                    let data = STANDARD.encode(bytes);
                    self.files.push(json!({ "name": filename, "mediaType": media_type, "data": data }));
                }
                PartContent::Url(url) => {
                    self.files.push(json!({ "name": filename, "mediaType": media_type, "url": url }));
                }
                PartContent::Data(data) => self.data.push(data),
            }
        }
        text
    }

    pub(crate) fn text(&self) -> String {
        self.artifacts.iter().map(|(_, text)| text.as_str()).collect()
    }

    pub(crate) fn report(&self) {
        let answers: Vec<&str> =
            self.artifacts.iter().map(|(_, text)| text.as_str()).filter(|text| !text.is_empty()).collect();
        let report = json!({
            "first": self.first, "state": self.state, "answers": answers, "statuses": self.statuses,
            "files": self.files, "data": self.data, "message": self.message,
        });
        println!("{report}");
    }
}

fn words(message: &Message) -> String {
    message.parts.iter().filter_map(Part::as_text).collect()
}
