"""The bench: an environment with stock ttnn, machines that are mocked, sessions that run snippets there."""
