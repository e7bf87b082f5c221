"""Stands in for the device compiler `riscv-tt-elf-g++`, which no package registry carries.

The runtime compiles firmware and kernels before it dispatches them. On a mock device nothing executes the result, but
the runtime still parses it, links kernels against firmware symbols, and takes sizes from it. So this file answers the
same command line with ELF files of its own making: valid, as long as the source suggests, and the same for the same
input on every machine.

It is called hundreds of times per run, so it is one file that imports next to nothing: `re`, `pathlib` and `typing`
would each make a call twice as long (14 ms).
"""

from __future__ import annotations

import os
import struct
import sys
import zlib

VERSION_LINE = "riscv-tt-elf-g++ (stand-in of the ttmem test bench) 15.1.0"

FIRMWARE_WORDS = 48  # the smallest firmware slot is 1,536 bytes
KERNEL_WORDS = 96
MOST_WORDS = 3_072  # Wormhole's NCRISC has 16 KiB for text
SOURCE_BYTES_PER_WORD = 16
NOP = struct.pack("<I", 0x0000_0013)

# Wormhole's Ethernet scripts name memory regions instead of addresses; nothing reads where that code lies.
TEXT_WITHOUT_ADDRESS = 0xA840
DATA_WITHOUT_ADDRESS = 0xFFB0_0600

ET_REL, ET_EXEC, EM_RISCV = 1, 2, 243
PT_LOAD, READ_EXECUTE, READ_WRITE = 1, 5, 6
SHT_PROGBITS, SHT_SYMTAB, SHT_STRTAB, SHT_RELA = 1, 2, 3, 4
CODE, DATA = 6, 3  # section flags: alloc + exec, alloc + write
SHN_ABS = 0xFFF1
GLOBAL_FUNCTION, GLOBAL_ANY = 0x12, 0x10
HEADER_BYTES, SEGMENT_BYTES, SECTION_BYTES, SYMBOL_BYTES, RELA_BYTES = 52, 32, 40, 16, 12
# Sections by number, the same in every file that is written here.
TEXT, DATA_SECTION, SYMTAB, STRTAB = 1, 2, 4, 5
SECTION_NAMES = (".text", ".data", ".rela.text", ".symtab", ".strtab", ".shstrtab")

Symbol = tuple[str, int, int, int, int]  # name, value, size, kind, section


def string_table(names: list[str]) -> tuple[bytes, list[int]]:
    """The table, and where each name starts in it."""
    table, starts = b"\0", []
    for name in names:
        starts.append(len(table))
        table += name.encode() + b"\0"
    return table, starts


def symbol_table(symbols: list[Symbol]) -> tuple[bytes, bytes]:
    """The table and its strings. The first symbol is always the empty one."""
    names, starts = string_table([symbol[0] for symbol in symbols])
    table = bytes(SYMBOL_BYTES)
    for start, (_, value, size, kind, section) in zip(starts, symbols, strict=True):
        table += struct.pack("<IIIBBH", start, value, size, kind, 0, section)
    return table, names


def elf(kind: int, text: bytes, data: bytes, at: tuple[int, int], symbols: list[Symbol]) -> bytes:
    """ELF32, little endian, RISC-V; `at` says where text and data run.

    | header | 2 program headers | .text | .data | .symtab | .strtab | .shstrtab | section headers |

    The runtime wants the entry at the first PT_LOAD, load addresses without a gap, and a section of relocations, which
    may be empty. Object files carry the program headers too; nobody minds.
    """
    text_at, data_at = at
    table, symbol_names = symbol_table(symbols)
    section_names, starts = string_table(list(SECTION_NAMES))
    described = [
        (SHT_PROGBITS, CODE, text_at, text, 0, 0, 0),
        (SHT_PROGBITS, DATA, data_at, data, 0, 0, 0),
        (SHT_RELA, 0, 0, b"", SYMTAB, TEXT, RELA_BYTES),
        (SHT_SYMTAB, 0, 0, table, STRTAB, 1, SYMBOL_BYTES),
        (SHT_STRTAB, 0, 0, symbol_names, 0, 0, 0),
        (SHT_STRTAB, 0, 0, section_names, 0, 0, 0),
    ]
    first = offset = HEADER_BYTES + 2 * SEGMENT_BYTES
    body, sections = b"", bytes(SECTION_BYTES)
    for start, section in zip(starts, described, strict=True):
        holds, flags, address, content, linked, info, entry = section
        placed = (start, holds, flags, address, offset, len(content), linked, info, 4, entry)
        sections += struct.pack("<10I", *placed)
        body += content + bytes(-len(content) % 4)
        offset = first + len(body)
    loads = [
        (first, text_at, text_at, len(text), READ_EXECUTE),
        (first + len(text), data_at, (text_at + len(text)) & 0xFFFF_FFFF, len(data), READ_WRITE),
    ]
    segments = b"".join(
        struct.pack("<8I", PT_LOAD, where, runs, loaded, size, size, access, 4)
        for where, runs, loaded, size, access in loads
    )
    numbers = (kind, EM_RISCV, 1, text_at, HEADER_BYTES, offset, 0)
    counts = (HEADER_BYTES, SEGMENT_BYTES, 2, SECTION_BYTES, len(described) + 1, len(described))
    header = struct.pack("<16sHHIIIIIHHHHHH", b"\x7fELF\x01\x01\x01", *numbers, *counts)
    return header + segments + body + sections


