//! Parses the text of `/metrics` into families of points.
//!
//! Both exports are derived from the same text, so they cannot differ in names, labels or values. The parser reads only
//! what [`render`](crate::telemetry::render) writes: counters, gauges and histograms, without exemplars and times.
//! Other lines are skipped.
//!
//! ```text
//! # HELP p_runs Runs started.
//! # TYPE p_runs counter
//! p_runs_total{agent="weather"} 7        ──► Family { name: "p_runs", kind: Counter, points: [7 with agent=weather] }
//! ```

/// Labels of a point. The `le` label of histograms is not among them.
pub(super) type Labels = Vec<(String, String)>;

/// The type of a family. A type that is none of these is read as a gauge, which promises nothing about its
/// values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// A number as it was written: integers stay integers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    Whole(i64),
    Real(f64),
}

impl Number {
    /// Parses a number, also `NaN` and `+Inf`.
    fn read(text: &str) -> Option<Self> {
        text.parse().map(Self::Whole).or_else(|_| text.parse().map(Self::Real)).ok()
    }

    #[expect(clippy::cast_precision_loss, reason = "sums of seconds and counts below 2^53")]
    fn as_f64(self) -> f64 {
        match self {
            Self::Whole(number) => number as f64,
            Self::Real(number) => number,
        }
    }

    /// Returns a count; 0 for a negative or fractional number, which a count never is.
    fn as_count(self) -> u64 {
        match self {
            Self::Whole(number) => u64::try_from(number).unwrap_or(0),
            Self::Real(_) => 0,
        }
    }
}

/// A histogram: cumulative counts per bound, as in the text.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Buckets {
    pub(super) sum: f64,
    pub(super) count: u64,
    /// Upper bounds in ascending order, without infinity, each with the count at or below it.
    pub(super) below: Vec<(f64, u64)>,
}

/// The value of a point: a number for counters and gauges, buckets for histograms.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Number(Number),
    Buckets(Buckets),
}

/// A value with its labels.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Point {
    pub(super) labels: Labels,
    pub(super) value: Value,
}

/// A metric and its points. The name of a counter has no `_total`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Family<'t> {
    pub(super) name: &'t str,
    pub(super) help: &'t str,
    pub(super) kind: Kind,
    pub(super) points: Vec<Point>,
}

/// Returns the families of a text that have points. A sample belongs to the `TYPE` line before it. One pass,
/// linear in the length of the text.
pub(super) fn read(text: &str) -> Vec<Family<'_>> {
    let mut families: Vec<Family<'_>> = Vec::new();
    let mut help = ("", "");
    for line in text.lines() {
        if let Some(words) = line.strip_prefix("# HELP ") {
            help = words.split_once(' ').unwrap_or((words, ""));
        } else if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|words| words.split_once(' '))
        {
            let kind = match kind {
                "counter" => Kind::Counter,
                "histogram" => Kind::Histogram,
                _ => Kind::Gauge,
            };
            // `HELP` precedes `TYPE` and names the same metric; a text without it leaves the description empty.
            let help = if help.0 == name { help.1 } else { "" };
            families.push(Family { name, help, kind, points: Vec::new() });
        } else if let (Some(family), Some(sample)) = (families.last_mut(), Sample::read(line)) {
            family.take(sample);
        }
    }
    families.retain(|family| !family.points.is_empty());
    families
}

impl Family<'_> {
    /// Adds a sample. A sample whose name does not begin with that of the family is skipped.
    fn take(&mut self, sample: Sample<'_>) {
        let Sample { name, mut labels, number } = sample;
        // The rest of the name (`_total`, `_sum`, `_count`, `_bucket`) selects the part of a histogram.
        let Some(suffix) = name.strip_prefix(self.name) else { return };
        if self.kind != Kind::Histogram {
            self.points.push(Point { labels, value: Value::Number(number) });
            return;
        }
        let bound = labels.iter().position(|(name, _)| name == "le").map(|place| labels.remove(place).1);
        // The lines of one histogram follow each other.
        if self.points.last().is_none_or(|point| point.labels != labels) {
            self.points.push(Point { labels, value: Value::Buckets(Buckets::default()) });
        }
        if let Some(Point { value: Value::Buckets(buckets), .. }) = self.points.last_mut() {
            buckets.take(suffix, bound.as_deref(), number);
        }
    }
}

