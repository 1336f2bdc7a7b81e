//! `aqueduct health`: sends a request to a probe of a running gateway, for health checks in places without
//! another HTTP client, such as the container image.
//!
//! The command reads the response of one request. It needs no configuration, only the URL of the probe.

use std::io::Write;

use anyhow::Context as _;
use bytes::Bytes;

use crate::cli::{CallerArgs, HealthArgs};
use crate::{chat, exit};

/// Runs `aqueduct health`. Returns `exit::OK` for a status of 2xx, `exit::FAILED` for any other or none, and
/// `exit::USAGE` if the argument is not a URL.
pub(crate) fn command(args: &HealthArgs, out: &mut dyn Write, notes: &mut dyn Write) -> exit::Code {
    let Ok(request) = http::Request::get(&args.url).body(Bytes::new()) else {
        let why = format!("{} is no URL: give one such as http://127.0.0.1:8080/readyz", args.url);
        return exit::USAGE.report(notes, "health", &why);
    };
    match chat::block_on(ask(args, request)) {
        Ok(answer) => {
            writeln!(out, "{}", answer.trim()).ok();
            exit::OK
        }
        Err(error) => exit::FAILED.report(notes, "health", &error.context(args.url.clone())),
    }
}

/// Returns the body of the probe's response.
///
/// # Errors
///
/// No gateway responds within 5 seconds, or the status is not 2xx; the error contains the body, which names the
/// reason.
async fn ask(args: &HealthArgs, request: http::Request<Bytes>) -> anyhow::Result<String> {
    let client = chat::client(&CallerArgs { ca: args.ca.clone(), ..CallerArgs::default() })?;
    let response = client.request(request).await.context("no gateway answers")?;
    let text = String::from_utf8_lossy(response.body()).into_owned();
    anyhow::ensure!(response.status().is_success(), "not ready ({}): {}", response.status(), text.trim());
    Ok(text)
}
