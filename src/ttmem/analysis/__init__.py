"""Questions asked of what was seen: peaks and sizes, what was never freed, why an allocation failed."""
