"""A Kubernetes operator that runs memcached."""

__version__ = "0.1.0"
