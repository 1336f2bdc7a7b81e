//! [`Scripts`]: the scripts of the engine, executed by Lua 5.1, as on the server.
//!
//! A script calls back into the server for every command. Values are converted by the rules of Redis: a missing value is `false`
//! in Lua, a number of Lua becomes an integer reply, a list ends at its first `nil`.

use std::collections::BTreeMap;

use ::redis::Script;
use mlua::{Function, Lua, LuaString, MultiValue, Value};

use super::reply::{Reply, Text};
use crate::planted::Planted;

/// The scripts that were loaded since the server started, by their hashes.
#[derive(Debug, Default)]
pub struct Scripts {
    lua: Lua,
    by_hash: BTreeMap<String, Loaded>,
}

/// A script.
#[derive(Debug)]
struct Loaded {
    /// The first sentence of the script, for the trace.
    title: String,
    function: Function,
}

impl Scripts {
    /// Loads a script, without the rule that a planted fault takes away. Returns its hash.
    pub fn load(&mut self, text: &str, planted: Option<Planted>) -> Reply {
        let script = Script::new(text);
        let title = text.trim_start_matches(['-', ' ']).split('.').next().unwrap_or_default().to_owned();
        let text = match planted {
            Some(Planted::AcceptGap) => text.replace("then return 'behind ' .. m[2] end", "then end"),
            _ => text.to_owned(),
        };
        match self.lua.load(text).into_function() {
            Ok(function) => {
                self.by_hash.insert(script.get_hash().to_owned(), Loaded { title, function });
                Reply::Bulk(script.get_hash().as_bytes().to_vec())
            }
            Err(error) => Reply::Error(format!("ERR Error compiling script: {error}")),
        }
    }

    /// Forgets all scripts, as a server that restarts.
    pub fn forget(&mut self) {
        self.by_hash.clear();
    }

    /// Returns the first sentence of a script.
    pub fn title(&self, hash: &str) -> &str {
        self.by_hash.get(hash).map_or("an unknown script", |loaded| &loaded.title)
    }

    /// Executes a script. `call` executes the commands that the script calls.
    pub fn execute(
        &self,
        hash: &str,
        keys: &[Text],
        args: &[Text],
        mut call: impl FnMut(&[Text]) -> Reply,
    ) -> Reply {
        let Some(Loaded { function, .. }) = self.by_hash.get(hash) else {
            return Reply::Error("NOSCRIPT No matching script. Please use EVAL.".to_owned());
        };
        let lua = &self.lua;
        let mut run = || {
            lua.scope(|scope| {
                let called = scope.create_function_mut(|lua, command: MultiValue| {
                    let command = command.iter().map(argument).collect::<mlua::Result<Vec<_>>>()?;
                    to_lua(lua, call(&command))
                })?;
                let redis = lua.create_table()?;
                redis.set("call", called)?;
                let globals = lua.globals();
                globals.set("redis", redis)?;
                globals.set("KEYS", strings(lua, keys)?)?;
                globals.set("ARGV", strings(lua, args)?)?;
                function.call::<Value>(()).map(|value| to_reply(&value))
            })
        };
        run().unwrap_or_else(|error| Reply::Error(format!("ERR {}", first_line(&error.to_string()))))
    }
}

/// An error reply is one line.
fn first_line(error: &str) -> &str {
    error.lines().next().unwrap_or_default()
}

fn strings(lua: &Lua, texts: &[Text]) -> mlua::Result<Vec<LuaString>> {
    texts.iter().map(|text| lua.create_string(text)).collect()
}

/// Returns the argument of a command. A number is sent as text.
fn argument(value: &Value) -> mlua::Result<Text> {
    match value {
        Value::String(text) => Ok(text.as_bytes().to_vec()),
        Value::Integer(number) => Ok(number.to_string().into_bytes()),
        Value::Number(number) => Ok(number.to_string().into_bytes()),
        other => {
            Err(mlua::Error::runtime(format!("an argument must be a string or a number, not {other:?}")))
        }
    }
}

fn to_lua(lua: &Lua, reply: Reply) -> mlua::Result<Value> {
    match reply {
        Reply::Nil => Ok(Value::Boolean(false)),
        Reply::Integer(number) => Ok(Value::Integer(number)),
        Reply::Bulk(text) => lua.create_string(text).map(Value::String),
        Reply::Status(word) => {
            let table = lua.create_table()?;
            table.set("ok", word)?;
            Ok(Value::Table(table))
        }
        Reply::List(replies) => {
            let table = lua.create_table()?;
            for reply in replies {
                table.push(to_lua(lua, reply)?)?;
            }
            Ok(Value::Table(table))
        }
        Reply::Error(error) => Err(mlua::Error::runtime(error)),
    }
}

fn to_reply(value: &Value) -> Reply {
    match value {
        Value::Boolean(true) => Reply::Integer(1),
        Value::Integer(number) => Reply::Integer(*number),
        // A fraction is cut off, as on the server.
        Value::Number(number) => format!("{:.0}", number.trunc()).parse().map_or(Reply::Nil, Reply::Integer),
        Value::String(text) => Reply::Bulk(text.as_bytes().to_vec()),
        Value::Table(table) => {
            let values = table.sequence_values::<Value>().map_while(Result::ok);
            Reply::List(values.map(|value| to_reply(&value)).collect())
        }
        _ => Reply::Nil,
    }
}
