//! Metrics over OTLP: what a collector receives is what `/metrics` answers.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aqueduct_core::CancelToken;
use aqueduct_transport_grpc::raw::{RawAnswer, RawCall, RawService, RawStatus};
use aqueduct_transport_http::{Server, ServerConfig};
use axum::Router;
use axum::routing::post;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{Metric, NumberDataPoint, metric, number_data_point};
use prost::Message as _;

use super::support::{Served, serve};
use crate::program::root;

/// A collector that keeps the exports it was sent, each as its metrics.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<Vec<Metric>>>>);

impl Collector {
    fn take(&self, message: &[u8]) {
        let request = ExportMetricsServiceRequest::decode(message).unwrap();
        let [resource] = &*request.resource_metrics else { panic!("{request:?}") };
        let attributes = &resource.resource.as_ref().unwrap().attributes;
        assert_eq!(text(attributes, "service.name"), "gate");
        let metrics = resource.scope_metrics.iter().flat_map(|scope| scope.metrics.clone()).collect();
        self.0.lock().unwrap().push(metrics);
    }

    async fn over_http(&self) -> String {
        let kept = self.clone();
        let handler = post(async move |headers: HeaderMap, body: Bytes| {
            assert_eq!(headers["content-type"], "application/x-protobuf");
            assert_eq!(headers["authorization"], "Bearer secret of the collector");
            kept.take(&body);
            StatusCode::OK
        });
        listen(Router::new().route("/v1/metrics", handler)).await
    }

    async fn over_grpc(&self) -> String {
        let services =
            aqueduct::grpc::services(&aqueduct_runs::Runs::new(), aqueduct::grpc::Config::default());
        listen(services.mount_raw(Arc::new(self.clone())).router().unwrap()).await
    }

    /// Waits for an export of which this is true.
    async fn until(&self, is_done: impl Fn(&[Metric]) -> bool) -> Vec<Metric> {
        for _ in 0..2_000 {
            let exports = self.0.lock().unwrap().clone();
            if let Some(found) = exports.into_iter().find(|metrics| is_done(metrics)) {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("the metrics did not come: {:#?}", self.0.lock().unwrap().last());
    }
}

async fn listen(router: Router) -> String {
    let server = Server::bind("127.0.0.1:0", ServerConfig::default()).await.unwrap();
    let address = server.local_addr().unwrap();
    tokio::spawn(server.serve(router, CancelToken::new()));
    format!("http://{address}")
}

impl RawService for Collector {
    const NAME: &'static str = "opentelemetry.proto.collector.metrics.v1.MetricsService";

    async fn call(&self, call: RawCall) -> Result<RawAnswer, RawStatus> {
        assert_eq!(call.method, "Export");
        self.take(&call.message);
        Ok(RawAnswer::Message(Bytes::new()))
    }
}

fn text(attributes: &[KeyValue], key: &str) -> String {
    let value = attributes.iter().find(|attribute| attribute.key == key);
    match value.and_then(|attribute| attribute.value.as_ref()?.value.as_ref()) {
        Some(any_value::Value::StringValue(text)) => text.clone(),
        _ => String::new(),
    }
}

fn named<'m>(metrics: &'m [Metric], name: &str) -> Option<&'m Metric> {
    metrics.iter().find(|metric| metric.name == name)
}

/// The points of a sum that only grows.
fn sums(metric: &Metric) -> &[NumberDataPoint] {
    let Some(metric::Data::Sum(sum)) = &metric.data else { panic!("no sum: {metric:?}") };
    assert!(sum.is_monotonic && sum.aggregation_temporality == 2, "{sum:?}");
    &sum.data_points
}

async fn gateway(telemetry: &str, address: &str) -> Served {
    let toml = format!(
        "[telemetry]\notlp = \"{address}\"\nservice = \"gate\"\ntoken = \"env:COLLECTOR\"\n{telemetry}\n\
         [agents.a.script]\nfile = \"{}/scripts/demo-team.toml\"\n",
        root().display()
    );
    serve(&toml, &[("COLLECTOR", "secret of the collector")]).await
}

fn has_ended(metrics: &[Metric]) -> bool {
    named(metrics, "aqueduct_runs_ended").is_some()
}

