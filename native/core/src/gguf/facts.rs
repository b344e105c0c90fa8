//! What a header says about its model, in the words the planner and the catalogue use.
use super::{Array, Gguf, Value, quant};

/// More blocks than any model has; beyond it per-block numbers are not spread out.
const MAX_LAYERS: u64 = 16_384;

/// Single numbers under the architecture's own prefix: the name here, the key there.
const NUMBERS: [(&str, &str); 32] = [
    ("context_length", "context_length"),
    ("embedding_length", "embedding_length"),
    ("block_count", "block_count"),
    ("vocab_size", "vocab_size"),
    ("pooling_type", "pooling_type"),
    ("key_length", "attention.key_length"),
    ("value_length", "attention.value_length"),
    ("key_length_swa", "attention.key_length_swa"),
    ("value_length_swa", "attention.value_length_swa"),
    ("key_length_mla", "attention.key_length_mla"),
    ("kv_lora_rank", "attention.kv_lora_rank"),
    ("sliding_window", "attention.sliding_window"),
    ("sliding_window_pattern", "attention.sliding_window_pattern"),
    ("shared_kv_layers", "attention.shared_kv_layers"),
    ("rope_dimension_count", "rope.dimension_count"),
    ("full_attention_interval", "full_attention_interval"),
    ("nextn_predict_layers", "nextn_predict_layers"),
    ("expert_count", "expert_count"),
    ("expert_used_count", "expert_used_count"),
    ("expert_feed_forward_length", "expert_feed_forward_length"),
    ("ssm_conv_kernel", "ssm.conv_kernel"),
    ("ssm_inner_size", "ssm.inner_size"),
    ("ssm_state_size", "ssm.state_size"),
    ("ssm_group_count", "ssm.group_count"),
    ("wkv_head_size", "wkv.head_size"),
    ("token_shift_count", "token_shift_count"),
    ("shortconv_l_cache", "shortconv.l_cache"),
    ("kda_head_dim", "kda.head_dim"),
    ("indexer_head_count", "attention.indexer.head_count"),
    ("indexer_key_length", "attention.indexer.key_length"),
    ("num_loops", "num_loops"),
    ("decoder_block_count", "decoder_block_count"),
];

/// Numbers that may be one for all blocks or one for each.
const PER_LAYER: [(&str, &str); 3] = [
    ("head_count", "attention.head_count"),
    ("head_count_kv", "attention.head_count_kv"),
    ("feed_forward_length", "feed_forward_length"),
];

/// Lists by block; where a single number stands instead it means something else, and is in [`NUMBERS`].
const LISTS: [(&str, &str); 3] = [
    ("sliding_window", "attention.sliding_window"),
    ("sliding_window_pattern", "attention.sliding_window_pattern"),
    ("recurrent_layers", "attention.recurrent_layers"),
];

/// Texts of vocabulary entries that begin a prefix to fill in after.
const FIM_PREFIXES: [&[u8]; 8] = [
    b"<|fim_prefix|>",
    b"<fim-prefix>",
    b"<fim_prefix>",
    b"<|code_prefix|>",
    b"<PRE>",
    "▁<PRE>".as_bytes(),
    "<｜fim▁begin｜>".as_bytes(),
    b"[PREFIX]",
];

/// What the tokenizer's keys say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tokenizer {
    /// `llama`, `gpt2`, `bert` and so on.
    pub model: Option<String>,
    /// The pre-tokenizer.
    pub pre: Option<String>,
    /// How many entries the vocabulary has.
    pub vocabulary: Option<u64>,
    /// Begin of sequence.
    pub bos: Option<u64>,
    /// End of sequence.
    pub eos: Option<u64>,
    /// Whether a sequence begins with `bos`.
    pub add_bos: Option<bool>,
    /// Whether a sequence ends with `eos`.
    pub add_eos: Option<bool>,
    /// Whether the vocabulary has tokens to fill in between a prefix and a suffix.
    pub fills_in: bool,
}

