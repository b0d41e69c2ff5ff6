"""grid-gen: from one robot's URDF file to its fastest rigid-body dynamics code.

    robot = gridgen.load("panda.urdf")
    tau = robot.inverse_dynamics(q, qd, qdd)

Names are imported when they are first used, so that generated modules start quickly.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gridgen.version import __version__

if TYPE_CHECKING:
    from gridgen.batch import Batch
    from gridgen.compiler import generate, load
    from gridgen.control.costs import Cost, TrajectoryCost, trajectory_cost
    from gridgen.control.ilqr import IlqrResult, ilqr
    from gridgen.envs.vector import VectorEnv
    from gridgen.errors import (
        CompileError,
        DeviceError,
        DtypeError,
        GridGenError,
        GridGenWarning,
        InternalError,
        ModelError,
        OptionError,
        ParameterError,
        QuaternionError,
        ShapeError,
        UrdfError,
    )
    from gridgen.functions.worlds import terrain, world
    from gridgen.identification import BaseParameters, base_parameters
    from gridgen.modules import GeneratedModule
    from gridgen.options import GenerateOptions
    from gridgen.robot import Robot
    from gridgen.runtime.calls.bound import Bound
    from gridgen.runtime.log_cholesky import (
        inertia_from_log_cholesky,
        inertia_from_log_cholesky_gradient,
        log_cholesky,
    )
    from gridgen.runtime.parameters import inertia

__all__ = [
    "BaseParameters",
    "Batch",
    "Bound",
    "CompileError",
    "Cost",
    "DeviceError",
    "DtypeError",
    "GenerateOptions",
    "GeneratedModule",
    "GridGenError",
    "GridGenWarning",
    "IlqrResult",
    "InternalError",
    "ModelError",
    "OptionError",
    "ParameterError",
    "QuaternionError",
    "Robot",
    "ShapeError",
    "TrajectoryCost",
    "UrdfError",
    "VectorEnv",
    "__version__",
    "base_parameters",
    "generate",
    "ilqr",
    "inertia",
    "inertia_from_log_cholesky",
    "inertia_from_log_cholesky_gradient",
    "load",
    "log_cholesky",
    "terrain",
    "trajectory_cost",
    "world",
]

_HOMES = {
    "BaseParameters": "gridgen.identification",
    "Batch": "gridgen.batch",
    "Bound": "gridgen.runtime.calls.bound",
    "Cost": "gridgen.control.costs",
    "GenerateOptions": "gridgen.options",
    "GeneratedModule": "gridgen.modules",
    "IlqrResult": "gridgen.control.ilqr",
    "Robot": "gridgen.robot",
    "TrajectoryCost": "gridgen.control.costs",
    "VectorEnv": "gridgen.envs.vector",
    "base_parameters": "gridgen.identification",
    "generate": "gridgen.compiler",
    "ilqr": "gridgen.control.ilqr",
    "inertia": "gridgen.runtime.parameters",
    "inertia_from_log_cholesky": "gridgen.runtime.log_cholesky",
    "inertia_from_log_cholesky_gradient": "gridgen.runtime.log_cholesky",
    "load": "gridgen.compiler",
    "log_cholesky": "gridgen.runtime.log_cholesky",
    "terrain": "gridgen.functions.worlds",
    "world": "gridgen.functions.worlds",
    "trajectory_cost": "gridgen.control.costs",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES.get(name, "gridgen.errors")
    try:
        return getattr(import_module(home), name)
    except ModuleNotFoundError as error:
        if error.name != home:
            raise
        raise ModuleNotFoundError(
            f"gridgen-runtime has no gridgen.{name}, it only runs existing modules: "
            "pip install grid-gen",
            name=home,
        ) from None


def __dir__() -> list[str]:
    return sorted(__all__)
