"""How fast a model is: measured straight at its engine and through the gateway, kept, shown again, drawn."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.server import serving


def test_a_model_is_measured_both_ways_and_remembered(tmp_path: Path, tiny_slow: Path) -> None:
    limits = {"BLAZAR_ENGINE_CONTEXT": "512", "BLAZAR_ENGINE_SLOTS": "2"}
    with serving(tmp_path / "home", {"slow": tiny_slow}, **limits) as server:
        assert "Nothing was measured of slow yet" in server.cli("bench", "slow", "--history").stderr
        words = ("--rounds", "1", "--tokens", "16", "--prompt", "64,4000", "--at-once", "1,2,9")
        told = server.cli("bench", "slow", *words, "--json")
        (run,) = [json.loads(line) for line in told.stdout.splitlines()]
        measured = [(one["way"], one["at_once"]) for one in run["results"]]
        assert measured == [("gateway", 1), ("engine", 1), ("gateway", 2), ("engine", 2)]
        assert all(32 <= one["prompt"] <= 128 for one in run["results"])
        assert all(one["read"] > 0 and one["first_ms"] > 0 for one in run["results"])
        assert "Left out: 4000 tokens do not fit into a context of 512." in told.stderr
        assert "Left out: 9 at once, where the engine takes 2." in told.stderr
        picture = tmp_path / "speed.png"
        again = server.cli("bench", "slow", *words[:4], "--prompt", "64", "--at-once", "1", "--png", str(picture))
        assert again.stdout.splitlines()[0].split()[:3] == ["PROMPT", "AT", "ONCE"]
        assert picture.read_bytes().startswith(b"\x89PNG")
        kept = [json.loads(line) for line in server.cli("bench", "slow", "--history", "--json").stdout.splitlines()]
        assert kept[0] == run
        assert len(kept) == 2
        assert len(server.cli("bench", "slow", "--history").stdout.splitlines()) == 3
        lost = server.cli("bench", "slow", "--prompt", "4000", check=False)
        assert (lost.returncode, "Nothing is left to measure" in lost.stderr) == (1, True)
        assert server.cli("bench", "nobody", check=False).returncode == 1
        assert server.cli("bench", "slow", "--prompt", "few", check=False).returncode == 2
