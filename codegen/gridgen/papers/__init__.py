"""Experiments of the papers that grid-gen began with; nothing else imports this package.

Modules:

- `schedules`: kernels of teams that no call of a robot uses, on the teams of the scan schedule.
- `pipeline`: inverse dynamics of trajectories by two chains of warps.
- `hybrid`: forward dynamics on two processors.
- `command`: inverse dynamics of trajectories by processes that send messages, run by
  ``python -m gridgen.papers``; `processes`, `stages`, `layout`, `trajectory` are its parts.
- `model`: performance model of a pipeline of two chains.
"""

from gridgen.papers.pipeline import Pipeline

__all__ = ["Pipeline"]
