"""The rig itself is tested: operators with one known bug each. One that passes is a hole in the rig."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from rig import Rig
from seeds import SEEDS, Seed

from mutation import copy_package


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: seed.name)
def test_a_seeded_bug_is_caught(rig: Rig, seed: Seed, record_property: Callable[[str, object], None]) -> None:
    rig.source = {"PYTHONPATH": str(copy_package(rig.folder / "mutant", ((seed.file, seed.old, seed.new), *seed.more)))}
    rig.patience = 0.25
    with pytest.raises(AssertionError) as caught:
        seed.run(rig)
    spoke = set(re.findall(r"^(O\d+): ", str(caught.value), re.MULTILINE))
    record_property("kind", seed.kind)
    record_property("spoke", " ".join(sorted(spoke)))
    assert spoke & set(seed.oracles), f"not {seed.oracles}, but {spoke or caught.value}"
