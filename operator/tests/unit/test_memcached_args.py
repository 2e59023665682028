from __future__ import annotations

import pytest

from memcached_operator.api.v1alpha1 import MemcachedSpec
from memcached_operator.memcached.args import memcached_args


def spec(**fields: int) -> MemcachedSpec:
    return MemcachedSpec.model_validate({"size": 1, **fields})


def test_defaults_are_all_on_the_command_line() -> None:
    assert memcached_args(spec()) == ["-m", "64", "-c", "1024", "-t", "4", "-I", "1024k", "-U", "0", "-v"]


@pytest.mark.parametrize(
    ("field", "value", "option", "text"),
    (
        ("memory", 1, "-m", "1"),
        ("memory", 1_048_576, "-m", "1048576"),
        ("maxConnections", 65_536, "-c", "65536"),
        ("threads", 64, "-t", "64"),
        ("maxItemSize", 512, "-I", "512k"),
        ("maxItemSize", 1_048_576, "-I", "1048576k"),
    ),
)
def test_an_option_is_followed_by_its_value(field: str, value: int, option: str, text: str) -> None:
    args = memcached_args(spec(**{field: value}))
    assert args[args.index(option) + 1] == text


@pytest.mark.parametrize(("verbosity", "flags"), ((0, []), (1, ["-v"]), (2, ["-vv"]), (3, ["-vvv"])))
def test_verbosity_is_the_last_flag(verbosity: int, flags: list[str]) -> None:
    assert memcached_args(spec(verbosity=verbosity))[10:] == flags


@pytest.mark.parametrize("verbosity", (0, 1, 2, 3))
def test_udp_is_always_off(verbosity: int) -> None:
    args = memcached_args(spec(verbosity=verbosity))
    assert args[args.index("-U") + 1] == "0"
