"""What is on this host, as far as device memory goes: cards, runtimes, regions, sockets, limits."""

from ttmem.sources.host.facts import (
    CardFacts,
    FolderFacts,
    HostFacts,
    ProbeFacts,
    RegionFacts,
    RuntimeUse,
    SocketFacts,
    SocketState,
    Surroundings,
)
from ttmem.sources.host.gathering import gather

__all__ = [
    "CardFacts",
    "FolderFacts",
    "HostFacts",
    "ProbeFacts",
    "RegionFacts",
    "RuntimeUse",
    "SocketFacts",
    "SocketState",
    "Surroundings",
    "gather",
]
