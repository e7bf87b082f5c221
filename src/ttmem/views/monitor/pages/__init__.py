"""The views of the monitor, in the order of their digits."""

from __future__ import annotations

from ttmem.views.monitor.pages.buffers import Buffers
from ttmem.views.monitor.pages.cores import Cores
from ttmem.views.monitor.pages.device import DevicePage
from ttmem.views.monitor.pages.events import Events
from ttmem.views.monitor.pages.kernels import Kernels
from ttmem.views.monitor.pages.overview import Overview
from ttmem.views.monitor.state import Page

PAGES: tuple[Page, ...] = (Overview(), DevicePage(), Cores(), Kernels(), Buffers(), Events())
