//! Images and sound that come inside a body, as base64 with or without a `data:` URL around it.
use std::borrow::Cow;

use super::read::{Read, bad};
use crate::chat::Part;

const KNOWN: &str = "PNG, JPEG, GIF, WebP and BMP images, and WAV, MP3, FLAC and Ogg sound are known";

enum Media {
    Image(&'static str),
    Audio(&'static str),
}

/// A `data:` URL, or bare base64 whose first bytes say what it is.
pub(crate) fn url(text: &str) -> Read<Part> {
    if let Some(rest) = text.strip_prefix("data:") {
        let Some((kind, data)) = rest.split_once(',') else {
            return bad("", "Expected a data URL such as data:image/png;base64,..., found one without a comma.");
        };
        let Some(mime) = kind.strip_suffix(";base64") else {
            return bad("", "Expected a data URL in base64, such as data:image/png;base64,...");
        };
        let mime = mime.split(';').next().unwrap_or_default();
        return if mime.is_empty() { sniffed(data) } else { typed(mime, data) };
    }
    let scheme = text.get(..8).unwrap_or(text).to_ascii_lowercase();
    if scheme.starts_with("http://") || scheme.starts_with("https://") {
        return Ok(Part::Link(text.to_owned()));
    }
    if scheme.starts_with("file:") {
        return bad("", "Files of this machine are not read. Send the image itself, in base64.");
    }
    sniffed(text)
}

/// Base64 of a declared type.
pub(crate) fn typed(mime: &str, data: &str) -> Read<Part> {
    if !mime.starts_with("image/") {
        return bad(
            "",
            format!("Expected an image, found data of type \"{}\".", mime.chars().take(40).collect::<String>()),
        );
    }
    Ok(Part::Image { mime: mime.to_owned(), base64: base64(data)?.into_owned() })
}

/// Sound of a declared format.
pub(crate) fn audio(format: &str, data: &str) -> Read<Part> {
    Ok(Part::Audio { format: format.to_owned(), base64: base64(data)?.into_owned() })
}

/// Base64 that says itself what it is.
pub(crate) fn sniffed(data: &str) -> Read<Part> {
    let base64 = base64(data)?;
    match sniff(&base64) {
        Some(Media::Image(mime)) => Ok(Part::Image { mime: mime.to_owned(), base64: base64.into_owned() }),
        Some(Media::Audio(format)) => Ok(Part::Audio { format: format.to_owned(), base64: base64.into_owned() }),
        None => bad("", format!("The data is of no known kind; {KNOWN}.")),
    }
}

/// 0..64: a digit; 254: one of the URL-safe alphabet; 253: space; 252: padding; 255: none of these.
const DIGITS: [u8; 256] = {
    let mut table = [255; 256];
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut digit = 0;
    while digit < 64 {
        // The index is below 64.
        #[allow(clippy::cast_possible_truncation)]
        {
            table[alphabet[digit] as usize] = digit as u8;
        }
        digit += 1;
    }
    table[b'-' as usize] = 254;
    table[b'_' as usize] = 254;
    table[b' ' as usize] = 253;
    table[b'\n' as usize] = 253;
    table[b'\r' as usize] = 253;
    table[b'\t' as usize] = 253;
    table[b'=' as usize] = 252;
    table
};

/// The same data in the standard alphabet, padded, without space; a copy is made only where it differs.
fn base64(data: &str) -> Read<Cow<'_, str>> {
    if standard(data) { Ok(Cow::Borrowed(data)) } else { repaired(data) }
}

/// Whether nothing is to be done, as for nearly all images. It is written so that the compiler tests many bytes at once.
fn standard(data: &str) -> bool {
    let digits = data.strip_suffix('=').map_or(data, |rest| rest.strip_suffix('=').unwrap_or(rest));
    let other = |b: u8| u8::from(!(b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/')));
    !digits.is_empty() && data.len().is_multiple_of(4) && digits.bytes().fold(0, |found, b| found | other(b)) == 0
}

fn repaired(data: &str) -> Read<Cow<'_, str>> {
    let (mut digits, mut padding, mut plain) = (0_usize, 0_usize, true);
    for (at, byte) in data.bytes().enumerate() {
        match DIGITS[usize::from(byte)] {
            255 => return bad("", format!("Expected base64, found a character that is none at byte {at}.")),
            253 => plain = false,
            252 => padding += 1,
            _ if padding > 0 => return bad("", format!("Expected base64, found more after its end at byte {at}.")),
            kind => {
                digits += 1;
                plain &= kind < 64;
            }
        }
    }
    if digits == 0 {
        return bad("", "Expected base64, found nothing.");
    }
    let missing = match digits % 4 {
        0 => 0,
        1 => return bad("", "Expected base64, found text that is cut off."),
        rest => 4 - rest,
    };
    if plain && padding == missing {
        return Ok(Cow::Borrowed(data));
    }
    let mut fixed = String::with_capacity(digits + missing);
    fixed.extend(data.chars().filter_map(|c| match c {
        '-' => Some('+'),
        '_' => Some('/'),
        ' ' | '\n' | '\r' | '\t' | '=' => None,
        c => Some(c),
    }));
    fixed.extend(std::iter::repeat_n('=', missing));
    Ok(Cow::Owned(fixed))
}

fn sniff(base64: &str) -> Option<Media> {
    let mut head = [0_u8; 12];
    for (group, bytes) in base64.as_bytes().chunks_exact(4).zip(head.chunks_exact_mut(3)) {
        let word = group.iter().fold(0_u32, |word, b| {
            let digit = DIGITS[usize::from(*b)];
            (word << 6) | u32::from(if digit < 64 { digit } else { 0 })
        });
        bytes.copy_from_slice(&word.to_be_bytes()[1..]);
    }
    Some(match &head {
        [0x89, b'P', b'N', b'G', ..] => Media::Image("image/png"),
        [0xFF, 0xD8, 0xFF, ..] => Media::Image("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Media::Image("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P'] => Media::Image("image/webp"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'A', b'V', b'E'] => Media::Audio("wav"),
        [b'B', b'M', ..] => Media::Image("image/bmp"),
        [b'I', b'D', b'3', ..] | [0xFF, 0xFA | 0xFB | 0xF2 | 0xF3, ..] => Media::Audio("mp3"),
        [b'f', b'L', b'a', b'C', ..] => Media::Audio("flac"),
        [b'O', b'g', b'g', b'S', ..] => Media::Audio("ogg"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mime(part: Read<Part>) -> String {
        match part {
            Ok(Part::Image { mime, .. }) => mime,
            Ok(Part::Audio { format, .. }) => format,
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn first_bytes_tell_the_kind() {
        for (data, wanted) in [
            ("iVBORw0KGgo=", "image/png"),
            ("/9j/4AAQSkZJRg==", "image/jpeg"),
            ("R0lGODlhAQABAA==", "image/gif"),
            ("UklGRiQAAABXRUJQ", "image/webp"),
            ("UklGRiQAAABXQVZF", "wav"),
            ("SUQzBAAAAAAA", "mp3"),
        ] {
            assert_eq!(mime(sniffed(data)), wanted);
            assert_eq!(mime(url(&format!("data:;base64,{data}"))), wanted);
        }
        assert!(sniffed("AAAA").unwrap_err().message.contains("no known kind"));
    }

    #[test]
    fn base64_is_made_standard() {
        assert_eq!(base64("_9j_4AAQSkZJRg").unwrap(), "/9j/4AAQSkZJRg==");
        assert_eq!(base64("/9j/\n4AAQ\r\nSkZJRg==").unwrap(), "/9j/4AAQSkZJRg==");
        assert!(matches!(base64("/9j/4AAQSkZJRg==").unwrap(), Cow::Borrowed(_)));
        for wrong in ["", "=", "A", "AB=C", "A\u{e9}BC", "a%2Fb"] {
            assert!(base64(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn links_are_for_the_caller_and_files_for_nobody() {
        for link in ["http://example.com/a.png", "HTTPS://example.com/a.png"] {
            assert!(matches!(url(link), Ok(Part::Link(_))), "{link}");
        }
        assert!(url("file:///etc/passwd").unwrap_err().message.contains("not read"));
        assert!(url("data:text/plain;base64,AAAA").unwrap_err().message.contains("text/plain"));
        assert!(url("data:image/png,AAAA").unwrap_err().message.contains("base64"));
    }
}