/// Everything about the model that its header tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// `general.architecture`.
    pub architecture: Option<String>,
    /// `general.type`: `model`, `mmproj`, `adapter`; absent in older files.
    pub kind: Option<String>,
    /// `general.name`.
    pub name: Option<String>,
    /// `general.file_type` as stored.
    pub file_type: Option<u64>,
    /// The name of the quantisation as declared, when the file declares one.
    pub declared: Option<&'static str>,
    /// The name of the quantisation after the tensors, when there are any.
    pub guessed: Option<String>,
    /// Numbers under the architecture's prefix that are there.
    pub numbers: Vec<(&'static str, u64)>,
    /// Numbers that may differ by block; one for each block where that is known.
    pub per_layer: Vec<(&'static str, Vec<u64>)>,
    /// The tokenizer.
    pub tokenizer: Tokenizer,
    /// Chat templates by name; the unnamed one is called `default`.
    pub templates: Vec<(String, String)>,
    /// Elements of all tensors.
    pub parameters: u64,
    /// Bytes of all tensors.
    pub tensor_bytes: u64,
    /// Bytes of the tensors of each block.
    pub layer_bytes: Vec<u64>,
    /// Bytes of the input embeddings.
    pub embedding_bytes: u64,
    /// Bytes of the tensors of mixture-of-experts feed-forward parts.
    pub expert_bytes: u64,
    /// Whether there is an output matrix of its own (else the input embeddings serve).
    pub has_output: bool,
    /// `split.no`, `split.count` and `split.tensors.count`, where this is a part.
    pub split: Option<(u64, u64, u64)>,
}

pub(super) fn read<B: AsRef<[u8]>>(file: &Gguf<B>) -> Facts {
    let architecture = file.get_string("general.architecture");
    let mut facts = Facts {
        kind: file.get_string("general.type"),
        name: file.get_string("general.name"),
        file_type: file.get_u64("general.file_type"),
        declared: quant::declared(file),
        guessed: quant::guessed(file),
        tokenizer: tokenizer(file),
        templates: templates(file),
        split: split(file),
        ..Facts::default()
    };
    if let Some(prefix) = &architecture {
        facts.numbers =
            NUMBERS.iter().filter_map(|(name, key)| Some((*name, file.get_u64(&format!("{prefix}.{key}"))?))).collect();
        let blocks = facts.numbers.iter().find(|number| number.0 == "block_count").map(|number| number.1);
        facts.per_layer = PER_LAYER
            .iter()
            .filter_map(|(name, key)| Some((*name, spread(&file.get(&format!("{prefix}.{key}"))?, blocks)?)))
            .collect();
        facts.per_layer.extend(LISTS.iter().filter_map(|(name, key)| {
            let value = file.get(&format!("{prefix}.{key}"))?;
            Some((*name, value.as_array()?.to_u64s(MAX_LAYERS)?))
        }));
    }
    facts.architecture = architecture;
    weigh(file, &mut facts);
    facts
}

/// One number for each block: a list as it is, a single number repeated.
fn spread(value: &Value<'_>, blocks: Option<u64>) -> Option<Vec<u64>> {
    match value {
        Value::Array(array) => array.to_u64s(MAX_LAYERS),
        Value::Bool(flag) => Some(vec![u64::from(*flag)]),
        single => {
            let times = blocks.filter(|blocks| *blocks <= MAX_LAYERS).unwrap_or(1);
            Some(vec![single.as_u64()?; usize::try_from(times).ok()?])
        }
    }
}

fn tokenizer<B: AsRef<[u8]>>(file: &Gguf<B>) -> Tokenizer {
    let key = |name: &str| format!("tokenizer.ggml.{name}");
    let tokens = file.get(&key("tokens"));
    let tokens = tokens.as_ref().and_then(Value::as_array);
    let by_id = ["fim_pre_token_id", "prefix_token_id"].iter().any(|name| file.get_u64(&key(name)).is_some());
    Tokenizer {
        model: file.get_string(&key("model")),
        pre: file.get_string(&key("pre")),
        vocabulary: tokens.map(Array::len),
        bos: file.get_u64(&key("bos_token_id")),
        eos: file.get_u64(&key("eos_token_id")),
        add_bos: file.get(&key("add_bos_token")).and_then(|value| value.as_bool()),
        add_eos: file.get(&key("add_eos_token")).and_then(|value| value.as_bool()),
        fills_in: by_id || tokens.is_some_and(|tokens| tokens.raw_strings().any(|raw| FIM_PREFIXES.contains(&raw))),
    }
}

fn templates<B: AsRef<[u8]>>(file: &Gguf<B>) -> Vec<(String, String)> {
    const KEY: &str = "tokenizer.chat_template";
    let named = file.pairs().filter_map(|(key, value)| {
        let name = match key.strip_prefix(KEY)? {
            "" => "default",
            rest => rest.strip_prefix('.')?,
        };
        Some((name.to_owned(), value.as_str()?.to_owned()))
    });
    named.collect()
}

fn split<B: AsRef<[u8]>>(file: &Gguf<B>) -> Option<(u64, u64, u64)> {
    let count = file.get_u64("split.count").filter(|count| *count > 1)?;
    let number = file.get_u64("split.no").unwrap_or_default();
    Some((number, count, file.get_u64("split.tensors.count").unwrap_or_default()))
}

fn weigh<B: AsRef<[u8]>>(file: &Gguf<B>, facts: &mut Facts) {
    for tensor in file.tensors() {
        facts.parameters = facts.parameters.saturating_add(tensor.elements);
        facts.tensor_bytes = facts.tensor_bytes.saturating_add(tensor.bytes);
        if tensor.name.contains("_exps.") {
            facts.expert_bytes = facts.expert_bytes.saturating_add(tensor.bytes);
        }
        if let Some(block) = block(tensor.name) {
            if facts.layer_bytes.len() <= block {
                facts.layer_bytes.resize(block + 1, 0);
            }
            facts.layer_bytes[block] = facts.layer_bytes[block].saturating_add(tensor.bytes);
        } else if tensor.name.starts_with("token_embd") || tensor.name.starts_with("per_layer_token_embd") {
            facts.embedding_bytes = facts.embedding_bytes.saturating_add(tensor.bytes);
        } else if tensor.name == "output.weight" {
            facts.has_output = true;
        }
    }
}

/// The block of a tensor named `blk.7.attn_q.weight`.
fn block(name: &str) -> Option<usize> {
    let (number, _) = name.strip_prefix("blk.")?.split_once('.')?;
    number.parse().ok().filter(|number| (*number as u64) < MAX_LAYERS)
}