impl Buckets {
    /// Adds one line of a histogram. The bucket at infinity is skipped: it repeats the count.
    fn take(&mut self, suffix: &str, bound: Option<&str>, number: Number) {
        match (suffix, bound.and_then(|bound| bound.parse::<f64>().ok())) {
            ("_sum", _) => self.sum = number.as_f64(),
            ("_count", _) => self.count = number.as_count(),
            ("_bucket", Some(bound)) if bound.is_finite() => self.below.push((bound, number.as_count())),
            _ => {}
        }
    }
}

/// One line with a value: `name{label="value"} number`.
struct Sample<'t> {
    name: &'t str,
    labels: Labels,
    number: Number,
}

impl<'t> Sample<'t> {
    /// Parses a line. Returns `None` for comments, which have no number after the first space, and for
    /// malformed lines.
    fn read(line: &'t str) -> Option<Self> {
        let end = line.find(['{', ' '])?;
        let (name, rest) = line.split_at_checked(end)?;
        let (labels, rest) = match rest.strip_prefix('{') {
            Some(rest) => read_labels(rest)?,
            None => (Vec::new(), rest),
        };
        let number = Number::read(rest.split_whitespace().next()?)?;
        Some(Self { name, labels, number })
    }
}

/// Parses labels after their opening brace. Returns the rest after the closing one.
fn read_labels(mut rest: &str) -> Option<(Labels, &str)> {
    let mut labels = Vec::new();
    loop {
        if let Some(rest) = rest.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, quoted) = rest.split_once("=\"")?;
        let (value, after) = read_quoted(quoted)?;
        labels.push((name.to_owned(), value));
        rest = after.strip_prefix(',').unwrap_or(after);
    }
}

/// Parses a value after its opening quote. Returns the rest after the closing one. The escapes are `\n`, `\"`
/// and `\\`. Returns `None` without a closing quote.
fn read_quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Some((value, text.get(at + 1..)?)),
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::family::Family as Counters;
    use prometheus_client::metrics::gauge::Gauge;
    use prometheus_client::metrics::histogram::Histogram;
    use prometheus_client::registry::Registry;

    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn what_the_registry_writes_is_read() {
        let mut registry = Registry::with_prefix("p");
        let counter = Counters::<Vec<(String, String)>, Counter>::default();
        let odd = labels(&[("agent", "a \"quoted\" \\ name,\nwith {all}= of it"), ("b", "")]);
        counter.get_or_create(&odd).inc_by(7);
        registry.register("runs", "Runs started", counter);
        let gauge = Gauge::<i64>::default();
        gauge.set(-3);
        registry.register("open", "Open", gauge);
        let histogram = Histogram::new([0.5, 1.0]);
        for seconds in [0.2, 0.7, 5.0] {
            histogram.observe(seconds);
        }
        registry.register("took_seconds", "How long", histogram);
        registry.register("never", "Without points", Counters::<Labels, Counter>::default());
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let families = read(&text);
        let names: Vec<_> = families.iter().map(|family| (family.name, family.kind)).collect();
        let expected =
            [("p_runs", Kind::Counter), ("p_open", Kind::Gauge), ("p_took_seconds", Kind::Histogram)];
        assert_eq!(names, expected, "{text}");
        assert_eq!(families[0].help, "Runs started.");
        assert_eq!(families[0].points, [Point { labels: odd, value: Value::Number(Number::Whole(7)) }]);
        assert_eq!(families[1].points[0].value, Value::Number(Number::Whole(-3)));
        let buckets = Buckets { sum: 5.9, count: 3, below: vec![(0.5, 1), (1.0, 2)] };
        assert_eq!(families[2].points, [Point { labels: Vec::new(), value: Value::Buckets(buckets) }]);
    }

    #[test]
    fn histograms_of_several_labels_are_kept_apart() {
        let text = "# TYPE h histogram\nh_sum{a=\"1\"} 1\nh_count{a=\"1\"} 1\nh_bucket{le=\"+Inf\",a=\"1\"} 1\n\
                    h_sum{a=\"2\"} 2.5\nh_count{a=\"2\"} 2\nh_bucket{le=\"1.0\",a=\"2\"} 1\n# EOF\n";
        let families = read(text);
        assert_eq!(families[0].points.len(), 2);
        let second = Buckets { sum: 2.5, count: 2, below: vec![(1.0, 1)] };
        let second = Point { labels: labels(&[("a", "2")]), value: Value::Buckets(second) };
        assert_eq!(families[0].points[1], second);
    }

    #[test]
    fn what_is_no_sample_is_left_out() {
        for text in
            ["", "# EOF", "x{a=\"b 1", "# TYPE x counter\nx_total{a=\"", "# TYPE x gauge\nx notanumber"]
        {
            assert_eq!(read(text), [], "{text:?}");
        }
    }
}
