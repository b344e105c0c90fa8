//! Any bytes, cut in two at any place, are the same answer (or the same fault) as when they come whole.
#![no_main]
use blazar_core::http1::{Error, Part, Reader};
use libfuzzer_sys::fuzz_target;

type Answer = (u16, Vec<u8>, bool, bool);

fn read(pieces: &[&[u8]]) -> Result<Answer, Error> {
    let (mut status, mut body, mut ended) = (0, Vec::new(), false);
    let mut reader = Reader::new("POST");
    for piece in pieces {
        let mut input = *piece;
        while let Some(part) = reader.next(&mut input)? {
            match part {
                Part::Head(head) => status = head.status,
                Part::Body(data) => body.extend_from_slice(data),
                Part::End => ended = true,
            }
        }
    }
    ended |= reader.eof()?.is_some();
    Ok((status, body, ended, reader.is_reusable()))
}

fuzz_target!(|input: &[u8]| {
    let [high, low, text @ ..] = input else { return };
    let cut = usize::from(u16::from_be_bytes([*high, *low])) % (text.len() + 1);
    assert_eq!(read(&[&text[..cut], &text[cut..]]), read(&[text]));
});
