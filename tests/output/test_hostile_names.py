r"""Nothing that a URDF calls a thing can become code.

A robot is generated twice, once with harmless names. Take comments, strings and the spelling of
identifiers away, and the same text must be left: whatever a name tried to add would remain.
"""

from __future__ import annotations

import importlib.util
import io
import json
import re
import sys
import tokenize
from html import escape
from pathlib import Path

import numpy as np
import pytest

import gridgen
from robots_for_tests import link_text

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


@pytest.fixture(params=NAMES)
def names(request):
    return NAMES[request.param]


@pytest.fixture
def harmless(names, tmp_path):
    plain = [f"part{chr(ord('a') + i)}" for i in range(len(names))]
    return generate(robot_text("robot", plain, "joint_"), tmp_path / "harmless", plain)


@pytest.fixture
def hostile(names, tmp_path):
    return generate(robot_text(names[0], names), tmp_path / "hostile", names)


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


def test_the_module_computes_what_the_harmless_one_does(names, harmless, hostile, tmp_path):
    state = np.random.default_rng(0).normal(size=(3, 5, len(names)))
    expected = imported(harmless).inverse_dynamics(*state)
    np.testing.assert_array_equal(imported(hostile).inverse_dynamics(*state), expected)
    assert not [path for path in tmp_path.rglob("*evil*")]
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
    options = gridgen.GenerateOptions(output=output, name=name if source == "option" else None)
    module = gridgen.generate(urdf, options)
    assert module.folder.parent == output
    assert module.folder.name.isidentifier()
    assert module.folder.name not in sys.builtin_module_names
    assert sorted(tmp_path.rglob("model.json")) == [module.folder / "model.json"]
