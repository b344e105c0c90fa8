//! A writer of small files, sound and hostile, and what the reader makes of them.
use super::*;
use proptest::prelude::*;

/// Writes a header in either byte order; every count can be replaced by a lie.
#[derive(Clone)]
struct Writer {
    big: bool,
    version: u32,
    pairs: Vec<Vec<u8>>,
    tensors: Vec<Vec<u8>>,
    data: usize,
}

impl Writer {
    fn new() -> Self {
        Self { big: false, version: 3, pairs: Vec::new(), tensors: Vec::new(), data: 0 }
    }

    fn big(mut self) -> Self {
        self.big = true;
        self
    }

    fn u32(&self, value: u32) -> Vec<u8> {
        if self.big { value.to_be_bytes().to_vec() } else { value.to_le_bytes().to_vec() }
    }

    fn u64(&self, value: u64) -> Vec<u8> {
        if self.big { value.to_be_bytes().to_vec() } else { value.to_le_bytes().to_vec() }
    }

    fn text(&self, text: &str) -> Vec<u8> {
        [self.u64(text.len() as u64), text.as_bytes().to_vec()].concat()
    }

    fn pair(mut self, key: &str, kind: u32, value: &[u8]) -> Self {
        self.pairs.push([self.text(key), self.u32(kind), value.to_vec()].concat());
        self
    }

    fn string(self, key: &str, value: &str) -> Self {
        let value = self.text(value);
        self.pair(key, 8, &value)
    }

    fn number(self, key: &str, value: u32) -> Self {
        let value = self.u32(value);
        self.pair(key, 4, &value)
    }

    fn array(self, key: &str, item: u32, count: u64, items: &[u8]) -> Self {
        let value = [self.u32(item), self.u64(count), items.to_vec()].concat();
        self.pair(key, 9, &value)
    }

    fn strings(self, key: &str, items: &[&str]) -> Self {
        let raw: Vec<u8> = items.iter().flat_map(|item| self.text(item)).collect();
        self.array(key, 8, items.len() as u64, &raw)
    }

    fn tensor(mut self, name: &str, dims: &[u64], kind: u32, offset: u64) -> Self {
        let rank = u32::try_from(dims.len()).expect("few");
        let dims: Vec<u8> = dims.iter().flat_map(|dim| self.u64(*dim)).collect();
        self.tensors.push([self.text(name), self.u32(rank), dims, self.u32(kind), self.u64(offset)].concat());
        self
    }

    fn data(mut self, bytes: usize) -> Self {
        self.data = bytes;
        self
    }

    fn bytes(&self) -> Vec<u8> {
        self.counted(self.tensors.len() as u64, self.pairs.len() as u64)
    }

    fn counted(&self, tensors: u64, pairs: u64) -> Vec<u8> {
        let head = [b"GGUF".to_vec(), self.u32(self.version), self.u64(tensors), self.u64(pairs)].concat();
        let mut all = [head, self.pairs.concat(), self.tensors.concat()].concat();
        all.resize(all.len().next_multiple_of(32) + self.data, 0);
        all
    }
}

fn small() -> Writer {
    writer_of(Writer::new())
}

fn writer_of(writer: Writer) -> Writer {
    writer
        .string("general.architecture", "llama")
        .string("general.name", "small")
        .number("general.file_type", 15)
        .number("llama.block_count", 2)
        .number("llama.context_length", 4096)
        .number("llama.attention.head_count", 4)
        .strings("tokenizer.ggml.tokens", &["a", "b", "<|fim_prefix|>"])
        .string("tokenizer.chat_template", "{{ messages }}")
        .tensor("token_embd.weight", &[32, 3], 0, 0)
        .tensor("blk.0.attn_q.weight", &[256, 2], 12, 384)
        .tensor("blk.1.attn_q.weight", &[256], 14, 672)
        .data(896)
}

fn fault(bytes: &[u8]) -> Error {
    Gguf::parse(bytes, bytes.len() as u64).expect_err("a fault")
}

#[test]
fn a_small_file_says_what_it_is() {
    let bytes = small().bytes();
    let file = Gguf::parse(&bytes, bytes.len() as u64).expect("sound");
    let facts = file.facts();
    assert_eq!((file.version(), file.order(), file.alignment()), (3, Order::Little, 32));
    assert_eq!(facts.architecture.as_deref(), Some("llama"));
    assert_eq!(facts.declared, Some("Q4_K_M"));
    assert_eq!(facts.guessed.as_deref(), Some("Q4_K_S"));
    assert!(facts.numbers.contains(&("context_length", 4096)));
    assert!(facts.per_layer.contains(&("head_count", vec![4, 4])));
    assert_eq!(facts.tokenizer.vocabulary, Some(3));
    assert!(facts.tokenizer.fills_in);
    assert_eq!(facts.templates, [("default".to_owned(), "{{ messages }}".to_owned())]);
    assert_eq!(facts.parameters, 96 + 512 + 256);
    assert_eq!(facts.layer_bytes, [288, 210]);
    assert_eq!((facts.embedding_bytes, facts.tensor_bytes), (384, 384 + 288 + 210));
    let tensor = file.tensors().nth(1).expect("second");
    assert_eq!(
        (tensor.name, tensor.dims, tensor.kind.name, tensor.bytes),
        ("blk.0.attn_q.weight", &[256, 2][..], "Q4_K", 288)
    );
    assert_eq!(tensor.offset, file.data_start() + 384);
}

