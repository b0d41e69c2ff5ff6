"""The page about a robot: complete, safe whatever the robot is called, and drawn by a browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import warnings
from collections.abc import Sequence
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gridgen.check import random_states
from gridgen.commands.main import main
from gridgen.compiler import load, read_tree
from gridgen.dynamics.reference import evaluate_reference
from gridgen.errors import CompileError, GridGenError, GridGenWarning, OptionError
from gridgen.options import RobotOptions
from gridgen.report.pictures import patterns, reach, runs, scene
from helpers.robots import OWN, joint_text, link_text, robot_text

SECTIONS = ["Remarks", "Robot", "Tree", "Sparsity", "Floating-point operations per evaluation"]
SECTIONS += ["Schedules"]


def page(source: Any, archs: Sequence[str] = (), measure: bool = False, **options: Any) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridGenWarning)
        return load(source, **options).report(archs=archs, measure=measure).html


def test_a_page_has_all_that_was_asked_for(tmp_path: Path) -> None:
    robot = load(OWN / "pendulum.urdf")
    report = robot.report(archs=["sm_90"])
    headings = re.findall("<h2>(.*?)</h2>", report.html)
    assert headings == ["Speed on this machine", *SECTIONS, "Predicted GPU time", "Accuracy"]
    assert re.search(r"<td[^>]*>\d[\d.]* [kMG]/s</td>", report.html)
    for name in (*robot.joint_names, *robot.body_names):
        assert name in report.html
    assert len(re.findall('class="good"', report.html)) == 2 * 11
    assert 'class="bad"' not in report.html
    assert "22 of 22 comparisons" in report.html
    assert report.html.index("total mass") < report.html.index("<h2>")
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


def test_a_table_has_no_empty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise CompileError("NVRTC is not installed")

    monkeypatch.setattr("gridgen.report.facts.resource_report", refuse)
    html = page(OWN / "cart_pole.urdf", archs=["sm_90"])
    assert "NVRTC is not installed" in html
    assert "<th>of roofline bound</th>" in html
    assert "<th>registers</th>" not in html


def test_the_inertia_ellipsoid_has_the_mass_and_inertia_of_its_body() -> None:
    radii, mass = np.array([0.1, 0.2, 0.3]), 2.5
    moments = mass / 5 * ((radii**2).sum() - radii**2)
    (body,) = tree_of_body(mass, "0.1 0 0.4", moments).bodies
    (solid,) = scene(tree_of_body(mass, "0.1 0 0.4", moments))["solids"]
    axes = np.array(solid["radii"])
    np.testing.assert_allclose(sorted(np.linalg.norm(axes, axis=1)), radii, rtol=1e-6)
    np.testing.assert_allclose(axes.T @ axes @ axes.T @ axes, np.diag(radii**4), atol=1e-8)
    np.testing.assert_allclose(solid["at"], np.array(body.first_moment) / mass, atol=1e-9)


def tree_of_body(mass: float, center: str, moments: Any) -> Any:
    entries = "".join(f'{name}="{x!r}" ' for name, x in zip(INERTIA, moments.tolist(), strict=True))
    inertial = f"""<inertial><origin xyz="{center}"/><mass value="{mass}"/>
        <inertia {entries} ixy="0" ixz="0" iyz="0"/></inertial>"""
    joint = joint_text("j", "base", "a", kind="prismatic")
    return read_tree(robot_text(link_text("base"), f'<link name="a">{inertial}</link>', joint))


INERTIA = ("ixx", "iyy", "izz")


def test_the_reach_of_a_stretched_arm() -> None:
    tree = tree_of("two_link")
    tip = tree.frames[-1]
    stretched = sum(np.linalg.norm(part.translation) for part in (*tree.bodies, tip))
    distance, link = reach(tree)
    assert link == tip.name
    assert 0.99 * stretched < distance <= stretched * (1 + 1e-12)


def test_the_factor_of_m_has_the_entries_of_the_pattern() -> None:
    tree = tree_of("quadruped", floating_base=True)
    found = patterns(tree)
    L = found["its factor L"].astype(float)
    assert ((L.T @ L > 0) >= found["mass matrix M"]).all()
    assert L.mean() < 0.4, "legs are not ancestors of each other"
    found = runs(np.array([[True, True, False], [False, False, True]]))
    assert found == [(0, 0, 2), (1, 2, 1)]


def tree_of(name: str, floating_base: bool = False) -> Any:
    return read_tree(OWN / f"{name}.urdf", RobotOptions(floating_base=floating_base))


def test_the_command_writes_a_page(tmp_path: Path) -> None:
    path = tmp_path / "arm.html"
    arguments = [str(OWN / "two_link.urdf"), "--output", str(tmp_path), "--quiet"]
    assert main([*arguments, "--functions", "mass_matrix", "--report", str(path)]) == 0
    assert '<td class="name" data-heading="function">mass_matrix</td>' in path.read_text(
        encoding="utf-8"
    )
    assert main([*arguments, "--report", str(tmp_path / "no" / "page.html")]) == 2


def test_a_generated_module_says_that_it_has_no_bodies() -> None:
    from gridgen.robot import Robot
    from gridgen.runtime.module.files import FolderModule

    module = Robot(FolderModule(OWN.parent / "generated" / "two_link"))
    with pytest.raises(OptionError, match="grid-gen --report"):
        module.report()


#: Evaluates, in the page itself: the poses of STATES, what is drawn, what sliders and hovering do.
PROBE = """<pre id="probe"></pre><script>
const c = document.getElementById("scene"), image = () => c.toDataURL();
const p = c.getContext("2d").getImageData(0, 0, c.width, c.height);
const found = {
  drawn: p.data.filter((v, k) => k % 4 === 3 && v > 0).length,
  wide: document.documentElement.scrollWidth <= window.innerWidth,
  shapes: document.querySelectorAll("svg *").length,
  poses: STATES.map((q) => forwardKinematics(view.scene, q).frames),
};
const before = image();
document.getElementById("collision").click();
found.hides = image() !== before;
const sliders = [...document.querySelectorAll("#sliders input[type=range]")];
sliders.forEach((slider, k) => {
  slider.value = Number(slider.min) + (0.2 + 0.6 * k / sliders.length) * (slider.max - slider.min);
  slider.dispatchEvent(new Event("input"));
});
Object.assign(found, { sliders: sliders.length, q: view.q, moved: view.poses.frames });
const box = c.getBoundingClientRect();
for (let x = 0; x < box.width; x += 6) for (let y = 0; y < box.height && !found.label; y += 6) {
  if (!(view.near(x, y) >= view.scene.frames.length)) continue;
  c.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + x, clientY: box.top + y }));
  found.label = document.getElementById("label").textContent;
}
document.getElementById("probe").textContent = JSON.stringify(found);
</script></body>"""
BALL = '<collision><geometry><sphere radius="0.1"/></geometry></collision>'


def browsed(html: str, width: int, folder: Path) -> Any:
    """Return what a page writes into its probe, in a browser without an error."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("there is no chromium")
    path = folder / "page.html"
    path.write_text(html, encoding="utf-8")
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"]
    command += [f"--user-data-dir={folder}", f"--window-size={width},900", "--dump-dom"]
    done = subprocess.run(
        [*command, "--virtual-time-budget=5000", path.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "CONSOLE" not in done.stderr, done.stderr
    told = re.search('<pre id="probe">(.*?)</pre>', done.stdout)
    assert told is not None
    return json.loads(unescape(told[1]))


@pytest.mark.parametrize("width", [390, 1200], ids=["phone", "desk"])
def test_a_browser_draws_and_moves_it(width: int, tmp_path: Path) -> None:
    # Joints that turn, slide, mimic and are free, with axes along no coordinate axis.
    text = (OWN / "gripper.urdf").read_text(encoding="utf-8")
    text = text.replace(
        '<link name="mount"/>', link_text("mount").replace("</link>", f"{BALL}</link>")
    )
    text = text.replace('<axis xyz="-1 0 0"/>', '<axis xyz="-3 2 1"/>', 1)
    tree = read_tree(text, RobotOptions(floating_base=True))
    states = random_states(tree, 3, np.random.default_rng(0))["q"]
    probe = PROBE.replace("STATES", json.dumps(states.tolist()))
    html = page(text, floating_base=True)
    found = browsed(html.replace("</body>", probe), width, tmp_path)
    assert found["drawn"] > 500, "the canvas is blank"
    assert found["hides"], "there is no collision shape to hide"
    assert found["shapes"] > 100
    assert found["wide"], "the page is wider than the window"
    own = sum(not body.mimics for body in tree.bodies[1:])
    assert found["sliders"] == own + 6
    q = np.array(found["q"])
    assert np.abs(q).min() > 1e-4, "a slider moves nothing"
    (poses,) = evaluate_reference(tree, "forward_kinematics", {"q": np.vstack([states, q])})
    for drawn, expected in zip([*found["poses"], found["moved"]], poses, strict=True):
        for (rotation, translation), pose in zip(drawn, expected, strict=True):
            np.testing.assert_allclose(rotation, pose[:3, :3], atol=1e-7)
            np.testing.assert_allclose(translation, pose[:3, 3], atol=1e-7)
    assert found["label"].split(" (")[0] in tree.joint_names


MOVES = """<pre id="probe"></pre><script>
// A busy machine draws few frames: these do not depend on it.
window.requestAnimationFrame = (draw) => setTimeout(() => draw(performance.now()), 16);
const [slider, button] = ["time", "play"].map((id) => document.getElementById(id));
const poses = TIMES.map((time) => {
  slider.value = time;
  slider.dispatchEvent(new Event("input"));
  return view.poses.frames;
});
const canvas = document.getElementById("scene"), before = canvas.toDataURL();
player.show(0);
const found = { poses, moves: canvas.toDataURL() !== before, end: Number(slider.max) };
found.wide = document.documentElement.scrollWidth <= window.innerWidth;
button.click();
setTimeout(() => {
  Object.assign(found, { now: player.now, button: button.textContent });
  document.getElementById("probe").textContent = JSON.stringify(found);
}, 300);
</script></body>"""


@pytest.mark.filterwarnings("ignore::gridgen.errors.GridGenWarning")
@pytest.mark.parametrize("width", [400, 1280])
def test_robots_move_in_a_browser(width: int, tmp_path: Path) -> None:
    """Mimic joints, a free joint that is not first."""
    text = (OWN / "gripper.urdf").read_text(encoding="utf-8")
    bodies = read_tree(text, RobotOptions(floating_base=True)).bodies
    order = [body.joint for body in bodies if not body.mimics][::-1]
    robot = load(text, floating_base=True, order=order)
    tree = read_tree(text, RobotOptions(floating_base=True, order=order))
    q = random_states(tree, 6, np.random.default_rng(0))["q"]
    path = tmp_path / "walk.html"
    page = robot.animate(q.reshape(2, 3, -1), 0.5, path, spacing=1.0)
    assert path.read_text(encoding="utf-8").startswith(page.html)
    assert not re.search(r"""(src|href)=["'](?!data:)""", page.html), "the page needs others"
    probe = MOVES.replace("TIMES", "[0, 0.5, 1]")
    found = browsed(page.html.replace("</body>", probe), width, tmp_path)
    assert found["moves"]
    assert found["wide"], "the page is wider than the window"
    assert found["end"] == 1.0
    assert found["button"] == "Pause"
    assert 0.0 < found["now"] <= 1.0
    (poses,) = evaluate_reference(tree, "forward_kinematics", {"q": q[:3]})
    drawn = [pose for of_time in found["poses"] for pose in of_time]
    for (rotation, translation), pose in zip(drawn, poses.reshape(-1, 4, 4), strict=True):
        np.testing.assert_allclose(rotation, pose[:3, :3], atol=1e-4)
        np.testing.assert_allclose(translation, pose[:3, 3], atol=1e-4)


def test_paths_that_no_robot_has_are_refused(tmp_path: Path) -> None:
    robot = load(OWN / "two_link.urdf")
    path = np.zeros((5, 2))
    for given, dt, options, message in (
        (
            path[:, :1],
            0.1,
            {},
            r"paths has shape \(5, 1\); give joint positions of two_link, \(T, 2\)",
        ),
        (path[:0], 0.1, {}, r"paths has shape \(0, 2\)"),
        (path[0], 0.1, {}, r"paths has shape \(2,\)"),
        (np.where(path == 0, np.nan, 0), 0.1, {}, "paths of robot 0 is not finite at state 0"),
        (path * 1j, 0.1, {}, "paths is of type complex128"),
        (path, 0.0, {}, "dt is 0"),
        (path, np.nan, {}, "dt is nan; give a time"),
        (path, "x", {}, "dt is 'x'"),
        (path, 0.1, {"spacing": -1.0}, "spacing is -1.0; give a distance"),
        (path, 0.1, {"path": tmp_path / "no" / "walk.html"}, "cannot be written"),
        (np.zeros((60, 50_000, 2)), 0.1, {}, "give fewer"),
    ):
        with pytest.raises(GridGenError, match=message):
            robot.animate(given, dt, **options)
    page = robot.animate(np.zeros((1001, 2), np.float32), 1e-3)
    motion = json.loads(re.search('"motion-data".*?>(.*?)</script>', page.html)[1])  # type: ignore[index]
    assert len(motion["times"]) == 64  # every 16th, and the last one
    assert motion["times"][-1] == 1.0


def test_figures_for_papers() -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    robot = load(OWN / "gripper.urdf")
    axes = robot.plot_tree()
    assert sum(name in text.get_text() for text in axes.texts for name in robot.joint_names) >= 3
    drawn = robot.plot_sparsity()
    assert drawn.shape == (1, 6)
    assert {one.get_title().replace("\n", " ") for one in drawn.flat} == set(
        patterns(tree_of("gripper"))
    )
    pyplot.close("all")
