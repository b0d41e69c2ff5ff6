"""Makes the helper modules of this folder importable from every test, in any import mode."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
