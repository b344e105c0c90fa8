//! The tensor types of ggml: name, elements in a block, bytes of a block.

/// One tensor type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorType {
    /// Its number in the file.
    pub id: u32,
    /// Its name, as engines print it in upper case.
    pub name: &'static str,
    /// Elements in a block.
    pub block: u64,
    /// Bytes of a block.
    pub bytes: u64,
}

/// What a type number stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// A type that engines read.
    Current(&'static TensorType),
    /// One that ggml had once; the number is not given out again.
    Removed(&'static str),
    /// A number ggml never gave out: a newer type, or a fork's own.
    Unknown,
}

const fn kind(id: u32, name: &'static str, block: u64, bytes: u64) -> TensorType {
    TensorType { id, name, block, bytes }
}

/// In order of their numbers.
static CURRENT: [TensorType; 35] = [
    kind(0, "F32", 1, 4),
    kind(1, "F16", 1, 2),
    kind(2, "Q4_0", 32, 18),
    kind(3, "Q4_1", 32, 20),
    kind(6, "Q5_0", 32, 22),
    kind(7, "Q5_1", 32, 24),
    kind(8, "Q8_0", 32, 34),
    kind(9, "Q8_1", 32, 36),
    kind(10, "Q2_K", 256, 84),
    kind(11, "Q3_K", 256, 110),
    kind(12, "Q4_K", 256, 144),
    kind(13, "Q5_K", 256, 176),
    kind(14, "Q6_K", 256, 210),
    kind(15, "Q8_K", 256, 292),
    kind(16, "IQ2_XXS", 256, 66),
    kind(17, "IQ2_XS", 256, 74),
    kind(18, "IQ3_XXS", 256, 98),
    kind(19, "IQ1_S", 256, 50),
    kind(20, "IQ4_NL", 32, 18),
    kind(21, "IQ3_S", 256, 110),
    kind(22, "IQ2_S", 256, 82),
    kind(23, "IQ4_XS", 256, 136),
    kind(24, "I8", 1, 1),
    kind(25, "I16", 1, 2),
    kind(26, "I32", 1, 4),
    kind(27, "I64", 1, 8),
    kind(28, "F64", 1, 8),
    kind(29, "IQ1_M", 256, 56),
    kind(30, "BF16", 1, 2),
    kind(34, "TQ1_0", 256, 54),
    kind(35, "TQ2_0", 256, 66),
    kind(39, "MXFP4", 32, 17),
    kind(40, "NVFP4", 64, 36),
    kind(41, "Q1_0", 128, 18),
    kind(42, "Q2_0", 64, 18),
];

/// Look a type number up.
pub fn lookup(id: u32) -> Known {
    match id {
        4 => Known::Removed("Q4_2"),
        5 => Known::Removed("Q4_3"),
        31 => Known::Removed("Q4_0_4_4"),
        32 => Known::Removed("Q4_0_4_8"),
        33 => Known::Removed("Q4_0_8_8"),
        36 => Known::Removed("IQ4_NL_4_4"),
        37 => Known::Removed("IQ4_NL_4_8"),
        38 => Known::Removed("IQ4_NL_8_8"),
        _ => match CURRENT.binary_search_by_key(&id, |kind| kind.id) {
            Ok(place) => Known::Current(&CURRENT[place]),
            Err(_) => Known::Unknown,
        },
    }
}

/// The name of a `general.file_type` number; the bit 1024 (a guess by the writer) is the caller's to look at.
pub fn file_type_name(id: u64) -> Option<&'static str> {
    Some(match id {
        0 => "F32",
        1 => "F16",
        2 => "Q4_0",
        3 => "Q4_1",
        4 => "Q4_1_SOME_F16",
        5 => "Q4_2",
        6 => "Q4_3",
        7 => "Q8_0",
        8 => "Q5_0",
        9 => "Q5_1",
        10 => "Q2_K",
        11 => "Q3_K_S",
        12 => "Q3_K_M",
        13 => "Q3_K_L",
        14 => "Q4_K_S",
        15 => "Q4_K_M",
        16 => "Q5_K_S",
        17 => "Q5_K_M",
        18 => "Q6_K",
        19 => "IQ2_XXS",
        20 => "IQ2_XS",
        21 => "Q2_K_S",
        22 => "IQ3_XS",
        23 => "IQ3_XXS",
        24 => "IQ1_S",
        25 => "IQ4_NL",
        26 => "IQ3_S",
        27 => "IQ3_M",
        28 => "IQ2_S",
        29 => "IQ2_M",
        30 => "IQ4_XS",
        31 => "IQ1_M",
        32 => "BF16",
        33 => "Q4_0_4_4",
        34 => "Q4_0_4_8",
        35 => "Q4_0_8_8",
        36 => "TQ1_0",
        37 => "TQ2_0",
        38 => "MXFP4_MOE",
        39 => "NVFP4",
        40 => "Q1_0",
        41 => "Q2_0",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_every_block_is_of_whole_bytes() {
        assert!(CURRENT.windows(2).all(|pair| pair[0].id < pair[1].id));
        assert!(CURRENT.iter().all(|kind| kind.block > 0 && kind.bytes > 0));
    }

    #[test]
    fn numbers_resolve() {
        assert!(matches!(lookup(12), Known::Current(kind) if kind.name == "Q4_K" && kind.bytes == 144));
        assert!(matches!(lookup(39), Known::Current(kind) if kind.name == "MXFP4"));
        assert_eq!(lookup(31), Known::Removed("Q4_0_4_4"));
        assert_eq!(lookup(43), Known::Unknown);
        assert_eq!(file_type_name(15), Some("Q4_K_M"));
        assert_eq!(file_type_name(1024), None);
    }
}
