//! What the stand-in engine and the load tool share: one clock, and the stamps that travel inside the text.
//!
//! Each streamed piece of text reads `SEQUENCE@NANOSECONDS`, where the time is the machine's monotonic clock just before
//! the engine wrote it. A gateway may re-encode everything around the text; the reader still knows, to the nanosecond,
//! how long each piece was on its way, and whether one is missing, doubled or out of order.

pub mod reply;
pub mod stats;

/// Nanoseconds of the machine's monotonic clock: the same for every process.
pub fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place to write to, and this clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// One stamp: the number of the piece within its answer, and when it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// 0 for the first piece.
    pub sequence: u64,
    /// Monotonic nanoseconds.
    pub sent_ns: u64,
}

/// Write a stamp, padded with `x` to `width` bytes.
pub fn write_stamp(out: &mut Vec<u8>, stamp: Stamp, width: usize) {
    let start = out.len();
    push_number(out, stamp.sequence);
    out.push(b'@');
    push_number(out, stamp.sent_ns);
    out.push(b' ');
    let written = out.len() - start;
    out.resize(out.len() + width.saturating_sub(written), b'x');
}

/// Decimal digits.
pub fn push_number(out: &mut Vec<u8>, mut number: u64) {
    let start = out.len();
    loop {
        out.push(b'0' + u8::try_from(number % 10).unwrap_or(0));
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out[start..].reverse();
}

/// Hand every stamp in `text` to `found`.
pub fn read_stamps(text: &[u8], mut found: impl FnMut(Stamp)) {
    for at in memchr::memchr_iter(b'@', text) {
        let before = text[..at].iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        let after = text[at + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if before > 0 && after > 0 {
            found(Stamp { sequence: number(&text[at - before..at]), sent_ns: number(&text[at + 1..=at + after]) });
        }
    }
}

fn number(digits: &[u8]) -> u64 {
    digits.iter().fold(0_u64, |sum, digit| sum.wrapping_mul(10).wrapping_add(u64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_come_back_from_any_text_around_them() {
        let mut text = b"say @ x@1 ".to_vec();
        write_stamp(&mut text, Stamp { sequence: 0, sent_ns: 7 }, 12);
        write_stamp(&mut text, Stamp { sequence: 19, sent_ns: 123_456_789_012_345 }, 0);
        let mut seen = Vec::new();
        read_stamps(&text, |stamp| seen.push(stamp));
        assert_eq!(seen, [Stamp { sequence: 0, sent_ns: 7 }, Stamp { sequence: 19, sent_ns: 123_456_789_012_345 }]);
    }
}
