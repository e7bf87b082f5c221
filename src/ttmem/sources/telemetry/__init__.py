"""Temperature, power, clocks: from sysfs, and from the user-mode driver where it is asked for."""
