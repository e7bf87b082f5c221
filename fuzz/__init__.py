"""Random and mutated streams and regions against decoders, ledger, server and sources."""
