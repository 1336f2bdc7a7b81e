//! Replies to the interrupts of an agent, prompted for at the terminal or read from a pipe.

use std::io::Write;

use aqueduct_core::InterruptReply;
use aqueduct_core::event::RunFinished;
use serde_json::{Map, Value};

use super::ChatSession;
use super::answer::Field;
use super::lines::Line;

/// The result of prompting for replies.
pub(super) enum Answers {
    /// A reply to every interrupt.
    Given(Vec<InterruptReply>),
    /// The input has ended: no reply can be entered.
    None,
    /// Ctrl-C.
    Stopped,
}

impl ChatSession {
    /// Prompts for the replies to all interrupts of a run, one after the other. Replies are sent only if every
    /// interrupt has one.
    pub(super) async fn answers(
        &mut self,
        finished: &RunFinished,
        out: &mut dyn Write,
    ) -> anyhow::Result<Answers> {
        let mut replies = Vec::new();
        for pending in &finished.interrupts {
            let field = Field::answer(pending.interrupt.response_schema.as_ref());
            let payload = match self.answer(&field, out).await? {
                Ok(payload) => payload,
                Err(left) => return Ok(left),
            };
            replies.push(InterruptReply { id: pending.interrupt.id.clone(), resolved: true, payload });
        }
        Ok(Answers::Given(replies))
    }

    /// Prompts for the reply to one interrupt: a line, or a line for each member of an object. Input that does
    /// not fit is prompted for again at a terminal; from a pipe it is an error. The outer result is for errors
    /// of the terminal, the inner one for an input that ended.
    async fn answer(
        &mut self,
        field: &Field,
        out: &mut dyn Write,
    ) -> anyhow::Result<Result<Option<Value>, Answers>> {
        let members = field.members();
        loop {
            let line = match self.ask(field).await? {
                Ok(line) => line,
                Err(left) => return Ok(Err(left)),
            };
            // An empty line selects the prompts for the members below.
            if line.is_empty() && !members.is_empty() {
                break;
            }
            match field.read(&line) {
                Ok(value) => return Ok(Ok(value)),
                Err(what) => self.complain(&what, out)?,
            }
        }
        let mut object = Map::new();
        for member in &members {
            loop {
                let line = match self.ask(member).await? {
                    Ok(line) => line,
                    Err(left) => return Ok(Err(left)),
                };
                match member.read(&line) {
                    Ok(Some(value)) => drop(object.insert(member.name.clone(), value)),
                    Ok(None) => {}
                    Err(what) => {
                        self.complain(&what, out)?;
                        continue;
                    }
                }
                break;
            }
        }
        Ok(Ok(Some(Value::Object(object))))
    }

    /// Prompts for one line, with a hint about the expected value.
    async fn ask(&mut self, field: &Field) -> anyhow::Result<Result<String, Answers>> {
        let hint = field.hint();
        let prompt = if hint.is_empty() { "> ".to_owned() } else { format!("{hint} > ") };
        Ok(match self.lines.next(&prompt, false, &mut self.interrupts).await? {
            Line::Text(line) => Ok(line),
            Line::End => Err(Answers::None),
            Line::Stopped => Err(Answers::Stopped),
        })
    }

    /// Reports input that does not fit. Returns an error if no person can correct it.
    fn complain(&self, what: &str, out: &mut dyn Write) -> anyhow::Result<()> {
        // A pipe cannot correct its reply.
        anyhow::ensure!(self.lines.is_terminal(), "the answer does not fit: {what}");
        writeln!(out, "{what}")?;
        Ok(())
    }
}
