"""Defaults and bounds of the spec: the CRD, the models and the documentation are all made from these.

Where a bound comes from memcached, it was tried with memcached 1.6.18, and -I and -c with 1.6.38 too.
"""

from __future__ import annotations

DEFAULT_IMAGE = "docker.io/library/memcached:1.6.45"
"""Image when neither `spec.image` nor the operator's RELATED_IMAGE_MEMCACHED gives one."""

MAX_SIZE = 1000

DEFAULT_MEMORY = 64
MIN_MEMORY = 1
MAX_MEMORY = 1_048_576
"""MiB (1 TiB). memcached takes `-m` as a C int and starts even with -5, which means almost no limit at all."""

DEFAULT_MAX_CONNECTIONS = 1024
MIN_MAX_CONNECTIONS = 32
MAX_MAX_CONNECTIONS = 65_536
"""memcached sets its limit of open files to `-c` and exits 71 where the container's hard limit is lower (524288 with
containerd's usual unit). It takes the files of its own threads from the same number: see CONNECTIONS_PER_THREAD."""

DEFAULT_THREADS = 4
MAX_THREADS = 64
"""memcached warns above 64, and starts."""

CONNECTIONS_PER_THREAD = 5
CONNECTIONS_BASE = 12
"""memcached starts and serves from `-c` = 5 per thread + 4 on (tried: 26 for 4 threads, 44 for 8, 324 for 64); the rest
of the base leaves room for the probe and the first clients."""

DEFAULT_MAX_ITEM_SIZE = 1024
MAX_MAX_ITEM_SIZE = 1_048_576
ITEM_SIZE_STEP = 512
"""KiB. `-I` must be a multiple of the largest chunk, 512 KiB: memcached exits 64 for 100k, 513k or 1300k. A smaller
chunk (`-o slab_chunk_max`, "use extreme care") crashes it with items near the limit (tried: 100k with 4k chunks)."""

DEFAULT_VERBOSITY = 1
MAX_VERBOSITY = 3

DEFAULT_DRAIN_SECONDS = 30
MAX_DRAIN_SECONDS = 600

MAX_SURGE_DEFAULT: int | str = 1
MAX_UNAVAILABLE_DEFAULT: int | str = 0

MAX_MAP_ENTRIES = 64
MAX_ANNOTATION_LENGTH = 4096
MAX_ANNOTATIONS_TOTAL = 65_000
"""Characters of all pod annotations, keys and values. The API server allows 262144 bytes, four for a character."""
MAX_TOLERATIONS = 32
MAX_SPREAD_CONSTRAINTS = 16
MAX_PULL_SECRETS = 16
MAX_LABEL_KEY_LENGTH = 253
"""Characters. Kubernetes allows 253 for the prefix and 63 for the name; one bound for the whole keeps both."""
MAX_LABEL_VALUE_LENGTH = 63
MAX_IMAGE_LENGTH = 512
