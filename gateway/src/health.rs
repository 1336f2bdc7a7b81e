//! `aqueduct health`: asks a running gateway by one of its probes, for health checks in places without another HTTP client.
//!
//! It reads the answer of one request, and knows nothing of the gateway but its URL.

use std::io::Write;

use anyhow::Context as _;
use bytes::Bytes;

use crate::cli::{CallerArgs, HealthArgs};
use crate::{chat, exit};

/// Runs the command.
pub(crate) fn command(args: &HealthArgs, out: &mut dyn Write, notes: &mut dyn Write) -> exit::Code {
    let Ok(request) = http::Request::get(&args.url).body(Bytes::new()) else {
        writeln!(
            notes,
            "aqueduct health: {} is no URL: give one such as http://127.0.0.1:8080/readyz",
            args.url
        )
        .ok();
        return exit::USAGE;
    };
    match chat::block_on(ask(args, request)) {
        Ok(answer) => {
            writeln!(out, "{}", answer.trim()).ok();
            exit::OK
        }
        Err(error) => {
            writeln!(notes, "aqueduct health: {}: {error:#}", args.url).ok();
            exit::FAILED
        }
    }
}

/// Returns the text of the answer.
///
/// # Errors
///
/// No gateway answers in time, or it answers that it is not ready; the error has its reason.
async fn ask(args: &HealthArgs, request: http::Request<Bytes>) -> anyhow::Result<String> {
    let client = chat::client(&CallerArgs { ca: args.ca.clone(), ..CallerArgs::default() })?;
    let response = client.request(request).await.context("no gateway answers")?;
    let text = String::from_utf8_lossy(response.body()).into_owned();
    anyhow::ensure!(response.status().is_success(), "not ready ({}): {}", response.status(), text.trim());
    Ok(text)
}
