"""The fault rig: a proxy that misbehaves on request, a journal of what passed it, and oracles that judge a run by it.

`rules` and `oracles` are pure; `proxy` is the only part with a network. The cases are in operator/tests/faults.
"""
