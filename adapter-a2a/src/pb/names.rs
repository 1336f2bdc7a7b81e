//! Names of 0.3: `tasks/{id}` and `tasks/{id}/pushNotificationConfigs/{config}`.

const TASKS: &str = "tasks/";
const CONFIGS: &str = "/pushNotificationConfigs/";

pub(super) fn task_name(id: &str) -> String {
    format!("{TASKS}{id}")
}

pub(super) fn config_name(task_id: &str, id: &str) -> String {
    format!("{TASKS}{task_id}{CONFIGS}{id}")
}

/// Returns the id in the name of a task. Names without the prefix are accepted.
#[cfg(feature = "server")]
pub(super) fn task_id(name: &str) -> &str {
    config_ids(name).0
}

/// Returns the ids in the name of a configuration; the second is empty if it has none.
#[cfg(feature = "server")]
pub(super) fn config_ids(name: &str) -> (&str, &str) {
    let rest = name.strip_prefix(TASKS).unwrap_or(name);
    rest.split_once(CONFIGS).unwrap_or((rest, ""))
}

#[cfg(all(test, feature = "server"))]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_ids() {
        assert_eq!(task_id(&task_name("a/b")), "a/b");
        assert_eq!(config_ids(&config_name("t", "c")), ("t", "c"));
        assert_eq!((task_id("bare"), config_ids("tasks/t")), ("bare", ("t", "")));
        assert_eq!(task_id(&config_name("t", "c")), "t");
    }
}
