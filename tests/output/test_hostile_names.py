r"""Nothing that a URDF calls a thing can become code.

A robot is generated twice, once with harmless names. Take comments, strings and the spelling of
identifiers away, and the same text must be left: whatever a name tried to add would remain.
"""

from __future__ import annotations

import importlib.util
import io
import json
import re
import subprocess
import sys
import tokenize
import warnings
from collections.abc import Iterator
from dataclasses import replace
from html import escape
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import gridgen
from gridgen.backends import Sources
from gridgen.backends.cache import BuildCache
from gridgen.backends.cpu.compiler import host_compiler
from gridgen.backends.cuda.compiler import compile_kernel
from gridgen.compiler import read_tree
from gridgen.dynamics.functions import frame_idents
from gridgen.functions.types import REFERENCES
from gridgen.kernel import KernelKey
from gridgen.naming import robot_ident
from gridgen.options import DEFAULT_FUNCTIONS
from helpers.robots import exhaustive, link_text

# Serial chains: where there are no siblings, names do not decide the order of joints.
NAMES = {
    "code": [
        'x"); system("touch evil_file"); //',
        "x */ int evil_file; /*",
        "x'''; import os; os.system('touch evil_file'); '''",
        'x"""; import os; os.system("touch evil_file"); """',
        "x; } } namespace evil_file { int y; //",
        "ends with a backslash\\",
        "trigraph ??/",
    ],
    "templates": [
        "{{ 7 * 7 }}",
        "{% raise %}",
        "{# comment",
        "%s%n%d",
        "{0.__class__}",
        "${HOME}",
        "#include </etc/passwd>",
        "#define T float",
    ],
    "words": ["for", "class", "None", "double", "template", "threadIdx", "std", "sin", "q", "R"],
    "collisions": ["left-arm", "left_arm", "left arm", "left.arm", "Left_arm", "t0", "t1", "c_a"],
    "alphabets": ["\u5de6\u8155", "caf\u00e9", "\u0430rm", "\u202eevil", "a\u0301", "\U0001f600"],
    "layout": [" a", "b ", "c  c", "\u3000d", "e\xa0e", "coding: utf-7", "coding=utf-7"],
    "lengths": ["a" * 10_000, "b" * 9_999 + '"', "-" * 300, "_", "0", "__init__"],
    "paths": ["../../evil_file", "/etc/passwd", "C:\\evil", "con", "~", "file://x"],
}


def robot_text(robot: str, names: list[str], joint_prefix: str = "") -> str:
    """Return the URDF of a chain whose links and joints have these names."""

    def quoted(name: str) -> str:
        text = escape(name, quote=True)
        return re.sub(r"[\t\n\r]", lambda found: f"&#{ord(found[0])};", text)

    parts = [f'<robot name="{quoted(robot)}">', link_text("base")]
    for parent, child in zip(["base", *names], names, strict=False):
        parts += [
            link_text(quoted(child)),
            f'<joint name="{quoted(joint_prefix + child)}" type="revolute">'
            f'<origin xyz="0.1 0 0.2" rpy="0.3 0 0"/><parent link="{quoted(parent)}"/>'
            f'<child link="{quoted(child)}"/><axis xyz="0 1 0"/>'
            '<limit lower="-1" upper="1" effort="10" velocity="2"/></joint>',
        ]
    return "\n".join([*parts, "</robot>\n"])


