//! How long a model stays, in Ollama's notation: `5m`, `1h30m`, `1.5s`, `300`, `-1`.
use crate::chat::KeepAlive;

/// Longer than any machine runs: the largest duration that a signed count of nanoseconds holds.
const EVER_S: f64 = 9_223_372_036.0;

/// Seconds as the waist says them; negative is for ever.
pub(crate) fn keep(seconds: f64) -> KeepAlive {
    if (0.0..EVER_S).contains(&seconds) { KeepAlive::Seconds(seconds) } else { KeepAlive::Forever }
}

/// A duration, or a bare number of seconds (which clients also send as text).
pub(crate) fn parse(text: &str) -> Option<KeepAlive> {
    let (negative, rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let seconds = bare(rest).or_else(|| units(rest))?;
    Some(keep(if negative && seconds > 0.0 { -1.0 } else { seconds }))
}

fn bare(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.') && text.bytes().any(|b| b.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

fn units(mut text: &str) -> Option<f64> {
    let mut total = 0.0;
    if text.is_empty() {
        return None;
    }
    while !text.is_empty() {
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let amount = bare(&text[..digits])?;
        text = &text[digits..];
        let letters = text.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(text.len());
        total += amount
            * match &text[..letters] {
                "ns" => 1e-9,
                "us" | "\u{b5}s" | "\u{3bc}s" => 1e-6,
                "ms" => 1e-3,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                _ => return None,
            };
        text = &text[letters..];
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_form_that_clients_send() {
        let seconds = |text| match parse(text) {
            Some(KeepAlive::Seconds(s)) => s,
            other => panic!("{text}: {other:?}"),
        };
        for (text, wanted) in [
            ("5m", 300.0),
            ("1h30m", 5400.0),
            ("300", 300.0),
            ("0", 0.0),
            ("-0s", 0.0),
            ("5m0s", 300.0),
            ("1.5h", 5400.0),
            ("+2s", 2.0),
        ] {
            assert!((seconds(text) - wanted).abs() < 1e-9, "{text}");
        }
        assert!((seconds("300ms") - 0.3).abs() < 1e-9);
        assert!((seconds("1.5\u{b5}s") - 1.5e-6).abs() < 1e-12);
        for text in ["-1", "-1m", "-5m0s", "9999999999h"] {
            assert_eq!(parse(text), Some(KeepAlive::Forever), "{text}");
        }
        for text in ["", "-", "m", "5", "5 m", "5d", "1h30", ".", "five", "1.2.3s", "5m-3s", "\u{b5}"] {
            let wanted = text == "5";
            assert_eq!(parse(text).is_some(), wanted, "{text}");
        }
    }
}
