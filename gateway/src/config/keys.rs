//! Keys of a table as one list: the struct they are read into, their kinds, defaults and documentation.
//!
//! ```text
//! keys! { pub struct Log { /// The least severe level. level: LogLevel as Word<LogLevel> = "info", } }
//!         └► struct Log { level: LogLevel }         the value
//!         └► Log::keys() -> Vec<Key>                messages, `docs/configuration.md`, `config print`, JSON Schema
//!         └► Log::read(&At) -> Log                  the reader
//!         └► Log::default()                         all keys with their defaults
//! ```
//!
//! The comment of a field is shown to operators, so it describes the key and not the field.

use std::fmt::Write as _;

use super::document::At;
use super::kind::Kind;

/// One key of a table, as messages and the documentation show it.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    /// The name in the file; `*` stands for every name of a table of tables.
    pub(crate) name: &'static str,
    /// The comment of the field, as one line.
    pub(crate) about: String,
    /// The default as it would be written in the file; empty if the key has none.
    pub(crate) default: &'static str,
    /// How a value is written: [`Kind::expected`].
    pub(crate) expected: String,
    /// Set if the key may be absent; always set for tables.
    pub(crate) is_optional: bool,
    /// Keys of the table, if the key holds one.
    pub(crate) members: Vec<Key>,
}

impl Key {
    /// Returns the key, or the keys that replace it if its kind is inline.
    pub(crate) fn all<K: Kind>(name: &'static str, about: &[&str], default: &'static str) -> Vec<Self> {
        if K::IS_INLINE {
            return K::members();
        }
        let about: Vec<&str> = about.iter().map(|line| line.trim()).collect();
        let (about, expected) = (about.join(" "), K::expected());
        vec![Self { name, about, default, expected, is_optional: K::IS_OPTIONAL, members: K::members() }]
    }
}

/// A table with a fixed list of keys. Implemented by `keys!`.
pub(crate) trait Keys: Sized {
    /// The keys, in the order of the documentation.
    fn keys() -> Vec<Key>;

    /// Reads all keys of a table. Records errors in its document.
    fn read(at: &At<'_>) -> Self;
}

/// The value that a table is converted into: the table itself, or a value built from several keys.
pub(crate) trait Build: Keys {
    /// The type that the table becomes.
    type Output;

    /// Builds the value. Records an error and returns `None` if the keys contradict each other.
    fn build(self, at: &At<'_>) -> Option<Self::Output>;
}

/// Defines a table: `name: type as kind = "default"`. With `-> Output` the table is converted into another type by
/// [`Build`]. The comment of a field is the documentation of its key. A literal before the name is the key, where the
/// key is not a valid name of a field.
macro_rules! keys {
    ($(
        $(#[$meta:meta])*
        $vis:vis struct $table:ident $(-> $output:ty)? {
            $($(#[doc = $about:literal])+ $($key:literal)? $name:ident: $type:ty as $kind:ty $(= $default:literal)?,)+
        }
    )+) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[non_exhaustive]
        $vis struct $table {
            $($(#[doc = $about])+ $vis $name: $type,)+
        }

        impl $crate::config::Keys for $table {
            fn keys() -> Vec<$crate::config::Key> {
                let keys = [$($crate::config::Key::all::<$kind>(
                    $crate::config::keys!(@key $($key)? $name),
                    &[$($about),+],
                    concat!($($default)?),
                )),+];
                keys.concat()
            }

            fn read(at: &$crate::config::At<'_>) -> Self {
                Self {
                    $($name: at.get::<$kind>($crate::config::keys!(@key $($key)? $name), concat!($($default)?)),)+
                }
            }
        }

        $crate::config::keys! { @build $table $(-> $output)? }

        impl Default for $table {
            fn default() -> Self {
                $crate::config::default_of()
            }
        }
    )+};
    // Tables with an output of their own implement `Build` by hand.
    (@build $table:ident -> $output:ty) => {};
    (@build $table:ident) => {
        impl $crate::config::Build for $table {
            type Output = Self;

            fn build(self, _: &$crate::config::At<'_>) -> Option<Self> {
                Some(self)
            }
        }
    };
    (@key $key:literal $name:ident) => { $key };
    (@key $name:ident) => { stringify!($name) };
}

pub(crate) use keys;

/// Appends the rows of a table of the documentation: key, kind, default (if `has_defaults`), meaning.
pub(crate) fn rows(text: &mut String, path: &str, keys: &[Key], has_defaults: bool) {
    for Key { name, about, default, expected, members, .. } in keys {
        let name = if path.is_empty() { (*name).to_owned() } else { format!("{path}.{name}") };
        if has_defaults && !members.is_empty() {
            rows(text, &name, members, has_defaults);
            continue;
        }
        let names: Vec<String> = members.iter().map(|member| format!("`{}`", member.name)).collect();
        let members = if names.is_empty() { String::new() } else { format!(": {}", names.join(", ")) };
        let default = match (has_defaults, default.is_empty()) {
            (false, _) => String::new(),
            (true, true) => " none |".to_owned(),
            (true, false) => format!(" `{default}` |"),
        };
        // Writing to a `String` cannot fail.
        writeln!(text, "| `{name}` | {expected}{members} |{default} {about} |").ok();
    }
}
