//! From TOML to a script. All that is wrong is told at once, with file, line, column and key.

mod step;
mod table;

use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::DeTable;

use super::keys::{FILE_KEYS, MATCH_KEYS, RULE_KEYS, STEP_KEYS};
use super::model::{Match, Rule, Script, Step};
use crate::config::{ConfigError, TomlFile};
use table::Table;

/// Reads the text of the file at `path`.
pub(super) fn read(path: &Path, text: &str) -> Result<Script, Vec<ConfigError>> {
    let mut reader = Reader { file: TomlFile::new(path, text), errors: Vec::new() };
    let script = match DeTable::parse(text) {
        Ok(table) => reader.script(&table),
        Err(error) => {
            let what = format!("not TOML: {}", error.message());
            let place = reader.file.place(error.span().unwrap_or_default());
            return Err(vec![ConfigError { place, key: String::new(), what }]);
        }
    };
    if reader.errors.is_empty() { Ok(script) } else { Err(reader.errors) }
}

struct Reader<'t> {
    file: TomlFile<'t>,
    errors: Vec<ConfigError>,
}

impl Reader<'_> {
    fn fail(&mut self, span: Range<usize>, key: impl Into<String>, what: impl Into<String>) {
        let place = self.file.place(span);
        self.errors.push(ConfigError { place, key: key.into(), what: what.into() });
    }

    fn script(&mut self, table: &Spanned<DeTable<'_>>) -> Script {
        let mut file = Table::new(self, String::new(), table, FILE_KEYS);
        let description = file.text("description").unwrap_or_default();
        let is_card_v1 = file.word("card").is_some_and(|word| word == "1.0");
        let input_modes = file.texts("input_modes").unwrap_or_default();
        let rule_tables = file.tables("rule");
        let step_tables = file.tables("step");
        let mut rules: Vec<Rule> = Vec::new();
        for (index, table) in rule_tables.iter().enumerate() {
            if rules.last().is_some_and(|rule| rule.matches.is_default()) {
                let what = "is never played: the rule before it has no `match` and fits every message";
                self.fail(table.span(), format!("rule[{}]", index + 1), what);
            }
            rules.push(self.rule(table, &format!("rule[{}]", index + 1)));
        }
        if !step_tables.is_empty() || rules.is_empty() {
            rules.push(Rule { matches: Match::default(), steps: self.steps(&step_tables, "step") });
        }
        Script { description, is_card_v1, input_modes, rules }
    }

    fn rule(&mut self, table: &Spanned<DeTable<'_>>, path: &str) -> Rule {
        let mut rule = Table::new(self, path.to_owned(), table, RULE_KEYS);
        let matches = rule.table("match", MATCH_KEYS, |table| Match {
            text: table.text("text"),
            message_id_prefix: table.text("message_id_prefix"),
        });
        let steps = rule.tables("step");
        Rule { matches: matches.unwrap_or_default(), steps: self.steps(&steps, &format!("{path}.step")) }
    }

    fn steps(&mut self, tables: &[Spanned<DeTable<'_>>], path: &str) -> Vec<Step> {
        let mut steps = Vec::new();
        for (index, table) in tables.iter().enumerate() {
            let mut table = Table::new(self, format!("{path}[{}]", index + 1), table, STEP_KEYS);
            if let Some(step) = table.step(index) {
                steps.push(step);
            }
        }
        steps
    }
}
