"""The stand-in for the device compiler, by itself: it needs neither ttnn nor a network."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

from tests.ttnn.bench import compiler

FIRMWARE_SCRIPT = "SECTIONS {\n  .text ((16 * 2) + 0x4000) :\n  .data 0xFFB00000 :\n}\n"
KERNEL_SCRIPT = (
    "SECTIONS {\n  .text __fw_export_text_end :\n"
    "  .data __fw_export_ldm_end : AT(__kernel_data_lma)\n}\n"
)


def call(*arguments: str | Path) -> str:
    done = subprocess.run(
        [sys.executable, "-ISE", compiler.__file__, *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def compiled(folder: Path, kernel: str, *defines: str) -> Path:
    """An object, made as the runtime does: it includes the kernel by its full path."""
    build = folder / "kernel" / "hash" / "brisc"
    build.mkdir(parents=True, exist_ok=True)
    source = folder / "kernel.cpp"
    source.write_text(kernel)
    (build.parent / "kernel_includes.hpp").write_text(f'#include "{source}"\n')
    main = folder / "brisck.cc"
    main.write_text("int main;\n")
    flags = ("-DKERNEL_BUILD", *defines, "-MMD", "-c")
    call(*flags, "-o", build / "brisck.o", main, "-MF", build / "brisck.d")
    return build / "brisck.o"


def segments(image: bytes) -> list[tuple[int, int, int]]:
    """Where each PT_LOAD runs, where it is loaded from, and its length."""
    found = []
    for index in range(2):
        _, _, runs_at, loaded_at, size = struct.unpack_from("<5I", image, 52 + 32 * index)
        found.append((runs_at, loaded_at, size))
    return found


def test_it_names_itself() -> None:
    assert call("--version").startswith("riscv-tt-elf-g++")


def test_the_same_kernel_gives_the_same_bytes(tmp_path: Path) -> None:
    first = compiled(tmp_path / "one", "x" * 4_000, "-DCB=1").read_bytes()
    again = compiled(tmp_path / "two", "x" * 4_000, "-DCB=1").read_bytes()

    assert first == again


def test_a_longer_kernel_has_a_longer_text(tmp_path: Path) -> None:
    short = compiled(tmp_path / "short", "x" * 1_000).stat().st_size
    long = compiled(tmp_path / "long", "x" * 9_000).stat().st_size

    assert long - short == 8_000 // 16 * 4


def test_other_parameters_give_another_text(tmp_path: Path) -> None:
    one = compiled(tmp_path / "one", "x", "-DCB=1").read_bytes()
    two = compiled(tmp_path / "two", "x", "-DCB=2").read_bytes()

    assert one != two


def test_the_dependency_file_names_the_kernel(tmp_path: Path) -> None:
    made = compiled(tmp_path, "x")

    needs = made.with_suffix(".d").read_text()
    assert needs == f"{made}: {tmp_path / 'brisck.cc'} {tmp_path / 'kernel.cpp'}\n"


def test_a_kernel_follows_its_firmware_and_its_data_follows_its_text(tmp_path: Path) -> None:
    (tmp_path / "firmware.ld").write_text(FIRMWARE_SCRIPT)
    (tmp_path / "kernel.ld").write_text(KERNEL_SCRIPT)
    firmware, kernel = tmp_path / "firmware.elf", tmp_path / "kernel.elf"
    made = compiled(tmp_path, "x" * 100)

    call(f"-T{tmp_path / 'firmware.ld'}", made, "-o", firmware)
    symbols = f"-Wl,--just-symbols={firmware}"
    call(symbols, f"-T{tmp_path / 'kernel.ld'}", made, "-o", kernel)

    (below, *_), _ = segments(firmware.read_bytes())
    (text_at, loaded_at, length), (data_at, data_loaded_at, _) = segments(kernel.read_bytes())
    assert below == 0x4020
    assert text_at == loaded_at == (below + length + 15) // 16 * 16
    assert data_at == 0xFFB0_0010
    assert data_loaded_at == text_at + length
    assert struct.unpack_from("<HHII", kernel.read_bytes(), 16) == (2, 243, 1, text_at)
