"""The page about a robot: complete, safe whatever the robot is called, and drawn by a browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gridgen.commands.main import main
from gridgen.compiler import load
from gridgen.errors import GridGenWarning, OptionError
from gridgen.options import RobotOptions
from gridgen.report.pictures import grid, patterns, scene, tree_nodes
from helpers.robots import OWN, joint_text, link_text, robot_text

SECTIONS = ["Remarks", "Skeleton", "Tree", "Sparsity", "Operations of a state", "Schedules"]


def page(source: Any, archs: Sequence[str] = (), measure: bool = False, **options: Any) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridGenWarning)
        return load(source, **options).report(archs=archs, measure=measure).html


def test_a_page_has_all_that_was_asked_for(tmp_path: Path) -> None:
    robot = load(OWN / "two_link.urdf")
    report = robot.report(archs=["sm_90"])
    headings = re.findall("<h2>(.*?)</h2>", report.html)
    assert headings == [*SECTIONS, "On a GPU", "Accuracy", "Speed on this machine"]
    for name in (*robot.joint_names, *robot.body_names):
        assert name in report.html
    assert len(re.findall('class="good"', report.html)) == 2 * 11
    assert 'class="bad"' not in report.html
    assert not re.search(r"""(src|href)=["'](?!data:)""", report.html), "the page needs others"
    path = report.save(tmp_path / "page.html")
    assert path.read_text(encoding="utf-8").startswith(report.html)
    with pytest.raises(OptionError, match="cannot be written"):
        report.save(tmp_path / "no folder" / "page.html")


def test_names_are_text_whatever_they_are() -> None:
    evil = "&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;"
    text = robot_text(link_text("base"), link_text(evil), joint_text(evil, "base", evil))
    html = page(text)
    assert "alert(1)" in html
    assert "<script>alert" not in html
    data = re.search('<script id="scene-data".*?>(.*?)</script>', html, re.DOTALL)
    assert data is not None
    assert json.loads(data[1])["bodies"][0]["joint"] == "</script><script>alert(1)</script>"


def test_what_is_odd_about_a_robot_is_told() -> None:
    weightless = robot_text(link_text("base"), '<link name="a"/>', joint_text("j", "base", "a"))
    html = page(weightless)
    assert "direction without inertia" in html
    assert "forward_dynamics_aba" in html, "why it has none is said"


def test_the_skeleton_is_where_the_links_are() -> None:
    tree = tree_of("gripper")
    from gridgen.dynamics.reference import evaluate_reference

    (poses,) = evaluate_reference(tree, "forward_kinematics", {"q": np.zeros((1, tree.nq))})
    frames = {frame["name"]: frame["at"] for frame in scene(tree)["frames"]}
    for name, pose in zip(tree.frame_names, poses[0], strict=True):
        np.testing.assert_allclose(frames[name], pose[:3, 3], atol=1e-6)
    assert [node.y for node in tree_nodes(tree)] == list(range(1, len(tree.bodies) + 1))


def test_the_factor_of_m_has_the_entries_of_the_pattern() -> None:
    tree = tree_of("quadruped", floating_base=True)
    found = patterns(tree)
    L = found["its factor L"].astype(float)
    assert ((L.T @ L > 0) >= found["mass matrix M"]).all()
    assert L.mean() < 0.4, "legs are not ancestors of each other"
    runs = grid("x", np.array([[True, True, False], [False, False, True]])).runs
    assert runs == ((0, 0, 2), (1, 2, 1))


def tree_of(name: str, floating_base: bool = False) -> Any:
    from gridgen.compiler import read_tree

    return read_tree(OWN / f"{name}.urdf", RobotOptions(floating_base=floating_base))


def test_the_command_writes_a_page(tmp_path: Path) -> None:
    path = tmp_path / "arm.html"
    arguments = [str(OWN / "two_link.urdf"), "--output", str(tmp_path), "--quiet"]
    assert main([*arguments, "--functions", "mass_matrix", "--report", str(path)]) == 0
    assert '<td class="name">mass_matrix</td>' in path.read_text(encoding="utf-8")
    assert main([*arguments, "--report", str(tmp_path / "no" / "page.html")]) == 2


def test_a_generated_module_says_that_it_has_no_bodies() -> None:
    from gridgen.robot import Robot
    from gridgen.runtime.module.files import FolderModule

    module = Robot(FolderModule(OWN.parent / "generated" / "two_link"))
    with pytest.raises(OptionError, match="grid-gen --report"):
        module.report()


#: Counts, in the page itself, what was drawn: pixels of the canvas, shapes of the other pictures.
PROBE = """<script>
const c = document.getElementById("scene");
const p = c.getContext("2d").getImageData(0, 0, c.width, c.height);
const drawn = p.data.filter((v, k) => k % 4 === 3 && v > 0).length;
const wide = document.documentElement.scrollWidth <= window.innerWidth;
document.title = JSON.stringify({drawn, wide, shapes: document.querySelectorAll("svg *").length});
</script></body>"""


@pytest.mark.parametrize("width", [390, 1200], ids=["phone", "desk"])
def test_a_browser_draws_it(width: int, tmp_path: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("there is no chromium")
    path = tmp_path / "page.html"
    html = page(OWN / "arm6.urdf")
    path.write_text(html.replace("</body>", PROBE), encoding="utf-8")
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"]
    command += [f"--user-data-dir={tmp_path}", f"--window-size={width},900", "--dump-dom"]
    done = subprocess.run(
        [*command, path.as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    assert "CONSOLE" not in done.stderr, done.stderr
    told = re.search("<title>(.*?)</title>", done.stdout)
    assert told is not None
    found = json.loads(told[1].replace("&quot;", '"'))
    assert found["drawn"] > 500, "the canvas is blank"
    assert found["shapes"] > 100
    assert found["wide"], "the page is wider than the window"


def test_figures_for_papers() -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    robot = load(OWN / "gripper.urdf")
    axes = robot.plot_tree()
    assert sum(name in text.get_text() for text in axes.texts for name in robot.joint_names) >= 3
    drawn = robot.plot_sparsity()
    assert drawn.shape == (1, 6)
    assert {one.get_title() for one in drawn.flat} == set(patterns(tree_of("gripper")))
    pyplot.close("all")
