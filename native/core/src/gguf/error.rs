//! What can be wrong with a file, always with the byte offset where it shows.
use thiserror::Error;

/// A fault in a GGUF file. Every variant carries `at`, the byte offset from the start of the file.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// The first four bytes are not `GGUF`.
    #[error("not a GGUF file: it begins with {found:02x?} (byte 0)")]
    Magic {
        /// The bytes found instead, fewer than four in a shorter file.
        found: Vec<u8>,
    },
    /// A version this reader does not know, in the byte order that makes it a small number.
    #[error("GGUF version {version} ({order}-endian) is not supported; versions 2 and 3 are (byte 4)")]
    Version {
        /// The version as stored.
        version: u32,
        /// `little` or `big`.
        order: &'static str,
    },
    /// The file ends before a thing it announces.
    #[error("the file ends too early: {what} at byte {at} needs bytes up to {end}, the file has {size}")]
    Truncated {
        /// Where the thing begins.
        at: u64,
        /// Where it would end.
        end: u64,
        /// The length of the file.
        size: u64,
        /// The thing.
        what: &'static str,
    },
    /// The header goes on behind the bytes that were handed in (not a fault of the file).
    #[error("the header goes on to byte {end} at least")]
    More {
        /// Where the thing begins that is not all there.
        at: u64,
        /// How many bytes from the start are needed to get further.
        end: u64,
    },
    /// A count that the rest of the file cannot hold.
    #[error("{count} {what} announced at byte {at} cannot fit in the {rest} bytes that follow")]
    Count {
        /// Where the count stands.
        at: u64,
        /// The count.
        count: u64,
        /// Of what.
        what: &'static str,
        /// Bytes between the count and the end of the file.
        rest: u64,
    },
    /// A string longer than its kind may be.
    #[error("the {what} at byte {at} is {length} bytes long, at most {bound} are allowed")]
    Length {
        /// Where its length stands.
        at: u64,
        /// The length.
        length: u64,
        /// The bound.
        bound: u64,
        /// Of what.
        what: &'static str,
    },
    /// A name that is not UTF-8.
    #[error("the {what} at byte {at} is not UTF-8")]
    Text {
        /// Where its bytes begin.
        at: u64,
        /// Of what.
        what: &'static str,
    },
    /// A value type outside 0 to 12.
    #[error("unknown value type {id} at byte {at}")]
    ValueType {
        /// Where it stands.
        at: u64,
        /// The number found.
        id: u32,
    },
    /// A truth value that is neither 0 nor 1.
    #[error("the truth value at byte {at} is {value}, not 0 or 1")]
    Bool {
        /// Where it stands.
        at: u64,
        /// The byte found.
        value: u8,
    },
    /// Arrays in arrays deeper than anything real.
    #[error("the arrays at byte {at} are nested more than {bound} deep")]
    Depth {
        /// Where the array that is one too deep begins.
        at: u64,
        /// The bound.
        bound: u32,
    },
    /// One key or one tensor name twice.
    #[error("the {what} '{name}' appears a second time at byte {at}")]
    Duplicate {
        /// Where the second one begins.
        at: u64,
        /// Key or tensor.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// `general.alignment` is no u32, zero, not a power of two, or absurdly large.
    #[error("general.alignment at byte {at} is {found}; it must be a power of two from 1 to 1 MiB")]
    Alignment {
        /// Where the value stands.
        at: u64,
        /// What it is.
        found: String,
    },
    /// More dimensions than ggml has.
    #[error("tensor '{name}' at byte {at} has {dims} dimensions, at most 4 are allowed")]
    Dimensions {
        /// Where the count stands.
        at: u64,
        /// The tensor.
        name: String,
        /// The count.
        dims: u32,
    },
    /// The dimensions multiply to more than can be counted.
    #[error("tensor '{name}' at byte {at} is larger than 2^63 bytes")]
    Overflow {
        /// Where its entry begins.
        at: u64,
        /// The tensor.
        name: String,
    },
    /// A tensor type that ggml does not have.
    #[error("tensor '{name}' at byte {at} has the unknown type {id}")]
    TensorType {
        /// Where the type stands.
        at: u64,
        /// The tensor.
        name: String,
        /// The number found.
        id: u32,
    },
    /// A tensor type that ggml once had; no current engine reads it.
    #[error("tensor '{name}' at byte {at} has the type {kind}, which was removed from ggml; quantise the model anew")]
    RemovedType {
        /// Where the type stands.
        at: u64,
        /// The tensor.
        name: String,
        /// The removed type's name.
        kind: &'static str,
    },
    /// A row that is not a whole number of quantisation blocks.
    #[error("tensor '{name}' at byte {at} has rows of {row} elements, not a multiple of {block} as {kind} needs")]
    Row {
        /// Where its entry begins.
        at: u64,
        /// The tensor.
        name: String,
        /// Elements in a row.
        row: u64,
        /// Elements in a block.
        block: u64,
        /// The type.
        kind: &'static str,
    },
    /// Tensor data that does not begin on the file's alignment.
    #[error("tensor '{name}' at byte {at} has the data offset {offset}, not a multiple of the alignment {alignment}")]
    Unaligned {
        /// Where its entry begins.
        at: u64,
        /// The tensor.
        name: String,
        /// Relative to the data section.
        offset: u64,
        /// The file's alignment.
        alignment: u64,
    },
    /// Tensor data behind the end of the file: most often an incomplete download.
    #[error("the data of tensor '{name}' (entry at byte {at}) ends at byte {end}, the file at {size}")]
    PastEnd {
        /// Where its entry begins.
        at: u64,
        /// The tensor.
        name: String,
        /// Where its data would end.
        end: u64,
        /// The length of the file.
        size: u64,
    },
    /// Two tensors that claim the same bytes.
    #[error("tensors '{first}' and '{second}' (entry at byte {at}) overlap in the data")]
    Overlap {
        /// Where the second entry begins.
        at: u64,
        /// The tensor that comes first in the data.
        first: String,
        /// The other.
        second: String,
    },
}

