//! Conversion of the text of a Magentic plan to the well-known plan block.
//!
//! The manager writes one text: the request, the team (`- name: what it does`), the facts, and under a fixed heading the
//! plan. The heading is the framework's prompt, which the user can change, so the whole text is always kept, and steps are
//! extracted only if the heading is found.

use serde_json::{Value, json};

/// The sentence before the plan in the manager's prompt. The framework sends plans as text alone.
const PLAN_HEADING: &str = "Here is the plan to follow as best as possible:";
/// The sentence before the list of agents in the same prompt.
const TEAM_HEADING: &str = "we have assembled the following team:";

/// Returns the value of a plan block.
pub(super) fn plan(text: &str) -> Value {
    let team = team(text);
    let lines = text.rsplit_once(PLAN_HEADING).map(|(_, plan)| plan.lines()).into_iter().flatten();
    let titles =
        lines.map(|line| line.trim().trim_start_matches(is_bullet).trim()).filter(|line| !line.is_empty());
    let steps: Vec<Value> = titles
        .enumerate()
        .map(|(index, title)| {
            let mut step = json!({"id": (index + 1).to_string(), "title": title, "status": "pending"});
            if let (Some(agent), Some(fields)) = (agent_of(title, &team), step.as_object_mut()) {
                fields.insert("agent".to_owned(), json!(agent));
            }
            step
        })
        .collect();
    json!({"steps": steps, "text": text.trim()})
}

fn is_bullet(c: char) -> bool {
    matches!(c, '-' | '*' | '•' | ' ')
}

/// Returns the lines of the list of agents.
fn team(text: &str) -> Vec<&str> {
    let Some((_, rest)) = text.split_once(TEAM_HEADING) else { return Vec::new() };
    let lines = rest.trim_start().lines().take_while(|line| line.trim_start().starts_with('-'));
    lines
        .filter_map(|line| line.trim_start_matches(is_bullet).split_once(':').map(|(name, _)| name.trim()))
        .collect()
}

/// Returns the member of the team with which a step starts.
fn agent_of<'a>(title: &str, team: &[&'a str]) -> Option<&'a str> {
    let starts = |name: &&&str| {
        let rest = title.trim_start_matches(['*', '`']).strip_prefix(**name);
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
    };
    team.iter().filter(starts).max_by_key(|name| name.len()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_and_their_agents_are_found_under_the_heading() {
        let text = "\nTo answer this request we have assembled the following team:\n\n- researcher: finds\n\
                    - writer: writes\n\n\nHere is the plan to follow as best as possible:\n\n\
                    - researcher looks up facts\n* writer writes\n- then stop\n";
        let plan = plan(text);
        assert_eq!(
            plan["steps"],
            json!([
                {"id": "1", "title": "researcher looks up facts", "status": "pending", "agent": "researcher"},
                {"id": "2", "title": "writer writes", "status": "pending", "agent": "writer"},
                {"id": "3", "title": "then stop", "status": "pending"},
            ])
        );
    }

    #[test]
    fn a_plan_in_other_words_is_kept_whole() {
        assert_eq!(plan(" do it\n"), json!({"steps": [], "text": "do it"}));
    }
}
