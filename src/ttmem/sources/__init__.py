"""Where events come from: one module for each origin. Sources know nothing of accounts."""
