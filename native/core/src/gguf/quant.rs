//! The name of a model's quantisation: as the file declares it, and as its tensors show it.
use super::{Gguf, TensorType, types::file_type_name};

/// Set in `general.file_type` when the writer only guessed.
const GUESSED: u64 = 1024;

/// The name of `general.file_type`, unless it is missing, unknown, or marked as a guess.
pub fn declared<B: AsRef<[u8]>>(file: &Gguf<B>) -> Option<&'static str> {
    let id = file.get_u64("general.file_type")?;
    if id & GUESSED != 0 { None } else { file_type_name(id) }
}

/// The name after the tensors: the type that holds most bytes of the blocks' matrices, with the size letter that the
/// companions of a K quantisation give away.
pub fn guessed<B: AsRef<[u8]>>(file: &Gguf<B>) -> Option<String> {
    let mut sums: Vec<(&'static TensorType, u64)> = Vec::new();
    let mut embedding: Option<&'static TensorType> = None;
    for tensor in file.tensors() {
        if tensor.name == "token_embd.weight" {
            embedding = Some(tensor.kind);
        }
        if tensor.dims.len() < 2 || tensor.name.starts_with("token_embd") || tensor.name.starts_with("output") {
            continue;
        }
        match sums.iter_mut().find(|sum| sum.0.id == tensor.kind.id) {
            Some(sum) => sum.1 += tensor.bytes,
            None => sums.push((tensor.kind, tensor.bytes)),
        }
    }
    let main = sums.iter().max_by_key(|sum| sum.1).map(|sum| sum.0).or(embedding)?;
    let has = |name: &str| sums.iter().any(|sum| sum.0.name == name);
    Some(match main.name {
        "Q3_K" if has("Q5_K") && !has("Q4_K") => "Q3_K_L".to_owned(),
        "Q3_K" if has("Q4_K") || has("Q5_K") => "Q3_K_M".to_owned(),
        "Q3_K" => "Q3_K_S".to_owned(),
        "Q4_K" if has("Q6_K") => "Q4_K_M".to_owned(),
        "Q4_K" => "Q4_K_S".to_owned(),
        "Q5_K" if has("Q6_K") => "Q5_K_M".to_owned(),
        "Q5_K" => "Q5_K_S".to_owned(),
        other => other.to_owned(),
    })
}
