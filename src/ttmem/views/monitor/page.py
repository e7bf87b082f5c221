"""What a page is: a picture of a snapshot and of the user's choices, in lines. No page knows the terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Protocol, runtime_checkable

from ttmem.snapshots import Device, Snapshot
from ttmem.views.ink import Line
from ttmem.views.monitor.state import State

Series = Mapping[str, Sequence[int]]  # 'time_ns', 'dram', 'l1', ... as columns, oldest first


@dataclass(frozen=True, slots=True)
class Look:
    """Everything that a page is drawn from."""

    snapshot: Snapshot  # in order, narrowed to --devices and --pid; with the page's details
    history: Mapping[str, Series]  # by unique id, one sample a second, an hour at most
    state: State
    width: int  # columns and lines of the page, without the frame around it
    height: int
    zone: tzinfo | None = None  # of times on screen; None is local
    ascii: bool = False  # the terminal has no block or Braille signs
    pids: tuple[int, ...] = ()  # of --pid: lists are of these, figures of devices are of all

    @property
    def device(self) -> Device | None:
        """The chosen device, or the first."""
        chosen = [d for d in self.snapshot.devices if d.unique_id == self.state.device]
        return next(iter([*chosen, *self.snapshot.devices]), None)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A page's lines, at most `height` of them, none wider than `width`.

    `targets`: what a click on a line, or on columns of it, does. A target changes the state and
    returns the name of the page to go to, or None to stay.
    """

    lines: list[Line]
    targets: list[Target] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Target:
    """A piece of a line that can be clicked: columns `start` to `stop` (None: to the end)."""

    line: int
    act: Callable[[State], str | None]
    start: int = 0
    stop: int | None = None


class Page(Protocol):
    """One view."""

    @property
    def name(self) -> str:
        """What the tab says."""

    @property
    def keys(self) -> Sequence[tuple[str, str]]:
        """Its own keys, with what they do, for the footer."""

    def details(self, state: State) -> Sequence[str]:
        """The details that it asks the feed for (`Feed.read`)."""

    def draw(self, look: Look) -> Drawn:
        """The picture."""

    def key(self, key: str, look: Look) -> str | None:
        """A key that the frame has no use for ('up', 'down', 'pageup', 'home', 'enter', 's', ...).

        It changes `look.state` and returns the name of the page to go to, or None to stay.
        """

    def help(self) -> Sequence[tuple[str, str]]:
        """Each column or number of the page, and how it is made."""


@runtime_checkable
class Inner(Protocol):
    """A page with a way back inside it."""

    def back(self) -> bool:
        """Esc: one step back within the page; False if there is none."""


@runtime_checkable
class Watcher(Protocol):
    """A page that learns from every picture, also while another page is shown."""

    def watch(self, snapshot: Snapshot) -> None:
        """Takes note of what it wants to remember."""
