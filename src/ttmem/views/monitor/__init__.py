"""The live monitor: pages drawn as lines, and the application that shows them."""
