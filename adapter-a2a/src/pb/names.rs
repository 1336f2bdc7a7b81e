//! Names of 0.3: `tasks/{id}` and `tasks/{id}/pushNotificationConfigs/{config}`.

const TASKS: &str = "tasks/";
const CONFIGS: &str = "/pushNotificationConfigs/";

pub(super) fn task_name(id: &str) -> String {
    format!("{TASKS}{id}")
}

pub(super) fn config_name(task_id: &str, id: &str) -> String {
    format!("{TASKS}{task_id}{CONFIGS}{id}")
}
