use std::time::Duration;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use metrics_util::MetricKindMask;

pub fn install_exporter() -> Result<(), Box<dyn std::error::Error>> {
    let buckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
    PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Prefix("spindle_".into()), &buckets)?
        .idle_timeout(MetricKindMask::ALL, Some(Duration::from_secs(3_600)))
        .install()?;
    Ok(())
}
