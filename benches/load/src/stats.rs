//! Percentiles of what was measured, as JSON.

use serde_json::{Value, json};

/// Values in nanoseconds, kept whole: a bench's few hundred thousand fit easily, and nothing is rounded into buckets.
#[derive(Default)]
pub struct Samples(Vec<u64>);

impl Samples {
    /// Keep one.
    pub fn push(&mut self, nanoseconds: u64) {
        self.0.push(nanoseconds);
    }

    /// Keep all of another's.
    pub fn extend(&mut self, other: &Self) {
        self.0.extend_from_slice(&other.0);
    }

    /// Count, p50, p90, p99, p99.9, largest and mean, in milliseconds.
    pub fn summary(&mut self) -> Value {
        if self.0.is_empty() {
            return json!({"n": 0});
        }
        self.0.sort_unstable();
        let all = &self.0;
        let at = |per_mille: usize| milliseconds(all[(all.len() * per_mille / 1000).min(all.len() - 1)]);
        let mean = all.iter().map(|&value| milliseconds(value)).sum::<f64>() / real(all.len() as u64);
        json!({
            "n": all.len(),
            "p50": at(500),
            "p90": at(900),
            "p99": at(990),
            "p999": at(999),
            "max": milliseconds(all[all.len() - 1]),
            "mean": mean,
        })
    }
}

/// Nanoseconds as milliseconds.
pub fn milliseconds(nanoseconds: u64) -> f64 {
    real(nanoseconds) / 1e6
}

/// A count as a float: exact up to 2^53, which no bench reaches.
#[allow(clippy::cast_precision_loss)]
pub fn real(count: u64) -> f64 {
    count as f64
}