impl Error {
    /// The byte offset where the fault shows.
    pub fn offset(&self) -> u64 {
        match self {
            Self::Magic { .. } => 0,
            Self::Version { .. } => 4,
            Self::Truncated { at, .. }
            | Self::More { at, .. }
            | Self::Count { at, .. }
            | Self::Length { at, .. }
            | Self::Text { at, .. }
            | Self::ValueType { at, .. }
            | Self::Bool { at, .. }
            | Self::Depth { at, .. }
            | Self::Duplicate { at, .. }
            | Self::Alignment { at, .. }
            | Self::Dimensions { at, .. }
            | Self::Overflow { at, .. }
            | Self::TensorType { at, .. }
            | Self::RemovedType { at, .. }
            | Self::Row { at, .. }
            | Self::Unaligned { at, .. }
            | Self::PastEnd { at, .. }
            | Self::Overlap { at, .. } => *at,
        }
    }

    /// A short stable name of the kind of fault.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Magic { .. } => "magic",
            Self::Version { .. } => "version",
            Self::Truncated { .. } | Self::More { .. } => "truncated",
            Self::Count { .. } => "count",
            Self::Length { .. } => "length",
            Self::Text { .. } => "text",
            Self::ValueType { .. } => "value_type",
            Self::Bool { .. } => "bool",
            Self::Depth { .. } => "depth",
            Self::Duplicate { .. } => "duplicate",
            Self::Alignment { .. } => "alignment",
            Self::Dimensions { .. } => "dimensions",
            Self::Overflow { .. } => "overflow",
            Self::TensorType { .. } => "tensor_type",
            Self::RemovedType { .. } => "removed_type",
            Self::Row { .. } => "row",
            Self::Unaligned { .. } => "unaligned",
            Self::PastEnd { .. } => "past_end",
            Self::Overlap { .. } => "overlap",
        }
    }
}
