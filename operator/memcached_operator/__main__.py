"""The command line: read the settings, run the operator, end with its exit code."""

from __future__ import annotations

import os
import signal
import sys

from memcached_operator import settings


def main() -> None:
    """Entry point of `memcached-operator` and of `python -m memcached_operator`."""
    # The first process of a container gets no signal without a handler, and app's own comes a second of imports later.
    # A SIGTERM lost in between would cost the grace period, and the Lease that is not given back.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # nothing has begun that would have to be ended
    configuration = settings.parse(sys.argv[1:], os.environ)
    from memcached_operator import app  # noqa: PLC0415 - half a second of imports that --help and a bad flag do without

    raise SystemExit(app.run(configuration))


if __name__ == "__main__":
    main()
