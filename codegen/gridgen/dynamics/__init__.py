"""Algorithms of rigid-body dynamics, each written once for all scalar types.

Arguments have the same names in all modules:

    tree:     the robot
    q:        joint positions, nq scalars [rad or m]
    qd:       joint velocities, nv scalars [rad/s or m/s]
    qdd:      joint accelerations, nv scalars [rad/s^2 or m/s^2]
    tau:      joint torques and forces, nv scalars [N m or N]
    dt:       length of a time step, one scalar [s]
    gravity:  gravitational acceleration, in the base frame [m/s^2]
    base:     motion of the base and gravity
    f_ext:    external wrench (f, n) on every body in its link's frame, 6 scalars each [N, N m]
    scalars:  the type of number
"""
