//! Resource names of 0.3: `tasks/{id}` and `tasks/{id}/pushNotificationConfigs/{config}`.
//!
//! 1.0 names tasks and configurations by their ids. 0.3 follows the naming of Google APIs over gRPC and REST, so
//! requests write these names and the server parses them. Ids are not escaped: a task id with a slash is kept,
//! because the parser only looks for the fixed segments. An id that contains `/pushNotificationConfigs/` cannot
//! be named.

/// The prefix of every name.
const TASKS: &str = "tasks/";
/// The segment between the id of a task and that of its configuration.
const CONFIGS: &str = "/pushNotificationConfigs/";

/// Returns the name of a task.
pub(super) fn task_name(id: &str) -> String {
    format!("{TASKS}{id}")
}

/// Returns the name of a push configuration. An empty `id` leaves the choice of the id to the server.
pub(super) fn config_name(task_id: &str, id: &str) -> String {
    format!("{TASKS}{task_id}{CONFIGS}{id}")
}

/// Returns the id in the name of a task, or of a configuration below it. A name without the prefix is taken as
/// the id itself.
#[cfg(feature = "server")]
pub(super) fn task_id(name: &str) -> &str {
    config_ids(name).0
}

/// Returns the ids of the task and of the configuration in a name. The second is empty if the name is that of a
/// task.
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
