"""The allocation server: the socket source and the ledger, put together in one loop."""
