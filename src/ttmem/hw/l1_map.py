"""The memory map of one Tensix core's L1, per runtime version.

    0               kernel_config_base      unreserved_base                   l1_size
    | firmware,     | kernel-config ring    | CBs grow up ... buffers grow down |
    | mailboxes     | (69 KiB by default)   |                        | L1_SMALL |

The map changes every few months (nine times since 0.70), so there is one for every release since 0.70.1, the first
that publishes counters.
"""

from __future__ import annotations

import re
from reprlib import repr as short_repr

from ttmem.errors import BadInput
from ttmem.fast_dataclasses import dataclass, replace
from ttmem.hw.arch import Arch, align_up

DEFAULT_RING_BYTES = 69 * 1024

L1_SIZE = {Arch.WORMHOLE: 1464 * 1024, Arch.BLACKHOLE: 1536 * 1024}

# Wormhole, Blackhole. Releases that share a map are listed separately, so that each of them is known to be exact.
_BASES = {
    "0.70.1": (0x8120, 0x9E00),
    "0.71.2": (0x8140, 0x9E00),
    "0.72.0": (0x81A0, 0x9E00),
    "0.73.1": (0x8320, 0x9F00),
    "0.74.0": (0x8840, 0x9F00),
    "0.75.0": (0x8840, 0x9F00),
    "0.76.0": (0x88C0, 0x9F80),
    "0.77.0": (0x88C0, 0x9F80),
    "0.78-dev": (0x88C0, 0xA000),
    "0.78.0": (0x88E0, 0xA000),
    "0.79.0": (0x88E0, 0xA000),
    "0.80.0": (0x88E0, 0xA000),
    "0.81.1": (0x8960, 0xA080),
}
KERNEL_CONFIG_BASE = {
    version: dict(zip((Arch.WORMHOLE, Arch.BLACKHOLE), bases, strict=True))
    for version, bases in _BASES.items()
}
VERSIONS = tuple(KERNEL_CONFIG_BASE)
NEWEST = VERSIONS[-1]

# The only development build whose map is known; other builds of the same version may differ.
_SAME_BUILD = {"0.78.0-dev20260822": "0.78-dev"}


@dataclass(frozen=True, slots=True)
class RuntimeL1Map:
    arch: Arch
    version: str
    requested: str
    note: str | None
    l1_size: int
    kernel_config_base: int
    unreserved_base: int

    @property
    def exact(self) -> bool:
        """Whether this is the map of the requested version, not of the nearest known one."""
        return self.note is None

    @property
    def ring_bytes(self) -> int:
        return self.unreserved_base - self.kernel_config_base

    @property
    def worker_l1_size(self) -> int:
        """The part of one core's L1 that can be allocated, including L1_SMALL."""
        return self.l1_size - self.unreserved_base

    @property
    def default_worker_l1_size(self) -> int:
        return self.l1_size - _default_unreserved_base(self.arch, self.kernel_config_base)

    @property
    def max_worker_l1_size(self) -> int:
        return self.l1_size - self.kernel_config_base

    def with_worker_l1_size(self, worker_l1_size: int) -> RuntimeL1Map:
        """The map after `open_device(worker_l1_size=...)`. A smaller size makes the ring larger."""
        if worker_l1_size == 0:
            worker_l1_size = self.default_worker_l1_size
        if not 0 < worker_l1_size <= self.max_worker_l1_size:
            raise BadInput(
                f"worker_l1_size must be 1 to {self.max_worker_l1_size} bytes on {self.arch} "
                f"with ttnn {self.version}, or 0 for its default, not {worker_l1_size}"
            )
        base = align_up(self.l1_size - worker_l1_size, self.arch.dram_alignment)
        return replace(self, unreserved_base=base)


def l1_map(arch: Arch, version: str = NEWEST) -> RuntimeL1Map:
    """The map of that version, or of the nearest known one, with a note."""
    used, note = _nearest(version)
    base = KERNEL_CONFIG_BASE[used][arch]
    return RuntimeL1Map(
        arch=arch,
        version=used,
        requested=version,
        note=note,
        l1_size=L1_SIZE[arch],
        kernel_config_base=base,
        unreserved_base=_default_unreserved_base(arch, base),
    )


def _default_unreserved_base(arch: Arch, kernel_config_base: int) -> int:
    return align_up(kernel_config_base + DEFAULT_RING_BYTES, arch.dram_alignment)


def _nearest(version: str) -> tuple[str, str | None]:
    plain = version.strip().removeprefix("v").partition("+")[0]
    plain = _SAME_BUILD.get(plain, plain)
    if plain in KERNEL_CONFIG_BASE:
        return plain, None
    wanted = _on_a_line(plain)
    if wanted is None:
        why = f"{short_repr(version)} is not a version number; the newest L1 map, {NEWEST}, is used"
        return NEWEST, f"{why}, so L1 capacities may be a few KiB per core off"
    used = min(VERSIONS, key=lambda known: abs(wanted - (_on_a_line(known) or 0)))
    why = f"no L1 map is known for ttnn {short_repr(version)}; the nearest one, {used}, is used"
    return used, f"{why}, so L1 capacities may be a few KiB per core off"


def _on_a_line(version: str) -> int | None:
    """The version as one number, so that 0.9 sorts before 0.78 and distance is a difference."""
    match = re.match(r"(\d{1,9})(?:\.(\d{1,9}))?(?:\.(\d{1,9}))?(?!\d)", version, re.ASCII)
    if match is None:
        return None
    major, minor, patch = (int(part or 0) for part in match.groups())
    return (major * 10**9 + minor) * 10**9 + patch
