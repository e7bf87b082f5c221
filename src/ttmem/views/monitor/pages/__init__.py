"""The views of the monitor, in the order of their digits."""

from __future__ import annotations

from ttmem.views.monitor.pages.buffers import BuffersPage
from ttmem.views.monitor.pages.cores import CoresPage
from ttmem.views.monitor.pages.device import DevicePage
from ttmem.views.monitor.pages.events import EventsPage
from ttmem.views.monitor.pages.kernels import KernelsPage
from ttmem.views.monitor.pages.overview import OverviewPage
from ttmem.views.monitor.state import Page

PAGES: tuple[Page, ...] = (
    OverviewPage(),
    DevicePage(),
    CoresPage(),
    KernelsPage(),
    BuffersPage(),
    EventsPage(),
)
