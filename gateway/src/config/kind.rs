//! Kinds of values: what a key holds, how it is written, and the type it becomes.
//!
//! | kinds | |
//! |---|---|
//! | `Text` `Url` `BaseUrl` `Delay` `Count` `Size` `Flag` `Word` `Factor` `Address` `Net` `HeaderName` `Host` `Origin` `Json` | one value |
//! | `File` `Folder` `SecretName` | one value that refers to another: a path, a secret |
//! | `shape` | lists, tables, optional and required values |
//!
//! Invariant: no message contains a value that was written in place of a secret's name.

use std::marker::PhantomData;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use aqueduct_transport_http::Network;
use toml::de::DeValue;

use super::document::{At, did_you_mean};
use super::keys::Key;
use super::model::Secret;
use crate::source::replay::Speed;

/// Why a value is invalid.
#[derive(Debug)]
pub(crate) enum Wrong {
    /// The value is not of the expected kind. The message shows the value.
    Kind,
    /// The value is not of the expected kind, and the message must not show it.
    Type,
    /// Another reason, as a sentence.
    Value(String),
    /// Members of the value are invalid; their errors are already recorded.
    Recorded,
}

/// A kind of value that a key can hold.
pub(crate) trait Kind {
    /// The type of the field that the value is read into.
    type Value;

    /// Set if the keys of this kind belong to the table of the key and not to a table of their own.
    const IS_INLINE: bool = false;

    /// Set if the key may be absent and has no default.
    const IS_OPTIONAL: bool = false;

    /// Describes how a value is written, for messages and the documentation.
    fn expected() -> String;

    /// Reads the value. The caller records the error, with the place of the value and the description of the kind.
    fn read(at: &At<'_>) -> Result<Self::Value, Wrong>;

    /// Returns the value of a key that is absent.
    fn absent(_table: &At<'_>, _name: &str) -> Self::Value
    where
        Self::Value: Default,
    {
        Self::Value::default()
    }

    /// Returns the keys of the table, if the kind is a table.
    fn members() -> Vec<Key> {
        Vec::new()
    }
}

/// Defines kinds of a single value: the description, and the function that reads it.
macro_rules! kinds {
    ($($(#[$meta:meta])* $kind:ident -> $value:ty: $expected:literal, $read:expr;)+) => {$(
        $(#[$meta])*
        pub(crate) struct $kind;

        impl Kind for $kind {
            type Value = $value;

            fn expected() -> String {
                $expected.to_owned()
            }

            fn read(at: &At<'_>) -> Result<$value, Wrong> {
                let read: fn(&At<'_>) -> Option<$value> = $read;
                read(at).ok_or(Wrong::Kind)
            }
        }
    )+};
}

kinds! {
    Text -> String: "text", |at| at.text().map(str::to_owned);
    Url -> String: "a URL (`http://…` or `https://…`)", |at| at.text().filter(|url| is_url(url)).map(str::to_owned);
    /// A URL to which paths are appended.
    BaseUrl -> String: "a URL (`http://…` or `https://…`)",
        |at| at.text().filter(|url| is_url(url)).map(|url| url.trim_end_matches('/').to_owned());
    /// A host name as requests carry it in `Host`.
    Host -> String: "names of hosts (`example.org`, `example.org:8443`)", |at| {
        let host = at.text()?;
        host.parse::<http::uri::Authority>().ok().filter(|host| !host.as_str().contains('@'))?;
        Some(host.to_owned())
    };
    /// An origin as browsers send it in `Origin`.
    Origin -> String: "origins (`https://example.org`, without a path or a default port)", |at| {
        let origin = at.text()?;
        // Browsers omit the default port, so an origin with the default port would never match.
        let is_origin = |scheme: &str, rest: &str| {
            let never = [("http", ":80"), ("https", ":443")];
            !rest.is_empty()
                && !rest.contains(['/', '?', '#', '*', '@'])
                && !never.iter().any(|(of, port)| scheme == *of && rest.ends_with(port))
        };
        let is_good = origin == "null" || origin.split_once("://").is_some_and(|(scheme, rest)| is_origin(scheme, rest));
        is_good.then(|| origin.to_owned())
    };
    Delay -> Duration: "a duration (`500ms`, `30s`, `5m`, `1h`)", |at| duration(at.text()?);
    Count -> usize: "a whole number from 1", |at| count(at)?.try_into().ok();
    /// A count that may exceed `usize`.
    LongCount -> u64: "a whole number from 1", count;
    /// A count that may be zero.
    Whole -> u32: "a whole number", |at| {
        at.loose_text().map_or_else(|| number(at), |text| text.parse().ok())?.try_into().ok()
    };
    /// A fraction of one.
    ShareOfOne -> Share: "a number from 0 to 1", |at| {
        let share = match at.value() {
            DeValue::Integer(number) => number.as_str().parse::<f64>().ok(),
            DeValue::Float(number) => number.as_str().parse::<f64>().ok(),
            _ => at.loose_text()?.parse::<f64>().ok(),
        };
        share.and_then(Share::new)
    };
    /// A size in bytes.
    Size -> usize: "a size in bytes (`65536`, `64KiB`, `10MiB`)",
        |at| at.text().map_or_else(|| number(at), size).filter(|size| *size > 0)?.try_into().ok();
    Flag -> bool: "`true` or `false`", |at| match at.value() {
        DeValue::Boolean(flag) => Some(*flag),
        _ => at.loose_text()?.parse().ok(),
    };
    /// The speed of a replayed recording.
    Factor -> Speed: "a factor (`2`, `\"0.5\"`) or `max`",
        |at| at.text().map_or_else(|| Speed::parse(&number(at)?.to_string()), Speed::parse);
    Address -> SocketAddr: "addresses (`127.0.0.1:8080`, `[::1]:8080`)", |at| at.text()?.parse().ok();
    Net -> Network: "addresses or networks (`192.0.2.7`, `10.0.0.0/8`, `fd00::/8`)", |at| at.text()?.parse().ok();
    /// The name of a header, in lower case.
    HeaderName -> String: "names of headers", |at| {
        let name = http::HeaderName::from_bytes(at.text()?.as_bytes()).ok()?;
        Some(name.as_str().to_owned())
    };
    /// A folder, which may not exist yet.
    Folder -> PathBuf: "the path of a folder", |at| Some(at.beside(at.text().filter(|path| !path.is_empty())?));
    /// Any TOML value, converted to JSON; dates become strings.
    Json -> serde_json::Value: "any value", |at| Some(json(at.value()));
}

/// A fraction of one, in millionths.
///
/// An integer, so that configurations can be compared for equality.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Share(u32);

impl Share {
    /// The number that stands for one.
    const WHOLE: f64 = 1e6;

    /// Returns the fraction, or `None` if it is not from 0 to 1.
    pub fn new(share: f64) -> Option<Self> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to a million")]
        (0.0..=1.0).contains(&share).then(|| Self((share * Self::WHOLE).round() as u32))
    }

    /// Returns the fraction as a number from 0 to 1.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / Self::WHOLE
    }
}

/// An enum that is written as one of a fixed set of words.
pub(crate) trait Choice: Clone + 'static {
    /// Every word with its value, in the order of the documentation.
    const WORDS: &'static [(&'static str, Self)];
}

