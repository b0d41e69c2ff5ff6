"""``python -m gridgen.papers``."""

import sys

from gridgen.papers.command import main

sys.exit(main())
