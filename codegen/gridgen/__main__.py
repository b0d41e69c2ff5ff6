"""``python -m gridgen``: the command line."""

import sys

from gridgen.commands.main import main

if __name__ == "__main__":
    sys.exit(main())
