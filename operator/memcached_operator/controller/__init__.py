"""The Memcached reconciler: observe, parse, desire, plan, apply, derive status, write it."""
