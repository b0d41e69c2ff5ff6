"""The page that simulates a robot: in a browser, with the numbers of the CPU."""

from __future__ import annotations

import ctypes
import json
import platform
import re
import shutil
import subprocess
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gridgen.backends.cpu.compiler import host_compiler
from gridgen.backends.cpu.units import FLAGS, plain_unit
from gridgen.commands.main import main
from gridgen.compiler import read_tree
from gridgen.errors import ModelError
from gridgen.modules import TracedModule
from gridgen.options import RobotOptions
from gridgen.report import animation as simulated

#: A trunk on one leg, which slides in and hops; the posture of the first keyframe is no home.
HOPPER = """
<mujoco model="hopper">
  <compiler angle="radian"/>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 1"/>
    <body name="trunk" pos="0 0 0.5">
      <freejoint/>
      <geom type="box" size="0.1 0.1 0.05" mass="2" contype="0" conaffinity="0"/>
      <body name="leg" pos="0 0 -0.1">
        <joint name="hip" axis="0 1 0.2" range="-1 1"/>
        <geom type="capsule" fromto="0 0 0 0 0 -0.1" size="0.02" mass="0.3" contype="0"
              conaffinity="0"/>
        <body name="foot" pos="0 0 -0.2">
          <joint name="slide" type="slide" axis="0 0 1" range="-0.1 0.1" armature="0.01"/>
          <geom type="sphere" size="0.04" mass="0.2"/>
        </body>
      </body>
    </body>
  </worldbody>
  KEYFRAMES
</mujoco>
"""
KEYFRAMES = """<keyframe>
    <key name="far" qpos="0 0 5 1 0 0 0 0 0"/><key name="home" qpos="0 0 0.36 1 0 0 0 0.1 0.02"/>
  </keyframe>"""
OPTIONS = RobotOptions(contact=True)
STEPS = 300

#: Evaluates in the page: steps from a state with wrenches, a push by the pointer, a slider.
PROBE = """<pre id="probe"></pre><script>
const done = (found) => { document.getElementById("probe").textContent = JSON.stringify(found); };
simulation.then(({ x, step, hold, pull, reset }) => {
  const given = STATE, found = { kept: [...x.q] };
  for (const name in given) x[name].set(given[name]);
  for (let k = 0; k < STEPS; ++k) step();
  Object.assign(found, { q: [...x.q], qd: [...x.qd] });
  reset();
  view.show(x.q);
  const canvas = document.getElementById("scene"), box = canvas.getBoundingClientRect();
  const event = (name, by, at) => canvas.dispatchEvent(new PointerEvent(name,
    { clientX: box.left + at[0] + by, clientY: box.top + at[1], pointerId: 1 }));
  canvas.setPointerCapture = () => {};
  let at = null;
  for (let x = 0; x < box.width && !at; x += 4) for (let y = 0; y < box.height && !at; y += 4) {
    if (view.near(x, y) >= view.scene.frames.length) at = [x, y];
  }
  event("pointerdown", 0, at);
  event("pointermove", 40, at);
  pull();
  found.pushed = Math.hypot(...x.f_ext);
  event("pointerup", 40, at);
  pull();
  found.free = Math.hypot(...x.f_ext);
  const slider = document.querySelector("#sliders input[type=range]");
  slider.value = 0.5;
  slider.dispatchEvent(new Event("input"));
  hold();
  found.tau = [...x.tau];
  found.sliders = document.querySelectorAll("#sliders input[type=range]").length;
  done(found);
}).catch((error) => done({ error: String(error.stack) }));
</script></body>"""


def data_of(html: str) -> dict[str, Any]:
    """Return the data of the page's script."""
    text = re.search(r'<script id="simulation-data" type="application/json">(.*?)</script>', html)
    assert text is not None
    found: dict[str, Any] = json.loads(text[1])
    return found


