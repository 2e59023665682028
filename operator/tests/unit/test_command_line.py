"""The process before the operator is one: `memcached-operator` from its first line."""

from __future__ import annotations

import subprocess
import sys

# A container's first process does not die of a signal that it has no handler for; this one, in no container, would.
TERMINATED_WHILE_IT_READS_ITS_SETTINGS = """
import os, signal
from memcached_operator import __main__, settings
settings.parse = lambda *_: os.kill(os.getpid(), signal.SIGTERM)
__main__.main()
"""


def test_a_sigterm_before_the_operator_has_begun_ends_it() -> None:
    program = [sys.executable, "-c", TERMINATED_WHILE_IT_READS_ITS_SETTINGS]
    done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")
