"""The accounts: who holds what. Applies event batches, answers with snapshots."""

from ttmem.ledger.books import Books
from ttmem.ledger.device_record import DeviceRecord
from ttmem.ledger.process_record import ProcessRecord

__all__ = ["Books", "DeviceRecord", "ProcessRecord"]
