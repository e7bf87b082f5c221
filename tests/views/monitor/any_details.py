"""Any details at all: right ones, wrong ones, garbage."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from tests.views.snapshots import snapshots, texts
from ttmem.events import Flag, Op
from ttmem.snapshots import Snapshot

# fmt: off
KEYS = (
    "pid", "device", "kind", "id", "address", "requested", "reserved", "time_ns", "name",
    "site", "type", "program", "binary", "cores", "footprint", "dispatches", "status",
    "cache_hits", "last_dispatch_ns", "resident", "size", "references", "global", "op",
    "flags",
)
# fmt: on
values = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(0, 1 << 64)
    | st.floats()
    | texts
    | st.sampled_from([op.name for op in Op])
    | st.lists(st.sampled_from([flag.name for flag in Flag]))
)
sizes = (st.integers(20, 220), st.integers(5, 60))


@st.composite
def any_details(draw: st.DrawFn) -> Snapshot:
    """A snapshot with rows under every detail, some of them on its devices."""
    picture = draw(snapshots())
    ids = [device.unique_id for device in picture.devices]
    known = st.dictionaries(st.sampled_from(KEYS), values, max_size=12)
    on_device = known.map(lambda row: {**row, "device": ids[0]}) if ids else known
    rows = st.lists(on_device | known | st.none() | texts, max_size=8)
    names = ("buffers", "kernels", "programs", "circular_buffers", "events")
    detail = {name: draw(rows | st.none() | texts) for name in names if draw(st.booleans())}
    return replace(picture, detail=detail)
