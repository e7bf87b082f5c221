"""What is wrong on a host, how serious it is, and which command fixes it."""

from ttmem.sources.host import HostFacts, ProbeFacts, RegionFacts
from ttmem.sources.socket.listener import SocketFacts, SocketState

__all__ = ["HostFacts", "ProbeFacts", "RegionFacts", "SocketFacts", "SocketState"]
