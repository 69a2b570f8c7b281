"""`python -m kraftlog` is the same as `kraftlog`."""

import sys

from kraftlog.cli import main

sys.exit(main())
