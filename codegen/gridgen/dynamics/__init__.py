"""The algorithms of rigid-body dynamics, each once, over any scalar.

Their arguments have the same names everywhere:

    tree     the robot
    q        joint positions, nq scalars [rad or m]
    qd       joint velocities, nv scalars [rad/s or m/s]
    qdd      joint accelerations, nv scalars [rad/s^2 or m/s^2]
    tau      joint torques and forces, nv scalars [N m or N]
    dt       length of a time step, one scalar [s]
    gravity  acceleration of free fall, in the base [m/s^2]
    base     motion of the base and gravity
    f_ext    wrench (f, n) on every body in its link's frame, 6 scalars each [N, N m]
    scalars  the kind of number
"""
