"""Sockets, peers and clients, gone whatever happens."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator

import pytest

from tests.client.peer import MARKER, Peer, PeerProcess
from tests.patience import wait_until
from ttmem.client import AllocationClient, GraphTracker

MakeClient = Callable[..., AllocationClient]
MakePeer = Callable[..., Peer]
MakePeerProcess = Callable[[], PeerProcess]
Settle = Callable[[], None]


@pytest.fixture
def path() -> Iterator[str]:
    """Where peer and client meet; short, because a socket's path must be."""
    with tempfile.TemporaryDirectory(prefix="ttmem") as folder:
        yield f"{folder}/socket"


@pytest.fixture
def make_client(path: str) -> Iterator[MakeClient]:
    clients: list[AllocationClient] = []

    def make(**options: int) -> AllocationClient:
        clients.append(AllocationClient(path, **options))
        return clients[-1]

    yield make
    for client in clients:
        client.close(0)


@pytest.fixture
def client(make_client: MakeClient) -> AllocationClient:
    return make_client()


@pytest.fixture
def tracker(client: AllocationClient) -> GraphTracker:
    tracker = GraphTracker(client)
    tracker.enabled = True
    return tracker


@pytest.fixture
def make_peer(path: str) -> Iterator[MakePeer]:
    peers: list[Peer] = []

    def make(**options: int | str) -> Peer:
        peers.append(Peer(path, **options))  # type: ignore[arg-type]
        return peers[-1]

    yield make
    for peer in peers:
        peer.close()
        assert peer.complaints == []


@pytest.fixture
def peer(make_peer: MakePeer) -> Peer:
    return make_peer()


@pytest.fixture
def make_peer_process(path: str) -> Iterator[MakePeerProcess]:
    processes: list[PeerProcess] = []

    def make() -> PeerProcess:
        processes.append(PeerProcess(path))
        return processes[-1]

    yield make
    for process in processes:
        process.kill()


@pytest.fixture
def settle(client: AllocationClient, peer: Peer) -> Settle:
    """Waits until the peer has seen all that was reported so far."""
    turns = iter(range(1_000_000))

    def wait() -> None:
        turn = next(turns)
        client.report_cache_entries(MARKER, turn)
        wait_until(lambda: peer.has_seen(turn))

    return wait