def read_sections(path: str) -> list[tuple[int, bytes]]:
    """Kind and content of each section of an ELF32 file."""
    with open(path, "rb") as file:
        image = file.read()
    (table,), (count,) = struct.unpack_from("<I", image, 32), struct.unpack_from("<H", image, 48)
    found = []
    for index in range(count):
        kind, _, _, at, size = struct.unpack_from("<5I", image, table + SECTION_BYTES * index + 4)
        found.append((kind, image[at : at + size]))
    return found


def read_symbols(path: str) -> dict[str, int]:
    """Value by name, of a file that was written here (the runtime weakens them in place)."""
    sections = read_sections(path)
    table, names = sections[SYMTAB][1], sections[STRTAB][1]
    return {
        names[start : names.index(b"\0", start)].decode(): value
        for start, value, *_ in struct.iter_unpack("<IIIBBH", table)
    }


def kernel_sources(folder: str) -> list[str]:
    """The kernel's own files, which the runtime includes by full path in files that it generates."""
    found = []
    for name in sorted(os.listdir(folder)):
        if name == "kernel_includes.hpp" or (name.startswith("chlkc_") and name.endswith(".cpp")):
            with open(os.path.join(folder, name)) as file:
                lines = [line for line in file if line.startswith('#include "/')]
            found += [line.split('"')[1] for line in lines]
    return sorted(set(found))


def text_words(arguments: list[str], sources: list[str]) -> int:
    """Longer sources make longer text; defines (the kernel's parameters) change it a little."""
    if "-DKERNEL_BUILD" not in arguments:
        return FIRMWARE_WORDS
    defines = sorted(a for a in arguments if a.startswith("-D") and "FULL_KERNEL_NAME" not in a)
    length = sum(os.path.getsize(source) for source in sources if os.path.isfile(source))
    variation = zlib.crc32(" ".join(defines).encode()) % 128
    return min(KERNEL_WORDS + variation + length // SOURCE_BYTES_PER_WORD, MOST_WORDS)


def compile_object(arguments: list[str], output: str) -> bytes:
    own = [a for a in arguments if a.endswith((".cc", ".cpp", ".c", ".S")) and a[0] != "-"]
    sources = own + kernel_sources(os.path.dirname(os.path.dirname(output)))
    text = NOP * text_words(arguments, sources)
    if "-MF" in arguments:
        with open(arguments[arguments.index("-MF") + 1], "w") as file:
            file.write(f"{output}: {' '.join(sources)}\n")
    start = ("_start", 0, len(text), GLOBAL_FUNCTION, TEXT)
    return elf(ET_REL, text, bytes(4), (0, 0), [start])


def section_address(section: str, script: str, known: dict[str, int], otherwise: int) -> int:
    """Where a linker script puts a section: a number, a sum, or a symbol of the firmware."""
    for line in script.splitlines():
        name, _, rest = line.strip().partition(" ")
        if name == section:
            try:
                return int(eval(rest.split(":")[0].strip(), {"__builtins__": {}}, dict(known)))
            except (NameError, SyntaxError):
                break
    return otherwise


def after(address: int, content: bytes) -> int:
    """The next boundary of 16 bytes, where a kernel follows its firmware."""
    return (address + len(content) + 15) & 0xFFFF_FFF0


def link(arguments: list[str]) -> bytes:
    known: dict[str, int] = {}
    script = text = data = b""
    for argument in arguments:
        if argument.startswith("-Wl,--just-symbols="):
            known.update(read_symbols(argument.partition("=")[2]))
        elif argument.startswith("-T"):
            with open(argument[2:], "rb") as file:
                script = file.read()
        # The wheel's own helper objects come from the real compiler; they add nothing here.
        elif argument.endswith(".o") and "/runtime/hw/lib/" not in argument:
            sections = read_sections(argument)
            text += sections[TEXT][1]
            data += sections[DATA_SECTION][1]
    text_at = section_address(".text", script.decode(), known, TEXT_WITHOUT_ADDRESS)
    data_at = section_address(".data", script.decode(), known, DATA_WITHOUT_ADDRESS)
    symbols = [
        ("_start", text_at, len(text), GLOBAL_FUNCTION, TEXT),
        ("__fw_export_text_end", after(text_at, text), 0, GLOBAL_ANY, SHN_ABS),
        ("__fw_export_ldm_end", after(data_at, data), 0, GLOBAL_ANY, SHN_ABS),
    ]
    return elf(ET_EXEC, text, data, (text_at, data_at), symbols)


def main(arguments: list[str]) -> None:
    if "-o" not in arguments:
        print(VERSION_LINE)
        return
    output = arguments[arguments.index("-o") + 1]
    if "c++-header" in arguments:
        made = b"a precompiled header that nobody reads\n"
    elif "-c" in arguments:
        made = compile_object(arguments, output)
    else:
        made = link(arguments)
    with open(output, "wb") as file:
        file.write(made)


if __name__ == "__main__":
    main(sys.argv[1:])
