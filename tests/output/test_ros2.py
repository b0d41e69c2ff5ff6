"""The ROS 2 package of a robot: its controller runs, with stand-ins of ros2_control's classes."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from gridgen.backends.cpu.compiler import host_compiler
from gridgen.backends.cpu.units import FLAGS
from gridgen.commands.main import main
from gridgen.functions.arrays import STANDARD_GRAVITY
from gridgen.model.tree import build_tree
from helpers.robots import OWN, described
from output.test_library import STRICT, USERS, run

PACKAGE = "gripper_control"
GRIPPER = OWN / "gripper.urdf"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package of a robot with mimic joints, slides, and a joint that turns without end."""
    folder = tmp_path_factory.mktemp("package")
    words = ("--functions", "inverse_dynamics", "--output", str(folder), "--quiet")
    assert main([str(GRIPPER), *words, "--ros2", PACKAGE]) == 0
    return folder / PACKAGE


def test_the_controller_computes_torques_of_pinocchio(package: Path, tmp_path: Path) -> None:
    """By references of a controller and by messages; it refuses bad ones; it allocates nothing."""
    from helpers.oracle import Oracle

    compiler = host_compiler()
    if "ziglang" in compiler.command:
        pytest.skip("Zig would build its C++ library first, which takes minutes")
    source = (package / "src" / "controller.cpp").read_text()
    for name in re.findall(r'#include "(.*)"', source):
        if not name.startswith(PACKAGE):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text('#include "ros2_interfaces.hpp"\n')
    includes = (tmp_path, USERS, *(package / name for name in ("include", "src", "gripper")))
    flags = [flag for flag in FLAGS if flag not in ("-fno-exceptions", "-fno-rtti")]
    words = (*compiler.command, *compiler.flags, *flags, *STRICT, f"-DPACKAGE={PACKAGE}")
    words += ("-DGRIDGEN_ONE_STATE", "-DGRIDGEN_ONLY_F64")
    run("cc", "-c", USERS / "watch.c", "-o", tmp_path / "watch.o")
    files = (
        USERS / "ros2_controller.cpp",
        package / "gripper" / "gripper.cpp",
        tmp_path / "watch.o",
    )
    run(*words, *(f"-I{path}" for path in includes), *files, "-pthread", "-o", tmp_path / "run")

    tree = build_tree(described(GRIPPER))
    rng, turns = np.random.default_rng(5), np.array([2 * np.pi, 0.0, 0.0])
    kp, kd, q, qd, q_ref, qd_ref, qdd_ref = x = rng.uniform(0.0, 1.0, (7, tree.nv))
    q_ref += 3 * turns  # the shortest angle
    found = run(tmp_path / "run", input=x.tobytes(), timeout=60)
    damped = -kd * qd
    error = q_ref - 3 * turns - q
    follows = qdd_ref + kd * (qd_ref - qd) + kp * error
    at = damped, damped, follows, damped, follows, follows, damped + kp * error
    state = {"q": q, "qd": qd, "gravity": np.array(STANDARD_GRAVITY)}
    states = {name: np.array([value] * len(at)) for name, value in state.items()}
    states["qdd"] = np.array(at)
    expected = Oracle(tree, GRIPPER).evaluate("inverse_dynamics", states)
    torques = np.frombuffer(found).reshape(expected.shape)
    np.testing.assert_allclose(torques, expected, rtol=1e-12, atol=1e-12)


def test_the_files_of_the_package_agree(package: Path) -> None:
    """Its manifest, its build and its plugin; every file that they name is there."""
    manifest = ET.parse(package / "package.xml").getroot()
    build = (package / "CMakeLists.txt").read_text()
    assert manifest.findtext("name") == PACKAGE == re.findall(r"project\((\w+)", build)[0]
    depends = {one.text for one in manifest if one.tag in ("depend", "buildtool_depend")}
    assert depends == {*re.findall(r"find_package\((\w+) REQUIRED", build.split("cmake_min")[1])}
    plugin = ET.parse(package / "plugin.xml").getroot()
    (controller,) = plugin
    source = (package / "src" / "controller.cpp").read_text()
    exported = (
        f"PLUGINLIB_EXPORT_CLASS({controller.get('type')}, {controller.get('base_class_type')})"
    )
    assert exported in source
    assert plugin.get("path") == PACKAGE
    included = re.findall(r'#include "([\w/.]+)"', source)
    assert {name.split("/")[0] for name in included} <= depends | {PACKAGE}
    assert (package / "include" / PACKAGE / "computed_torque.hpp").is_file()


@pytest.mark.parametrize(
    ("robot", "words", "error"),
    [
        ("gripper", ("--ros2", "gripper"), "--ros2 gripper is the module's name too"),
        ("gripper", ("--ros2", "My-Package"), "not a package's name"),
        ("gripper", ("--ros2", "class"), "not a package's name"),
        ("gripper", ("--ros2", "two__lines"), "not a package's name"),
        ("two_link", ("--ros2", "own", "--functions", "mass_matrix"), "add it to --functions"),
        ("two_link", ("--ros2", "own", "--floating-base"), "has 6 velocities"),
    ],
)
def test_no_package(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    robot: str,
    words: tuple[str, ...],
    error: str,
) -> None:
    """The error says why, and nothing is written."""
    chosen = ("--functions", "inverse_dynamics") if "--functions" not in words else ()
    path, output = str(OWN / f"{robot}.urdf"), ("--output", str(tmp_path / "modules"))
    assert main([path, *output, *chosen, *words]) == 2
    assert error in capsys.readouterr().err
    assert not (tmp_path / "modules").exists()
