"""`make chaos`: faults of many kinds, one round after the other, and every total compared with an oracle of its own."""
