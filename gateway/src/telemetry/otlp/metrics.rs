//! [`MetricsExport`]: the metrics of `/metrics` as OTLP, every `telemetry.metrics`.
//!
//! | `/metrics` | OTLP |
//! |---|---|
//! | counter `NAME_total` | monotonic, cumulative sum `NAME` |
//! | gauge `NAME` | gauge `NAME` |
//! | histogram `NAME` | cumulative histogram `NAME` with the same bounds |
//!
//! Names are those of `/metrics`, so that dashboards and rules work with a collector that forwards to Prometheus.
//!
//! Cumulative points need a start: it is the creation of the export, so a restarted process starts a new
//! series. `/metrics` has no unit, so the unit is derived from the end of the name.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics,
    ScopeMetrics, Sum, metric, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use prost::Message as _;

use super::openmetrics::{Family, Kind, Labels, Number, Point, Value, read};
use super::{OtlpSender, Signal, resource};
use crate::config::Telemetry;
use crate::telemetry::SCOPE;

/// Exports metrics to a collector.
#[derive(Debug)]
pub(crate) struct MetricsExport {
    /// Messages go to the metrics endpoint of the collector.
    sender: OtlpSender,
    /// The same attributes as those of spans, so that both are attributed to one service.
    resource: ResourceAttributesWithSchema,
    every: Duration,
    /// The start of counting, in nanoseconds since 1970.
    since: u64,
    /// Set while the collector cannot be reached, so that the failure is logged once.
    is_failing: AtomicBool,
}

impl MetricsExport {
    /// Returns the configured export, or `None` if `telemetry.metrics` is not set. `telemetry.otlp` is required
    /// too.
    pub(crate) fn new(settings: &Telemetry) -> anyhow::Result<Option<Self>> {
        let (Some(url), Some(every)) = (&settings.otlp, settings.metrics) else { return Ok(None) };
        Ok(Some(Self {
            sender: OtlpSender::new(Signal::Metrics, url, settings)?,
            resource: (&resource(settings)).into(),
            every,
            since: now(),
            is_failing: AtomicBool::new(false),
        }))
    }

    /// Returns the interval of exports.
    pub(crate) const fn every(&self) -> Duration {
        self.every
    }

    /// Sends the values of this text, which is the response of `/metrics`. A failure is logged. The values are
    /// not queued: the next export contains the same counters with newer values, so a lost message loses only
    /// resolution.
    pub(crate) async fn send(&self, text: &str) {
        let message = self.message(text, now());
        let sent = self.sender.send(Bytes::from(message.encode_to_vec())).await;
        let was_failing = self.is_failing.swap(sent.is_err(), Ordering::Relaxed);
        let collector = self.sender.url();
        // Logged when the state changes, not per attempt: a collector may be unavailable for hours.
        match sent {
            Ok(()) if was_failing => tracing::info!(collector, "metrics are exported again"),
            Err(error) if !was_failing => {
                let reason = format!("{error:#}");
                tracing::warn!(collector, reason, "metrics are not exported");
            }
            _ => {}
        }
    }

    /// Returns the export request for a text of `/metrics` at the time `now`, in nanoseconds since 1970.
    fn message(&self, text: &str, now: u64) -> ExportMetricsServiceRequest {
        let metrics = read(text).into_iter().map(|family| to_metric(family, self.since, now)).collect();
        let scope = InstrumentationScope {
            name: SCOPE.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..InstrumentationScope::default()
        };
        let scope = ScopeMetrics { scope: Some(scope), metrics, ..ScopeMetrics::default() };
        let attributes = self.resource.attributes.0.clone();
        let resource = ResourceMetrics {
            resource: Some(Resource { attributes, ..Resource::default() }),
            scope_metrics: vec![scope],
            schema_url: self.resource.schema_url.clone().unwrap_or_default(),
        };
        ExportMetricsServiceRequest { resource_metrics: vec![resource] }
    }
}

/// Returns nanoseconds since 1970; saturates. A clock before 1970 returns 0.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the unit that the name ends with. Units are those of UCUM, which OTLP requires.
fn unit(name: &str) -> &'static str {
    match name.rsplit_once('_') {
        Some((_, "seconds")) => "s",
        Some((_, "bytes")) => "By",
        _ => "",
    }
}

