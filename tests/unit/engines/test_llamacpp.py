"""The launch line of llama.cpp, what its log announces, and which build is taken."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from blazar.engines.base import Address, Build, Settings
from blazar.engines.llamacpp import LlamaCpp
from blazar.engines.routing import KINDS, choose, explain
from blazar.errors import ModelUnsupportedEngine
from tests.support.fleets import model

BUILD = Build(kind="llamacpp", tag="local", channel="local", path="/opt/llama-server")
SETTINGS = Settings(context=4096, slots=3, threads=2, prompt_cache=512 * 2**20)
MODEL = model("org/Name, quick", Path("/models/m.gguf"))


def plan(build: Build = BUILD, **changes: object) -> dict[str, str | None]:
    settings = msgspec.structs.replace(SETTINGS, **changes)
    argv = (
        LlamaCpp()
        .launch(MODEL, build, settings, address=Address(unix="/r/x.sock"), secret="s3cret", scratch=Path("/r/home"))
        .argv
    )
    assert argv[0] == build.path
    words = [*argv[1:], "--"]
    return {
        word: None if following.startswith("--") else following
        for word, following in pairwise(words)
        if word.startswith("--")
    }


def test_what_matters_is_given_and_the_secret_is_not() -> None:
    options = plan()
    assert options["--ctx-size"] == str(3 * 4096)
    assert options["--parallel"] == "3"
    assert "--no-kv-unified" in options
    assert options["--cache-ram"] == "512"
    assert options["--sse-ping-interval"] == "5"
    assert options["--host"] == "/r/x.sock"
    assert {"--no-ui", "--metrics", "--slots", "--offline"} <= set(options)
    # A comma would make two names of one.
    assert options["--alias"] == "org/Name_ quick"
    assert "s3cret" not in str(options)
    assert int(options["--threads-http"] or 0) > 3


def test_a_prompt_goes_in_batches() -> None:
    assert (plan()["--batch-size"], plan()["--ubatch-size"]) == ("2048", "512")
    assert (plan(batch=128)["--batch-size"], plan(batch=128)["--ubatch-size"]) == ("128", "128")


def test_gpu_layers() -> None:
    assert plan()["--n-gpu-layers"] == "auto"
    assert plan(gpu_layers=0)["--n-gpu-layers"] == "0"


def test_a_flag_that_the_build_does_not_know_is_dropped_and_named() -> None:
    old = msgspec.structs.replace(BUILD, flags=frozenset({"--model", "--alias", "--host", "--parallel", "--ctx-size"}))
    made = LlamaCpp().launch(
        MODEL, old, SETTINGS, address=Address(unix="/r/x.sock"), secret="s", scratch=Path("/r/home")
    )
    assert "--sse-ping-interval" in made.dropped
    assert "--sse-ping-interval" not in made.argv
    assert "5" not in made.argv


def test_the_two_channels_differ_in_the_program_only() -> None:
    wheel = msgspec.structs.replace(BUILD, channel="pypi", path="/venv/bin/python")
    tails = []
    for build in (BUILD, wheel):
        made = LlamaCpp().launch(
            MODEL, build, SETTINGS, address=Address(unix="/r/x.sock"), secret="s", scratch=Path("/r/home")
        )
        tails.append(made.argv[len(LlamaCpp().command(build)) :])
    assert tails[0] == tails[1]


@pytest.mark.parametrize(
    ("line", "address"),
    [
        ("0.1 I srv init: listening on http://127.0.0.1:40669", Address(host="127.0.0.1", port=40669)),
        ("main: server is listening on http://[::1]:81 - starting", Address(host="::1", port=81)),
        ("srv init: listening on unix:///run/a.sock", Address(unix="/run/a.sock")),
        ("srv load_model: loading model 'a'", None),
    ],
)
def test_what_the_log_announces(line: str, address: Address | None) -> None:
    assert LlamaCpp().heard(line) == address


def test_the_cause_is_told_before_its_consequences() -> None:
    lines = ["0.1 I fine", "0.2 E bad tensor", "0.3 W hm", "0.4 E load failed", "0.5 E exiting"]
    assert LlamaCpp().telling(lines, 2) == ("0.2 E bad tensor", "0.4 E load failed")
    assert LlamaCpp().telling(["a", "b", "c"], 2) == ("b", "c")


def test_routing() -> None:
    wheel = Build(kind="llamacpp", tag="w", channel="pypi", path="/p")
    adapters = [LlamaCpp()]
    assert choose(MODEL, [wheel, BUILD], adapters)[1] == BUILD
    active = msgspec.structs.replace(wheel, active=True)
    assert choose(MODEL, [BUILD, active], adapters)[1] == active
    assert choose(MODEL, [BUILD, active], adapters, "local")[1] == BUILD
    with pytest.raises(ModelUnsupportedEngine, match=r"pip install 'blazar\[llamacpp\]'"):
        choose(MODEL, [], adapters)
    with pytest.raises(ModelUnsupportedEngine, match=r"engine\.llamacpp_path"):
        choose(MODEL, [wheel], adapters, "local")
    with pytest.raises(ModelUnsupportedEngine, match="safetensors"):
        choose(model("x", Path("/x"), format="safetensors"), [BUILD], adapters)


def test_the_explanation_is_of_what_is_chosen_and_says_what_each_other_one_lacks() -> None:
    wheel = Build(kind="llamacpp", tag="w", channel="pypi", path="/p", active=True)
    told = explain(MODEL, [wheel, BUILD], [LlamaCpp()])
    assert told.tag == choose(MODEL, [wheel, BUILD], [LlamaCpp()])[1].tag == "w"
    assert "blazar engine use" in told.why
    lacks = {one.tag or one.kind: one.lacks for one in told.candidates}
    assert lacks["w"] == ""
    assert lacks["local"] == "another build is used: blazar engine use local"
    assert lacks["sglang"] == "it does not take the format gguf"
    assert lacks["mistralrs"] == "Blazar does not drive it yet"
    assert lacks.keys() == {"w", "local", *KINDS} - {"llamacpp"}
    bound = explain(MODEL, [wheel, BUILD], [LlamaCpp()], "local")
    assert (bound.tag, "channel 'local'" in bound.why) == ("local", True)
    assert [one.lacks for one in bound.candidates if one.tag == "w"] == ["it is of the channel 'pypi'"]
    none = explain(MODEL, [], [LlamaCpp()])
    with pytest.raises(ModelUnsupportedEngine) as refused:
        choose(MODEL, [], [LlamaCpp()])
    assert (none.tag, none.why) == ("", refused.value.message), "one sentence for both"
    assert "blazar engine install llamacpp" in {one.kind: one.lacks for one in none.candidates}["llamacpp"]
