"""Any details at all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from tests.views.snapshots import maybe_texts, snapshots, texts
from ttmem.events import Flag, MemoryKind, Notice, Op
from ttmem.snapshots import Buffer, CircularBuffer, Kernel, LoggedEvent, Program, Snapshot

sizes = (st.integers(20, 220), st.integers(5, 60))
numbers = st.integers(0, 200) | st.integers(0, (1 << 64) - 1)
maybe = st.none() | numbers
kinds = st.sampled_from([kind.name for kind in MemoryKind]) | texts
ops = st.sampled_from([op.name for op in (*Op, *Notice)]) | texts | numbers
flags = st.lists(st.sampled_from([str(flag.name) for flag in Flag]) | texts, max_size=3).map(tuple)


@st.composite
def any_details(draw: st.DrawFn) -> Snapshot:
    """A snapshot with rows under some details, some of them on its devices."""
    picture = draw(snapshots())
    device = st.none() | st.sampled_from([one.unique_id for one in picture.devices] or ["none"])

    def some(kind: Any, *required: Any, **fields: Any) -> Any:
        rows = st.builds(kind, *required, **fields)
        return draw(st.none() | st.lists(rows, max_size=8).map(tuple))

    return replace(
        picture,
        buffers=some(
            Buffer, maybe, device, kinds, numbers, maybe, numbers, maybe, numbers, numbers,
            maybe_texts, maybe_texts, maybe_texts,
        ),
        kernels=some(
            Kernel, maybe, device, texts, numbers, maybe, maybe_texts, maybe, maybe, numbers,
            maybe_texts, maybe, maybe,
        ),
        programs=some(
            Program, maybe, device, numbers, maybe_texts, maybe, maybe, maybe, maybe, maybe, maybe,
            maybe_texts, maybe_texts, maybe_texts,
        ),
        circular_buffers=some(
            CircularBuffer, maybe, device, maybe, numbers, numbers, maybe, st.booleans(),
            st.booleans(), numbers, numbers,
        ),
        events=some(
            LoggedEvent, numbers, maybe, device, ops, maybe_texts, flags, numbers, maybe,
            text=maybe_texts, name=maybe_texts, site=maybe_texts,
        ),
    )  # fmt: skip
