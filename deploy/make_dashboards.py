"""`make dashboards`: the Grafana dashboard and the rules for Prometheus, from one list of panels and alerts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from ttmem.fleet.recorded import (
    DRAM_RATIO,
    FAILED,
    L1_RATIO,
    LOW,
    RECORDED,
    RECORDED_SLOWLY,
    SLOWLY,
    new_in,
)

FOLDER = Path(__file__).parent
DASHBOARD = FOLDER / "grafana" / "ttmem.json"
RULES = FOLDER / "prometheus" / "ttmem.rules.yml"
SOURCE = {"type": "prometheus", "uid": "${DS_PROMETHEUS}"}
HOST, DEVICE = 'instance=~"$host"', 'instance=~"$host",device=~"$device"'
PROCESS = f"ttmem_process_memory_bytes{{{DEVICE}}}"
NAMED = "* on(instance, device) group_left(id, board) ttmem_device_info"


def low(quarters: int) -> str:
    """The low-water mark of a quarter of an hour, so many of them ago."""
    return f"{LOW} offset {15 * quarters}m" if quarters else LOW


def own(expression: str, *names: str) -> str:
    """With these labels as ttmem gave them.

    Where the target of the scrape has a label of that name, such as the pod of the exporter, Prometheus stores ttmem's
    as `exported_NAME`. `ttmem_processes` has the labels of the target alone.
    """
    for name in names:
        taken = f'on(instance, job) ttmem_processes{{{name}!=""}}'
        renamed = f'"{name}", "$1", "exported_{name}", "(.*)"'
        expression = (
            f"({expression} unless {taken} or label_replace({expression} and {taken}, {renamed}))"
        )
    return expression


def counted(counter: str) -> str:
    """Whether a counter has grown in the last five minutes, or is new and not 0."""
    return f"increase({counter}[5m]) > 0 or {new_in(counter, '5m')} > 0"


class Alert(NamedTuple):
    name: str
    expression: str
    after: str
    severity: str
    summary: str
    description: str


ALERTS = [
    Alert(
        "TtmemL1AlmostFull",
        f"{L1_RATIO} > 0.9",
        "5m",
        "warning",
        "L1 of {{ $labels.device }} on {{ $labels.instance }} is {{ $value | humanizePercentage }} full",
        "`ttmem ps --by site` on that host names the lines that hold it.",
    ),
    Alert(
        "TtmemDramAlmostFull",
        f"{DRAM_RATIO} > 0.95",
        "5m",
        "warning",
        "DRAM of {{ $labels.device }} on {{ $labels.instance }} is {{ $value | humanizePercentage }} full",
        "`ttmem ps --by site` on that host names the lines that hold it.",
    ),
    Alert(
        "TtmemSteadyGrowth",
        " and ".join(f"{low(n)} > 1.01 * {low(n + 1)}" for n in range(3)),
        "5m",
        "warning",
        "{{ $labels.memory }} of {{ $labels.device }} on {{ $labels.instance }} has grown for an hour",
        "Its lowest value has risen four times in a row."
        " `ttmem leaks --pid PID` on that host names the line that keeps it.",
    ),
    Alert(
        "TtmemAllocationFailed",
        counted("ttmem_failed_allocations_total"),
        "0m",
        "critical",
        "an allocation failed on {{ $labels.device }} of {{ $labels.instance }}",
        "`ttmem ps` on that host says what was asked for and why there was no room.",
    ),
    Alert(
        "TtmemGhosts",
        "ttmem_ghost_processes > 0",
        "10m",
        "info",
        "dead processes are still listed in shared memory of {{ $labels.instance }}",
        "`ttmem clean` lists them, `ttmem clean --yes` removes them.",
    ),
    Alert(
        "TtmemEventsLost",
        counted("ttmem_lost_events_total"),
        "0m",
        "info",
        "ttmem on {{ $labels.instance }} lost events",
        "Totals stay exact; single events are missing. `ttmem ps` names the process.",
    ),
    Alert(
        "TtmemStale",
        "time() - ttmem_snapshot_time_seconds > 120",
        "0m",
        "warning",
        "the figures of {{ $labels.instance }} are {{ $value | humanizeDuration }} old",
        "Its textfile, or the server behind the page, is not being renewed.",
    ),
]


def rules() -> dict[str, Any]:
    return {
        "groups": [
            {
                "name": "ttmem-recorded",
                "rules": [{"record": name, "expr": expr} for name, expr in RECORDED.items()],
            },
            {
                "name": "ttmem-recorded-slowly",
                "interval": SLOWLY,
                "rules": [{"record": name, "expr": expr} for name, expr in RECORDED_SLOWLY.items()],
            },
            {
                "name": "ttmem-alerts",
                "rules": [
                    {
                        "alert": alert.name,
                        "expr": alert.expression,
                        "for": alert.after,
                        "labels": {"severity": alert.severity},
                        "annotations": {"summary": alert.summary, "description": alert.description},
                    }
                    for alert in ALERTS
                ],
            },
        ]
    }


class Panel(NamedTuple):
    title: str
    queries: dict[str, str]  # legend: expression
    unit: str = "bytes"
    kind: str = "timeseries"
    width: int = 12


ROWS: dict[str, list[Panel]] = {
    "Fleet": [
        Panel(
            "Fullest L1 by host",
            {"{{instance}}": "topk(20, instance:ttmem_l1_used:max_ratio)"},
            "percentunit",
            "bargauge",
        ),
        Panel(
            "Fullest DRAM by host",
            {"{{instance}}": "topk(20, instance:ttmem_dram_used:max_ratio)"},
            "percentunit",
            "bargauge",
        ),
        Panel("Hosts", {"hosts": "count(ttmem_build_info)"}, "short", "stat", 6),
        Panel(
            "Devices in use", {"devices": "sum(instance:ttmem_devices:count)"}, "short", "stat", 6
        ),
        Panel(
            "Failed allocations, last hour",
            {"failed": f"sum({FAILED})"},
            "short",
            "stat",
            6,
        ),
        Panel(
            "DRAM in use", {"DRAM": "sum(instance:ttmem_dram_used_bytes:sum)"}, "bytes", "stat", 6
        ),
    ],
    "Host": [
        Panel("L1 used by device", {"{{id}} {{board}}": f"ttmem_l1_used_bytes{{{HOST}}} {NAMED}"}),
        Panel(
            "DRAM used by device",
            {"{{id}} {{board}}": f'ttmem_memory_used_bytes{{{HOST},memory="dram"}} {NAMED}'},
        ),
        Panel(
            "Processes",
            {
                "live": f"ttmem_processes{{{HOST}}}",
                "dead, still listed": f"ttmem_ghost_processes{{{HOST}}}",
            },
            "short",
        ),
        Panel(
            "Lost events", {"{{instance}}": f"rate(ttmem_lost_events_total{{{HOST}}}[5m])"}, "short"
        ),
    ],
    "Device": [
        Panel(
            "L1: used, peak, capacity",
            {
                "used": f"ttmem_l1_used_bytes{{{DEVICE}}}",
                "peak": f"ttmem_l1_peak_bytes{{{DEVICE}}}",
                "capacity": f"ttmem_l1_capacity_bytes{{{DEVICE}}}",
            },
        ),
        Panel("Memory by kind", {"{{memory}}": f"ttmem_memory_used_bytes{{{DEVICE}}}"}),
        Panel("Largest free block", {"{{memory}}": f"ttmem_memory_largest_free_bytes{{{DEVICE}}}"}),
        Panel("Circular buffers", {"{{meaning}}": f"ttmem_circular_buffer_bytes{{{DEVICE}}}"}),
        Panel(
            "Dispatches per second",
            {"{{device}}": f"rate(ttmem_program_dispatches_total{{{DEVICE}}}[5m])"},
            "short",
        ),
        Panel("Program cache", {"entries": f"ttmem_program_cache_entries{{{DEVICE}}}"}, "short"),
    ],
    "Process": [
        Panel(
            "Memory by user and program (needs --per-process)",
            {"{{user}} {{program}} {{memory}}": f"sum by (user, program, memory) ({PROCESS}) > 0"},
            width=24,
        ),
        Panel(
            "Memory by pod and job (needs --per-process)",
            {
                "{{namespace}}/{{pod}} {{exported_job}} {{memory}}": "sum by (namespace, pod, exported_job, memory)"
                f" {own(PROCESS, 'namespace', 'pod')} > 0"
            },
            width=24,
        ),
    ],
}


def dashboard() -> dict[str, Any]:
    panels: list[dict[str, Any]] = []
    x = y = 0
    for row, found in ROWS.items():
        panels.append(_panel(len(panels) + 1, {"type": "row", "title": row}, 0, y, 24, 1))
        x, y = 0, y + 1
        for panel in found:
            height = 4 if panel.kind == "stat" else 8
            if x + panel.width > 24:
                x, y = 0, y + 8
            panels.append(_panel(len(panels) + 1, _content(panel), x, y, panel.width, height))
            x += panel.width
        y += 8
    return {
        "__inputs": [
            {
                "name": "DS_PROMETHEUS",
                "label": "Prometheus",
                "type": "datasource",
                "pluginId": "prometheus",
            }
        ],
        "title": "ttmem: memory of Tenstorrent accelerators",
        "uid": "ttmem-memory",
        "schemaVersion": 39,
        "tags": ["tenstorrent", "memory"],
        "time": {"from": "now-1h", "to": "now"},
        "refresh": "30s",
        "templating": {
            "list": [
                _variable("host", "label_values(ttmem_build_info, instance)"),
                _variable("device", 'label_values(ttmem_device_info{instance=~"$host"}, device)'),
            ]
        },
        "panels": panels,
    }


def _panel(number: int, content: dict[str, Any], x: int, y: int, width: int, height: int) -> Any:
    return {"id": number, **content, "gridPos": {"x": x, "y": y, "w": width, "h": height}}


def _content(panel: Panel) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + at), "expr": expr, "legendFormat": legend, "datasource": SOURCE}
        for at, (legend, expr) in enumerate(panel.queries.items())
    ]
    defaults: dict[str, Any] = {"unit": panel.unit}
    if panel.unit == "percentunit":
        defaults |= {"min": 0, "max": 1}
    return {
        "type": panel.kind,
        "title": panel.title,
        "datasource": SOURCE,
        "targets": targets,
        "fieldConfig": {"defaults": defaults, "overrides": []},
    }


def _variable(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "datasource": SOURCE,
        "query": query,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "refresh": 2,
        "current": {"text": "All", "value": "$__all"},
    }


def main() -> None:
    DASHBOARD.write_text(json.dumps(dashboard(), indent=1) + "\n", encoding="utf-8")
    text = yaml.safe_dump(rules(), sort_keys=False, width=120)
    RULES.write_text(f"# Made by deploy/make_dashboards.py; `make dashboards` renews it.\n{text}")


if __name__ == "__main__":
    main()
