"""docs/bad-inputs.md: what users see when they get a resource wrong. From the table that the integration test runs."""

from __future__ import annotations

from typing import Any

import yaml

from memcached_operator.api.validation import Invalid, parse


def page(table: str) -> str:
    """The page for the YAML text of the table, a list of {id, name?, spec?, message: [line]}."""
    entries: list[dict[str, Any]] = yaml.safe_load(table)
    sections = "\n".join(map(_section, entries))
    return f"""# What you see when a resource is wrong

{len(entries)} mistakes, each tried against a real kube-apiserver ({_VERSION}). None is accepted. *kubectl* is what
`kubectl create` prints. *Operator* is what the condition `Ready` says (reason `InvalidSpec`) about a resource that was
stored before the rule existed; its children are left as they are.

{sections}"""


_VERSION = "v1.35.4"


def _section(entry: dict[str, Any]) -> str:
    text = yaml.safe_dump({"spec": entry["spec"]} if "spec" in entry else {}, sort_keys=False, width=100)
    name = f"metadata:\n  name: {entry['name']}\n" if "name" in entry else ""
    shown = text if len(text) < _LONGEST else f"{text[:_LONGEST]}...\n"
    message = "\n".join(line.rstrip() for line in entry["message"])
    parts = [
        f"## {entry['id']}\n",
        f"```yaml\n{name}{shown}```\n",
        f"kubectl:\n\n```\n{message}\n```\n",
    ]
    parsed = parse(entry.get("name", "bad"), "default", "", 1, entry.get("spec"))
    if isinstance(parsed, Invalid):
        parts.append(f"Operator:\n\n```\n{parsed.summary()}\n```\n")
    return "\n".join(parts)


_LONGEST = 600
