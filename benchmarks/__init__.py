"""Programs that print ratios against a limit, or against a peer measured in the same run."""
