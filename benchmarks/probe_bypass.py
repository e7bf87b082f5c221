"""Runs in the process that has ttnn: takes the probe's hooks out of the runtime's calls and puts them back.

A preloaded library is called because the loader wrote its addresses into the tables of the runtime's libraries. With
the runtime's own addresses there, the process runs as without the probe: so it can be compared with itself.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from collections.abc import Iterator
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_size_t, c_uint16, c_uint64, c_void_p

DYNAMIC = 2
STRTAB, SYMTAB, RELA, RELASZ, PLTRELSZ, JMPREL = 5, 6, 7, 8, 2, 23
ABSOLUTE, GLOB_DAT, JUMP_SLOT = 1, 6, 7  # of x86-64: how a function's address gets into a table
AARCH64 = (257, 1025, 1026)
ADDRESSES = frozenset(
    (ABSOLUTE, GLOB_DAT, JUMP_SLOT) if os.uname().machine == "x86_64" else AARCH64
)


class _Object(ctypes.Structure):
    _fields_ = (
        ("base", c_uint64),
        ("name", c_char_p),
        ("segments", c_uint64),
        ("count", c_uint16),
    )


class Bypass:
    """Found once every function has been called, because the loader fills the tables at the first call."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.dlsym.restype = c_void_p
        self._libc.dlsym.argtypes = (c_void_p, c_char_p)
        objects = self._objects()
        probe = _named(objects, "_library.abi3")
        runtime = _named(objects, "libtt_metal")
        # (where, the hook, the runtime's own) of each place that leads to a hook
        self._slots: list[tuple[int, int, int]] = []
        known: dict[bytes, tuple[int | None, int | None]] = {}
        for base, _, dynamic in objects:
            for name, slot in _slots(base, dynamic):
                if name not in known:
                    known[name] = (self._address(probe, name), self._address(runtime, name))
                hook, own = known[name]
                if hook and own and hook != own and _word(slot) == hook:
                    self._slots.append((slot, hook, own))
        for slot, _, _ in self._slots:
            self._make_writable(slot)

    @property
    def slots(self) -> int:
        return len(self._slots)

    def without(self) -> None:
        """The runtime calls itself."""
        for slot, _, own in self._slots:
            c_uint64.from_address(slot).value = own

    def hooked(self) -> None:
        """The runtime calls the probe."""
        for slot, hook, _ in self._slots:
            c_uint64.from_address(slot).value = hook

    def _address(self, library: ctypes.CDLL, name: bytes) -> int | None:
        found: int | None = self._libc.dlsym(library._handle, name)
        return found

    def _make_writable(self, slot: int) -> None:
        page = slot & -mmap.PAGESIZE
        protection = mmap.PROT_READ | mmap.PROT_WRITE
        if self._libc.mprotect(c_void_p(page), c_size_t(mmap.PAGESIZE), protection):
            raise OSError(ctypes.get_errno(), "mprotect")

    def _objects(self) -> list[tuple[int, str, int]]:
        """Base, path and dynamic section of everything that is loaded."""
        found = []

        def each(pointer: ctypes._Pointer[_Object], _size: int, _data: int) -> int:
            loaded = pointer.contents
            for number in range(loaded.count):
                kind, _flags, _offset, address = struct.unpack_from(
                    "<IIQQ", ctypes.string_at(loaded.segments + 56 * number, 56)
                )
                if kind == DYNAMIC:
                    found.append((loaded.base, os.fsdecode(loaded.name), loaded.base + address))
            return 0

        self._libc.dl_iterate_phdr(
            CFUNCTYPE(c_int, POINTER(_Object), c_size_t, c_void_p)(each), None
        )
        return found


def _named(objects: list[tuple[int, str, int]], name: str) -> ctypes.CDLL:
    (path,) = (path for _, path, _ in objects if os.path.basename(path).startswith(name))
    return ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)


def _word(address: int) -> int:
    return c_uint64.from_address(address).value


def _slots(base: int, dynamic: int) -> Iterator[tuple[bytes, int]]:
    """The C++ functions whose addresses an object has in its tables, and where."""
    tags: dict[int, int] = {}
    while tag := _word(dynamic):
        tags[tag] = _word(dynamic + 8)
        dynamic += 16
    for table, size in ((RELA, RELASZ), (JMPREL, PLTRELSZ)):
        if table not in tags or SYMTAB not in tags:
            continue
        relocations = ctypes.string_at(tags[table], tags[size])
        for offset, info, _addend in struct.iter_unpack("<QQq", relocations):
            if info & 0xFFFFFFFF not in ADDRESSES or not info >> 32:
                continue
            (text,) = struct.unpack("<I", ctypes.string_at(tags[SYMTAB] + 24 * (info >> 32), 4))
            name = ctypes.string_at(tags[STRTAB] + text)
            if name.startswith(b"_Z"):
                yield name, base + offset
