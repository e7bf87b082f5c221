"""Pages for browsers: reports of recordings."""
