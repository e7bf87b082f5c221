"""Random and mutated streams against the decoders, the ledger and the server."""
