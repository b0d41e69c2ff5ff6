"""Programs of the manual do what their pages say, at small size."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from helpers.robots import OWN
from numerics.robots import urdf_path

EXAMPLES = OWN.parent / "examples"


@pytest.fixture
def walking(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The program in which a quadruped walks."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import walking

    return walking


def example(name: str) -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))


def test_computed_torque_keeps_to_the_way() -> None:
    run = example("computed_torque")["run"]
    exact = run(OWN / "arm6.urdf", 0.3, 0.0)
    assert exact.errors.max() < 5e-3, "the steps of time alone are left"
    loaded = run(OWN / "arm6.urdf", 0.3, 0.5)
    assert exact.errors.max() < loaded.errors.max() < 0.2, "the payload shows, and is borne"


@pytest.mark.exhaustive
def test_a_wall_of_robots_is_drawn(walking: Any, tmp_path: Path) -> None:
    import wall

    figure, page = tmp_path / "wall.svg", tmp_path / "wall.html"
    words = f"--robots 2 --samples 64 --seconds 0.4 --figure {figure} --page {page}"
    paths = wall.main(words.split())
    assert paths.shape == (2, 5, 19)
    assert (paths[:, -1, 0] > paths[:, 0, 0]).all(), "both walk forward"
    moves = ElementTree.parse(figure).findall(".//{*}animate[@attributeName='points']")
    assert len(moves) == 2 * 5
    assert "motion-data" in page.read_text(encoding="utf-8")
    readme = (OWN.parent / "README.md").read_text(encoding="utf-8")
    assert re.search(r"!\[[^]]{20,}\]\(docs/figures/wall.svg\)", readme), "it has a text"
    assert (OWN.parent / "docs" / "figures" / "wall.svg").stat().st_size < 400_000


@pytest.mark.exhaustive
def test_the_quadruped_walks(walking: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Within the friction of the ground, by few samples."""
    words = "--plant own --samples 128 --seconds 1.5 --command 0.4 0 0.3"
    states = walking.main(words.split())
    assert len(states) == 75
    forward, lateral, turn, _ = states[25:].mean(axis=0)
    assert abs(forward - 0.4) < 0.1
    assert abs(lateral) < 0.05
    assert abs(turn - 0.3) < 0.15
    assert states[:, 3].min() > 0.25
    assert "walked 1.50 s" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["quadruped", pytest.param("go2", marks=pytest.mark.exhaustive)])
def test_it_walks_in_mujoco(walking: Any, name: str, tmp_path: Path) -> None:
    """The plants are the same model, and the clip is one of MuJoCo."""
    pytest.importorskip("mujoco")
    image = pytest.importorskip("PIL.Image")
    urdf = urdf_path(name)
    robot = walking.quadruped.load(urdf)
    plants = [plant(robot, urdf) for plant in walking.plants.PLANTS.values()]
    target = walking.quadruped.STANCE + np.float32(0.2) * np.random.default_rng(0).random(
        12, np.float32
    )
    for plant in plants:
        plant.move(target, 0.1)
    np.testing.assert_allclose(plants[0].q, plants[1].q, atol=1e-5)
    np.testing.assert_allclose(plants[0].qd, plants[1].qd, atol=1e-4)
    assert np.abs(plants[0].qd).max() > 0.1
    try:
        plants[0].picture()
    except Exception as error:  # of OpenGL, which differ
        pytest.skip(f"no pictures: {error}")
    clip = str(tmp_path / "walk.gif")
    walker = walking.Walker(robot, (0.5, 0.0, 0.0), 16)
    walking.quadruped.walk(plants[0], walker.step, 0.02, 0.2, clip=clip)
    with image.open(clip) as found:
        assert found.n_frames == 5
