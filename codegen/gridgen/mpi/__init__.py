"""Inverse dynamics of trajectories as a pipeline of processes: ``python -m gridgen.mpi``.

Modules:

- `trajectory`: input and output files.
- `machine`: measured parameters of the pipeline model.
- `stage`: computation of one process.
- `links`: MPI messages between processes.
- `pipeline`: joint torques of all samples, rate and latency.

`gridgen.schedules.pipeline.plan` divides bodies and chains among the processes.
"""
