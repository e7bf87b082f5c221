"""Esc leads back to where the user was, with the filter that was there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.views.cases import four_devices
from tests.views.monitor.monitors import Clock
from ttmem.views.monitor.live_data import Choice, LiveData, Reading
from ttmem.views.monitor.monitor import Monitor
from ttmem.views.monitor.pages.buffers import BuffersPage
from ttmem.views.monitor.pages.overview import OverviewPage


@pytest.fixture
def monitor() -> Monitor:
    watch = LiveData(Choice(), Clock())
    made = Monitor(lambda: "server", watch, (OverviewPage(), BuffersPage()))
    told = replace(four_devices(), buffers=())
    watch.take([Reading(made.question(), 100.0, told)])
    return made


def press(monitor: Monitor, *keys: str) -> None:
    for key in keys:
        monitor.screen(120, 40)
        monitor.press(key)


def test_escape_after_enter_on_a_process_is_the_overview_with_everybody(monitor: Monitor) -> None:
    press(monitor, "pagedown", "enter")
    assert (monitor.page.name, monitor.state.filter) == ("Buffers", "41235")
    press(monitor, "escape")
    assert (monitor.page.name, monitor.state.filter) == ("Overview", "")


def test_a_filter_of_the_users_own_is_cleared_first(monitor: Monitor) -> None:
    press(monitor, "pagedown", "enter", "/", "1", "enter", "escape")
    assert (monitor.page.name, monitor.state.filter) == ("Buffers", "")
    press(monitor, "escape")
    assert monitor.page.name == "Overview"
