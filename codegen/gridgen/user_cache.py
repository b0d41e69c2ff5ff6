"""Where things are kept that can always be made again."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER_VARIABLE = "GRIDGEN_CACHE_DIR"


def cache_folder() -> Path:
    """Return the user's cache folder: ``$GRIDGEN_CACHE_DIR``, else the platform's own place."""
    if named := os.environ.get(FOLDER_VARIABLE):
        return Path(named)
    try:
        import platformdirs  # only here: where the folder is named, nobody needs to look for it
    except ImportError:  # of what runs modules no part
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "grid-gen"
    return Path(platformdirs.user_cache_dir("grid-gen"))
