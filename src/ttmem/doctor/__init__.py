"""What is wrong on a host, how serious it is, and which command fixes it."""

from ttmem.doctor.examination import examine
from ttmem.doctor.finding import Finding, Level, document, worst
from ttmem.sources.host import HostFacts, ProbeFacts, RegionFacts
from ttmem.sources.socket.knock import SocketFacts, SocketState

__all__ = [
    "Finding",
    "HostFacts",
    "Level",
    "ProbeFacts",
    "RegionFacts",
    "SocketFacts",
    "SocketState",
    "document",
    "examine",
    "worst",
]
