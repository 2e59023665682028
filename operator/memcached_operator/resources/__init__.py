"""Desired state: pure builders from a parsed Memcached to the manifests of its children, one Kubernetes kind a file."""
