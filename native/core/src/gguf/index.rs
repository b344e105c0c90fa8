//! One pass over a header: where every key, value and tensor lies. Nothing is copied and nothing is believed.
use super::{
    error::Error,
    reader::{Order, Reader, Span},
    types::{Known, TensorType, lookup},
    value::{Slot, ValueType, scan},
};

const MAX_KEY: u64 = 65_535;
const MAX_TENSOR_NAME: u64 = 255;
const MAX_DIMS: u32 = 4;
const MAX_ALIGNMENT: u64 = 1 << 20;
const DEFAULT_ALIGNMENT: u64 = 32;
/// A pair is a key's length, a byte of key, a type and a byte of value; a tensor all its fields without a name.
const LEAST_PAIR: u64 = 8 + 1 + 4 + 1;
const LEAST_TENSOR: u64 = 8 + 4 + 4 + 8;
/// Space taken before the counts have proved themselves.
const FIRST_ROOM: u64 = 1024;

#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    pub key: Span,
    pub slot: Slot,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub at: u64,
    pub name: Span,
    pub dims: [u64; 4],
    pub rank: usize,
    pub kind: &'static TensorType,
    pub elements: u64,
    pub bytes: u64,
    /// Relative to the data section.
    pub offset: u64,
}

/// Everything a header says, as places in its bytes.
#[derive(Debug, Clone)]
pub struct Index {
    pub(super) order: Order,
    pub(super) version: u32,
    pub(super) alignment: u64,
    /// Sorted by key.
    pub(super) pairs: Vec<Pair>,
    /// In the file's order.
    pub(super) entries: Vec<Entry>,
    pub(super) header_end: u64,
    pub(super) data_start: u64,
    pub(super) size: u64,
}

/// Read the header at the front of a file of `size` bytes, of which `bytes` are at hand.
///
/// [`Error::More`] says that the header is longer than `bytes`; read further and call again. Every other error is a fault
/// of the file. Memory is taken in proportion to `bytes`, whatever the counts in the file claim.
pub fn scan_header(bytes: &[u8], size: u64) -> Result<Index, Error> {
    let size = size.max(bytes.len() as u64);
    let mut reader = Reader { bytes, size, pos: 0, order: Order::Little };
    let (version, order) = preamble(&mut reader)?;
    reader.order = order;
    let tensors_at = reader.at();
    let tensor_count = reader.count("tensors", LEAST_TENSOR)?;
    let pair_count = reader.count("key/value pairs", LEAST_PAIR)?;
    let pairs = pairs(&mut reader, pair_count)?;
    let alignment = alignment(&reader, &pairs)?;
    super::reader::check_count(tensors_at, tensor_count, "tensors", LEAST_TENSOR, reader.rest())?;
    let entries = entries(&mut reader, tensor_count)?;
    let header_end = reader.at();
    let data_start = header_end.next_multiple_of(alignment);
    let index = Index { order, version, alignment, pairs, entries, header_end, data_start, size };
    check_names(bytes, &index.entries)?;
    check_data(bytes, &index)?;
    Ok(index)
}

fn preamble(reader: &mut Reader<'_>) -> Result<(u32, Order), Error> {
    let magic = reader.bytes.get(..4).unwrap_or(reader.bytes);
    if magic != b"GGUF" {
        if magic.len() < 4 && reader.size >= 4 {
            return Err(reader.short(0, 4, "magic"));
        }
        return Err(Error::Magic { found: magic.to_vec() });
    }
    reader.pos = 4;
    let raw = reader.array::<4>("version")?;
    let (little, big) = (u32::from_le_bytes(raw), u32::from_be_bytes(raw));
    match (little, big) {
        (2 | 3, _) => Ok((little, Order::Little)),
        // Big-endian files came with version 3; the magic is the same, only the version tells.
        (_, 3) => Ok((3, Order::Big)),
        _ if big < little => Err(Error::Version { version: big, order: Order::Big.name() }),
        _ => Err(Error::Version { version: little, order: Order::Little.name() }),
    }
}

fn room(count: u64) -> usize {
    usize::try_from(count.min(FIRST_ROOM)).unwrap_or(0)
}

fn pairs(reader: &mut Reader<'_>, count: u64) -> Result<Vec<Pair>, Error> {
    let mut pairs = Vec::with_capacity(room(count));
    for _ in 0..count {
        let (key, _) = reader.name("key", MAX_KEY)?;
        let slot = scan(reader)?;
        pairs.push(Pair { key, slot });
    }
    let bytes = reader.bytes;
    // Stable: of two equal keys the later one in the file stays second.
    pairs.sort_by_key(|pair| pair.key.of(bytes));
    if let Some(twins) = pairs.windows(2).find(|twins| twins[0].key.of(bytes) == twins[1].key.of(bytes)) {
        return Err(Error::Duplicate { at: twins[1].key.at as u64, what: "key", name: text(bytes, twins[1].key) });
    }
    Ok(pairs)
}

