"""The recording rules behind the fleet page: one small series per host, however many devices it has.

`make dashboards` writes them for Prometheus (deploy/prometheus/ttmem.rules.yml). Where they are not installed, the same
expressions are evaluated for each query.
"""

from __future__ import annotations


def new_in(counter: str, window: str) -> str:
    """Of counters whose first sample came within the window: its value.

    `increase` sees no change there: a host that Prometheus scrapes for the first time may already have counted. An hour
    without samples is an outage, which ends with an old value.
    """
    return f"({counter} unless last_over_time({counter}[1h] offset {window}))"


def failed(where: str = "") -> str:
    """Allocations that failed in the last hour, by host."""
    counter = f"ttmem_failed_allocations_total{where}"
    return f"sum by (instance) ({new_in(counter, '1h')} or increase({counter}[1h]))"


REMEMBERED = "1d"  # how long a host that stopped answering is listed
REMEMBERED_S = 86_400
SEEN = "instance:ttmem_seen_seconds:max"
L1_RATIO, DRAM_RATIO = "device:ttmem_l1_used:ratio", "device:ttmem_dram_used:ratio"
DRAM = '{memory="dram"}'
OF_DEVICES = {
    L1_RATIO: "ttmem_l1_used_bytes / (ttmem_l1_capacity_bytes > 0)",
    DRAM_RATIO: f"ttmem_memory_used_bytes{DRAM} / (ttmem_memory_capacity_bytes{DRAM} > 0)",
}
WORST = 100  # devices that a fleet page lists
OF_WORST = {
    f"{name}_topk": f"topk({WORST}, {expression})" for name, expression in OF_DEVICES.items()
}
L1_FULLEST = "instance:ttmem_l1_used:max_ratio"
DRAM_FULLEST = "instance:ttmem_dram_used:max_ratio"
DRAM_USED = "instance:ttmem_dram_used_bytes:sum"
DRAM_CAPACITY = "instance:ttmem_dram_capacity_bytes:sum"
BOARDS = "instance_board:ttmem_devices:count"
DEVICES = "instance:ttmem_devices:count"
PROCESSES = "instance:ttmem_processes:sum"
ANOMALIES = "instance:ttmem_anomalies:sum"
FAILED = "instance:ttmem_failed_allocations:increase1h"
OF_HOSTS = {
    L1_FULLEST: f"max by (instance) ({OF_DEVICES[L1_RATIO]})",
    DRAM_FULLEST: f"max by (instance) ({OF_DEVICES[DRAM_RATIO]})",
    DRAM_USED: f"sum by (instance) (ttmem_memory_used_bytes{DRAM})",
    DRAM_CAPACITY: f"sum by (instance) (ttmem_memory_capacity_bytes{DRAM})",
    BOARDS: "count by (instance, board) (ttmem_device_info)",
    DEVICES: "count by (instance) (ttmem_device_info)",
    PROCESSES: "sum by (instance) (ttmem_processes)",
    ANOMALIES: "sum by (instance) (ttmem_anomalies)",
    FAILED: failed(),
}
RECORDED = {
    **OF_DEVICES,
    **{name: expression for name, expression in OF_HOSTS.items() if name != FAILED},
    # From series that are already recorded: querying all devices of 1,000 hosts takes a tenth of a second.
    L1_FULLEST: f"max by (instance) ({L1_RATIO})",
    DRAM_FULLEST: f"max by (instance) ({DRAM_RATIO})",
    DEVICES: f"sum by (instance) ({BOARDS})",
    **{f"{name}_topk": f"topk({WORST}, {name})" for name in OF_DEVICES},
    # Refers to itself to remember when a host was last seen: reading a day of samples every minute would cost too much.
    SEEN: "max by (instance) (ttmem_snapshot_time_seconds)"
    f" or max by (instance) (last_over_time({SEEN}[10m])) > time() - {REMEMBERED_S}",
}
# Rules over long ranges are evaluated less often, and in a separate group, so that they delay no other.
SLOWLY = "2m"
LOW = "device:ttmem_memory_used_bytes:min15m"
RECORDED_SLOWLY = {
    FAILED: OF_HOSTS[FAILED],
    LOW: 'min_over_time(ttmem_memory_used_bytes{memory=~"dram|l1"}[15m])',
}
