//! Civil time as RFC 3339, from nanoseconds since the Unix epoch.
use super::write::int;

const SECOND: u64 = 1_000_000_000;

/// Writes times of one answer. Lines of a stream often lie in the same second, so its text is kept.
#[derive(Debug)]
pub(crate) struct Times {
    second: u64,
    text: [u8; 19],
}

impl Times {
    pub fn new() -> Self {
        Self { second: 0, text: *b"1970-01-01T00:00:00" }
    }

    /// Append as in `2026-08-01T09:30:00.123456789Z`.
    pub fn write(&mut self, ns: u64, out: &mut Vec<u8>) {
        let second = ns / SECOND;
        if second != self.second {
            self.second = second;
            self.text = civil(second);
        }
        out.extend_from_slice(&self.text);
        let mut fraction = *b".000000000Z";
        let mut rest = ns % SECOND;
        for place in (1..10).rev() {
            fraction[place] = digit(rest);
            rest /= 10;
        }
        out.extend_from_slice(&fraction);
    }
}

/// Seconds since the epoch, as a JSON number.
pub(crate) fn seconds(ns: u64, out: &mut Vec<u8>) {
    int(ns / SECOND, out);
}

/// The day, as in `2026-08-01`.
pub(crate) fn date(ns: u64) -> String {
    civil(ns / SECOND).iter().take(10).map(|byte| char::from(*byte)).collect()
}

fn digit(value: u64) -> u8 {
    b'0' + u8::try_from(value % 10).unwrap_or(0)
}

/// The proleptic Gregorian calendar, counted in eras of 400 years that begin on a first of March.
fn civil(second: u64) -> [u8; 19] {
    let days = second / 86_400 + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let time = second % 86_400;
    let mut text = *b"0000-00-00T00:00:00";
    let mut put = |at: usize, width: usize, mut value: u64| {
        for place in (at..at + width).rev() {
            text[place] = digit(value);
            value /= 10;
        }
    };
    put(0, 4, year);
    put(5, 2, month);
    put(8, 2, day);
    put(11, 2, time / 3600);
    put(14, 2, time / 60 % 60);
    put(17, 2, time % 60);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_days() {
        let mut times = Times::new();
        for (ns, wanted) in [
            (0, "1970-01-01T00:00:00.000000000Z"),
            (951_782_400 * SECOND, "2000-02-29T00:00:00.000000000Z"),
            (1_709_251_199 * SECOND + 7, "2024-02-29T23:59:59.000000007Z"),
            (1_709_251_200 * SECOND, "2024-03-01T00:00:00.000000000Z"),
            (4_102_444_799 * SECOND + 123_456_789, "2099-12-31T23:59:59.123456789Z"),
            (4_102_444_799 * SECOND + 999_999_999, "2099-12-31T23:59:59.999999999Z"),
        ] {
            let mut out = Vec::new();
            times.write(ns, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), wanted);
        }
    }
}
