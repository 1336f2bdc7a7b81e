//! Options of the commands that call an agent: protocol, configuration and credentials.
//!
//! Secrets: a token is resolved by `CallerArgs::token` at the time of the call, and `Debug` prints neither
//! the token nor the values of headers.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, ValueEnum};

/// Protocol, configuration and credentials of a call to an agent.
#[derive(Debug, Clone, Args)]
pub struct ReachArgs {
    /// The protocol of the agent at the URL
    #[arg(long, value_enum, default_value_t = UrlProtocol::Auto)]
    pub protocol: UrlProtocol,
    /// The configuration file, for an agent by name
    #[arg(long, value_name = "PATH", default_value = "aqueduct.toml")]
    pub config: PathBuf,
    /// Credentials and trusted authorities.
    #[command(flatten)]
    pub caller: CallerArgs,
}

/// The protocol of an agent at a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum UrlProtocol {
    /// A2A if there is an agent card, else AG-UI
    Auto,
    /// A2A
    A2a,
    /// AG-UI
    Agui,
}

/// Credentials of a call to an agent, and the authorities that the call trusts.
#[derive(Clone, Default, Args)]
pub struct CallerArgs {
    /// The bearer token to send: `env:NAME`, `file:PATH`, or the token itself, which other users of this machine can then see
    #[arg(long, value_name = "TOKEN")]
    pub token: Option<String>,
    /// Certificates (PEM) of the authorities to trust instead of the public ones
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// A header to send; may be given several times
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = header)]
    pub headers: Vec<(String, String)>,
}

/// Prints the names of headers only: values and the token are secrets.
impl std::fmt::Debug for CallerArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("CallerArgs").field("ca", &self.ca).field("headers", &names).finish_non_exhaustive()
    }
}

impl CallerArgs {
    /// Returns the token, resolved from the environment variable or file that the argument names.
    ///
    /// # Errors
    ///
    /// Returns an error if the variable or file does not exist or is empty.
    pub(crate) fn token(&self) -> anyhow::Result<Option<String>> {
        let Some(named) = &self.token else { return Ok(None) };
        let token = match named.split_once(':') {
            Some(("env", name)) => std::env::var(name)
                .with_context(|| format!("--token {named}: the environment has no {name}"))?,
            Some(("file", path)) => {
                std::fs::read_to_string(path).with_context(|| format!("--token: {path} cannot be read"))?
            }
            _ => named.clone(),
        };
        anyhow::ensure!(!token.trim().is_empty(), "--token: the token is empty");
        Ok(Some(token.trim().to_owned()))
    }

    /// Returns the file of trusted authorities, if one is set.
    pub(crate) fn ca(&self) -> Option<&Path> {
        self.ca.as_deref()
    }
}

/// Parses `Name: value` of `-H`. The name is in lower case afterwards; the value may contain colons. Returns
/// the message that clap prints if the text is not a valid header.
fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("expected `Name: value`")?;
    let (name, value) = (name.trim().to_ascii_lowercase(), value.trim().to_owned());
    http::HeaderName::try_from(&name).map_err(|_| format!("`{name}` is no name of a header"))?;
    http::HeaderValue::try_from(&value).map_err(|_| "the value cannot be sent in a header".to_owned())?;
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_a_name_and_a_value() {
        assert_eq!(header("X-Team: a: b"), Ok(("x-team".to_owned(), "a: b".to_owned())));
        for bad in ["X-Team", "a b: c", ": x", "x: \u{7}"] {
            assert!(header(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_token_is_read_from_where_it_is_named_and_never_shown() {
        let named = |token: &str| CallerArgs { token: Some(token.to_owned()), ..CallerArgs::default() };
        assert_eq!(named("s3cret").token().unwrap().as_deref(), Some("s3cret"));
        assert!(named("env:AQUEDUCT_NO_SUCH_VARIABLE").token().is_err());
        assert!(named("file:/no/such/file").token().is_err());
        assert!(!format!("{:?}", named("s3cret")).contains("s3cret"));
    }
}
