//! How tokens are drawn, as the engine takes it.
use crate::chat::Sampling;
use serde::Serialize;
use serde_json::value::RawValue;

/// What `repeat_last_n: -1` looks back on where the client asks for no context: newer engines refuse -1.
const WHOLE_CONTEXT: u32 = 32_768;
/// Seeds are 32 bits wide in the engine.
const SEEDS: i64 = 1 << 32;

#[derive(Serialize)]
pub(super) struct Sampled<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_k: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    typical_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repeat_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repeat_last_n: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    presence_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frequency_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logit_bias: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mirostat: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mirostat_tau: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mirostat_eta: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    grammar: Option<&'a str>,
}

impl<'a> Sampled<'a> {
    /// `own` counts where `sampling` says nothing.
    pub fn new(sampling: &'a Sampling, own: &'a Sampling, num_ctx: Option<u32>) -> Self {
        let whole = i64::from(num_ctx.unwrap_or(WHOLE_CONTEXT));
        let (mirostat, mirostat_tau, mirostat_eta) =
            sampling.mirostat.map_or((None, None, None), |(mode, tau, eta)| (Some(mode), tau, eta));
        Self {
            temperature: sampling.temperature.or(own.temperature),
            top_p: sampling.top_p.or(own.top_p),
            top_k: sampling.top_k.or(own.top_k),
            min_p: sampling.min_p.or(own.min_p),
            typical_p: sampling.typical_p.or(own.typical_p),
            repeat_penalty: sampling.repeat_penalty.or(own.repeat_penalty),
            repeat_last_n: sampling
                .repeat_last_n
                .or(own.repeat_last_n)
                .map(|count| if count < 0 { whole } else { count }),
            presence_penalty: sampling.presence_penalty.or(own.presence_penalty),
            frequency_penalty: sampling.frequency_penalty.or(own.frequency_penalty),
            seed: sampling.seed.or(own.seed).map(|seed| if seed == -1 { seed } else { seed.rem_euclid(SEEDS) }),
            logit_bias: sampling.logit_bias.as_deref(),
            mirostat,
            mirostat_tau,
            mirostat_eta,
            grammar: sampling.grammar.as_deref(),
        }
    }
}
