"""The accounts: who holds what. Applies event batches, answers with snapshots."""

from ttmem.ledger.books import Books
from ttmem.ledger.devices import DeviceRecord
from ttmem.ledger.processes import ProcessRecord

__all__ = ["Books", "DeviceRecord", "ProcessRecord"]