/// Names of families, from `/metrics` or from a collector.
fn families(exposed: &str) -> BTreeSet<String> {
    let types = exposed.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    types.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

async fn a_collector_gets_what_a_scrape_does(protocol: &str, address: &str, collector: &Collector) {
    let telemetry = format!("protocol = \"{protocol}\"\ntraces = false\nmetrics = \"1s\"");
    let served = gateway(&telemetry, address).await;
    served.run("a", "r").await;
    served.idle().await;
    let metrics = collector.until(has_ended).await;

    let started = named(&metrics, "aqueduct_runs_started").unwrap();
    let [point] = sums(started) else { panic!("{started:?}") };
    assert_eq!(
        (text(&point.attributes, "agent"), text(&point.attributes, "surface")),
        ("a".into(), "agui".into())
    );
    assert_eq!(point.value, Some(number_data_point::Value::AsInt(1)));
    assert!(point.start_time_unix_nano > 0 && point.time_unix_nano > point.start_time_unix_nano, "{point:?}");

    let took = named(&metrics, "aqueduct_run_duration_seconds").unwrap();
    assert_eq!(took.unit, "s");
    let Some(metric::Data::Histogram(histogram)) = &took.data else { panic!("no histogram: {took:?}") };
    let [point] = &*histogram.data_points else { panic!("{histogram:?}") };
    assert_eq!((point.count, point.bucket_counts.iter().sum::<u64>()), (1, 1));
    assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);

    let active = named(&metrics, "aqueduct_runs_active").unwrap();
    assert!(matches!(active.data, Some(metric::Data::Gauge(_))), "{active:?}");

    // Labels of a request come with its answer; everything else is in both.
    let scraped = String::from_utf8(served.get("/metrics").await.body().to_vec()).unwrap();
    let exported: BTreeSet<String> = metrics.iter().map(|metric| metric.name.clone()).collect();
    let missing: Vec<_> = exported.difference(&families(&scraped)).cloned().collect();
    assert!(exported.len() > 60 && missing.is_empty(), "{missing:?} of {}", exported.len());
}

#[tokio::test]
async fn a_collector_gets_metrics_over_http() {
    let collector = Collector::default();
    let address = collector.over_http().await;
    a_collector_gets_what_a_scrape_does("http", &address, &collector).await;
}

#[tokio::test]
async fn a_collector_gets_metrics_over_grpc() {
    let collector = Collector::default();
    let address = collector.over_grpc().await;
    a_collector_gets_what_a_scrape_does("grpc", &address, &collector).await;
}

/// The last values are exported when the gateway stops, however long it is until the next export would have been.
#[tokio::test]
async fn a_gateway_that_stops_exports_its_last_values() {
    let collector = Collector::default();
    let address = collector.over_http().await;
    let toml = format!(
        "[telemetry]\notlp = \"{address}\"\nprotocol = \"http\"\nservice = \"gate\"\ntoken = \"env:COLLECTOR\"\n\
         traces = false\nmetrics = \"1h\"\n[agents.a.script]\nfile = \"{}/scripts/demo-team.toml\"\n",
        root().display()
    );
    let variables = [("COLLECTOR".to_owned(), "secret of the collector".to_owned())];
    let mut config = aqueduct_gateway::config::load(Path::new("aqueduct.toml"), &toml, variables).unwrap();
    config.server.listen = vec!["127.0.0.1:0".parse().unwrap()];
    let gateway = aqueduct_gateway::service::Gateway::new(config).unwrap();
    let listening = aqueduct_gateway::serve::Listening::bind(gateway).await.unwrap();
    let (address, switch) = (listening.addresses().unwrap()[0], listening.shutdown());
    let serving = tokio::spawn(listening.serve());
    let client =
        aqueduct_transport_http::Client::new(aqueduct_transport_http::ClientConfig::default()).unwrap();
    let request = http::Request::get(format!("http://{address}/agents")).body(Bytes::new()).unwrap();
    assert_eq!(client.request(request).await.unwrap().status(), 200);
    switch.cancel();
    serving.await.unwrap();
    let exports = collector.0.lock().unwrap().clone();
    let last = exports.last().unwrap();
    assert_eq!(sums(named(last, "aqueduct_requests").unwrap()).len(), 1, "{last:#?}");
}
