"""YAML text that reads well and is the same every time."""

from __future__ import annotations

from typing import Any

import yaml


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        """Schemas are shared between fields; anchors in a CRD would only confuse its readers."""
        del data
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def to_yaml(manifest: object) -> str:
    """Keys stay in the order given."""
    text: str = yaml.dump(manifest, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)
    return text