#[test]
fn the_other_byte_order_reads_the_same() {
    let little = small().bytes();
    let big = writer_of(Writer::new().big()).bytes();
    let one = Gguf::parse(&little, little.len() as u64).expect("sound");
    let two = Gguf::parse(&big, big.len() as u64).expect("sound");
    assert_eq!(two.order(), Order::Big);
    assert_eq!(one.facts(), two.facts());
    let tokens = two.get("tokenizer.ggml.tokens").expect("there");
    let tokens: Vec<_> = tokens.as_array().expect("an array").iter().collect();
    assert_eq!(tokens[1], Value::String("b".into()));
}

#[test]
fn every_value_type_is_read() {
    let w = Writer::new()
        .pair("u8", 0, &[200])
        .pair("i8", 1, &[0xff])
        .pair("u16", 2, &0xfffe_u16.to_le_bytes())
        .pair("i16", 3, &(-2_i16).to_le_bytes())
        .pair("u32", 4, &7_u32.to_le_bytes())
        .pair("i32", 5, &(-7_i32).to_le_bytes())
        .pair("f32", 6, &1.5_f32.to_le_bytes())
        .pair("bool", 7, &[1])
        .string("string", "grüß")
        .pair("u64", 10, &u64::MAX.to_le_bytes())
        .pair("i64", 11, &i64::MIN.to_le_bytes())
        .pair("f64", 12, &2.5_f64.to_le_bytes())
        .array("flags", 7, 2, &[1, 0]);
    let nested = [w.u32(2), w.u64(1), 9_u16.to_le_bytes().to_vec(), w.u32(8), w.u64(1), w.text("x")].concat();
    let bytes = w.array("nested", 9, 2, &nested).bytes();
    let file = Gguf::parse(&bytes, bytes.len() as u64).expect("sound");
    let get = |key: &str| file.get(key).expect("there");
    assert_eq!(get("u8"), Value::Unsigned(200));
    assert_eq!(get("i8"), Value::Signed(-1));
    assert_eq!(get("u16"), Value::Unsigned(0xfffe));
    assert_eq!(get("i16"), Value::Signed(-2));
    assert_eq!(get("u32"), Value::Unsigned(7));
    assert_eq!(get("i32"), Value::Signed(-7));
    assert_eq!(get("f32"), Value::Float(1.5));
    assert_eq!(get("bool"), Value::Bool(true));
    assert_eq!(get("string"), Value::String("grüß".into()));
    assert_eq!(get("u64"), Value::Unsigned(u64::MAX));
    assert_eq!(get("i64"), Value::Signed(i64::MIN));
    assert_eq!(get("f64"), Value::Float(2.5));
    assert_eq!(get("flags").as_array().and_then(|flags| flags.to_u64s(8)), Some(vec![1, 0]));
    let nested: Vec<_> = get("nested").as_array().expect("an array").iter().collect();
    assert_eq!(nested[0].as_array().and_then(|inner| inner.to_u64s(8)), Some(vec![9]));
    let inner = nested[1].as_array().expect("an array");
    assert_eq!(inner.iter().next(), Some(Value::String("x".into())));
    assert_eq!(&bytes[usize::try_from(inner.offset()).expect("small")..][..9], [w_text("x")].concat());
}

fn w_text(text: &str) -> Vec<u8> {
    Writer::new().text(text)
}

#[test]
fn what_is_no_gguf_is_said_so() {
    assert!(matches!(fault(b"PK\x03\x04zip"), Error::Magic { found } if found == b"PK\x03\x04"));
    assert!(matches!(fault(b""), Error::Magic { found } if found.is_empty()));
    assert!(matches!(fault(b"GGUF"), Error::Truncated { at: 4, end: 8, size: 4, .. }));
    let mut bytes = small().bytes();
    bytes[4] = 1;
    assert_eq!(fault(&bytes), Error::Version { version: 1, order: "little" });
    bytes[4..8].copy_from_slice(&[0, 0, 0, 2]);
    assert_eq!(fault(&bytes), Error::Version { version: 2, order: "big" });
    bytes[4..8].copy_from_slice(&[9, 0, 0, 0]);
    assert_eq!(fault(&bytes), Error::Version { version: 9, order: "little" });
}

