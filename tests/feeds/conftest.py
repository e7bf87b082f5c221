"""Processes under the probe, for feeds that read their regions."""

from tests.probe.conftest import runtime as runtime
from tests.probe.conftest import watch as watch
