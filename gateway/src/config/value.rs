//! Values as the kinds of keys want them.

use std::net::SocketAddr;
use std::time::Duration;

use super::keys::Kind;
use crate::source::replay::Speed;

/// A value of a key.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Text(String),
    Duration(Duration),
    Number(u64),
    Flag(bool),
    Texts(Vec<String>),
    Addresses(Vec<SocketAddr>),
}

/// A value as it is written, in the file or in the environment.
#[derive(Debug, Clone)]
pub(crate) enum Written {
    Text(String),
    Number(i64),
    Flag(bool),
    List(Vec<Written>),
    /// Anything that no key takes; says what it is.
    Other(&'static str),
}

impl Written {
    fn found(&self) -> String {
        match self {
            Self::Text(text) => format!("`{text}`"),
            Self::Number(number) => number.to_string(),
            Self::Flag(flag) => flag.to_string(),
            Self::List(_) => "a list".to_owned(),
            Self::Other(what) => (*what).to_owned(),
        }
    }

    fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    fn texts(&self) -> Option<Vec<String>> {
        match self {
            Self::List(items) => items.iter().map(|item| item.text().map(str::to_owned)).collect(),
            _ => None,
        }
    }
}

/// Reads a value; the error says what was expected and what was found.
pub(crate) fn read(kind: Kind, written: &Written) -> Result<Value, String> {
    // A secret that stands where only its name should must not be repeated in a message.
    let found = match kind {
        Kind::Secret | Kind::Secrets => "something else".to_owned(),
        _ => written.found(),
    };
    parse(kind, written).ok_or_else(|| format!("expected {}, found {found}", kind.expected()))
}

fn parse(kind: Kind, written: &Written) -> Option<Value> {
    let text = || written.text().map(str::to_owned);
    Some(match kind {
        Kind::Text => Value::Text(text()?),
        Kind::File => Value::Text(text().filter(|path| !path.is_empty())?),
        Kind::Url => Value::Text(text().filter(|url| is_url(url))?),
        Kind::Secret => Value::Text(text().filter(|name| is_secret(name))?),
        Kind::Word(words) => Value::Text(text().filter(|word| words.contains(&word.as_str()))?),
        Kind::Speed => {
            let text = match written {
                Written::Number(number) => number.to_string(),
                _ => text()?,
            };
            Speed::parse(&text)?;
            Value::Text(text)
        }
        Kind::Duration => Value::Duration(duration(written.text()?)?),
        Kind::Count => Value::Number(number(written).filter(|count| *count > 0)?),
        Kind::Size => Value::Number(size(written).filter(|size| *size > 0)?),
        Kind::Flag => match written {
            Written::Flag(flag) => Value::Flag(*flag),
            _ => return None,
        },
        Kind::Texts => Value::Texts(written.texts()?),
        Kind::Words(words) => {
            let is_known = |text: &String| words.contains(&text.as_str());
            Value::Texts(written.texts().filter(|texts| texts.iter().all(is_known))?)
        }
        Kind::Secrets => Value::Texts(written.texts().filter(|all| all.iter().all(|s| is_secret(s)))?),
        Kind::Addresses => {
            let texts = written.texts().filter(|texts| !texts.is_empty())?;
            Value::Addresses(texts.iter().map(|text| text.parse().ok()).collect::<Option<_>>()?)
        }
    })
}

/// A value in the environment is text; the kind of its key says how it is meant. Lists are separated by commas.
pub(crate) fn from_environment(kind: Kind, text: &str) -> Written {
    match kind {
        Kind::Flag => text.parse().map_or_else(|_| Written::Text(text.to_owned()), Written::Flag),
        Kind::Count | Kind::Size => {
            text.parse().map_or_else(|_| Written::Text(text.to_owned()), Written::Number)
        }
        Kind::Texts | Kind::Words(_) | Kind::Secrets | Kind::Addresses => {
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            Written::List(items.map(|item| Written::Text(item.to_owned())).collect())
        }
        _ => Written::Text(text.to_owned()),
    }
}

fn is_url(text: &str) -> bool {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    let host = rest.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
    host.is_some_and(|host| !host.is_empty() && !host.contains('@'))
        && !text.chars().any(|c| c.is_whitespace() || c.is_control())
}

fn is_secret(text: &str) -> bool {
    let name = text.strip_prefix("env:").or_else(|| text.strip_prefix("file:"));
    name.is_some_and(|name| !name.is_empty())
}

fn number(written: &Written) -> Option<u64> {
    match written {
        Written::Number(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}

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

fn size(written: &Written) -> Option<u64> {
    let Written::Text(text) = written else { return number(written) };
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

fn split_unit(text: &str) -> Option<(u64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    Some((number.parse().ok()?, unit.trim_start()))
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
        assert_eq!(size(&Written::Text("64KiB".into())), Some(65_536));
        assert_eq!(size(&Written::Text("10 MiB".into())), Some(10 << 20));
        assert_eq!(size(&Written::Number(7)), Some(7));
        assert_eq!(size(&Written::Number(-7)), None);
        assert_eq!(size(&Written::Text("10MB".into())), None);
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
        ] {
            assert_eq!(is_url(text), good, "{text}");
        }
    }

    #[test]
    fn a_message_never_repeats_a_secret() {
        let written = Written::Text("hunter2".to_owned());
        assert!(!read(Kind::Secret, &written).unwrap_err().contains("hunter2"));
        assert!(!read(Kind::Secrets, &Written::List(vec![written])).unwrap_err().contains("hunter2"));
    }
}
