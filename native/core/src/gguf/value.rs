//! Values of the key/value section. Arrays stay where they are in the file and are read when asked for.
use super::{
    error::Error,
    reader::{Order, Reader, Span, check_count},
};
use std::borrow::Cow;

/// Arrays in arrays: the format allows any depth, nothing real has more than two.
const MAX_DEPTH: u32 = 8;
/// A single string; the longest real ones (chat templates, character maps) are below one MiB.
const MAX_STRING: u64 = 64 << 20;

/// The thirteen value types, by their number in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ValueType {
    U8 = 0,
    I8 = 1,
    U16 = 2,
    I16 = 3,
    U32 = 4,
    I32 = 5,
    F32 = 6,
    Bool = 7,
    String = 8,
    Array = 9,
    U64 = 10,
    I64 = 11,
    F64 = 12,
}

impl ValueType {
    fn from_id(id: u32) -> Option<Self> {
        Some(match id {
            0 => Self::U8,
            1 => Self::I8,
            2 => Self::U16,
            3 => Self::I16,
            4 => Self::U32,
            5 => Self::I32,
            6 => Self::F32,
            7 => Self::Bool,
            8 => Self::String,
            9 => Self::Array,
            10 => Self::U64,
            11 => Self::I64,
            12 => Self::F64,
            _ => return None,
        })
    }

    /// Bytes of one value; for strings and arrays the least that one can take.
    fn least(self) -> u64 {
        match self {
            Self::U8 | Self::I8 | Self::Bool => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 | Self::String => 8,
            Self::Array => 12,
        }
    }

    /// The name that the format's description uses, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::U8 => "uint8",
            Self::I8 => "int8",
            Self::U16 => "uint16",
            Self::I16 => "int16",
            Self::U32 => "uint32",
            Self::I32 => "int32",
            Self::F32 => "float32",
            Self::Bool => "bool",
            Self::String => "string",
            Self::Array => "array",
            Self::U64 => "uint64",
            Self::I64 => "int64",
            Self::F64 => "float64",
        }
    }
}

/// A value where it lies: its type, and the bytes of it (for an array: of its items).
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub kind: ValueType,
    pub span: Span,
    /// For an array: the type of its items and their number.
    pub items: Option<(ValueType, u64)>,
}

/// Read the type and step over the value.
pub(super) fn scan(reader: &mut Reader<'_>) -> Result<Slot, Error> {
    let kind = value_type(reader)?;
    match kind {
        ValueType::Array => {
            let (item, count) = array_head(reader)?;
            let start = reader.pos;
            skip_items(reader, item, count, 1)?;
            let span = Span { at: start, len: reader.pos - start };
            Ok(Slot { kind, span, items: Some((item, count)) })
        }
        ValueType::String => Ok(Slot { kind, span: reader.string("string value", MAX_STRING)?, items: None }),
        _ => {
            let span = reader.span(kind.least(), "value")?;
            if kind == ValueType::Bool {
                let value = span.of(reader.bytes).first().copied().unwrap_or_default();
                if value > 1 {
                    return Err(Error::Bool { at: span.at as u64, value });
                }
            }
            Ok(Slot { kind, span, items: None })
        }
    }
}

fn value_type(reader: &mut Reader<'_>) -> Result<ValueType, Error> {
    let at = reader.at();
    let id = reader.u32("value type")?;
    ValueType::from_id(id).ok_or(Error::ValueType { at, id })
}

fn array_head(reader: &mut Reader<'_>) -> Result<(ValueType, u64), Error> {
    let item = value_type(reader)?;
    let at = reader.at();
    let count = reader.u64("array length")?;
    check_count(at, count, "array items", item.least(), reader.rest())?;
    Ok((item, count))
}

fn skip_items(reader: &mut Reader<'_>, item: ValueType, count: u64, depth: u32) -> Result<(), Error> {
    match item {
        ValueType::String => reader.skip_strings(count),
        ValueType::Array => {
            if depth >= MAX_DEPTH {
                return Err(Error::Depth { at: reader.at(), bound: MAX_DEPTH });
            }
            for _ in 0..count {
                let (inner, length) = array_head(reader)?;
                skip_items(reader, inner, length, depth + 1)?;
            }
            Ok(())
        }
        _ => reader.span(count.saturating_mul(item.least()), "array").map(|_| ()),
    }
}

/// A value, borrowed from the file's bytes.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// An unsigned number of any width.
    Unsigned(u64),
    /// A signed number of any width.
    Signed(i64),
    /// A floating-point number of either width.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// Text; bytes that are not UTF-8 are replaced.
    String(Cow<'a, str>),
    /// An array, not yet read.
    Array(Array<'a>),
}

impl<'a> Value<'a> {
    /// As a count or size: a number that is whole and not negative.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Self::Unsigned(value) => Some(*value),
            Self::Signed(value) => u64::try_from(*value).ok(),
            _ => None,
        }
    }

    /// As a truth value; numbers are not.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// As text.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// As an array.
    pub fn as_array(&self) -> Option<&Array<'a>> {
        match self {
            Self::Array(array) => Some(array),
            _ => None,
        }
    }
}

