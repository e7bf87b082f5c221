"""A snapshot in the form of `tt-smi -s`, with memory added to each device and process.

Scripts that read tt-smi's snapshots find its keys, with strings where it has strings. What ttmem does not know
(board ids, PCIe links, GDDR telemetry) is absent or "N/A", as in tt-smi's own output.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ttmem.events import Telemetry
from ttmem.snapshots import Device, Process, Snapshot, to_json
from ttmem.version import __version__

UNKNOWN = "N/A"
_DRIVER = "/sys/module/tenstorrent/version"


def tt_smi(snapshot: Snapshot) -> dict[str, Any]:
    """`snapshot` has telemetry if it was requested."""
    devices = {device["unique_id"]: device for device in to_json(snapshot)["devices"]}
    return {
        "time": datetime.fromtimestamp(snapshot.time_ns / 1e9).isoformat(),
        "host_info": _host(snapshot.host),
        "host_sw_vers": {
            "tt_smi": UNKNOWN,
            "pyluwen": UNKNOWN,
            "tt_umd": UNKNOWN,
            "ttmem": __version__,
        },
        "device_info": [_device(one, devices[one.unique_id]) for one in snapshot.devices],
        "processes": [
            {
                "pid": process.pid,
                **{key: text for key, text in _texts(process) if text is not None},
                "unique_id": unique_id,  # not the number in /dev/tenstorrent, which nobody reports
                "memory": amounts._asdict(),
            }
            for process in snapshot.processes
            for unique_id, amounts in process.devices.items()
        ],
    }


def _texts(process: Process) -> tuple[tuple[str, str | None], ...]:
    """tt-smi's model allows a key to be absent, but not to be null."""
    return (("user", process.user), ("cmdline", process.command))


def _host(shown: Mapping[str, Any]) -> dict[str, str]:
    """Of the host that a snapshot shows; of another than this one, or of a recording, only the name is known."""
    name = str(shown.get("name") or UNKNOWN)
    if "recording" in shown or name != platform.node():
        keys = ("OS", "Distro", "Kernel", "Hostname", "Platform", "Python", "Memory", "Driver")
        return {**dict.fromkeys(keys, UNKNOWN), "Hostname": name}
    try:
        distribution = platform.freedesktop_os_release().get("PRETTY_NAME", UNKNOWN)
    except OSError:
        distribution = UNKNOWN
    try:
        with open(_DRIVER, encoding="ascii") as file:
            driver = f"TT-KMD {file.read(64).strip()}"
    except (OSError, ValueError):
        driver = UNKNOWN
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "OS": platform.system(),
        "Distro": distribution,
        "Kernel": platform.release(),
        "Hostname": platform.node(),
        "Platform": platform.machine(),
        "Python": platform.python_version(),
        "Memory": f"{memory / 1e9:.2f} GB",
        "Driver": driver,
    }


def _device(device: Device, document: dict[str, Any]) -> dict[str, Any]:
    telemetry = device.telemetry or Telemetry()
    limits = telemetry.limits
    memory = ("memory", "l1_used", "l1_capacity", "l1_total", "l1_peak", "l1_peak_time_ns")
    return {
        "board_info": {
            "bus_id": device.pci or UNKNOWN,
            "board_type": _board_type(device),
            "board_id": UNKNOWN,
            "coords": UNKNOWN,
        },
        "telemetry": {
            "voltage": _number(telemetry.voltage_mv, "0.2f", 1000),
            "current": _number(telemetry.current_a, "5.1f"),
            "power": _number(telemetry.power_w, "5.1f"),
            "aiclk": _number(telemetry.aiclk_mhz, "4.0f"),
            "asic_temperature": _number(telemetry.temperature_c, "4.1f"),
            "fan_speed": _number(telemetry.fan_rpm, "4.0f"),
            "heartbeat": _number(telemetry.heartbeat, ".0f"),
        },
        "firmwares": {"fw_bundle_version": telemetry.firmware or UNKNOWN},
        "limits": {
            "vdd_max": _number(limits.voltage_mv, "0.2f", 1000),
            "tdp_limit": _number(limits.power_w, "3.0f"),
            "tdc_limit": _number(limits.current_a, "3.0f"),
            "thm_limit": _number(limits.temperature_c, "2.0f"),
        },
        "unique_id": device.unique_id,
        "logical_id": device.logical_id,
        **{key: document[key] for key in (*memory, "kernels", "anomalies")},
    }


def _board_type(device: Device) -> str:
    side = "" if device.remote is None else " R" if device.remote else " L"
    return f"{device.board}{side if device.arch == 'wormhole' else ''}" if device.board else UNKNOWN


def _number(value: float | None, form: str, divided_by: int = 1) -> str:
    return UNKNOWN if value is None else format(value / divided_by, form)
