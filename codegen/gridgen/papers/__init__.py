"""Experiments of the papers that grid-gen began with; nothing else imports this package.

Modules:

- `schedules`: kernels of teams that no call of a robot uses, on the teams of the scan schedule:
  two other orders of a scan's sums, the second half of `hybrid`, and the chains of `pipeline`.
- `pipeline`: inverse dynamics of trajectories by two chains of warps.
- `hybrid`: forward dynamics on two processors, with the algorithms of `halves`, and `stream_task`.
- `processes`: inverse dynamics of trajectories by processes that send messages, run by
  ``python -m gridgen.papers``; `stages`, `layout`, `trajectory` are its parts.
- `model`: performance model of a pipeline of two chains.
"""

from gridgen.papers.hybrid import Hybrid
from gridgen.papers.pipeline import Pipeline

__all__ = ["Hybrid", "Pipeline"]
