//! Serves a streaming model as an agent. `cargo run -p aqueduct-examples-llm <address of chat/completions> <model> [port]`
use aqueduct::prelude::*;
use aqueduct_transport_http::{Client, ClientConfig, Error};
use futures_util::StreamExt as _;

fn model(url: String, model: String, input: RunInput) -> impl Stream<Item = Result<Update, Error>> {
    async_stream::try_stream! {
        let messages = json!([{ "role": "user", "content": input.text() }]);
        let body = json!({ "model": model, "stream": true, "messages": messages }).to_string();
        let request = http::Request::post(url).header("content-type", "application/json").body(body.into());
        let mut events = Client::new(ClientConfig::default())?.open_stream(request.unwrap_or_default()).await?;
        while let Some(event) = events.next().await {
            let data = event?.data;
            if &*data == "[DONE]" { return; }
            let chunk: Value = serde_json::from_str(&data).unwrap_or_default();
            let text = chunk.pointer("/choices/0/delta/content").and_then(Value::as_str);
            yield Update::text(text.unwrap_or_default().to_owned());
        }
        Err(Error::Cut { upstream: model, reason: "it ended without [DONE]".to_owned() })?;
    }
}

#[tokio::main]
async fn main() -> Result<(), aqueduct::Error> {
    let mut args = std::env::args().skip(1);
    let (url, name) = (args.next().unwrap_or_default(), args.next().unwrap_or_default());
    let runs = Runs::new().agent("llm", move |input| model(url.clone(), name.clone(), input));
    let port = args.next().unwrap_or_else(|| "8000".to_owned());
    aqueduct::serve(format!("127.0.0.1:{port}"), agui::router(&runs)).await
}
