"""`python -m ttmem`."""

from ttmem.commands import program

program()
