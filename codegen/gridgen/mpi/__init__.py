"""Inverse dynamics of trajectories as a pipeline of processes: ``python -m gridgen.mpi``.

Modules:

- `layout`: assignment of bodies and chains to processes.
- `trajectory`: input and output files.
- `machine`: measured parameters of the pipeline model.
- `stage`: computation of one process.
- `links`: MPI messages between processes.
- `run`: joint torques of all samples, rate and latency.
"""
