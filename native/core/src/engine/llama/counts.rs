//! What an answer cost, merged over its choices.
use super::wire::Chunk;
use crate::chat::{Timings, Usage};

/// Counts merged over choices: engines repeat the prompt's for each.
#[derive(Debug, Default)]
pub(super) struct Counts {
    seen: bool,
    /// The counts are the engine's own sums, not those of its timings so far.
    summed: bool,
    prompt: u64,
    /// Over all answers, so that each prompt is in it as often as it was answered.
    prompts: u64,
    cached: u64,
    completion: u64,
    reasoning: Option<u64>,
    timings: Option<Timings>,
}

impl Counts {
    /// A single answer's later counts replace the earlier; with several answers each has its own, and they add up.
    pub fn add(&mut self, chunk: &Chunk<'_>, expected: usize) {
        let timings = chunk.timings.as_ref();
        if let Some(timings) = timings {
            let earlier = self.timings.unwrap_or_default();
            self.timings = Some(Timings {
                prompt_ns: earlier.prompt_ns.max(nanoseconds(timings.prompt_ms)),
                predicted_ns: earlier.predicted_ns.max(nanoseconds(timings.predicted_ms)),
            });
        }
        let cache = timings.and_then(|timings| timings.cache_n);
        let (prompt, completion, cached, reasoning) = if let Some(usage) = &chunk.usage {
            let cached = usage.prompt_tokens_details.and_then(|details| details.cached_tokens);
            let reasoning = usage.completion_tokens_details.and_then(|details| details.reasoning_tokens);
            self.summed = true;
            (usage.prompt_tokens, usage.completion_tokens, cached.or(cache), reasoning)
        } else if let (Some(timings), 1, false) = (timings, expected, self.summed) {
            let prompt = timings.prompt_n.map(|count| count.saturating_add(cache.unwrap_or(0)));
            (prompt, timings.predicted_n, cache, None)
        } else {
            return;
        };
        let completion = completion.unwrap_or(0);
        let cached = cached.unwrap_or(0);
        if expected == 1 {
            self.completion = completion;
            self.cached = cached;
            self.reasoning = reasoning.or(self.reasoning);
        } else {
            self.prompts = self.prompts.saturating_add(prompt.unwrap_or(0));
            // The later answers find the first one's prompt in the cache: the least is what was there before.
            self.cached = if self.seen { self.cached.min(cached) } else { cached };
            self.completion = self.completion.saturating_add(completion);
            self.reasoning =
                reasoning.map_or(self.reasoning, |count| Some(self.reasoning.unwrap_or(0).saturating_add(count)));
        }
        self.prompt = self.prompt.max(prompt.unwrap_or(0));
        self.seen = true;
    }

    pub fn merged(&self, each: u64) -> Option<(Usage, Option<Timings>)> {
        let prompt = self.prompt.max(self.prompts / each.max(1));
        self.seen.then_some((
            Usage { prompt, cached: self.cached.min(prompt), completion: self.completion, reasoning: self.reasoning },
            self.timings,
        ))
    }
}

/// From milliseconds; nonsense becomes 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and the value is not negative"
)]
fn nanoseconds(milliseconds: Option<f64>) -> u64 {
    let value = milliseconds.unwrap_or(0.0);
    if value.is_finite() && value > 0.0 { (value * 1e6).round() as u64 } else { 0 }
}
