"""The layout is drawn twice, in C++ and in Python: here they meet."""

from __future__ import annotations

from pathlib import Path

from tests.own_process import ran
from ttmem.probe import layout
from ttmem.probe.launch import library_path

HEADER = Path(__file__).parents[2] / "src" / "native" / "probe" / "layout.hpp"
SIZES = {
    "Counter": layout.COUNTER.size,
    "Activity": layout.ACTIVITY.size,
    "Slot": layout.SLOT_SIZE,
    "LiveEntry": layout.LIVE.size,
    "StringRecord": layout.STRING.size,
    "DeviceRecord": layout.DEVICE.size,
    "SetRecord": layout.SET.size,
    "CoresRecord": layout.CORES.size,
    "FeatureRecord": layout.FEATURE.size,
    "FailureRecord": layout.FAILURE.size,
}
PLACES = {
    "sections": layout.SECTIONS_AT,
    "tracking": layout.TRACKING_AT,
    "tickets": layout.TICKETS_AT,
    "given_up": layout.GIVEN_UP_AT,
    "live": layout.LIVE_AT,
    "strings": layout.STRINGS_AT,
    "devices": layout.TABLES_AT,
    "failures": layout.FAILURES_AT,
    "unpaired_frees": layout.UNPAIRED_AT,
    "unseen": layout.UNSEEN_AT,
    "forgotten": layout.FORGOTTEN_AT,
}


def test_python_and_the_library_draw_the_same_layout(tmp_path: Path) -> None:
    lines = [f"static_assert(sizeof({name}) == {size});" for name, size in SIZES.items()]
    lines += [f"static_assert(offsetof(Header, {name}) == {at});" for name, at in PLACES.items()]
    lines += [
        f"static_assert(VERSION == {layout.VERSION} && HEADER_SIZE == {layout.HEADER_SIZE});",
        f"static_assert(SET_OF_DEVICES == {layout.SET_OF_DEVICES}u && COUNTED == {layout.KINDS});",
        f"static_assert(HOLDS_BINARIES == {layout.HOLDS_BINARIES});",
    ]
    source = tmp_path / "compare.cpp"
    body = "\n".join(lines)
    source.write_text(f'#include "{HEADER}"\nusing namespace ttmem::probe;\n{body}\n')

    done = ran(["g++", "-std=c++17", "-fsyntax-only", str(source)])
    assert done.stderr == ""


def test_the_library_shows_its_hooks_and_nothing_of_its_inside() -> None:
    shown = ran(["nm", "-D", "--defined-only", "--format=posix", library_path()], check=True)
    names = [line.split()[0] for line in shown.stdout.splitlines()]

    # A template of the standard library among them would be used by the whole process.
    hooks = ("_ZN2tt8tt_metal", "_ZNK2tt8tt_metal", "ttmem_probe_")
    assert names
    assert [name for name in names if not name.startswith(hooks)] == []
