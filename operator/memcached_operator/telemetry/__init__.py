"""Metrics, traces and logs: the only package that imports opentelemetry.

Others see it through the Protocols of `runtime/ports.py`; app.py makes the objects.
"""