def test_the_data_of_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of a step, springs of the joints with one velocity, the start."""
    pytest.importorskip("mujoco")
    code = tmp_path / "code.wasm"
    code.write_bytes(b"code")
    monkeypatch.setattr(simulated, "webassembly", lambda *_: code)
    tree = read_tree(HOPPER.replace("KEYFRAMES", KEYFRAMES), OPTIONS)
    html, found = simulated.simulation(tree, TracedModule(tree))
    data = data_of(html)
    assert found == b"code"
    arrays = {one["name"]: one["values"] for one in data["arrays"]}
    assert list(arrays)[-2:] == ["q_next", "qd_next"]
    assert len(arrays["f_ext"]) == 6 * len(tree.bodies)
    assert arrays["gravity"] == [0.0, 0.0, -9.81]
    assert [spring["v"] for spring in data["springs"]] == [6, 7]
    assert data["springs"][1]["inertia"] == pytest.approx(0.2 + 0.01)
    assert arrays["q"] == list(tree.keyframes["home"]["q"])
    assert not data["falls"]
    bare = read_tree(HOPPER.replace("KEYFRAMES", ""), OPTIONS)
    html, _ = simulated.simulation(bare, TracedModule(bare))
    assert data_of(html)["falls"]
    other = replace(bare, options=replace(bare.options, convention="mujoco"))
    with pytest.raises(ModelError, match="--convention"):
        simulated.simulation(other, TracedModule(other))


@pytest.mark.exhaustive
@pytest.mark.skipif(
    platform.machine() != "x86_64", reason="no processor without fused multiply-adds"
)
def test_a_browser_has_the_numbers_of_the_cpu(tmp_path: Path) -> None:
    """Bit for bit what code without fused multiply-adds computes; pushes and sliders act."""
    pytest.importorskip("ziglang")
    pytest.importorskip("mujoco")
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("there is no chromium")
    robot, pages = tmp_path / "hopper.xml", tmp_path / "pages"
    robot.write_text(HOPPER.replace("KEYFRAMES", KEYFRAMES))
    words = ["--contact", "true", "--functions", "mass_matrix", "--quiet"]
    words += ["--output", str(tmp_path / "modules"), "--wasm", str(pages)]
    assert main([str(robot), *words]) == 0
    assert main([str(robot), *words]) == 0  # it replaces its own files
    assert main([str(robot), *words[:-1], str(tmp_path / "modules" / "hopper")]) == 2
    (pages / "own.txt").write_text("own")
    assert main([str(robot), *words]) == 2
    html = (pages / "hopper.html").read_text(encoding="utf-8")
    assert len(html) < 1_000_000
    tree = read_tree(robot, OPTIONS)
    module = TracedModule(tree)
    kernel = simulated._step(module)
    (tmp_path / "unit.cpp").write_text(plain_unit("hopper", kernel.name, "float64"))
    for name, text in module.sources(kernel).files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    compiler = host_compiler()
    command = [*compiler.command, *compiler.flags, "-march=x86-64", "-shared", "-fPIC", *FLAGS]
    subprocess.run([*command, "unit.cpp", "-o", "unit.so"], cwd=tmp_path, check=True)
    rng, arrays = np.random.default_rng(4), {}
    for one in data_of(html)["arrays"]:
        arrays[one["name"]] = np.array(one["values"])
    for name in ("qd", "tau", "f_ext"):
        arrays[name][:] = rng.normal(size=arrays[name].shape)
    given = {name: arrays[name].tolist() for name in ("q", "qd", "tau", "f_ext")}
    table = [n for x in arrays.values() for n in (x.ctypes.data, x.size, 1)]
    entry = ctypes.CDLL(str(tmp_path / "unit.so")).gridgen_entry
    for _ in range(STEPS):
        entry((ctypes.c_longlong * len(table))(*table))
        arrays["q"][:], arrays["qd"][:] = arrays["q_next"], arrays["qd_next"]

    probe = PROBE.replace("STATE", json.dumps(given)).replace("STEPS", str(STEPS))
    page = tmp_path / "page.html"
    page.write_text(html.replace("</body>", probe), encoding="utf-8")
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"]
    command += [f"--user-data-dir={tmp_path}/browser", "--window-size=1200,900", "--dump-dom"]
    command += ["--virtual-time-budget=5000", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "CONSOLE" not in done.stderr, done.stderr
    text = re.search('<pre id="probe">(.*?)</pre>', done.stdout)
    assert text is not None
    found = json.loads(unescape(text[1]))
    assert "error" not in found, found["error"]
    np.testing.assert_array_equal(found["q"], arrays["q"])
    np.testing.assert_array_equal(found["qd"], arrays["qd"])
    assert arrays["qd"].any()
    assert (found["pushed"] > 1.0, found["free"], found["sliders"]) == (True, 0.0, 2)
    hip, inertia = found["tau"][6], data_of(html)["springs"][0]["inertia"]
    assert hip == pytest.approx(inertia * 40**2 * (0.5 - 0.1))
