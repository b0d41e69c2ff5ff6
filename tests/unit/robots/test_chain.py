"""robots/chain.py: the robots are those asked for, loadable, physical and reproducible."""

import hashlib
import importlib.util
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pinocchio
import pytest

from gridgen.model.readers.urdf import parse_urdf
from gridgen.model.tree import build_tree

SCRIPT = Path(__file__).resolve().parents[3] / "robots" / "chain.py"

# Pinocchio's Data holds four nv^3 arrays (0.9 GB at 300), so that larger robots are only loaded.
SIZES = [1, 2, 33, 300, 1000]


def load_chain():
    specification = importlib.util.spec_from_file_location("chain", SCRIPT)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


chain = load_chain()


def run_script(*arguments, hash_seed="0"):
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
    )


def joints_of(text, *kinds):
    joints = ElementTree.fromstring(text.encode()).iter("joint")
    return [joint for joint in joints if joint.get("type") in kinds]


def children_of(text):
    """Return how many moving children every link has; brackets count for the link they hang on."""
    hangers = {
        joint.find("child").get("link"): joint.find("parent").get("link")
        for joint in joints_of(text, "fixed")
    }
    parents = [
        joint.find("parent").get("link")
        for joint in joints_of(text, "revolute", "continuous", "prismatic")
    ]
    return Counter(hangers.get(parent, parent) for parent in parents)


@pytest.mark.parametrize("bodies", SIZES)
def test_pinocchio_loads_a_serial_chain(bodies):
    model = pinocchio.buildModelFromXML(chain.serial_chain(bodies, 3))
    assert model.nv == bodies
    assert list(model.parents)[1:] == list(range(bodies))


@pytest.mark.parametrize("max_children", [1, 2, 6])
@pytest.mark.parametrize("bodies", SIZES)
def test_pinocchio_loads_a_tree_of_bounded_degree(bodies, max_children):
    text = chain.random_tree(bodies, 3, max_children, branching=0.9)
    model = pinocchio.buildModelFromXML(text)
    assert model.nv == bodies
    degree = max(children_of(text).values())
    assert degree == max(Counter(list(model.parents)[1:]).values())
    assert degree <= max_children
    if bodies >= 300:
        assert degree == max_children


@pytest.mark.parametrize("bodies", SIZES)
@pytest.mark.parametrize("kind", ["chain", "tree", "floating"])
def test_gridgen_loads_it_without_a_warning(kind, bodies):
    if kind == "chain":
        text = chain.serial_chain(bodies, 5)
    else:
        text = chain.random_tree(bodies, 5, 6, floating=kind == "floating")
    tree = build_tree(parse_urdf(text))
    assert tree.nv == bodies + 6 * (kind == "floating")
    assert tuple(tree.joint_names) == tuple(pinocchio.buildModelFromXML(text).names)[1:]
    assert kind != "chain" or tree.is_serial


def test_a_chain_of_100_bodies_is_numerically_sane():
    model = pinocchio.buildModelFromXML(chain.serial_chain(100, 3))
    data = model.createData()
    rng = np.random.default_rng(0)
    q = pinocchio.integrate(model, pinocchio.neutral(model), rng.uniform(-1, 1, model.nv))
    qd, qdd = rng.uniform(-1, 1, (2, model.nv))
    tau = pinocchio.rnea(model, data, q, qd, qdd).copy()
    # The condition number of the mass matrix is about 1e6.
    np.testing.assert_allclose(pinocchio.aba(model, data, q, qd, tau), qdd, atol=1e-8)


def test_a_floating_root_joint_adds_six_velocities():
    text = chain.serial_chain(7, 0, floating=True)
    model = pinocchio.buildModelFromXML(text)
    assert model.nv == 7 + 6
    assert len(joints_of(text, "floating")) == 1


