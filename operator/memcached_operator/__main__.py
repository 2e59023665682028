"""The command line: read the settings, run the operator, end with its exit code."""

from __future__ import annotations

import os
import sys

from memcached_operator import settings


def main() -> None:
    """Entry point of `memcached-operator` and of `python -m memcached_operator`."""
    configuration = settings.parse(sys.argv[1:], os.environ)
    from memcached_operator import app  # noqa: PLC0415 - half a second of imports that --help and a bad flag do without

    raise SystemExit(app.run(configuration))


if __name__ == "__main__":
    main()
