//! GGUF headers, versions 2 and 3: keys and values, the tensor table, and what a model's header says about it.
//!
//! No I/O: the caller hands in the front of the file and its length. Version 3 files exist in both byte orders and both are
//! read (the order is the one in which the version is 3); version 1, whose counts are 32 bits wide, is refused by name.
//! Arrays stay unread in the bytes until somebody iterates them.
mod error;
mod facts;
mod index;
mod quant;
mod reader;
mod split;
mod types;
mod value;

#[cfg(test)]
mod tests;

pub use error::Error;
pub use facts::{Facts, Tokenizer};
pub use index::{Index, scan_header};
pub use quant::{declared, guessed};
pub use reader::Order;
pub use split::Part;
pub use types::{Known, TensorType, file_type_name, lookup};
pub use value::{Array, Items, Value, ValueType};

/// A header together with the bytes it lies in.
#[derive(Debug, Clone)]
pub struct Gguf<B> {
    bytes: B,
    index: Index,
}

/// One tensor of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tensor<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its dimensions, the contiguous one first.
    pub dims: &'a [u64],
    /// Its type.
    pub kind: &'static TensorType,
    /// How many elements.
    pub elements: u64,
    /// How many bytes.
    pub bytes: u64,
    /// Where its data begins, from the start of the file.
    pub offset: u64,
}

impl<B: AsRef<[u8]>> Gguf<B> {
    /// Read a header whose bytes are all at hand, of a file of `size` bytes.
    pub fn parse(bytes: B, size: u64) -> Result<Self, Error> {
        let index = scan_header(bytes.as_ref(), size)?;
        Ok(Self { bytes, index })
    }

    /// Put bytes together with the index that [`scan_header`] made of them.
    pub fn join(bytes: B, index: Index) -> Self {
        Self { bytes, index }
    }

    /// 2 or 3.
    pub fn version(&self) -> u32 {
        self.index.version
    }

    /// The byte order of the numbers.
    pub fn order(&self) -> Order {
        self.index.order
    }

    /// The alignment of tensor data, a power of two.
    pub fn alignment(&self) -> u64 {
        self.index.alignment
    }

    /// Bytes of the header, without the padding after it.
    pub fn header_bytes(&self) -> u64 {
        self.index.header_end
    }

    /// Where tensor data begins.
    pub fn data_start(&self) -> u64 {
        self.index.data_start
    }

    /// The length of the file.
    pub fn size(&self) -> u64 {
        self.index.size
    }

    /// How many keys.
    pub fn key_count(&self) -> usize {
        self.index.pairs.len()
    }

    /// Every key with its value, in order of the keys.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, Value<'_>)> {
        let bytes = self.bytes.as_ref();
        self.index
            .pairs
            .iter()
            .map(move |pair| (utf8(pair.key.of(bytes)), value::view(bytes, self.index.order, pair.slot)))
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<Value<'_>> {
        let bytes = self.bytes.as_ref();
        let place = self.index.pairs.binary_search_by_key(&key.as_bytes(), |pair| pair.key.of(bytes)).ok()?;
        Some(value::view(bytes, self.index.order, self.index.pairs[place].slot))
    }

    /// A key's value as a count.
    pub fn get_u64(&self, key: &str) -> Option<u64> {
        self.get(key)?.as_u64()
    }

    /// A key's value as text.
    pub fn get_string(&self, key: &str) -> Option<String> {
        self.get(key)?.as_str().map(str::to_owned)
    }

    /// How many tensors.
    pub fn tensor_count(&self) -> usize {
        self.index.entries.len()
    }

    /// The tensors, in the file's order.
    pub fn tensors(&self) -> impl Iterator<Item = Tensor<'_>> {
        let bytes = self.bytes.as_ref();
        self.index.entries.iter().map(move |entry| Tensor {
            name: utf8(entry.name.of(bytes)),
            dims: &entry.dims[..entry.rank],
            kind: entry.kind,
            elements: entry.elements,
            bytes: entry.bytes,
            offset: self.index.data_start + entry.offset,
        })
    }

    /// What the header says about the model.
    pub fn facts(&self) -> Facts {
        facts::read(self)
    }
}

/// Keys and tensor names were checked in the scan.
fn utf8(raw: &[u8]) -> &str {
    std::str::from_utf8(raw).unwrap_or_default()
}
