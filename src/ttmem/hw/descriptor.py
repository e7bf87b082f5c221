"""The chips of one machine, from the YAML that the driver writes about them, read as untrusted input.

What else the file contains is ignored.

| section                | shape                                            | here      |
|------------------------|--------------------------------------------------|-----------|
| `arch`                 | {chip: name}                                     | needed    |
| `chips_with_mmio`      | [{chip: index}], or [chip]                       | needed    |
| `harvesting`           | {chip: {harvest_mask, dram_harvesting_mask}}     | needed    |
| `boards`               | [[{board_type}, {chips: [chip]}]]                | needed    |
| `chip_unique_ids`      | {chip: number}                                   | optional  |
| `chip_pci_bdfs`        | {chip: domain:bus:device.function}, MMIO only    | optional  |
| `chip_to_bus_id`       | {chip: hexadecimal}                              | optional  |
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Collection, Hashable
from reprlib import repr as short_repr
from typing import Any, TypeVar

import yaml

from ttmem.errors import BadInput
from ttmem.fast_dataclasses import dataclass, replace
from ttmem.hw.arch import Arch
from ttmem.hw.boards import Board, bus_of, find_board, galaxy_position

# A 32-chip galaxy takes 20 KiB.
MAX_BYTES = 8 * 1024 * 1024
_U64 = 2**64 - 1
_U32 = 2**32 - 1
_CHIP_LIMIT = 2**31 - 1

_NUMBER = re.compile(r"[0-9]{1,20}|0x[0-9a-fA-F]{1,16}", re.ASCII)

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Chip:
    """`pci` is None if the descriptor names only a bus, which does not reveal the domain."""

    logical_id: int
    unique_id: int | None
    arch: Arch
    board_type: str | None
    pci: str | None
    bus_id: int | None
    is_remote: bool  # reached over Ethernet only, having no MMIO of its own
    tensix_harvested: int
    dram_harvested: int

    @property
    def position(self) -> str | None:
        """Tray and chip on a Galaxy, such as 'T1:N3'."""
        bus = self.bus_id if self.pci is None else bus_of(self.pci)
        return galaxy_position(find_board(self.board_type or ""), bus)

    @property
    def board(self) -> Board:
        """With the chip's own harvesting, and so its own capacities, which one of an unknown type has as well."""
        known = find_board(self.board_type or "")
        return replace(
            known or Board(self.board_type or "unknown", self.arch, 1, 0),
            tensix_harvested=self.tensix_harvested,
            dram_harvested=self.dram_harvested,
        )


@dataclass(frozen=True, slots=True)
class Cluster:
    chips: tuple[Chip, ...]

    def by_unique_id(self, unique_id: int) -> Chip | None:
        return next((chip for chip in self.chips if chip.unique_id == unique_id), None)


def read_cluster(path: str | os.PathLike[str], largest: int = MAX_BYTES) -> Cluster:
    try:
        data = _plain_file(path, largest)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadInput(f"{path}: cannot be read: {reason}") from None
    if len(data) > largest:
        raise BadInput(f"{path}: larger than {largest} bytes; this is not a cluster descriptor")
    return parse_cluster(data, str(path))


