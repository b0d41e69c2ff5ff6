"""``grid-gen cache``: show the size of the cache, or clear it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from gridgen.backends.eviction import LIMIT, items, trim
from gridgen.commands.options import Parser, printing
from gridgen.errors import OptionError
from gridgen.user_cache import FOLDER_VARIABLE, named_folder

_TEXT = f"""\
Show the size of the cache of compiled code and source text, or clear it. It is in the user's cache
folder, or in ${FOLDER_VARIABLE}. Above {LIMIT / 1e9:.0f} GB, the least recently used entries are
removed, except those used within the last hour.
"""


def run(arguments: Sequence[str]) -> int:
    """Run the command; return its exit status."""
    with printing():
        options = _parser().parse_args(arguments)
    folder = named_folder()
    if folder is None:
        raise OptionError(f"no home folder, hence no cache; set ${FOLDER_VARIABLE} to a folder")
    found = items(folder)
    size = sum(item.bytes for item in found)
    text = f"{size / 1e6:,.1f} MB in {len(found)} entries of {folder}"
    if options.clear:
        left = trim(folder, 0, grace=0)
        text = f"removed {(size - left) / 1e6:,.1f} MB from {folder}"
        if left:
            text += f"; {left / 1e6:,.1f} MB are in use or cannot be removed"
    with printing():
        print(text)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="grid-gen cache",
        description=_TEXT,
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--size", action="store_true", help="print the size of the cache (default)")
    what.add_argument(
        "--clear",
        action="store_true",
        help="remove compiled code and source text, but not the measurements of grid-gen tune",
    )
    return parser
