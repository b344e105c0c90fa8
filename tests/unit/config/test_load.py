from __future__ import annotations

from pathlib import Path

import pytest

from blazar.config import load, options
from blazar.config.paths import Paths
from blazar.config.schema import Config
from blazar.errors import ConfigError


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths.from_env({"BLAZAR_HOME": str(tmp_path)})


def write(paths: Paths, text: str) -> None:
    paths.config.mkdir(parents=True, exist_ok=True)
    paths.config_file.write_text(text, "utf-8")


def test_without_a_file_the_defaults_hold(paths: Paths) -> None:
    assert load.load(paths, {}) == Config()


def test_the_environment_overrules_the_file_and_the_file_the_default(paths: Paths) -> None:
    write(paths, '[server]\nport = 1234\nhost = "0.0.0.0"\n[residency]\nkeep_alive_s = 60\n')
    config = load.load(paths, {"BLAZAR_SERVER_PORT": "4321"})
    assert (config.server.port, config.server.host, config.residency.keep_alive_s) == (4321, "0.0.0.0", 60.0)
    said = {setting.key: setting.source for setting in load.explain(paths, {"BLAZAR_SERVER_PORT": "4321"})}
    assert said["server.port"] == "environment"
    assert said["server.host"] == "file"
    assert said["engine.slots"] == "default"


@pytest.mark.parametrize(
    ("text", "line", "sentence"),
    [
        ("[server]\n# a comment\nprot = 1\n", 3, "there is no setting 'server.prot'. Did you mean 'server.port'?"),
        ("[server]\n\n[sevrer]\nport = 1\n", 3, "there is no section 'sevrer'. Did you mean 'server'?"),
        ("[server]\nslots = 4\n", 2, "there is no setting 'server.slots'. Did you mean 'engine.slots'?"),
        ('[server]\nport = "80"\n', 2, "'server.port' cannot be '80': it takes an integer, 0 to 65535."),
        ("[server]\nport = 70000\n", 2, "'server.port' cannot be 70000: it takes an integer, 0 to 65535."),
        ("[server]\nport = true\n", 2, "'server.port' cannot be True: it takes an integer, 0 to 65535."),
        (
            '[engine]\nslots=2\ncache_type = "f17"\n',
            3,
            "'engine.cache_type' cannot be 'f17': it takes one of bf16, f16",
        ),
        ("server.prot = 1\n", 1, "there is no setting 'server.prot'."),
        ("server = 5\n", 1, "'server' is a section and must be written [server]."),
        ("[relay]\nidle_s = -1\n", 2, "'relay.idle_s' cannot be -1: it takes a number, at least 0 (seconds)."),
        (
            "[residency]\nkeep_alive_s = nan\n",
            2,
            "'residency.keep_alive_s' cannot be nan: it takes a number (seconds).",
        ),
        ('[server]\ncors_origins = "*"\n', 2, "'server.cors_origins' cannot be '*': it takes list of strings."),
    ],
)
def test_a_fault_is_told_with_its_line_and_the_cure(paths: Paths, text: str, line: int, sentence: str) -> None:
    write(paths, text)
    with pytest.raises(ConfigError) as told:
        load.load(paths, {})
    assert told.value.message.startswith(f"{paths.config_file}:{line}: ")
    assert sentence in told.value.message


def test_what_is_no_toml_is_told_with_its_place(paths: Paths) -> None:
    write(paths, "[server\nport = 1")
    with pytest.raises(ConfigError, match=r"is not valid TOML: .*line 1"):
        load.load(paths, {})


def test_a_file_that_is_no_text_is_refused(paths: Paths) -> None:
    paths.config.mkdir(parents=True)
    paths.config_file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="cannot be read: it is not UTF-8 text"):
        load.load(paths, {})


def test_variables_are_typed(paths: Paths) -> None:
    config = load.load(
        paths,
        {
            "BLAZAR_SERVER_ALLOWED_HOSTS": "box.local, box",
            "BLAZAR_RESIDENCY_KEEP_ALIVE_S": "-1",
            "BLAZAR_ENGINE_CACHE_TYPE": "q8_0",
            "BLAZAR_SERVER_CORS_ORIGINS": "",
            "BLAZAR_HOME": "/elsewhere",
        },
    )
    assert config.server.allowed_hosts == ("box.local", "box")
    assert config.residency.keep_alive_s == -1
    assert config.engine.cache_type == "q8_0"
    assert config.server.cors_origins == ()


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("BLAZAR_SERVER_PROT", "1", "BLAZAR_SERVER_PROT is not a setting. Did you mean 'BLAZAR_SERVER_PORT'?"),
        ("BLAZAR_SERVER_PORT", "many", "BLAZAR_SERVER_PORT cannot be 'many': it takes an integer, 0 to 65535."),
        ("BLAZAR_SERVER_PORT", "65536", "BLAZAR_SERVER_PORT cannot be 65536"),
        ("BLAZAR_RELAY_IDLE_S", "nan", "BLAZAR_RELAY_IDLE_S cannot be nan"),
        ("BLAZAR_SERVER_LOG_LEVEL", "loud", "cannot be 'loud': it takes one of debug, error, info, warning."),
    ],
)
def test_a_wrong_variable_is_named(paths: Paths, name: str, value: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as told:
        load.load(paths, {name: value})
    assert sentence in told.value.message


def test_every_option_has_help_and_reads_its_own_default_back() -> None:
    for option in options.table().values():
        assert option.help, option.key
        text = ",".join(option.default) if isinstance(option.default, tuple) else str(option.default)
        assert options.parse(option, text, option.key) == option.default
        assert option.env == f"BLAZAR_{option.section.upper()}_{option.name.upper()}"


def test_units_come_from_names() -> None:
    table = options.table()
    assert table["admission.wait_s"].unit == "seconds"
    assert table["server.max_body_bytes"].unit == "bytes"
    assert table["server.port"].unit == ""
