"""Robot file -> kinematic tree.

The readers return a ``RobotDescription`` (``description``), which represents the file. ``tree``
converts it to a ``KinematicTree``, which represents the robot for dynamics.
"""
