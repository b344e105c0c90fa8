//! Any bytes, cut in two at any place, are read as when they come whole. The first two bytes say where.
#![no_main]
use blazar_core::sse::{Item, Reader, TooLong};
use libfuzzer_sys::fuzz_target;

fn read(pieces: &[&[u8]]) -> Vec<Option<(Vec<u8>, Vec<u8>)>> {
    let mut items = Vec::new();
    let mut reader = Reader::default();
    let mut sink = |item: Item<'_>| -> Result<(), TooLong> {
        items.push(match item {
            Item::Message { event, data } => Some((event.to_vec(), data.to_vec())),
            Item::Comment => None,
        });
        Ok(())
    };
    for piece in pieces {
        reader.feed(piece, &mut sink).expect("it is short");
    }
    reader.finish(&mut sink).expect("it is short");
    items
}

fuzz_target!(|input: &[u8]| {
    let [high, low, text @ ..] = input else { return };
    let cut = usize::from(u16::from_be_bytes([*high, *low])) % (text.len() + 1);
    assert_eq!(read(&[&text[..cut], &text[cut..]]), read(&[text]));
});