#[test]
fn version_two_is_read() {
    let mut writer = small();
    writer.version = 2;
    let bytes = writer.bytes();
    assert_eq!(Gguf::parse(&bytes, bytes.len() as u64).expect("sound").version(), 2);
}

#[test]
fn huge_counts_are_refused_before_any_space_is_taken() {
    let size = small().bytes().len() as u64;
    assert_eq!(
        fault(&small().counted(u64::MAX, 8)),
        Error::Count { at: 8, count: u64::MAX, what: "tensors", rest: size - 16 }
    );
    assert!(matches!(fault(&small().counted(3, 1 << 63)), Error::Count { at: 16, .. }));
    let lie = Writer::new().array("k", 8, 1 << 62, b"").bytes();
    assert!(matches!(fault(&lie), Error::Count { at: 41, what: "array items", .. }));
    let lie = Writer::new().array("k", 12, u64::MAX / 8 + 2, b"").bytes();
    assert!(matches!(fault(&lie), Error::Count { at: 41, .. }));
}

#[test]
fn huge_strings_are_refused() {
    let lie = Writer::new().pair("k", 8, &(1_u64 << 63).to_le_bytes()).bytes();
    assert!(matches!(fault(&lie), Error::Length { at: 37, length, .. } if length == 1 << 63));
    let items = (1_u64 << 63).to_le_bytes();
    let lie = Writer::new().array("k", 8, 1, &items).bytes();
    assert!(matches!(fault(&lie), Error::Truncated { at: 49, .. }));
    let mut lie = small().bytes();
    lie[24..32].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(matches!(fault(&lie), Error::Length { at: 24, what: "key", .. }));
}

#[test]
fn types_flags_and_names_are_checked() {
    assert_eq!(fault(&Writer::new().pair("k", 13, &[0; 8]).bytes()), Error::ValueType { at: 33, id: 13 });
    assert_eq!(fault(&Writer::new().pair("k", 7, &[2]).bytes()), Error::Bool { at: 37, value: 2 });
    assert_eq!(
        fault(&Writer::new().number("k", 1).number("k", 2).bytes()),
        Error::Duplicate { at: 49, what: "key", name: "k".into() }
    );
    let mut bytes = Writer::new().number("k", 1).bytes();
    bytes[32] = 0xff;
    assert_eq!(fault(&bytes), Error::Text { at: 32, what: "key" });
}

#[test]
fn arrays_nest_only_so_deep() {
    let w = Writer::new();
    let nest = |depth: usize| {
        let mut items = [w.u32(0), w.u64(0)].concat();
        for _ in 0..depth {
            items = [w.u32(9), w.u64(1), items].concat();
        }
        items
    };
    let deep = |depth| Writer::new().pair("k", 9, &nest(depth)).bytes();
    assert!(Gguf::parse(deep(7), 0).is_ok());
    assert!(matches!(fault(&deep(8)), Error::Depth { bound: 8, .. }));
    assert!(matches!(fault(&deep(2_000)), Error::Depth { bound: 8, .. }));
}

#[test]
fn alignment_must_be_a_power_of_two() {
    for (value, said) in [(0, "0"), (3, "3"), (1 << 30, "1073741824")] {
        let bytes = Writer::new().number("general.alignment", value).bytes();
        assert!(matches!(fault(&bytes), Error::Alignment { at: 53, found } if found == said));
    }
    let bytes = Writer::new().string("general.alignment", "32").bytes();
    assert!(matches!(fault(&bytes), Error::Alignment { .. }));
    let bytes = Writer::new().number("general.alignment", 64).bytes();
    assert_eq!(Gguf::parse(&bytes, 0).expect("sound").data_start() % 64, 0);
}

