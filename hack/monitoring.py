"""The alerts and the dashboard of config/prometheus, as tests look at them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from promql import Selector, selectors

FOLDER = Path(__file__).parents[1] / "config" / "prometheus"

SCRAPE_LABELS = frozenset({"namespace", "pod", "job", "instance"})
"""What Prometheus, with a PodMonitor, adds to each series."""

_VARIABLE = re.compile(r"label_values\((\w+), (\w+)\)")


def alerts() -> list[dict[str, Any]]:
    """Every rule of alerts.yaml."""
    groups = yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    """The panels of dashboard.json that show something: rows are titles only."""
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def dashboard() -> dict[str, Any]:
    """dashboard.json."""
    found: dict[str, Any] = json.loads((FOLDER / "dashboard.json").read_text())
    return found


def expressions() -> dict[str, str]:
    """Where it is -> every PromQL expression of alerts and panels."""
    return {
        **{f"alert {rule['alert']}": rule["expr"] for rule in alerts()},
        **{
            f"panel {panel['title']!r} {target['refId']}": target["expr"]
            for panel in panels()
            for target in panel["targets"]
        },
    }


def asked_for() -> dict[str, list[Selector]]:
    """Where it is -> the metrics that it asks for; the dashboard's variables are among them."""
    variables = {
        f"variable {variable['name']}": [Selector(found[1], frozenset({found[2]}))]
        for variable in dashboard()["templating"]["list"]
        if (found := _VARIABLE.fullmatch(variable.get("definition", "")))
    }
    return {where: selectors(expression) for where, expression in expressions().items()} | variables


def dashboard_rules() -> str:
    """The dashboard's expressions as a file of recording rules, so that promtool can say whether each is PromQL."""
    panels = [each for where, each in expressions().items() if where.startswith("panel")]
    rules = [
        {"record": f"dashboard:{number}", "expr": expression.replace("$__rate_interval", "1m")}
        for number, expression in enumerate(panels)
    ]
    return json.dumps({"groups": [{"name": "dashboard", "rules": rules}]})


if __name__ == "__main__":
    print(dashboard_rules())
