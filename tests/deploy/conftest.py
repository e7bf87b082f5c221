"""Processes under the probe, for rules about what only the probe reports."""

from tests.probe.conftest import runtime as runtime
from tests.probe.conftest import watch as watch