def _plain_file(path: str | os.PathLike[str], largest: int) -> bytes:
    """A pipe could block, a device never end, or act on being opened; and a file that was checked by its name can
    become either a moment later. O_NONBLOCK: its owner may hold a lease on it.
    """
    found = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(found).st_mode):
            raise BadInput(f"{path}: not a file; give a cluster descriptor in YAML")
        file = os.open(f"/proc/self/fd/{found}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    finally:
        os.close(found)
    with open(file, "rb") as content:
        return content.read(largest + 1)


def parse_cluster(data: bytes, name: str) -> Cluster:
    """`name` identifies the data in error messages."""
    if len(data) > MAX_BYTES:
        raise BadInput(f"{name}: larger than {MAX_BYTES} bytes; this is not a cluster descriptor")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise BadInput(f"{name}: not text in UTF-8") from None
    return _cluster_of(Field(_load(text, name), name))


@dataclass(frozen=True, slots=True)
class Field:
    """A value and its path in the document, for error messages. `value` is text, a dict or a list."""

    value: object
    file: str
    path: str = ""

    def wrong(self, what: str) -> BadInput:
        return BadInput(": ".join(part for part in (self.file, self.path, what) if part))

    def mapping(self) -> dict[str, Field]:
        if not isinstance(self.value, dict):
            raise self.wrong(f"must be a mapping, not {short_repr(self.value)}")
        return {
            str(key): Field(value, self.file, f"{self.path}.{_in_path(key)}".removeprefix("."))
            for key, value in self.value.items()
        }

    def sequence(self) -> list[Field]:
        if not isinstance(self.value, list):
            raise self.wrong(f"must be a list, not {short_repr(self.value)}")
        return [Field(item, self.file, f"{self.path}[{i}]") for i, item in enumerate(self.value)]

    def text(self) -> str:
        if not isinstance(self.value, str) or not self.value:
            raise self.wrong(f"must be a word, not {short_repr(self.value)}")
        return self.value

    def number(self, limit: int = _U64) -> int:
        if not isinstance(self.value, str) or not _NUMBER.fullmatch(self.value):
            raise self.wrong(f"must be a number from 0 to {limit}, not {short_repr(self.value)}")
        number = int(self.value, 16 if self.value.startswith("0x") else 10)
        if number > limit:
            raise self.wrong(f"must be at most {limit}, not {number}")
        return number

    def chip_id(self) -> int:
        return self.number(_CHIP_LIMIT)

    def by_chip(self) -> dict[int, Field]:
        """A mapping with chips as keys."""
        found: dict[int, Field] = {}
        for key, field in self.mapping().items():
            chip = Field(key, field.file, field.path).chip_id()
            if chip in found:
                raise self.wrong(f"chip {chip} occurs twice")
            found[chip] = field
        return found

    def get(self, key: str) -> Field | None:
        """None if the key is absent or has no value."""
        field = self.mapping().get(key)
        return None if field is None or field.value == "" else field

    def need(self, key: str) -> Field:
        field = self.get(key)
        if field is None:
            raise self.wrong(f"{key!r} is missing")
        return field


def _in_path(key: object) -> str:
    return key if isinstance(key, str) and key.isprintable() and len(key) < 40 else short_repr(key)


def _cluster_of(document: Field) -> Cluster:
    archs = {chip: _arch(field) for chip, field in document.need("arch").by_chip().items()}
    if not archs:
        raise document.wrong("'arch' names no chip")
    mmio = _mmio(document.need("chips_with_mmio"), archs)
    boards = _boards(document.need("boards"), archs)
    unique_ids = _optional(document, "chip_unique_ids", archs, Field.number)
    _check_unique(document, unique_ids)
    addresses = _optional(document, "chip_pci_bdfs", mmio, _bdf)
    buses = _optional(document, "chip_to_bus_id", archs, _bus)
    harvested = _of_chips(document.need("harvesting"), archs, _harvested)
    for chip in archs:
        if chip not in harvested:
            raise document.need("harvesting").wrong(f"chip {chip} is missing")
    chips = (
        Chip(
            logical_id=chip,
            unique_id=unique_ids.get(chip),
            arch=archs[chip],
            board_type=boards.get(chip),
            pci=addresses.get(chip),
            bus_id=buses.get(chip),
            is_remote=chip not in mmio,
            tensix_harvested=harvested[chip][0],
            dram_harvested=harvested[chip][1],
        )
        for chip in sorted(archs)
    )
    return Cluster(tuple(chips))


def _of_chips(
    section: Field, known: Collection[int], convert: Callable[[Field], _Value]
) -> dict[int, _Value]:
    fields = section.by_chip()
    for chip in fields:
        _check_known(section, chip, known)
    return {chip: convert(field) for chip, field in fields.items()}


def _optional(
    document: Field, name: str, known: Collection[int], convert: Callable[[Field], _Value]
) -> dict[int, _Value]:
    section = document.get(name)
    return {} if section is None else _of_chips(section, known, convert)


def _check_known(field: Field, chip: int, known: Collection[int]) -> None:
    if chip not in known:
        raise field.wrong(f"chip {chip} does not belong here; known chips: {_listed(known)}")


def _listed(chips: Collection[int]) -> str:
    first = [str(chip) for chip in sorted(chips)[:8]]
    return ", ".join([*first, "..."] if len(chips) > 8 else first) or "none"


def _check_unique(document: Field, unique_ids: dict[int, int]) -> None:
    owners: dict[int, int] = {}
    for chip, unique_id in unique_ids.items():
        if unique_id in owners:
            where = document.need("chip_unique_ids")
            raise where.wrong(f"chips {owners[unique_id]} and {chip} have the same id {unique_id}")
        owners[unique_id] = chip


def _arch(field: Field) -> Arch:
    name = field.text()
    try:
        return Arch.parse(name)
    except BadInput as error:
        raise field.wrong(str(error)) from None


def _mmio(section: Field, archs: Collection[int]) -> set[int]:
    """The chips with MMIO."""
    found: set[int] = set()
    for entry in section.sequence():
        for chip in entry.by_chip() if isinstance(entry.value, dict) else [entry.chip_id()]:
            _check_known(entry, chip, archs)
            if chip in found:
                raise entry.wrong(f"chip {chip} occurs twice")
            found.add(chip)
    return found


def _boards(section: Field, archs: dict[int, Arch]) -> dict[int, str]:
    """Board types by chip."""
    found: dict[int, str] = {}
    for entry in section.sequence():
        parts = {key: field for part in entry.sequence() for key, field in part.mapping().items()}
        for key in ("board_type", "chips"):
            if key not in parts:
                raise entry.wrong(f"{key!r} is missing")
        board = parts["board_type"].text()
        known = find_board(board)
        for field in parts["chips"].sequence():
            chip = field.chip_id()
            _check_known(field, chip, archs)
            if chip in found:
                raise field.wrong(f"chip {chip} is on two boards")
            if known is not None and known.arch is not archs[chip]:
                raise field.wrong(f"chip {chip} is {archs[chip]}, but {board} is {known.arch}")
            found[chip] = board
    return found


def _harvested(field: Field) -> tuple[int, int]:
    """How many rows or columns of Tensix cores, and how many DRAM channels."""
    tensix, dram = field.need("harvest_mask"), field.get("dram_harvesting_mask")
    return tensix.number(_U32).bit_count(), 0 if dram is None else dram.number(_U32).bit_count()


def _bdf(field: Field) -> str:
    address = field.text().lower()
    if bus_of(address) is None:
        raise field.wrong(f"must be a PCI address such as 0000:01:00.0, not {address[:40]!r}")
    return address


def _bus(field: Field) -> int:
    text = field.text()
    if not text.startswith("0x"):
        raise field.wrong(f"must be hexadecimal such as 0x01, not {text[:40]!r}")
    return field.number(0xFFFF)


# A descriptor nests 5 deep, and one of 32 chips has about 3,000 nodes.
MAX_DEPTH = 32
MAX_NODES = 50_000


class _Loader(yaml.BaseLoader):
    """YAML from untrusted files.

    Every scalar stays text: `yaml.safe_load` follows YAML 1.1 and would read the PCI address 0000:01:00.0 as the
    base-60 number 60.0. Tags are ignored.
    """

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._depth = 0
        self._nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        # Aliases can expand a few lines to gigabytes, and no descriptor uses them.
        if self.check_event(yaml.AliasEvent):
            raise self._refused("YAML aliases are not accepted")
        self._nodes += 1
        self._depth += 1
        if self._nodes > MAX_NODES or self._depth > MAX_DEPTH:
            raise self._refused("too many values, or too deeply nested, for a descriptor")
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        mapping = super().construct_mapping(node, deep)
        if len(mapping) != len(node.value):
            raise yaml.MarkedYAMLError(
                problem="a key occurs twice in this mapping", problem_mark=node.start_mark
            )
        return mapping

    def _refused(self, problem: str) -> yaml.MarkedYAMLError:
        mark = self.current_event.start_mark
        return yaml.MarkedYAMLError(problem=problem, problem_mark=mark)


def _load(text: str, name: str) -> object:
    """Returns mappings, sequences and text. `name` identifies the file in error messages."""
    try:
        return _Loader(text).get_single_data()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f"line {mark.line + 1}: " if mark else ""
        raise BadInput(f"{name}: {line}{error.problem or error.context}") from None
    # ValueError and OverflowError: PyYAML passes escapes such as "\UFFFFFFFF" to chr() unchecked.
    except (yaml.YAMLError, ValueError, OverflowError):
        raise BadInput(f"{name}: not a YAML file") from None
