"""From a URDF to the kinematic tree that everything else works on.

``urdf`` and ``objects`` read a robot into a ``RobotDescription`` (``description``), which says what
the file says; ``tree`` turns it into a ``KinematicTree``, which says what the dynamics needs.
"""
