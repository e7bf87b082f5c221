"""The allocation socket: listening, finding out who listens, and one connection."""