pub(super) fn view(bytes: &[u8], order: Order, slot: Slot) -> Value<'_> {
    let raw = slot.span.of(bytes);
    match slot.items {
        Some((item, count)) => Value::Array(Array { raw, at: slot.span.at, item, count, order }),
        None if slot.kind == ValueType::String => Value::String(String::from_utf8_lossy(raw)),
        None => scalar(slot.kind, order, raw),
    }
}

/// A number from its bytes, sign and width as `kind` says.
fn scalar<'a>(kind: ValueType, order: Order, raw: &[u8]) -> Value<'a> {
    let bits = match *raw {
        [a] => u64::from(a),
        [a, b] => match order {
            Order::Little => u64::from(u16::from_le_bytes([a, b])),
            Order::Big => u64::from(u16::from_be_bytes([a, b])),
        },
        [a, b, c, d] => u64::from(order.u32([a, b, c, d])),
        _ => raw.try_into().map_or(0, |eight| order.u64(eight)),
    };
    // Each cast takes the low bits, which are all there are at that width.
    #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)]
    match kind {
        ValueType::I8 => Value::Signed(i64::from(bits as u8 as i8)),
        ValueType::I16 => Value::Signed(i64::from(bits as u16 as i16)),
        ValueType::I32 => Value::Signed(i64::from(bits as u32 as i32)),
        ValueType::I64 => Value::Signed(bits as i64),
        ValueType::F32 => Value::Float(f64::from(f32::from_bits(bits as u32))),
        ValueType::F64 => Value::Float(f64::from_bits(bits)),
        ValueType::Bool => Value::Bool(bits != 0),
        _ => Value::Unsigned(bits),
    }
}

/// An array where it lies in the file: nothing of it is read before it is iterated.
#[derive(Debug, Clone, PartialEq)]
pub struct Array<'a> {
    raw: &'a [u8],
    at: usize,
    item: ValueType,
    count: u64,
    order: Order,
}

impl<'a> Array<'a> {
    /// How many items.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// No item.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The type of the items.
    pub fn item_type(&self) -> ValueType {
        self.item
    }

    /// The byte offset of the first item in the file.
    pub fn offset(&self) -> u64 {
        self.at as u64
    }

    /// The items, one after the other.
    pub fn iter(&self) -> Items<'a> {
        let reader = Reader { bytes: self.raw, size: self.raw.len() as u64, pos: 0, order: self.order };
        Items { reader, base: self.at, item: self.item, left: self.count }
    }

    /// The bytes of each string, unchecked; nothing when the items are no strings.
    pub fn raw_strings(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut rest = if self.item == ValueType::String { self.raw } else { &[] };
        let order = self.order;
        std::iter::from_fn(move || {
            let (length, tail) = rest.split_first_chunk::<8>()?;
            let (text, tail) = tail.split_at_checked(usize::try_from(order.u64(*length)).ok()?)?;
            rest = tail;
            Some(text)
        })
    }

    /// The items as counts, if they all are, and no more than `bound` of them.
    pub fn to_u64s(&self, bound: u64) -> Option<Vec<u64>> {
        if self.count > bound {
            return None;
        }
        self.iter().map(|item| item.as_u64().or_else(|| item.as_bool().map(u64::from))).collect()
    }
}

impl<'a> IntoIterator for &Array<'a> {
    type Item = Value<'a>;
    type IntoIter = Items<'a>;

    fn into_iter(self) -> Items<'a> {
        self.iter()
    }
}

/// The items of an [`Array`].
#[derive(Debug, Clone)]
pub struct Items<'a> {
    reader: Reader<'a>,
    base: usize,
    item: ValueType,
    left: u64,
}

impl<'a> Items<'a> {
    fn step(&mut self) -> Result<Value<'a>, Error> {
        let bytes = self.reader.bytes;
        match self.item {
            ValueType::String => {
                let span = self.reader.string("string", u64::MAX)?;
                Ok(Value::String(String::from_utf8_lossy(span.of(bytes))))
            }
            ValueType::Array => {
                let (item, count) = array_head(&mut self.reader)?;
                let start = self.reader.pos;
                skip_items(&mut self.reader, item, count, 1)?;
                let raw = &bytes[start..self.reader.pos];
                Ok(Value::Array(Array { raw, at: self.base + start, item, count, order: self.reader.order }))
            }
            kind => {
                let span = self.reader.span(kind.least(), "item")?;
                Ok(scalar(kind, self.reader.order, span.of(bytes)))
            }
        }
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        self.left = self.left.checked_sub(1)?;
        // The scan has been over these bytes already, so a step fails only past the end.
        self.step().ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, usize::try_from(self.left).ok())
    }
}