@pytest.mark.parametrize("floating", [False, True])
def test_the_base_has_a_mass(floating):
    text = chain.serial_chain(2, 0, floating=floating)
    base = ElementTree.fromstring(text.encode()).find("link[@name='base']")
    assert float(base.find("inertial/mass").get("value")) > 0.0


def test_shares_are_kept():
    text = chain.serial_chain(1000, 1, prismatic=0.2, continuous=0.3, fixed=0.4)
    assert len(joints_of(text, "prismatic")) == pytest.approx(200, abs=60)
    assert len(joints_of(text, "continuous")) == pytest.approx(300, abs=60)
    assert len(joints_of(text, "fixed")) == pytest.approx(400, abs=60)
    only = chain.random_tree(50, 1, prismatic=1.0, continuous=0.0)
    assert len(joints_of(only, "prismatic")) == 50


def test_no_skew_leaves_coordinate_axes_and_full_skew_none():
    def aligned(text):
        axes = ElementTree.fromstring(text.encode()).iter("axis")
        return [axis.get("xyz").split().count("0") == 2 for axis in axes]

    assert all(aligned(chain.serial_chain(40, 2, skew=0.0)))
    assert not any(aligned(chain.serial_chain(40, 2, skew=1.0)))


def test_branching_sets_the_depth():
    def depth(text):
        return max(len(path) for path in pinocchio.buildModelFromXML(text).supports) - 1

    assert depth(chain.random_tree(200, 4, 3, branching=0.0)) == 200
    assert depth(chain.random_tree(200, 4, 3, branching=1.0)) < 30


def test_inertias_are_physical():
    text = chain.random_tree(300, 8)
    inertials = list(ElementTree.fromstring(text.encode()).iter("inertial"))
    assert len(inertials) > 300
    for inertial in inertials:
        assert float(inertial.find("mass").get("value")) > 0.0
        ixx, ixy, ixz, iyy, iyz, izz = (float(x) for x in inertial.find("inertia").attrib.values())
        small, middle, large = np.linalg.eigvalsh(
            [[ixx, ixy, ixz], [ixy, iyy, iyz], [ixz, iyz, izz]]
        )
        assert small > 0.0
        assert large < small + middle


def test_the_same_seed_gives_the_same_text_everywhere():
    text = chain.random_tree(20, 7, 4)
    assert chain.random_tree(20, 7, 4) == text
    assert chain.random_tree(20, 8, 4) != text
    # A new digest means that every random robot of every test and benchmark has changed.
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "55093e6ff0a09eaf"


@pytest.mark.parametrize("hash_seed", ["0", "4242"])
def test_the_command_prints_what_the_functions_return(hash_seed):
    serial = run_script("--bodies", "9", "--seed", "3", hash_seed=hash_seed)
    assert serial.stdout == chain.serial_chain(9, 3)
    options = ("--tree", "--max-children", "2", "--prismatic", "0.5", "--floating", "--name", "a&b")
    tree = run_script("--bodies", "9", "--seed", "3", *options, hash_seed=hash_seed)
    expected = chain.random_tree(9, 3, 2, prismatic=0.5, floating=True, name="a&b")
    assert tree.stdout == expected
    assert ElementTree.fromstring(expected.encode()).get("name") == "a&b"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bodies": 0}, "bodies is 0"),
        ({"bodies": 3, "max_children": 0}, "max_children is 0"),
        ({"bodies": 3, "skew": 1.5}, "skew is 1.5"),
        ({"bodies": 3, "branching": -0.1}, "branching is -0.1"),
        ({"bodies": 3, "prismatic": 0.75, "continuous": 0.5}, r"prismatic \+ continuous is 1.25"),
    ],
)
def test_arguments_out_of_range_are_refused_with_their_value(arguments, message):
    with pytest.raises(ValueError, match=message):
        chain.random_tree(seed=0, **arguments)


def test_the_command_refuses_them_without_a_traceback():
    result = run_script("--bodies", "0")
    assert result.returncode == 2
    assert "bodies is 0; it must be >= 1" in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
