"""A region may hold anything: what cannot be a device is none."""

from __future__ import annotations

from ttmem.events import DeviceDeclaration


def is_plausible(declaration: DeviceDeclaration) -> bool:
    """Would it be taken from a client?"""
    try:
        DeviceDeclaration.from_json(declaration.to_json())
    except ValueError:
        return False
    return True
