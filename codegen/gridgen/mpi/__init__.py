"""Inverse dynamics of trajectories as a pipeline of processes: ``python -m gridgen.mpi``.

layout      bodies and processes        -> Layout: who computes which bodies of which chain
trajectory  a file                      -> samples; efforts -> a file
machine     processes                   -> the times that the model of the pipeline asks for
stage       a chain, some bodies        -> what a process computes of a block of samples
links       processes                   -> messages between them, by MPI
run         all of these                -> efforts of every sample, in order; rate and latency
"""
