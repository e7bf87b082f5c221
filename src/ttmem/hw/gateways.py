"""Which MMIO chip a remote chip is reached through."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from ttmem.hw.chips import Link


def find_gateways(
    boards: Mapping[int, int | None], mmio: Iterable[int], links: Iterable[Link]
) -> dict[int, int]:
    """Gateway by remote chip, from each chip's board id. A chip that nothing reaches is left out.

    The driver goes through the MMIO chip of the same board, whatever the cables say; only boards
    without one are reached over links, the nearest MMIO chip first, of equally near the lowest.
    """
    local = set(mmio)
    on_board: dict[int, int] = {}
    for chip in sorted(local):
        board = boards[chip]
        if board is not None:
            on_board.setdefault(board, chip)
    by_link = _nearest_by_link(sorted(local), links)
    gateways: dict[int, int] = {}
    for chip, board in boards.items():
        if chip in local:
            continue
        if board is not None and board in on_board:
            gateways[chip] = on_board[board]
        elif chip in by_link:
            gateways[chip] = by_link[chip]
    return gateways


def _nearest_by_link(sources: list[int], links: Iterable[Link]) -> dict[int, int]:
    neighbours: dict[int, set[int]] = {}
    for link in links:
        neighbours.setdefault(link.chip_a, set()).add(link.chip_b)
        neighbours.setdefault(link.chip_b, set()).add(link.chip_a)
    reached = {source: source for source in sources}
    queue = deque(sources)
    while queue:
        chip = queue.popleft()
        for neighbour in sorted(neighbours.get(chip, ())):
            if neighbour not in reached:
                reached[neighbour] = reached[chip]
                queue.append(neighbour)
    return reached
