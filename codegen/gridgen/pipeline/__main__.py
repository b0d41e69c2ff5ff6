"""``python -m gridgen.pipeline``."""

import sys

from gridgen.pipeline.command import main

sys.exit(main())