/// Lists the words of a choice.
macro_rules! words {
    ($($choice:ty { $($word:literal => $value:ident),+ $(,)? })+) => {$(
        impl $crate::config::Choice for $choice {
            const WORDS: &'static [(&'static str, Self)] = &[$(($word, Self::$value)),+];
        }
    )+};
}

/// Defines enums with their words.
macro_rules! choices {
    ($(
        $(#[$meta:meta])*
        $vis:vis enum $choice:ident { $($(#[$about:meta])* $value:ident = $word:literal,)+ }
    )+) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        $vis enum $choice { $($(#[$about])* $value,)+ }

        $crate::config::words! { $choice { $($word => $value),+ } }
    )+};
}

pub(crate) use {choices, words};

/// One of the words of a [`Choice`]. A word that is not known is reported with the most similar one.
pub(crate) struct Word<T>(PhantomData<T>);

impl<T: Choice> Kind for Word<T> {
    type Value = T;

    fn expected() -> String {
        let quoted: Vec<String> = T::WORDS.iter().map(|(word, _)| format!("`{word}`")).collect();
        format!("one of {}", quoted.join(", "))
    }

    fn read(at: &At<'_>) -> Result<T, Wrong> {
        let text = at.text().ok_or(Wrong::Kind)?;
        if let Some((_, choice)) = T::WORDS.iter().find(|(word, _)| *word == text) {
            return Ok(choice.clone());
        }
        let known: Vec<&str> = T::WORDS.iter().map(|(word, _)| *word).collect();
        let guess = did_you_mean(text, &known);
        Err(Wrong::Value(format!("expected {}, found `{text}`{guess}", Self::expected())))
    }
}

/// A file that exists, relative to the folder of the document. Whether it can be read is checked by its reader.
pub(crate) struct File;

impl Kind for File {
    type Value = PathBuf;

    fn expected() -> String {
        "the path of a file".to_owned()
    }

    fn read(at: &At<'_>) -> Result<PathBuf, Wrong> {
        let file = at.beside(at.text().filter(|path| !path.is_empty()).ok_or(Wrong::Kind)?);
        let what = format!(
            "expected {}, and there is none at {}: correct the path",
            Self::expected(),
            file.display()
        );
        if file.is_file() { Ok(file) } else { Err(Wrong::Value(what)) }
    }
}

/// The name of a secret. The secret itself never appears in a document.
///
/// A value without `env:` or `file:` may be the secret itself, so the message shows only its type. White space around a
/// secret is removed, because files end with a line break.
pub(crate) struct SecretName;

impl Kind for SecretName {
    type Value = Secret;

    fn expected() -> String {
        "a secret (`env:NAME` or `file:PATH`)".to_owned()
    }

    fn read(at: &At<'_>) -> Result<Secret, Wrong> {
        let name = at.text().ok_or(Wrong::Type)?;
        let secret = match name.split_once(':') {
            Some(("env", variable)) if !variable.is_empty() => {
                let value = at.variable(variable).map(str::to_owned);
                value.ok_or_else(|| format!("the environment has no {variable}: set that variable"))
            }
            Some(("file", path)) if !path.is_empty() => {
                let file = at.beside(path);
                std::fs::read_to_string(&file).map_err(|error| {
                    format!("{} cannot be read: {error}; put the secret there", file.display())
                })
            }
            _ => return Err(Wrong::Type),
        };
        match secret.map_err(Wrong::Value)?.trim() {
            "" => Err(Wrong::Value(format!("the secret `{name}` is empty: put the secret there"))),
            secret if secret.chars().any(char::is_control) => Err(Wrong::Value(format!(
                "the secret `{name}` has several lines: put the secret alone there"
            ))),
            secret => Ok(Secret::new(secret)),
        }
    }
}

/// Returns `true` for an `http` or `https` address with a host, without credentials, and with a valid port if it has
/// one. Credentials in an address would appear in logs.
fn is_url(text: &str) -> bool {
    let Ok(url) = text.parse::<http::Uri>() else { return false };
    // `Uri` accepts a port that is out of range as part of the authority, so the port is parsed separately.
    let is_web = matches!(url.scheme_str(), Some("http" | "https"));
    let is_plain = |at: &http::uri::Authority| {
        let has_port = at.as_str().len() > at.host().len();
        !at.host().is_empty() && !at.as_str().contains('@') && (!has_port || at.port_u16().is_some())
    };
    is_web && url.authority().is_some_and(is_plain)
}

/// Returns an integer of the file, in any radix that TOML allows (`0x10`).
fn number(at: &At<'_>) -> Option<u64> {
    match at.value() {
        DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok(),
        _ => None,
    }
}

/// Returns a whole number from 1, of the file or of a variable.
fn count(at: &At<'_>) -> Option<u64> {
    at.loose_text().map_or_else(|| number(at), |text| text.parse().ok()).filter(|count| *count > 0)
}

/// Parses a duration with its unit: `500ms`, `30s`, `5m`, `1h`. A number without a unit is invalid, because its meaning
/// would be a guess.
fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = split_unit(text)?;
    match unit {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_secs(number.checked_mul(60)?)),
        "h" => Some(Duration::from_secs(number.checked_mul(3600)?)),
        _ => None,
    }
}

/// Parses a size in bytes with an optional unit. `MB` is invalid: it has two meanings.
fn size(text: &str) -> Option<u64> {
    let (number, unit) = split_unit(text)?;
    let factor = match unit {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(factor)
}

/// Splits a number from its unit; spaces between them are allowed.
fn split_unit(text: &str) -> Option<(u64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    Some((number.parse().ok()?, unit.trim_start()))
}

/// Converts a TOML value to JSON. A number that JSON cannot represent (`nan`, `inf`, beyond 64 bits) becomes `null`.
fn json(value: &DeValue<'_>) -> serde_json::Value {
    use serde_json::Value;
    match value {
        DeValue::String(text) => Value::from(text.as_ref()),
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).map_or(Value::Null, Value::from)
        }
        DeValue::Float(number) => number.as_str().parse::<f64>().map_or(Value::Null, Value::from),
        DeValue::Boolean(flag) => Value::from(*flag),
        DeValue::Datetime(time) => Value::from(time.to_string()),
        DeValue::Array(items) => items.iter().map(|item| json(item.get_ref())).collect(),
        DeValue::Table(table) => Value::Object(
            table.iter().map(|(key, value)| (key.get_ref().to_string(), json(value.get_ref()))).collect(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_have_units() {
        for (text, seconds) in
            [("30s", Some(30.0)), ("500ms", Some(0.5)), ("5m", Some(300.0)), ("1h", Some(3600.0))]
        {
            assert_eq!(duration(text).map(|d| d.as_secs_f64()), seconds);
        }
        for text in ["", "5", "s", "-5s", "5 days", "1.5s", "99999999999999999999s", "9999999999999999999h"] {
            assert_eq!(duration(text), None, "{text}");
        }
        assert_eq!(size("64KiB"), Some(65_536));
        assert_eq!(size("10 MiB"), Some(10 << 20));
        assert_eq!(size("7"), Some(7));
        assert_eq!(size("-7"), None);
        assert_eq!(size("10MB"), None);
    }

    #[test]
    fn a_url_has_a_host_and_no_credentials() {
        for (text, good) in [
            ("http://a", true),
            ("https://a.example:8443/x?y#z", true),
            ("ftp://a", false),
            ("http://", false),
            ("http:///x", false),
            ("http://user:secret@a", false),
            ("http://a b", false),
            ("http://a:99999", false),
        ] {
            assert_eq!(is_url(text), good, "{text}");
        }
    }
}
