"""``python -m gridgen.mpi``."""

import sys

from gridgen.mpi.command import main

sys.exit(main())
