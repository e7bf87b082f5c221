"""The counters that stock ttnn publishes in /dev/shm, one file for each device."""
