"""Forward dynamics with MuJoCo's soft constraints: contacts, limits, dry friction, equalities.

With the accelerations a0 without constraint forces, the joint accelerations minimize

    1/2 (a - a0)^T M (a - a0) + s(J a - aref)

The convex cost s is quadratic where a limit or a contact acts, and linear where dry friction slips.
Where an elliptic contact slips, it is the squared distance from the dual cone. The forces are its
negative gradient. Newton's method solves it with exact line search (Todorov 2014), in
``scalars.iterate``. H = M + J^T C J has the sparsity of M if all contacts are with the world, which
couple only a body with its ancestors. H = L^T D L is factorized in the order of the tree, without
fill-in; where others couple branches, in that of the elimination tree.

For a row with the distance r and the velocity v, aref = -b v - k d(r) r. The impedance d(r) and
the constants k, b follow from ``solimp`` and ``solref``. The regularizer is
R = (1 - d) / d A, with A the approximate inverse inertia of the row in the reference configuration.

Rows of contacts are computed in the axes of the free joint that carries the robot, which makes
them sparse. MuJoCo's acceleration of a free joint is that of its origin in the world:
a = qdd + w x v there.

Source: MuJoCo's documentation, chapter Computation; Todorov 2014.
"""