#[test]
fn tensors_are_checked() {
    let one = |dims: &[u64], kind, offset| fault(&Writer::new().tensor("t", dims, kind, offset).data(64).bytes());
    assert!(matches!(one(&[1, 1, 1, 1, 1], 0, 0), Error::Dimensions { at: 33, dims: 5, .. }));
    assert!(matches!(one(&[1 << 32, 1 << 32], 0, 0), Error::Overflow { at: 24, .. }));
    assert!(matches!(one(&[1 << 62, 2, 0], 0, 0), Error::Overflow { .. }));
    assert!(matches!(one(&[1 << 61, 1], 0, 0), Error::Overflow { .. }));
    assert!(matches!(one(&[4], 99, 0), Error::TensorType { at: 45, id: 99, .. }));
    assert!(matches!(one(&[4], 31, 0), Error::RemovedType { kind: "Q4_0_4_4", .. }));
    assert!(matches!(one(&[33], 2, 0), Error::Row { row: 33, block: 32, kind: "Q4_0", .. }));
    assert!(matches!(one(&[4], 0, 8), Error::Unaligned { offset: 8, alignment: 32, .. }));
    assert!(matches!(one(&[4], 0, u64::MAX - 31), Error::PastEnd { end: u64::MAX, .. }));
    assert!(matches!(one(&[17], 0, 0), Error::PastEnd { size: 128, end: 132, .. }));
    let two = Writer::new().tensor("a", &[16], 0, 0).tensor("b", &[8], 0, 32).data(64).bytes();
    assert_eq!(fault(&two), Error::Overlap { at: 57, first: "a".into(), second: "b".into() });
    let twins = Writer::new().tensor("a", &[8], 0, 0).tensor("a", &[8], 0, 32).data(64).bytes();
    assert_eq!(fault(&twins), Error::Duplicate { at: 57, what: "tensor", name: "a".into() });
}

#[test]
fn a_front_part_asks_for_more_and_a_short_file_is_truncated() {
    let bytes = small().bytes();
    let header = Gguf::parse(&bytes, 0).expect("sound").header_bytes();
    for cut in 0..usize::try_from(header).expect("small") {
        let front = scan_header(&bytes[..cut], bytes.len() as u64).expect_err("not all there");
        assert!(matches!(front, Error::More { end, .. } if end > cut as u64), "cut at {cut}: {front}");
        let short = scan_header(&bytes[..cut], cut as u64).expect_err("cut");
        assert!(!matches!(short, Error::More { .. }), "cut at {cut}: {short}");
        assert!(short.offset() <= cut as u64);
    }
    assert!(scan_header(&bytes[..usize::try_from(header).expect("small")], bytes.len() as u64).is_ok());
}

#[test]
fn the_guess_follows_the_tensors() {
    let guess = |kinds: &[(u64, u32)]| {
        let mut writer = Writer::new();
        let mut offset = 0;
        for (place, (rows, kind)) in kinds.iter().enumerate() {
            writer = writer.tensor(&format!("blk.{place}.ffn_down.weight"), &[256, *rows], *kind, offset);
            offset += 1 << 16;
        }
        let bytes = writer.data(1 << 18).bytes();
        guessed(&Gguf::parse(bytes, 0).expect("sound"))
    };
    assert_eq!(guess(&[(9, 12), (1, 14)]).as_deref(), Some("Q4_K_M"));
    assert_eq!(guess(&[(9, 12)]).as_deref(), Some("Q4_K_S"));
    assert_eq!(guess(&[(9, 11), (1, 13)]).as_deref(), Some("Q3_K_L"));
    assert_eq!(guess(&[(9, 11), (1, 12)]).as_deref(), Some("Q3_K_M"));
    assert_eq!(guess(&[(9, 23)]).as_deref(), Some("IQ4_XS"));
    assert_eq!(guess(&[]), None);
}

/// Read everything a header leads to: what a mutated file must survive.
fn read_all(bytes: &[u8], size: u64) {
    match Gguf::parse(bytes, size) {
        Ok(file) => {
            let _ = file.facts();
            for (_, value) in file.pairs() {
                if let Value::Array(array) = value {
                    let _ = array.iter().count();
                }
            }
            for tensor in file.tensors() {
                assert!(tensor.offset + tensor.bytes <= file.size());
            }
        }
        Err(error) => assert!(error.offset() <= size.max(bytes.len() as u64), "{error}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn mutated_files_give_an_answer_or_a_typed_error(
        big in any::<bool>(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        cut in any::<prop::sample::Index>(),
        grown in 0_u64..1 << 40,
    ) {
        let mut bytes = writer_of(if big { Writer::new().big() } else { Writer::new() }).bytes();
        for (place, value) in edits {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        read_all(&bytes, bytes.len() as u64);
        let cut = cut.index(bytes.len());
        read_all(&bytes[..cut], cut as u64);
        read_all(&bytes[..cut], cut as u64 + grown);
    }

    #[test]
    fn wide_numbers_anywhere_are_survived(place in any::<prop::sample::Index>(), value in any::<u64>(), shift in 0_u32..64) {
        let mut bytes = small().bytes();
        let place = place.index(bytes.len() - 8);
        bytes[place..place + 8].copy_from_slice(&(value >> shift).to_le_bytes());
        read_all(&bytes, bytes.len() as u64);
    }

    #[test]
    fn noise_after_the_magic_is_survived(noise in prop::collection::vec(any::<u8>(), 0..256)) {
        let bytes = [b"GGUF\x03\0\0\0".to_vec(), noise].concat();
        read_all(&bytes, bytes.len() as u64);
    }
}
