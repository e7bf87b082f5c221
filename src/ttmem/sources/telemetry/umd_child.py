"""A program that reads the sensors of every chip through the user-mode driver.

For each line on standard input it prints one line: a JSON list with an object for each chip, remote ones included. It
ends when its input does. If the driver, native code that accesses the chips, crashes or hangs, only this process does.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

_BY_PROVIDER = {
    "power_w": "get_tdp",
    "current_a": "get_tdc",
    "voltage_mv": "get_vcore",
    "aiclk_mhz": "get_aiclk",
    "axiclk_mhz": "get_axiclk",
    "arcclk_mhz": "get_arcclk",
    "heartbeat": "get_heartbeat",
}
_LIMITS = {"temperature_c": "get_thm_limit_throttle", "power_w": "get_tdp_limit"}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the driver logs there
    umd: Any = import_module("tt_umd")
    cluster, devices = umd.TopologyDiscovery.discover()
    for _ in sys.stdin:
        chips = [_chip(umd, cluster, chip, device) for chip, device in sorted(devices.items())]
        print(json.dumps(chips), file=answers, flush=True)


def _chip(umd: Any, cluster: Any, chip: int, device: Any) -> dict[str, Any]:
    provider = _or_none(device.get_firmware_info_provider)
    board = _or_none(lambda: umd.board_type_to_string(cluster.get_board_type(chip)))
    return {
        "unique_id": _or_none(lambda: cluster.get_chip_unique_ids()[chip]),
        "pci": _or_none(lambda: cluster.get_chip_pci_bdfs()[chip]),
        "board": board,
        "values": {
            "temperature_c": _or_none(lambda: _temperature(umd, device)),
            "fan_rpm": _or_none(
                lambda: next(rpm for rpm in provider.get_fan_rpms() if rpm is not None)
            ),
            "firmware": _or_none(lambda: provider.get_firmware_version().to_string()),
        }
        | {name: _called(provider, method) for name, method in _BY_PROVIDER.items()},
        "limits": {name: _called(provider, method) for name, method in _LIMITS.items()},
    }


def _called(provider: Any, method: str) -> Any:
    return _or_none(lambda: getattr(provider, method)())


def _or_none(ask: Callable[[], Any]) -> Any:
    """None if a chip does not answer, or if this version of the driver lacks the function."""
    try:
        return ask()
    except Exception:
        return None


def _temperature(umd: Any, device: Any) -> float:
    """Of the ASIC: signed 16.16 bits, or sixteenths of a degree in the older form."""
    reader = device.get_arc_telemetry_reader()
    if isinstance(reader, umd.SmBusArcTelemetryReader):
        raw = reader.read_entry(int(umd.wormhole.TelemetryTag.ASIC_TEMPERATURE))
        return float((raw & 0xFFFF) / 16)
    raw = reader.read_entry(int(umd.TelemetryTag.ASIC_TEMPERATURE))
    return float((raw - (1 << 32) if raw >> 31 else raw) / 65536)


if __name__ == "__main__":
    main()
