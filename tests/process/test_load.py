"""From a request for a model to a child that answers, and back."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import msgspec
import pytest

from blazar.config.schema import Config
from blazar.engines.llamacpp import SHIM
from blazar.errors import (
    BadRequest,
    EngineCircuitOpen,
    EngineCrashed,
    InsufficientMemory,
    ModelLoadTimeout,
    ModelUnsupportedEngine,
    NotFound,
)
from blazar.supervisor import probe
from blazar.supervisor.instance import Instance
from tests.support.fleets import Fakes, alive, config, eventually, exists, fails, fleet_of, model, program


async def ask(instance: Instance, path: str, secret: str | None = None) -> tuple[int, object]:
    answer = await probe.get(instance.address, path, instance.secret if secret is None else secret, 5)
    assert answer is not None
    return answer[0], msgspec.json.decode(answer[1])


@pytest.mark.parametrize("channel", ["pypi", "local"])
async def test_the_real_engine_serves_with_its_secret_its_slots_and_its_context(
    home: Path, tmp_path: Path, tiny: Path, channel: str
) -> None:
    engine = {"slots": 3, "context": 700, "llamacpp_channel": channel}
    if channel == "local":
        engine["llamacpp_path"] = str(program(tmp_path, sys.executable, "-I", str(SHIM)))
    async with fleet_of(home, config(engine=engine)) as (fleet, _):
        lease = await fleet.ensure_ready(model("Tiny, the model", tiny))
        instance = lease.instance
        # A slot's context comes in steps of 256.
        assert (instance.slots, instance.context) == (3, 768)
        assert instance.family == "llama"
        status, slots = await ask(instance, "/slots")
        assert status == 200
        assert [slot["n_ctx"] for slot in slots] == [768] * 3  # type: ignore[attr-defined]
        assert (await ask(instance, "/props", secret="wrong"))[0] == 401
        assert (await ask(instance, "/v1/models"))[1]["data"][0]["id"] == instance.alias  # type: ignore[index]
        command = Path(f"/proc/{instance.pid}/cmdline").read_bytes().decode()
        assert instance.secret
        assert instance.secret not in command
        lease.release()


async def test_the_environment_is_made_from_nothing(home: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMA_ARG_CTX_SIZE", "64")
    monkeypatch.setenv("AIP_MODE", "PREDICTION")
    monkeypatch.setenv("SOME_TOKEN", "private")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    async with fleet_of(home, config()) as (fleet, _):
        lease = await fleet.ensure_ready(model("tiny", tiny))
        pairs = Path(f"/proc/{lease.instance.pid}/environ").read_bytes().decode().split("\0")
        names = {pair.partition("=")[0] for pair in pairs}
        assert not names & {"LLAMA_ARG_CTX_SIZE", "AIP_MODE", "SOME_TOKEN"}
        assert "CUDA_VISIBLE_DEVICES" in names
        assert f"LLAMA_API_KEY={lease.instance.secret}" in pairs
        lease.release()


async def test_a_hundred_who_ask_at_once_get_one_child(home: Path, tiny: Path) -> None:
    async with fleet_of(home, config()) as (fleet, told):
        leases = await asyncio.gather(*(fleet.ensure_ready(model("tiny", tiny)) for _ in range(100)))
        assert len({lease.instance.pid for lease in leases}) == 1
        assert fleet.snapshot()[0].in_flight == 100
        assert told.states("tiny") == ["waiting", "loading", "ready"]
        for lease in leases:
            lease.release()
            lease.release()
        assert fleet.snapshot()[0].in_flight == 0


async def test_two_models_load_side_by_side(home: Path, fakes: Fakes, faked: Config) -> None:
    async with fleet_of(home, faked) as (fleet, told):
        await asyncio.gather(*(fleet.ensure_ready(fakes(name, load=1)) for name in ("a", "b")))
        order = [(event.subject, event.detail) for event in told.of("instance.state")]
        assert max(order.index((name, "loading")) for name in "ab") < min(order.index((name, "ready")) for name in "ab")


async def test_who_stops_waiting_does_not_stop_the_load(home: Path, fakes: Fakes, faked: Config) -> None:
    async with fleet_of(home, faked) as (fleet, told):
        slow = fakes("slow", load=0.6)
        first, second = (asyncio.create_task(fleet.ensure_ready(slow)) for _ in range(2))
        await eventually(lambda: "loading" in told.states("slow"))
        first.cancel()
        assert (await second).instance.state == "ready"
        assert first.cancelled()
        alone = asyncio.create_task(fleet.ensure_ready(fakes("alone", load=0.3)))
        await eventually(lambda: "loading" in told.states("alone"))
        alone.cancel()
        await eventually(lambda: "ready" in told.states("alone"))
        assert next(view for view in fleet.snapshot() if view.name == "alone").in_flight == 0


async def test_a_stranger_at_the_address_is_not_the_model(home: Path, fakes: Fakes, faked: Config) -> None:
    options = msgspec.structs.replace(faked, residency=msgspec.structs.replace(faked.residency, load_stall_s=0.5))
    async with fleet_of(home, options) as (fleet, _):
        error = await fails(fleet.ensure_ready(fakes("mine", alias="another")), ModelLoadTimeout)
        assert "mine" in str(error)


async def test_a_load_that_moves_is_left_to_it_and_one_that_stands_still_is_given_up(
    home: Path, fakes: Fakes, faked: Config
) -> None:
    options = msgspec.structs.replace(faked, residency=msgspec.structs.replace(faked.residency, load_stall_s=0.6))
    async with fleet_of(home, options) as (fleet, _):
        for conduct in ({"say": 0.2}, {"spin": True}):
            lease = await fleet.ensure_ready(fakes(f"moves-{next(iter(conduct))}", load=2, **conduct))
            lease.release()
        error = await fails(fleet.ensure_ready(fakes("still", load=60)), ModelLoadTimeout)
        assert "no progress" in str(error)


@pytest.mark.parametrize(
    ("die", "says", "kind"),
    [
        ([1, "0.1 E llama: unknown model architecture: 'foo'"], "architecture", EngineCrashed),
        ([1, "failed to allocate buffer for kv cache"], "needs", InsufficientMemory),
        ([1, "invalid magic characters: 'abcd', expected 'GGUF'"], "no GGUF", EngineCrashed),
        ([-4, ""], "another CPU", EngineCrashed),
        ([-9, ""], "SIGKILL", EngineCrashed),
        ([7, "cats and dogs"], "cats and dogs", EngineCrashed),
    ],
)
async def test_a_load_that_fails_says_why(
    home: Path, fakes: Fakes, faked: Config, die: list[object], says: str, kind: type[Exception]
) -> None:
    async with fleet_of(home, faked) as (fleet, told):
        error = await fails(fleet.ensure_ready(fakes("ill", die=die)), kind)
        assert says in str(error)
        assert fleet.snapshot() == ()
        assert told.states("ill") == ["waiting", "loading", "failed"]


async def test_everybody_who_waits_hears_of_the_failure(home: Path, fakes: Fakes, faked: Config) -> None:
    async with fleet_of(home, faked) as (fleet, told):
        ill = fakes("ill", load=0.3, die=[1, "no"])
        outcomes = await asyncio.gather(*(fleet.ensure_ready(ill) for _ in range(20)), return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {EngineCrashed}
        assert len(told.of("instance.exit")) == 1


async def test_the_real_engine_on_a_file_that_is_no_model(home: Path, tmp_path: Path) -> None:
    junk = tmp_path / "junk.gguf"
    junk.write_bytes(b"nothing of the kind" * 100)
    async with fleet_of(home, config()) as (fleet, _):
        assert "no GGUF" in str(await fails(fleet.ensure_ready(model("junk", junk)), EngineCrashed))


async def test_a_model_whose_file_is_gone_is_not_even_tried(home: Path, tmp_path: Path) -> None:
    async with fleet_of(home, config()) as (fleet, told):
        assert "gone.gguf" in str(await fails(fleet.ensure_ready(model("gone", tmp_path / "gone.gguf")), NotFound))
        assert told.events == []


async def test_a_child_that_dies_is_told_and_comes_back(home: Path, tiny: Path) -> None:
    async with fleet_of(home, config()) as (fleet, told):
        leases = [await fleet.ensure_ready(model("tiny", tiny)) for _ in range(3)]
        instance = leases[0].instance
        os.kill(instance.pid, 9)
        async with asyncio.timeout(2):
            await instance.gone.wait()
        assert instance.state == "crashed"
        assert "SIGKILL" in str(instance.death())
        assert fleet.snapshot() == ()
        assert told.of("instance.exit")[0].data["generation"] == instance.generation
        again = await fleet.ensure_ready(model("tiny", tiny))
        assert again.instance.pid != instance.pid
        assert again.instance.generation != instance.generation
        for lease in leases:
            lease.release(0)
        assert again.instance.state == "ready"
        again.release()


async def test_three_crashes_in_a_minute_open_the_circuit(home: Path, fakes: Fakes, faked: Config) -> None:
    async with fleet_of(home, faked) as (fleet, _):
        weak = fakes("weak", after=0.5)
        for _ in range(3):
            lease = await fleet.ensure_ready(weak)
            await lease.instance.gone.wait()
            lease.release()
        error = await fails(fleet.ensure_ready(weak), EngineCircuitOpen)
        assert isinstance(error, EngineCircuitOpen)
        assert error.retry_after is not None
        assert 50 < error.retry_after <= 60
        assert "something broke inside" in str(error)
        (await fleet.ensure_ready(fakes("strong"))).release()
        fleet.reset("weak")
        (await fleet.ensure_ready(weak)).release()


async def test_a_larger_context_replaces_a_smaller_and_unset_takes_what_is_there(home: Path, tiny: Path) -> None:
    async with fleet_of(home, config()) as (fleet, told):
        tiny_model = model("tiny", tiny)
        small = await fleet.ensure_ready(tiny_model)
        larger = asyncio.create_task(fleet.ensure_ready(tiny_model, context=2000))
        late = asyncio.create_task(fleet.ensure_ready(tiny_model))
        await asyncio.sleep(0.2)
        assert not larger.done()
        assert small.instance.state == "ready"
        small.release()
        for task in (larger, late):
            lease = await task
            assert lease.instance.context == 2048
            lease.release()
        for context in (None, 2000, None, 100, 2048):
            lease = await fleet.ensure_ready(tiny_model, context=context)
            assert lease.instance.context == 2048
            lease.release()
        assert told.states("tiny").count("ready") == 2
        await fails(fleet.ensure_ready(tiny_model, context=5000), BadRequest)


async def test_without_an_engine_the_error_names_the_cure(home: Path, tiny: Path) -> None:
    async with fleet_of(home, config(engine={"llamacpp_channel": "local"})) as (fleet, _):
        assert "engine.llamacpp_path" in str(
            await fails(fleet.ensure_ready(model("tiny", tiny)), ModelUnsupportedEngine)
        )
        alien = model("alien", tiny, format="onnx")
        assert "onnx" in str(await fails(fleet.ensure_ready(alien), ModelUnsupportedEngine))


async def test_a_home_with_a_long_name_uses_tcp(tmp_path: Path, tiny: Path) -> None:
    async with fleet_of(tmp_path / ("long" * 30), config()) as (fleet, _):
        lease = await fleet.ensure_ready(model("tiny", tiny))
        assert lease.instance.unix == ""
        assert lease.instance.port > 0
        assert (await ask(lease.instance, "/v1/models"))[0] == 200
        lease.release()
        pid = lease.instance.pid
        assert alive(pid)
        assert await fleet.unload("tiny", "enough")
        assert not exists(pid)
