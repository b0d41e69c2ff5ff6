"""What a user writes, for a type checker: each comment says that a checker refuses its line."""

import numpy as np
from generated import two_link
from numpy.typing import NDArray

import gridgen

robot = gridgen.load("two_link.urdf", floating_base=False, backend="cpu")
q: NDArray[np.float32] = np.zeros((3, robot.nq), dtype=np.float32)
tau: NDArray[np.float32] = robot.inverse_dynamics(q, q, q, gravity=[0, 0, -9.81])
single = robot.forward_dynamics([0.1, 0.2], (0, 0), [[1.0, 2.0]], method="cfa", schedule="scan")
dq, dqd = robot.inverse_dynamics_gradient(q, q, q, out=(tau, tau))
J = two_link.robot.jacobian(q, "forearm", "world", backend="emulated", out=tau)
bound: gridgen.Bound = two_link.bind("inverse_dynamics", q, q, q, out=tau)
energy: float = two_link.kinetic_energy(q, q).sum() + two_link.robot.total_mass
options = gridgen.GenerateOptions(functions=("mass_matrix",), frames=("forearm",))

robot.forward_dynamics(q, q, q, method="nonsense")  # type: ignore[arg-type]
two_link.forward_dynamics(q, q, q, method="nonsense")  # type: ignore[arg-type]
robot.mass_matrix(q, schedule="cfa")  # type: ignore[arg-type]
robot.mass_matrix("q")  # type: ignore[arg-type]
two_link.mass_matrix("q")  # type: ignore[arg-type]
two_link.mass_matrix(["1", "2"])  # type: ignore[arg-type]
robot.inverse_dynamics(q, q, None)  # type: ignore[arg-type]
robot.inverse_dynamics(q, q, q, gravity="down")  # type: ignore[arg-type]
robot.mass_matrix(q, backend="gpu")  # type: ignore[arg-type]
robot.mass_matrix(q, out=[0.0])  # type: ignore[arg-type]
robot.jacobian(q, "forearm", "base")  # type: ignore[arg-type]
robot.bind("neutral")  # type: ignore[arg-type]
robot.integrate("q", q)  # type: ignore[arg-type]
gridgen.load("two_link.urdf", backend="gpu")  # type: ignore[arg-type]
gridgen.GenerateOptions(functions=("mass_matrx",))  # type: ignore[arg-type]
robot.inverse_dynamic(q, q, q)  # type: ignore[attr-defined]
