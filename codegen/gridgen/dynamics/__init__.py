"""Algorithms of rigid-body dynamics, each written once for all scalar types.

Arguments have the same names in all modules:

    state:    the robot, its positions, velocities, base motion and external wrenches (``State``)
    qdd:      joint accelerations, nv scalars [rad/s^2 or m/s^2]
    tau:      joint torques and forces, nv scalars [N m or N]
    dt:       length of a time step, one scalar [s]
"""
