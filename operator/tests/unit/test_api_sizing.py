from __future__ import annotations

import pytest

from memcached_operator.api.sizing import memory_need_mib


@pytest.mark.parametrize(
    ("memory", "connections", "mib"),
    (
        (64, 1024, 135),  # 70.4 + 64: few connections, the floor decides
        (64, 1638, 135),  # 70.4 + 32 + 31.99
        (64, 1700, 136),  # 70.4 + 32 + 33.2
        (1024, 1024, 1191),
        (10, 1024, 75),  # exactly 75: not rounded further
        (1_048_576, 65_536, 1_154_746),
    ),
)
def test_need(memory: int, connections: int, mib: int) -> None:
    assert memory_need_mib(memory, connections) == mib
