"""`python -m ttmem`."""

import sys

from ttmem.commands import main

sys.exit(main())
