"""A snapshot in a notebook: a table with the same figures, in which no text is markup."""

from __future__ import annotations

import re
from html import unescape

from hypothesis import given, settings

from tests.patience import examples
from tests.views.builders import device, snapshots, use, with_owner
from ttmem.sizes import human
from ttmem.snapshots import Snapshot


def cells(html: str) -> list[list[str]]:
    rows = re.findall(r"<tr>((?:<td>.*?</td>)+)</tr>", html, re.DOTALL)
    return [list(map(unescape, re.findall(r"<td>(.*?)</td>", row, re.DOTALL))) for row in rows]


def test_figures_are_those_of_the_snapshot_and_unknown_ones_are_n_a() -> None:
    given_device = device(0, dram=use(3 << 20), l1=5000, l1_capacity=None)
    found = with_owner(given_device, command="python model.py")

    shown = cells(found._repr_html_())

    (process,) = found.processes
    memory, held = given_device.memory, process.devices[given_device.unique_id]
    assert shown[0][2:6] == ["3.0 MiB", "N/A", human(given_device.l1_used), "N/A"]
    assert shown[0][6] == human(memory.l1.held)
    assert shown[1][:3] == [str(process.pid), process.user or "N/A", "python model.py"]
    assert shown[1][4] == human(held.dram)


def test_hostile_text_is_text() -> None:
    evil = "<script>alert(1)</script>\"'&<td>"

    html = with_owner(device(0), command=evil)._repr_html_()

    assert "<script" not in html
    assert evil in [cell for row in cells(html) for cell in row]


@settings(max_examples=examples(50))
@given(snapshots())
def test_any_snapshot_has_a_row_for_each_device(any_snapshot: Snapshot) -> None:
    html = any_snapshot._repr_html_()

    devices = html.partition("</table>")[0]
    assert devices.count("<tr>") == 1 + len(any_snapshot.devices)