/// Converts a family. Points whose value does not fit the type of the family are left out.
fn to_metric(family: Family<'_>, since: u64, now: u64) -> Metric {
    let Family { name, help, kind, points } = family;
    let temporality = AggregationTemporality::Cumulative.into();
    let data = match kind {
        Kind::Counter => metric::Data::Sum(Sum {
            data_points: points.into_iter().filter_map(|point| number_point(point, since, now)).collect(),
            aggregation_temporality: temporality,
            is_monotonic: true,
        }),
        Kind::Gauge => metric::Data::Gauge(Gauge {
            // A gauge has no start time.
            data_points: points.into_iter().filter_map(|point| number_point(point, 0, now)).collect(),
        }),
        Kind::Histogram => metric::Data::Histogram(Histogram {
            data_points: points.into_iter().filter_map(|point| histogram_point(point, since, now)).collect(),
            aggregation_temporality: temporality,
        }),
    };
    Metric {
        name: name.to_owned(),
        description: help.to_owned(),
        unit: unit(name).to_owned(),
        data: Some(data),
        ..Metric::default()
    }
}

/// Converts a point of a counter or gauge. Integers stay integers.
fn number_point(point: Point, since: u64, now: u64) -> Option<NumberDataPoint> {
    let Value::Number(number) = point.value else { return None };
    let value = match number {
        Number::Whole(number) => number_data_point::Value::AsInt(number),
        Number::Real(number) => number_data_point::Value::AsDouble(number),
    };
    Some(NumberDataPoint {
        attributes: attributes(point.labels),
        start_time_unix_nano: since,
        time_unix_nano: now,
        value: Some(value),
        ..NumberDataPoint::default()
    })
}

/// Converts a point of a histogram:
///
/// ```text
/// text   le="1.0" 1, le="2.0" 3, +Inf 4     bounds 1.0, 2.0
/// OTLP   counts 1, 2, 1                      bounds 1.0, 2.0
/// ```
fn histogram_point(point: Point, since: u64, now: u64) -> Option<HistogramDataPoint> {
    let Value::Buckets(buckets) = point.value else { return None };
    // The text counts values at or below a bound, OTLP those between two bounds.
    let mut before = 0;
    let between = buckets.below.iter().map(|(_, below)| *below).chain([buckets.count]).map(|below| {
        let count = below.saturating_sub(before);
        before = below;
        count
    });
    let bucket_counts = between.collect();
    Some(HistogramDataPoint {
        attributes: attributes(point.labels),
        start_time_unix_nano: since,
        time_unix_nano: now,
        count: buckets.count,
        sum: Some(buckets.sum),
        bucket_counts,
        explicit_bounds: buckets.below.iter().map(|(bound, _)| *bound).collect(),
        ..HistogramDataPoint::default()
    })
}

/// Converts labels into attributes with string values.
fn attributes(labels: Labels) -> Vec<KeyValue> {
    let attribute = |(key, value)| KeyValue {
        key,
        value: Some(AnyValue { value: Some(any_value::Value::StringValue(value)) }),
        ..KeyValue::default()
    };
    labels.into_iter().map(attribute).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_buckets_are_between_bounds() {
        let text = "# TYPE h_seconds histogram\nh_seconds_sum 9.5\nh_seconds_count 4\nh_seconds_bucket{le=\"1.0\"} 1\n\
                    h_seconds_bucket{le=\"2.0\"} 3\nh_seconds_bucket{le=\"+Inf\"} 4\n";
        let family = read(text).remove(0);
        let metric = to_metric(family, 5, 9);
        assert_eq!((metric.name.as_str(), metric.unit.as_str()), ("h_seconds", "s"));
        let Some(metric::Data::Histogram(histogram)) = metric.data else { panic!("no histogram") };
        let point = &histogram.data_points[0];
        assert_eq!((point.start_time_unix_nano, point.time_unix_nano), (5, 9));
        assert_eq!((point.count, point.sum), (4, Some(9.5)));
        assert_eq!((&*point.bucket_counts, &*point.explicit_bounds), (&[1, 2, 1][..], &[1.0, 2.0][..]));
    }
}