def generate(text: str, folder: Path, frames: list[str]) -> gridgen.GeneratedModule:
    folder.mkdir()
    urdf = folder / "robot.urdf"
    urdf.write_text(text, encoding="utf-8")
    options = gridgen.GenerateOptions(
        output=folder / "out",
        name="robot",
        functions=("inverse_dynamics", "mass_matrix", "forward_kinematics"),
        frames=tuple(frames[:2]),  # whose names are in those of functions
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*xacro expression", gridgen.GridGenWarning)
        return gridgen.generate(urdf, options)


def c_skeleton(text: str) -> list[str]:
    """Return the tokens of C++ text, identifiers and strings alike replaced by a letter."""
    pattern = r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|[A-Za-z_]\w*|\.?\d(?:[\w.]|[eE][+-])*|\S'
    tokens = re.findall(pattern, text, flags=re.DOTALL)
    return [
        "S" if token[0] == '"' else "I" if token[0].isalpha() or token[0] == "_" else token
        for token in tokens
        if not token.startswith(("//", "/*"))
    ]


def python_skeleton(text: str) -> list[str]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [
        "S" if token.type == tokenize.STRING else token.string
        for token in tokens
        if token.type not in (tokenize.COMMENT, tokenize.NL)
    ]


def imported(module: gridgen.GeneratedModule):
    spec = importlib.util.spec_from_file_location("hostile", module.folder / "__init__.py")
    result = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(result)
    return result


# Names that no one wants, and that break what they are printed in.
REFUSED = ["", "  ", "\t", "a\nb", "a\r\nimport os", "a\x85b", "a\u2028b", "a\x7f"]


@pytest.fixture(params=NAMES, scope="module")
def names(request):
    return NAMES[request.param]


@pytest.fixture(scope="module")
def harmless(names, tmp_path_factory):
    plain = [f"part{chr(ord('a') + i)}" for i in range(len(names))]
    text = robot_text("robot", plain, "joint_")
    return generate(text, tmp_path_factory.mktemp("names") / "harmless", plain)


@pytest.fixture(scope="module")
def hostile(names, tmp_path_factory):
    return generate(
        robot_text(names[0], names), tmp_path_factory.mktemp("names") / "hostile", names
    )


def test_names_add_nothing_to_the_code(harmless, hostile):
    assert harmless.files.keys() == hostile.files.keys()
    for name, text in hostile.files.items():
        plain = harmless.files[name]
        assert text.isascii(), name
        if name.endswith(".py"):
            assert python_skeleton(text) == python_skeleton(plain), name
        elif name != "model.json":
            assert c_skeleton(text) == c_skeleton(plain), name


def test_names_reach_the_user_as_they_are(names, hostile):
    model = json.loads(hostile.files["model.json"])
    assert model["joint_names"] == names
    assert imported(hostile).robot.body_names == tuple(names)


def test_the_module_computes_what_the_harmless_one_does(names, harmless, hostile):
    state = np.random.default_rng(0).normal(size=(3, 5, len(names)))
    expected = imported(harmless).inverse_dynamics(*state)
    np.testing.assert_array_equal(imported(hostile).inverse_dynamics(*state), expected)
    assert not [*hostile.folder.parents[1].rglob("*evil*")]
    assert not Path("evil_file").exists()


@pytest.mark.parametrize("name", REFUSED)
def test_names_of_many_lines_or_of_nothing_are_refused(name, tmp_path):
    with pytest.raises(gridgen.UrdfError, match="name") as caught:
        generate(robot_text("robot", [name], "joint_"), tmp_path / "refused", [])
    assert str(caught.value).isprintable()
    assert not (tmp_path / "refused" / "out").exists()


@pytest.mark.parametrize(
    "name", ["../../evil", "/tmp/evil", "a/b", "..", "", "con", "class", "x" * 5000, "\u5de6", "\n"]
)
@pytest.mark.parametrize("source", ["robot", "option"])
def test_no_name_leads_out_of_the_output_folder(name, source, tmp_path):
    text = robot_text(escape(name) if source == "robot" and name.strip() else "robot", ["arm"])
    urdf = tmp_path / "in.urdf"
    urdf.write_text(text, encoding="utf-8")
    output = tmp_path / "a" / "out"
    given = name if source == "option" else None
    options = gridgen.GenerateOptions(output=output, name=given, functions=("gravity_forces",))
    module = gridgen.generate(urdf, options)
    assert module.folder.parent == output
    assert module.folder.name.isidentifier()
    assert module.folder.name not in sys.builtin_module_names
    assert sorted(tmp_path.rglob("model.json")) == [module.folder / "model.json"]


STAND_IN = "name_of_the_robot"
HEADERS = Path(__file__).parents[2] / "templates" / "static"
# Words of the generator, of C++, of the C library and of CUDA.
WORDS = """
T S simd scan cfa q qd R In Out gridgen GRIDGEN_DEVICE gridgen_math x y z data operator main std int
size_t time link read index signal div y0 nan gamma clock64 float4 dim3 cudaError_t tex2D norm EOF
BUFSIZ errno assert stdin int32_t EM_ARM M_PI Python numpy emulated unit kernel EXPORT
""".split()


@pytest.fixture(scope="module")
def pendulum(tmp_path_factory):
    """The files of a robot with kernels of every schedule."""
    urdf = tmp_path_factory.mktemp("pendulum") / "robot.urdf"
    urdf.write_text(robot_text(STAND_IN, ["arm"]), encoding="utf-8")
    functions = (*DEFAULT_FUNCTIONS, "inverse_dynamics_second_order")
    options = gridgen.GenerateOptions(output=urdf.parent / "out", functions=functions)
    made = gridgen.generate(urdf, options)
    return dict(made.sources(next(iter(made.kernels.by_name.values()))).files)


def identifiers(texts) -> list[str]:
    """Return identifiers of robots that are called as anything in these texts is, or in headers."""
    code = [re.sub("//[^\n]*", "", text) for text in texts]
    found = {word for text in code for word in re.findall(r"[A-Za-z]\w*", text)}
    return sorted({robot_ident(word) for word in [*found, *WORDS]} - {STAND_IN})


def namespaces(pendulum) -> str:
    """Return namespaces called as anything is in generated code and in the headers behind it."""
    texts = [*pendulum.values(), *(path.read_text() for path in HEADERS.iterdir())]
    return "".join(f"namespace {name} {{ struct Probe; }}\n" for name in identifiers(texts))


def renamed(pendulum, name: str) -> dict[str, str]:
    return {
        file.replace(STAND_IN, name): text.replace(STAND_IN, name)
        for file, text in pendulum.items()
        if STAND_IN in file
    }


def headers_alike(pendulum) -> dict[str, str]:
    return {file: text for file, text in pendulum.items() if file.startswith("gridgen_")}


@pytest.fixture
def syntax_of(syntax_only):
    def check(text: str, folder: Path, *flags: str) -> None:
        (folder / "unit.cpp").write_text(text)
        compiler = host_compiler()
        words = (*compiler.command, *compiler.flags, *syntax_only, "-march=native", *flags)
        command = (*words, f"-I{HEADERS}", "unit.cpp")
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr[:4000]

    return check


def preprocessed(text: str) -> str:
    """Return a text with the host's headers that it includes."""
    command = (*host_compiler().command, "-std=c++20", "-E", "-P", f"-I{HEADERS}", "-x", "c++", "-")
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


CPU = ("-std=c++17", "-Wall", "-Wextra", "-Werror")
EMULATED = ("-std=c++17", "-w")  # pragmas that only CUDA knows


ONLY = "#define GRIDGEN_ONLY\n#define GRIDGEN_ONLY_inverse_dynamics\n"


@pytest.mark.parametrize("share", [3, *exhaustive(1)])
def test_robots_may_be_called_as_anything_in_their_own_code_is(
    pendulum, syntax_of, tmp_path, share
):
    """As all of it, or as a part."""
    lines = []
    own = {file: text for file, text in pendulum.items() if file.endswith((".cuh", "simd.h"))}
    for name in identifiers(text for file, text in own.items() if STAND_IN in file)[::share]:
        # In a folder of its own: files of several robots may have one name.
        (tmp_path / name).mkdir()
        for file, text in renamed(pendulum, name).items():
            (tmp_path / name / file).write_text(text)
        array = "const gridgen::Array*, gridgen::int64, gridgen::int64, gridgen::int64"
        entry = f"::{name}::simd::inverse_dynamics<float>({array})"
        lines += [f'#include "{name}/{name}_simd.h"', f"template bool {entry};"]
    syntax_of("\n".join([ONLY, *lines, ""]), tmp_path, *CPU)


@pytest.mark.parametrize("target", ["cpu", "emulated", "cuda"])
def test_a_robot_may_be_called_as_anything_in_any_header_is(pendulum, syntax_of, tmp_path, target):
    files = renamed(pendulum, "arm") | headers_alike(pendulum)
    for file, text in files.items():
        (tmp_path / file).write_text(text)
    around = namespaces(pendulum)
    if target == "cpu":
        syntax_of(f'{around}#include "arm_simd.h"\n{around}', tmp_path, *CPU)
    elif target == "emulated":
        text = f'{around}#include "emulated_cuda.h"\n#include "arm.cu"\n'
        behind = set(re.findall(r"\b[A-Za-z]\w*", preprocessed('#include "emulated_cuda.h"')))
        names = sorted({robot_ident(name) for name in behind if "__" not in name})
        behind = "".join(f"#undef {name}\nnamespace {name} {{ struct Probe; }}\n" for name in names)
        syntax_of(f"{text}{behind}", tmp_path, *EMULATED)
    else:
        pytest.importorskip("cupy")
        files["arm.cu"] = f"{around}{files['arm.cu']}{around}"
        compile_kernel(
            Sources("arm", files), "inverse_dynamics", "float32", "sm_80", BuildCache(tmp_path)
        )


@pytest.mark.parametrize("name", ["T", "S", "simd", "float4", "link", "EXPORT", "gridgen_math"])
def test_a_robot_of_any_name_computes(name, tmp_path):
    urdf = tmp_path / "robot.urdf"
    urdf.write_text(robot_text(name, ["arm"]), encoding="utf-8")
    robot = gridgen.load(urdf, backend="cpu")
    expected = gridgen.load(robot_text("robot", ["arm"]), backend="cpu")
    q = np.array([[0.3]])
    np.testing.assert_array_equal(robot.mass_matrix(q), expected.mass_matrix(q))


@pytest.fixture
def neighbors(pendulum, tmp_path):
    """Two robots in folders of their own; return the text that includes a file of each."""
    for name in ("arm", "arm_scan"):
        (tmp_path / name).mkdir()
        for file, text in {**renamed(pendulum, name), **headers_alike(pendulum)}.items():
            (tmp_path / name / file).write_text(text)

    def including(suffix: str) -> str:
        names = ("arm", "arm_scan", "arm")
        return "".join(f'#include "{name}/{name}{suffix}"\n' for name in names)

    return including


@pytest.mark.parametrize("suffix", [".cuh", "_simd.h"])
def test_robots_from_folders_of_their_own_meet_in_one_unit(neighbors, syntax_of, suffix, tmp_path):
    syntax_of(neighbors(suffix), tmp_path, *CPU)


@pytest.mark.parametrize("suffix", [".cuh", "_scan.cuh", "_cfa.cuh"])
def test_robots_from_folders_of_their_own_meet_in_one_program(neighbors, suffix, tmp_path):
    pytest.importorskip("cupy")
    from cupy_backends.cuda.libs import nvrtc

    program = nvrtc.createProgram(neighbors(suffix), "unit.cu", (), ())
    options = (f"-I{tmp_path}", "--std=c++17", "--gpu-architecture=sm_80")
    try:
        nvrtc.compileProgram(program, options)
    except nvrtc.NVRTCError:
        pytest.fail(nvrtc.getProgramLog(program)[:4000])
    finally:
        nvrtc.destroyProgram(program)


def test_robots_of_different_versions_do_not_mix(pendulum, syntax_of, tmp_path):
    (tmp_path / "old.cuh").write_text("#define GRIDGEN_VERSION 1\n")
    (tmp_path / "arm.cuh").write_text(renamed(pendulum, "arm")["arm.cuh"])
    with pytest.raises(AssertionError, match="one version of grid-gen"):
        syntax_of('#include "old.cuh"\n#include "arm.cuh"\n', tmp_path, *CPU)


#: Links called as what follows a link in the name of a kernel.
WORDS_OF_KERNELS = [
    *("hand", "q", "local", "world", "hand_local", "hand_world", "world_local", "aligned"),
    *("vjp_q", "jvp_q", "hand_vjp_q", "local_jvp_q", "hand_local_vjp_q", "vjp", "jvp", "Vjp_q"),
    *("vjp_q_jvp_q", "vjp_q_jvp_q_poses_bar", "f_ext", "base_motion", "scan", "bodies_0_1"),
    *("dot_qd_hand", "n_dot_qd_hand", "of_hand_and_q", "and", "hand_and_q", "q_and_vjp_q"),
    *("hand_local_and_q", "hand_local_with_jacobian_q", "with_mass_matrix", "of_2_hand"),
]


def keys_of_links(idents: list[str]) -> Iterator[KernelKey]:
    """Yield kernels of one link, of two, among others, and products with their derivatives."""
    of_one = [
        *(KernelKey("forward_kinematics", frame=ident) for ident in idents),
        *(
            KernelKey(name, frame=ident, reference=reference)
            for name in ("jacobian", "jacobian_dot_qd")
            for ident in idents
            for reference in REFERENCES
        ),
    ]
    for key in [KernelKey("forward_kinematics"), *of_one]:
        yield key
        for kind in ("vjp", "jvp"):
            yield key.product(kind, ["q"])
            yield key.product(kind, ["q", "qd"])
        yield key.product("vjp", ["q"]).product("jvp", ["q"])
        yield key.product("vjp", ["q"]).product("jvp", ["q", "poses_bar"])
    for parts in combinations(of_one, 2):
        yield KernelKey("compute", parts=parts)
        if replace(parts[0], frame="") == replace(parts[1], frame=""):
            yield replace(parts[0], frame="", reference="", parts=parts)


def test_no_two_kernels_have_one_name_whatever_links_are_called():
    tree = read_tree(robot_text("robot", WORDS_OF_KERNELS, "joint_"))
    idents = frame_idents(tree)
    keys_by_name: dict[str, KernelKey] = {}
    for key in keys_of_links(list(idents.values())):
        assert keys_by_name.setdefault(key.name, key) == key


def test_links_may_be_called_as_what_kernels_are_called_by():
    names = ["hand", "dot_qd_hand", "n_dot_qd_hand", "jvp_q", "hand_local_vjp_q"]
    robot = gridgen.load(robot_text("robot", names, "joint_"), backend="cpu")
    q, qd = np.full((1, 5), 0.2), np.ones((1, 5))
    assert robot.jacobian(q, "dot_qd_hand").shape == (1, 6, 5)
    assert robot.jacobian_dot_qd(q, qd, "hand").shape == (1, 6)
    poses, tangents = robot.jvp("forward_kinematics", qd, q)
    assert poses.shape == tangents.shape == (1, 6, 4, 4)
    assert (robot.forward_kinematics(q, "jvp_q") == poses[:, 4]).all()
    ones = np.ones((1, 6, 5))
    assert robot.vjp("jacobian", ones, q, "hand").shape == (1, 5)
    assert robot.jacobian(q, "hand_local_vjp_q").shape == (1, 6, 5)
