"""Faults planted in copies of the sources, and the tests that must find them.

``python tests/mutants.py --share 1/16`` plants every sixteenth fault, runs the tests of its file on
a copy of the working tree, and prints the faults that no test finds. Each fault changes one line:
an index that is off by one, a comparison that includes its end, a stride in place of another, a
barrier or a check left out. Only a fault of a file whose tests pass without it counts.
"""

from __future__ import annotations

import argparse
import csv
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
_PROOFS = ["tests/prove/test_prove.py", "-k"]
#: Files with faults, and the words by which pytest runs their tests.
FILES = {
    "codegen/gridgen/backends/interface.py": [
        "tests/unit/backends/test_interface.py",
        "tests/unit/backends/test_cuda.py",
    ],
    "codegen/gridgen/backends/layouts.py": ["tests/unit/backends/test_interface.py"],
    "codegen/gridgen/backends/cuda/backend.py": ["tests/unit/backends/test_cuda.py"],
    "codegen/gridgen/backends/cache.py": ["tests/unit/backends/test_cache.py"],
    "codegen/gridgen/runtime/arrays/layout.py": [
        "tests/unit/runtime/test_staging.py",
        "tests/unit/runtime/test_arguments.py",
    ],
    "codegen/gridgen/runtime/arrays/staging.py": ["tests/unit/runtime/test_staging.py"],
    "templates/static/gridgen_states.cuh": [
        "tests/numerics/test_rows.py",
        *_PROOFS,
        "mass_matrix or (rollout and bounds) or strays or tiles",
    ],
    "templates/static/gridgen_warp.cuh": [
        "tests/numerics/test_warp.py",
        *_PROOFS,
        "(test_prove and warp) or strays or beside or depend_on_the_batch",
    ],
}
#: Kinds of faults: a pattern in a line, and what takes its place.
KINDS = {
    "end of a range": (r"(?<=[\w)\]] )<(?= [\w(-])", "<="),
    "end of a range, included": (r"(?<=[\w)\]] )<=(?= [\w(-])", "<"),
    "off by one": (r" [+-] 1\b(?![.\d])", ""),
    "stride": (r"\.batch\b", ".component"),
    "barrier": (r"__sync(warp|threads)\(\);", ";"),
    "condition turned": (r"\bif (?!constexpr|not\b)(\(?)(?=\w)", r"if \1not "),
    "check left out": (r"^(\s*)raise \w+\(.*\)$", r"\1pass"),
    "and for or": (r" or ", " and "),
    "remainder for quotient": (r" // ", " % "),
}


class Fault(NamedTuple):
    """A change of one line."""

    file: str
    line: int
    kind: str
    text: str


def faults() -> Iterator[Fault]:
    """Yield all faults."""
    for file in FILES:
        is_python, in_text = file.endswith(".py"), False
        for number, line in enumerate((ROOT / file).read_text("utf-8").splitlines(), 1):
            if is_python and line.count('"""') % 2:
                in_text = not in_text
                continue
            code = line.partition("#" if is_python else "//")[0]
            if in_text or not code.strip() or line.lstrip().startswith(('"""', "#", "//")):
                continue
            for kind, (pattern, new) in KINDS.items():
                if not is_python and kind == "condition turned":
                    pattern, new = r"\bif \((.+?)\)(?= [\w{*]|$)", r"if (!(\1))"
                changed = re.sub(pattern, new, code, count=1)
                found = re.search(pattern, code)
                before = code[: found.start()] if found else ""
                if found and not (before.count('"') % 2 or before.count("'") % 2):  # no message
                    yield Fault(file, number, kind, changed)


def is_found(copy: Path, fault: Fault) -> bool:
    """Return whether a test fails on a copy of the tree with a fault."""
    path = copy / fault.file
    original = path.read_text("utf-8")
    lines = original.splitlines(keepends=True)
    lines[fault.line - 1] = fault.text.rstrip() + "\n"
    path.write_text("".join(lines), "utf-8")
    try:
        return not passes(copy, fault.file)
    finally:
        path.write_text(original, "utf-8")


def passes(copy: Path, file: str) -> bool:
    """Return whether the tests of a file pass on a copy of the tree."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", *FILES[file]]
    paths = os.pathsep.join(filter(None, (f"{copy}/codegen", os.environ.get("PYTHONPATH"))))
    variables = {"PYTHONPATH": paths, "GRIDGEN_CACHE_DIR": f"{copy}/cache"}
    try:
        done = subprocess.run(
            command, cwd=copy, env={**os.environ, **variables}, capture_output=True, timeout=300
        )
    except subprocess.TimeoutExpired:  # a loop without end
        return False
    return done.returncode == 0


def copied(folder: Path) -> Path:
    """Copy the files that git knows, as they are in the working tree."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return folder


def spread(chosen: list[Fault], file: str, count: int) -> list[Fault]:
    """Return some faults of a file, from all of its parts."""
    own = [fault for fault in chosen if fault.file == file]
    return own[:: -(-len(own) // count) or 1]


def tried(chosen: list[Fault]) -> list[tuple[str, int, str, bool]] | None:
    """Return which faults of a file are found; ``None`` if its tests fail without a fault."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        copy = copied(Path(folder))
        if not passes(copy, chosen[0].file):
            return None
        for fault in chosen:
            rows.append((*fault[:3], is_found(copy, fault)))
            if not rows[-1][-1]:
                print(
                    f"not found: {fault.file}:{fault.line}: {fault.kind}: {fault.text}", flush=True
                )
    return rows


def main() -> int:
    """Plant a share of the faults; print the score of each file, and the faults not found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", default="1/1", help="which of how many equal shares: 1/16")
    parser.add_argument("--each", type=int, help="largest number of faults of each file")
    parser.add_argument("--output", type=Path, help="a CSV file for the results")
    arguments = parser.parse_args()
    number, shares = map(int, arguments.share.split("/"))
    chosen = [fault for i, fault in enumerate(faults()) if i % shares == (number - 1) % shares]
    if arguments.each:
        chosen = [fault for file in FILES for fault in spread(chosen, file, arguments.each)]
    by_file = [[f for f in chosen if f.file == file] for file in {f.file: 0 for f in chosen}]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(tried, by_file))
    rows = [row for result in results for row in result or ()]
    for of_file, result in zip(by_file, results, strict=True):
        if result is None:
            print(f"{of_file[0].file}: its tests fail without a fault")
    planted = Counter(file for file, *_ in rows)
    found = Counter(file for file, *_, is_known in rows if is_known)
    scores = [(file, planted[file], found[file]) for file in FILES if planted[file]]
    scores.append(("all", sum(planted.values()), sum(found.values())))
    for file, count, known in scores:
        print(f"{file}: {known} of {count} faults found")
    if arguments.output:
        with arguments.output.open("w", newline="", encoding="utf-8") as stream:
            csv.writer(stream, lineterminator="\n").writerows(
                (("file", "faults", "found"), *scores)
            )
    return 1 if None in results else 0


if __name__ == "__main__":
    sys.exit(main())
