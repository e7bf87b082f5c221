"""What is wrong on a host, how serious it is, and which command fixes it."""

from ttmem.clean import Scope, make_plan
from ttmem.doctor.examination import examine
from ttmem.doctor.finding import Finding, Level, document, worst
from ttmem.sources.host import HostFacts, ProbeFacts, RegionFacts, gather
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
    "examine_host",
    "worst",
]


def examine_host(folder: str, socket: str) -> tuple[HostFacts, tuple[Finding, ...]]:
    """This host: regions in that directory, and the server at that socket."""
    facts = gather(folder, socket)
    return facts, examine(facts, make_plan(Scope(folder, socket)))
