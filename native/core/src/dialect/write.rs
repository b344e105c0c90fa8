//! JSON straight into the output: escaped strings, numbers, and tool arguments as they came.

/// 0: as it is; `u`: as `\u00XX`; else the letter after the backslash.
const ESCAPES: [u8; 256] = {
    let mut table = [0; 256];
    let mut control = 0;
    while control < 0x20 {
        table[control] = b'u';
        control += 1;
    }
    table[0x08] = b'b';
    table[0x09] = b't';
    table[0x0A] = b'n';
    table[0x0C] = b'f';
    table[0x0D] = b'r';
    table[b'"' as usize] = b'"';
    table[b'\\' as usize] = b'\\';
    table
};

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Append `text` as the inside of a JSON string.
pub(crate) fn escaped(text: &str, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    let mut from = 0;
    for (at, byte) in bytes.iter().enumerate() {
        let escape = ESCAPES[usize::from(*byte)];
        if escape == 0 {
            continue;
        }
        out.extend_from_slice(&bytes[from..at]);
        if escape == b'u' {
            let digits = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(&digits);
        } else {
            out.extend_from_slice(&[b'\\', escape]);
        }
        from = at + 1;
    }
    out.extend_from_slice(&bytes[from..]);
}

/// Append `text` as a JSON string.
pub(crate) fn string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    escaped(text, out);
    out.push(b'"');
}

/// Append a call's id with only such characters as every client passes back unharmed, and no more than they take.
pub(crate) fn id(id: &str, out: &mut Vec<u8>) {
    const MOST: usize = 56;
    let safe = |b: u8| if b.is_ascii_alphanumeric() || b == b'-' || b == b'_' { b } else { b'_' };
    out.extend(id.bytes().take(MOST).map(safe));
}

/// Append a whole number.
pub(crate) fn int(value: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Append a logarithm of a probability. JSON has no infinity; -9999 means it in OpenAI's dialect, and in ours everywhere.
pub(crate) fn logprob(value: f64, out: &mut Vec<u8>) {
    let value = if value.is_nan() { -9999.0 } else { value.clamp(-9999.0, 0.0) };
    // A float of this range always has a JSON form.
    if serde_json::to_writer(&mut *out, &value).is_err() {
        out.extend_from_slice(b"-9999.0");
    }
}

/// Append `items` with commas between.
pub(crate) fn list<T>(items: impl IntoIterator<Item = T>, out: &mut Vec<u8>, mut write: impl FnMut(T, &mut Vec<u8>)) {
    out.push(b'[');
    let mut comma = false;
    for item in items {
        if comma {
            out.push(b',');
        }
        comma = true;
        write(item, out);
    }
    out.push(b']');
}

/// Append `json` without the space between its tokens, so that it fits on one line. `json` is valid.
pub(crate) fn compact(json: &str, out: &mut Vec<u8>) {
    let bytes = json.as_bytes();
    let (mut inside, mut skip) = (false, false);
    for byte in bytes {
        if inside {
            out.push(*byte);
            if skip {
                skip = false;
            } else if *byte == b'\\' {
                skip = true;
            } else if *byte == b'"' {
                inside = false;
            }
        } else if !byte.is_ascii_whitespace() {
            out.push(*byte);
            inside = *byte == b'"';
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_json_reader_gives_the_text_back(text in any::<String>()) {
            let mut out = Vec::new();
            string(&text, &mut out);
            prop_assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        }
    }

    #[test]
    fn infinity_is_a_json_number() {
        for (value, wanted) in
            [(f64::NEG_INFINITY, "-9999.0"), (f64::NAN, "-9999.0"), (-0.25, "-0.25"), (f64::MIN, "-9999.0")]
        {
            let mut out = Vec::new();
            logprob(value, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), wanted);
        }
    }

    #[test]
    fn compact_keeps_what_strings_hold() {
        let mut out = Vec::new();
        compact("{ \"a b\" : \"c \\\" d\" ,\n\t\"e\" : 1.50 }", &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), r#"{"a b":"c \" d","e":1.50}"#);
    }
}
