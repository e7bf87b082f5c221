"""The demo: scripted workloads that report through the real client, until the runtime model takes their place."""