fn alignment(reader: &Reader<'_>, pairs: &[Pair]) -> Result<u64, Error> {
    let bytes = reader.bytes;
    let Ok(place) = pairs.binary_search_by_key(&&b"general.alignment"[..], |pair| pair.key.of(bytes)) else {
        return Ok(DEFAULT_ALIGNMENT);
    };
    let slot = pairs[place].slot;
    let at = slot.span.at as u64;
    if slot.kind != ValueType::U32 {
        return Err(Error::Alignment { at, found: format!("of type {}", slot.kind.name()) });
    }
    let value = super::value::view(bytes, reader.order, slot).as_u64().unwrap_or_default();
    if !value.is_power_of_two() || value > MAX_ALIGNMENT {
        return Err(Error::Alignment { at, found: value.to_string() });
    }
    Ok(value)
}

fn entries(reader: &mut Reader<'_>, count: u64) -> Result<Vec<Entry>, Error> {
    let mut entries = Vec::with_capacity(room(count));
    for _ in 0..count {
        entries.push(entry(reader)?);
    }
    Ok(entries)
}

fn entry(reader: &mut Reader<'_>) -> Result<Entry, Error> {
    let at = reader.at();
    let (name, text) = reader.name("tensor name", MAX_TENSOR_NAME)?;
    let rank_at = reader.at();
    let rank = reader.u32("number of dimensions")?;
    if rank > MAX_DIMS {
        return Err(Error::Dimensions { at: rank_at, name: text.to_owned(), dims: rank });
    }
    let rank = rank as usize;
    let mut dims = [1; 4];
    for dim in &mut dims[..rank] {
        *dim = reader.u64("dimension")?;
    }
    let kind_at = reader.at();
    let id = reader.u32("tensor type")?;
    let kind = match lookup(id) {
        Known::Current(kind) => kind,
        Known::Removed(kind) => return Err(Error::RemovedType { at: kind_at, name: text.to_owned(), kind }),
        Known::Unknown => return Err(Error::TensorType { at: kind_at, name: text.to_owned(), id }),
    };
    let offset = reader.u64("tensor offset")?;
    if dims[0] % kind.block != 0 {
        return Err(Error::Row { at, name: text.to_owned(), row: dims[0], block: kind.block, kind: kind.name });
    }
    let sizes = volume(&dims).and_then(|elements| Some((elements, (elements / kind.block).checked_mul(kind.bytes)?)));
    let Some((elements, bytes)) = sizes.filter(|sizes| i64::try_from(sizes.1).is_ok()) else {
        return Err(Error::Overflow { at, name: text.to_owned() });
    };
    Ok(Entry { at, name, dims, rank, kind, elements, bytes, offset })
}

/// The product of the dimensions, as ggml counts it: in signed 64 bits.
fn volume(dims: &[u64; 4]) -> Option<u64> {
    // A zero must not hide an overflow of the others: ggml multiplies in order, and so would be wrong before it is zero.
    let mut product = 1_u64;
    for dim in dims {
        product = product.checked_mul(*dim).filter(|value| i64::try_from(*value).is_ok())?;
    }
    Some(product)
}

fn check_names(bytes: &[u8], entries: &[Entry]) -> Result<(), Error> {
    let mut names: Vec<&Entry> = entries.iter().collect();
    names.sort_by_key(|entry| entry.name.of(bytes));
    match names.windows(2).find(|twins| twins[0].name.of(bytes) == twins[1].name.of(bytes)) {
        Some(twins) => Err(Error::Duplicate { at: twins[1].at, what: "tensor", name: text(bytes, twins[1].name) }),
        None => Ok(()),
    }
}

fn check_data(bytes: &[u8], index: &Index) -> Result<(), Error> {
    for entry in &index.entries {
        if entry.offset % index.alignment != 0 {
            return Err(Error::Unaligned {
                at: entry.at,
                name: text(bytes, entry.name),
                offset: entry.offset,
                alignment: index.alignment,
            });
        }
        let end = index.data_start.checked_add(entry.offset).and_then(|start| start.checked_add(entry.bytes));
        if end.is_none_or(|end| end > index.size) {
            let end = end.unwrap_or(u64::MAX);
            return Err(Error::PastEnd { at: entry.at, name: text(bytes, entry.name), end, size: index.size });
        }
    }
    let mut places: Vec<&Entry> = index.entries.iter().filter(|entry| entry.bytes > 0).collect();
    places.sort_by_key(|entry| entry.offset);
    match places.windows(2).find(|two| two[0].offset + two[0].bytes > two[1].offset) {
        Some(two) => {
            Err(Error::Overlap { at: two[1].at, first: text(bytes, two[0].name), second: text(bytes, two[1].name) })
        }
        None => Ok(()),
    }
}

fn text(bytes: &[u8], span: Span) -> String {
    String::from_utf8_lossy(span.of(bytes)).into_owned()
}
