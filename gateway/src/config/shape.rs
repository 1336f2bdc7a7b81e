//! Kinds that are composed of other kinds.
//!
//! | kinds | |
//! |---|---|
//! | `List` `Maybe` `Needed` | a list, an optional value, a required value |
//! | `Section` `Inline` `Named` `Tables` | a table, keys of the enclosing table, tables by name, `[[tables]]` |
//!
//! They are types without values: a `keys!` table names one per key, and reader, documentation and schema use its
//! functions. A composed kind records the errors of its members at their own places and returns [`Wrong::Recorded`].

use std::collections::BTreeMap;
use std::marker::PhantomData;

use toml::de::DeValue;

use super::document::At;
use super::keys::{Build, Key};
use super::kind::{Kind, Wrong};

/// A list of at least `MIN` elements.
///
/// ```text
/// listen = ["127.0.0.1:8080", "[::1]:8080"]              in the file
/// AQUEDUCT_SERVER__LISTEN=127.0.0.1:8080,[::1]:8080      in the environment
/// ```
pub(crate) struct List<K, const MIN: usize = 0>(PhantomData<K>);

impl<K: Kind, const MIN: usize> Kind for List<K, MIN> {
    type Value = Vec<K::Value>;

    fn expected() -> String {
        let item = K::expected();
        let item = item.strip_prefix("one of ").or_else(|| item.strip_prefix("a ")).unwrap_or(&item);
        match item {
            "text" => "a list of texts".to_owned(),
            item => format!("a list of {}", item.replacen("secret ", "secrets ", 1)),
        }
    }

    fn read(at: &At<'_>) -> Result<Self::Value, Wrong> {
        // A variable holds a list as values separated by commas; brackets and quotes are allowed.
        let loose = at.loose_text().map(|text| {
            let texts = text.trim_matches(['[', ']']).split(',').map(|item| item.trim().trim_matches('"'));
            texts.filter(|item| !item.is_empty()).map(|item| at.with_text(item)).collect::<Vec<_>>()
        });
        let items: Vec<_> = match (at.value(), &loose) {
            (DeValue::Array(items), _) => items.iter().collect(),
            (_, Some(items)) => items.iter().collect(),
            _ => return Err(Wrong::Type),
        };
        if items.len() < MIN {
            return Err(Wrong::Value(format!("expected {}: at least one", Self::expected())));
        }
        let read = |item| {
            let item = at.item(item);
            K::read(&item).map_err(|wrong| item.record(wrong, &Self::expected())).ok()
        };
        // Every element is read, so that all invalid ones are recorded, each with its own place.
        let values: Vec<Option<K::Value>> = items.into_iter().map(read).collect();
        values.into_iter().collect::<Option<_>>().ok_or(Wrong::Recorded)
    }
}

/// An optional key without a default: the field is `None` if the key is absent.
pub(crate) struct Maybe<K>(PhantomData<K>);

impl<K: Kind> Kind for Maybe<K> {
    type Value = Option<K::Value>;

    const IS_OPTIONAL: bool = true;

    fn expected() -> String {
        K::expected()
    }

    fn read(at: &At<'_>) -> Result<Self::Value, Wrong> {
        K::read(at).map(Some)
    }

    fn members() -> Vec<Key> {
        K::members()
    }
}

/// A required key. Its absence is recorded at the table, because the key has no place of its own.
pub(crate) struct Needed<K>(PhantomData<K>);

impl<K: Kind> Kind for Needed<K> {
    type Value = K::Value;

    fn expected() -> String {
        K::expected()
    }

    fn read(at: &At<'_>) -> Result<Self::Value, Wrong> {
        K::read(at)
    }

    /// Records the missing key. The returned value is never used: a document with an error yields no value.
    fn absent(table: &At<'_>, name: &str) -> Self::Value
    where
        Self::Value: Default,
    {
        table.fail("", format!("needs `{name}`: {}", K::expected()));
        Self::Value::default()
    }
}

/// A table. Members that are not keys of `T` are errors: a misspelt key must not be ignored.
pub(crate) struct Section<T>(PhantomData<T>);

impl<T: Build> Kind for Section<T> {
    type Value = T::Output;

    fn expected() -> String {
        "a table".to_owned()
    }

    /// Checks the names of the keys, reads all of them, and builds the value.
    fn read(at: &At<'_>) -> Result<T::Output, Wrong> {
        at.check_keys(&T::keys())?;
        T::read(at).build(at).ok_or(Wrong::Recorded)
    }

    fn members() -> Vec<Key> {
        T::keys()
    }
}

/// Keys of the enclosing table that together make one value, such as the engine of the run log in `[runs]`. The
/// enclosing `Section` checks their names.
pub(crate) struct Inline<T>(PhantomData<T>);

impl<T: Build> Kind for Inline<T> {
    type Value = T::Output;

    const IS_INLINE: bool = true;

    fn expected() -> String {
        Section::<T>::expected()
    }

    /// Reads from the enclosing table, which has checked the names.
    fn read(at: &At<'_>) -> Result<T::Output, Wrong> {
        T::read(at).build(at).ok_or(Wrong::Recorded)
    }

    fn members() -> Vec<Key> {
        T::keys()
    }
}

/// Tables with the same keys, each with a name: `[agents.NAME]`. An invalid table is recorded and left out; the others
/// are read.
pub(crate) struct Named<T>(PhantomData<T>);

impl<T: Build> Kind for Named<T> {
    type Value = BTreeMap<String, T::Output>;

    fn expected() -> String {
        Section::<T>::expected()
    }

    fn read(at: &At<'_>) -> Result<Self::Value, Wrong> {
        let mut tables = BTreeMap::new();
        for (name, table) in at.members()? {
            if !is_name(name) {
                table.fail("", "expected a name of letters, digits, `-` and `_`, at most 64 of them");
            } else if let Some(read) = table.read::<Section<T>>() {
                tables.insert(name.to_owned(), read);
            }
        }
        Ok(tables)
    }

    /// The key `*` stands for every name.
    fn members() -> Vec<Key> {
        Key::all::<Section<T>>("*", &[], "")
    }
}

/// A list of tables with the same keys: `[[step]]`. Their order is kept. Errors name an element by its number, from 1.
pub(crate) struct Tables<T>(PhantomData<T>);

impl<T: Build> Kind for Tables<T> {
    type Value = Vec<T::Output>;

    fn expected() -> String {
        "tables (`[[…]]`)".to_owned()
    }

    fn read(at: &At<'_>) -> Result<Self::Value, Wrong> {
        let elements = at.elements();
        if !elements.iter().all(|element| matches!(element.value(), DeValue::Table(_))) {
            return Err(Wrong::Type);
        }
        Ok(elements.iter().filter_map(At::read::<Section<T>>).collect())
    }
}

/// Returns `true` if the name can be part of an address (`/agents/{name}`) without escaping.
fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    !name.is_empty() && name.len() <= 64 && name.bytes().all(allowed)
}
