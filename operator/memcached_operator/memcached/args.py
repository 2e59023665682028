"""The memcached command line of a spec."""

from __future__ import annotations

from memcached_operator.api.v1alpha1 import MemcachedSpec

PORT = 11211
"""TCP port that memcached listens on by default; `-p` is never given."""

PROGRAM = "memcached"
"""Found on the image's PATH. Named, not left to the image's entry point, so that any image that has memcached works."""

_VERBOSITY = ((), ("-v",), ("-vv",), ("-vvv",))


def memcached_args(spec: MemcachedSpec) -> list[str]:
    """Arguments for `PROGRAM`, one list item each: no shell ever reads them.

    An option and its value are two items: memcached 1.6 does not start with the `-m=64` of old tutorials.
    `-U 0` is always there, although UDP is off by default since 1.5.6: an older image in `spec.image` would otherwise
    answer UDP, which turns a cache into an amplifier for denial of service.
    """
    return [
        *("-m", str(spec.memory)),
        *("-c", str(spec.max_connections)),
        *("-t", str(spec.threads)),
        *("-I", f"{spec.max_item_size}k"),
        *("-U", "0"),
        *_VERBOSITY[spec.verbosity],
    ]
