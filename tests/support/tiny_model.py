"""Write a tiny random-weight llama-architecture GGUF that real engines load and decode.

The vocabulary is one token per byte plus four control tokens, so decoded text is arbitrary bytes: multi-byte UTF-8
sequences arrive split over tokens. Weights come from a seeded generator: the same arguments give the same file and, at
temperature 0, the same text.
"""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np

CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_alphabet() -> list[str]:
    """The printable character that stands for each byte in a byte-level BPE vocabulary, by byte value."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    spare = iter(range(256, 512))
    return [chr(b) if b in printable else chr(next(spare)) for b in range(256)]


def write(
    path: Path,
    *,
    layers: int = 2,
    width: int = 64,
    context: int = 4096,
    vocab_pad: int = 0,
    seed: int = 0,
    pooling: gguf.PoolingType | None = None,
) -> None:
    """Write the model to ``path``; ``vocab_pad`` adds that many unused tokens (for header-parsing benches).

    ``pooling`` makes it one that embeds, or with RANK one that ranks (as qwen3, which has a head for it).
    """
    ranks = pooling == gguf.PoolingType.RANK
    heads, kv_heads, hidden = 4, 2, 2 * width
    head = width // heads
    tokens = [*byte_alphabet(), "<|bos|>", "<|eos|>", "<|im_start|>", "<|im_end|>"]
    types = [gguf.TokenType.NORMAL] * 256 + [gguf.TokenType.CONTROL] * 4
    tokens += [f"<|pad{i}|>" for i in range(vocab_pad)]
    types += [gguf.TokenType.UNUSED] * vocab_pad
    rng = np.random.default_rng(seed)
    out = gguf.GGUFWriter(path, "qwen3" if ranks else "llama")
    out.add_name(f"tiny-random-{layers}x{width}")
    out.add_context_length(context)
    out.add_embedding_length(width)
    out.add_block_count(layers)
    out.add_feed_forward_length(hidden)
    out.add_head_count(heads)
    out.add_head_count_kv(kv_heads)
    out.add_layer_norm_rms_eps(1e-5)
    out.add_rope_dimension_count(head)
    out.add_vocab_size(len(tokens))
    out.add_file_type(gguf.LlamaFileType.ALL_F32)
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("gpt-2")
    out.add_token_list(tokens)
    out.add_token_types(types)
    out.add_token_merges(["h e"])
    out.add_bos_token_id(256)
    out.add_eos_token_id(259)
    out.add_add_bos_token(False)
    if pooling is None:
        out.add_chat_template(CHAT_TEMPLATE)
    else:
        out.add_pooling_type(pooling)
    if ranks:
        out.add_classifier_output_labels(["yes", "no"])
        out.add_key_length(head)
        out.add_value_length(head)

    def random(name: str, *shape: int) -> None:
        out.add_tensor(name, (rng.standard_normal(shape) * 0.05).astype(np.float32))

    random("token_embd.weight", len(tokens), width)
    for i in range(layers):
        block = f"blk.{i}."
        for norm in ("attn_norm", "ffn_norm"):
            out.add_tensor(f"{block}{norm}.weight", np.ones(width, np.float32))
        for norm in ("attn_q_norm", "attn_k_norm") if ranks else ():
            out.add_tensor(f"{block}{norm}.weight", np.ones(head, np.float32))
        random(block + "attn_q.weight", width, width)
        random(block + "attn_k.weight", head * kv_heads, width)
        random(block + "attn_v.weight", head * kv_heads, width)
        random(block + "attn_output.weight", width, width)
        random(block + "ffn_gate.weight", hidden, width)
        random(block + "ffn_up.weight", hidden, width)
        random(block + "ffn_down.weight", width, hidden)
    out.add_tensor("output_norm.weight", np.ones(width, np.float32))
    random("output.weight", len(tokens), width)
    if ranks:
        random("cls.output.weight", 2, width)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def write_projector(path: Path, *, width: int = 64, seed: int = 0) -> None:
    """Write a random projector for a model of that width: pictures of 56 x 56 become one token each."""
    inner, hidden, patch, side = 32, 64, 14, 56
    rng = np.random.default_rng(seed)
    out = gguf.GGUFWriter(path, "clip")
    out.add_type("mmproj")
    out.add_clip_has_vision_encoder(True)
    out.add_clip_projector_type("gemma3")
    out.add_vision_projection_dim(width)
    out.add_vision_image_size(side)
    out.add_vision_patch_size(patch)
    out.add_vision_embedding_length(inner)
    out.add_vision_feed_forward_length(hidden)
    out.add_vision_block_count(1)
    out.add_vision_head_count(2)
    out.add_vision_attention_layernorm_eps(1e-6)
    out.add_vision_image_mean([0.5, 0.5, 0.5])
    out.add_vision_image_std([0.5, 0.5, 0.5])
    out.add_vision_use_gelu(True)

    def random(name: str, *shape: int) -> None:
        out.add_tensor(name, (rng.standard_normal(shape) * 0.05).astype(np.float32))

    random("v.patch_embd.weight", inner, 3, patch, patch)
    random("v.patch_embd.bias", inner)
    random("v.position_embd.weight", (side // patch) ** 2, inner)
    for norm in ("v.blk.0.ln1", "v.blk.0.ln2", "v.post_ln"):
        out.add_tensor(f"{norm}.weight", np.ones(inner, np.float32))
        out.add_tensor(f"{norm}.bias", np.zeros(inner, np.float32))
    for part in ("attn_q", "attn_k", "attn_v", "attn_out"):
        random(f"v.blk.0.{part}.weight", inner, inner)
        random(f"v.blk.0.{part}.bias", inner)
    random("v.blk.0.ffn_up.weight", hidden, inner)
    random("v.blk.0.ffn_up.bias", hidden)
    random("v.blk.0.ffn_down.weight", inner, hidden)
    random("v.blk.0.ffn_down.bias", inner)
    random("mm.input_projection.weight", inner, width)
    out.add_tensor("mm.soft_emb_norm.weight", np.ones(inner, np.float32))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def write_adapter(
    path: Path, *, layers: int = 2, width: int = 64, rank: int = 4, seed: int = 0, of: str = "llama"
) -> None:
    """Write a random adapter (LoRA) for a model of that width, strong enough to change every answer."""
    rng = np.random.default_rng(seed)
    out = gguf.GGUFWriter(path, of)
    out.add_type("adapter")
    out.add_string("adapter.type", "lora")
    out.add_float32("adapter.lora.alpha", float(rank))
    for i in range(layers):
        for name in ("attn_q", "attn_output"):
            for half, shape in (("a", (rank, width)), ("b", (width, rank))):
                weights = rng.standard_normal(shape).astype(np.float32)
                out.add_tensor(f"blk.{i}.{name}.weight.lora_{half}", weights)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
