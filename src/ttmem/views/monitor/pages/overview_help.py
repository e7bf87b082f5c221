"""How the figures of the Overview are made."""

from __future__ import annotations

HELP = (
    ("HOST", "sums over the devices shown; a capacity only if that of each device is known"),
    ("ID", "the number that applications use; it changes with TT_VISIBLE_DEVICES"),
    ("UNIQUE ID", "the chip; shortened in the middle, never so that two look the same"),
    ("PCI", "address of the card; the domain is left out if it is 0000"),
    ("DRAM used / capacity", "held DRAM buffers / what can be allocated"),
    ("L1 used / capacity", "L1 + L1_SMALL + CB / what can be allocated; kernel code is not in it"),
    ("█ L1", "held L1 buffers: reserved bytes where they are known, else requested ones"),
    ("▓ L1_SMALL", "held buffers of the small region"),
    ("▒ CB", "circular buffers: 'cached' where addresses are known, else 'demand'; mixed: both"),
    ("CB resident", "what lies there now: the last dispatched program on each core"),
    ("CB cached", "per core, the union of address ranges over a process's live programs"),
    ("CB demand", "the plain sum; it may exceed L1, because programs share addresses"),
    ("free, largest", "free DRAM and its largest block, where the source tells them"),
    (
        "if no CBs: free",
        "what L1 buffers could take, and in one block, if no program had circular buffers; beside"
        " those that are cached there is less",
    ),
    ("TRACE", "held trace buffers / their region; set apart, not part of DRAM used"),
    ("KERNEL RING", "where kernel code lies while it runs: occupied / capacity, in no sum"),
    ("LAST 5 min", "the highest second of each column, against the capacity; [ and ] change it"),
    ("bars", "green below 75 %, yellow from 75 %, red from 90 %; '!' is more than there is"),
    ("<1%  >99%", "more than nothing; not quite all"),
    ("PROCESSES", "how many are alive, and what they hold together"),
    ("DRAM ... CB", "per process over all its devices, in the measure of the devices' sums"),
    ("AGE", "since the process began; of a dead one, since it died"),
    ("x", "left behind: what a process held when it died; in no sum"),
    ("!", "its client lost events, or has more buffers than it can resend"),
    ("*", "its connection is closed; it keeps its memory until it dies or reports again"),
)
