"""Pictures with telemetry."""

from __future__ import annotations

from dataclasses import replace

from tests.views.builders import GIB, MIB, N300_DRAM, device, snapshot, use, with_owner
from ttmem.events import CardSample, Telemetry, TelemetryLimits
from ttmem.events.samples import no_telemetry
from ttmem.snapshots import Device, Snapshot
from ttmem.sources.telemetry.source import REMOTE

WORMHOLE = Telemetry(
    temperature_c=51.3,
    power_w=35.0,
    current_a=40.0,
    voltage_mv=780,
    aiclk_mhz=1000,
    axiclk_mhz=900,
    arcclk_mhz=540,
    heartbeat=12_345_678,
    firmware="18.10.0.0",
    limits=TelemetryLimits(75.0, 160.0, 160.0, 850),
    source="sysfs",
    stale=False,
    unchanged_s=0.0,
    reasons={"fan_rpm": "the driver has no such sensor for this card"},
)
BLACKHOLE = replace(
    WORMHOLE,
    temperature_c=74.9,
    power_w=301.0,
    aiclk_mhz=1350,
    fan_rpm=2400,
    limits=TelemetryLimits(75.0, 300.0, 400.0, 850),
    reasons={},
)


def n300_and_an_idle_card() -> Snapshot:
    """Both chips of an n300, a chip that overheats, a card whose firmware hangs, one that nobody uses."""
    dram = use(4 * GIB, N300_DRAM)
    devices = [
        replace(device(0, pci="0000:01:00.0", dram=dram), remote=False, telemetry=WORMHOLE),
        replace(device(1, l1=9 * MIB), remote=True, telemetry=no_telemetry(REMOTE)),
        replace(device(2, board="p150", arch="blackhole", pci="0000:41:00.0"), telemetry=BLACKHOLE),
    ]
    hangs = replace(WORMHOLE, stale=True, unchanged_s=12.2, aiclk_mhz=None)
    reason = "4,294,967,295 MHz is not plausible; believed is 1 to 1,500 MHz"
    hangs = replace(hangs, reasons={"aiclk_mhz": reason, **WORMHOLE.reasons})
    cards = (
        CardSample(3, "n150", "wormhole", "0000:42:00.0", None, None, False, None, hangs),
        CardSample(
            4, None, None, "0000:43:00.0", None, None, False, None, no_telemetry("it is gone")
        ),
    )
    return replace(snapshot(devices), cards=cards)


def galaxy() -> Snapshot:
    return snapshot([_galaxy_chip(number) for number in range(32)])


def _galaxy_chip(number: int) -> Device:
    tray, chip = divmod(number, 8)
    bus = (0xC0, 0x80, 0x00, 0x40)[tray] + chip + 1
    told = replace(WORMHOLE, temperature_c=36.0 + number / 10, power_w=21.0, aiclk_mhz=500)
    return replace(
        device(number, board="galaxy", pci=f"0000:{bus:02x}:00.0", dram=use(GIB, N300_DRAM)),
        remote=False,
        position=f"T{tray + 1}:N{chip + 1}",
        telemetry=told,
    )


def one_card_no_driver() -> Snapshot:
    absent = no_telemetry("the driver is not loaded: there is no /sys/class/tenstorrent")
    return with_owner(replace(device(0, dram=use(GIB, N300_DRAM)), telemetry=absent))


TELEMETRY_CASES = {
    "telemetry": n300_and_an_idle_card,
    "telemetry-galaxy": galaxy,
    "telemetry-no-driver": one_card_no_driver,
}
