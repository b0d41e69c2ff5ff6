"""The comparison of MJCF scenes with MuJoCo reads, refuses and compares what a folder has."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

mujoco = pytest.importorskip("mujoco")
sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import menagerie  # noqa: E402

BODY = """<mujoco><worldbody><geom type="plane" size="1 1 1"/>
  <body pos="0 0 0.1"><freejoint/><geom size="0.1"/>
    <body pos="0.2 0 0"><joint {} damping="0.1"/><geom size="0.05" pos="0 0 0.1"/></body>
  </body></worldbody>{}</mujoco>"""


def test_scenes_of_a_folder_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cubic = '<equality><joint joint1="hinge" polycoef="0 1 0 1 0"/></equality>'
    motor = '<actuator><motor joint="hinge"/></actuator>'
    for name, text in (
        ("a", BODY.format('name="hinge"', motor)),
        ("b", BODY.format('name="hinge"', cubic)),
        ("c", BODY.format("", '<option density="1.2"/>')),
        ("d", "<mujoco>"),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "scene.xml").write_text(text, encoding="utf-8")
    table = tmp_path / "table.csv"
    monkeypatch.setattr(sys, "argv", ["", str(tmp_path), "--steps", "5", "--csv", str(table)])
    menagerie.main()
    said = capsys.readouterr()
    assert "d/scene: MuJoCo cannot compile it" in said.err
    lines = [line.split(",") for line in table.read_text(encoding="utf-8").splitlines()]
    assert [line[0] for line in lines] == ["scene", "a/scene", "b/scene", "c/scene"]
    assert lines[1][1:4] == ["7", "", "5"]
    assert float(lines[1][4]) < 1e-10
    assert "by a polynomial of degree 2 or more" in lines[2][2]
    assert lines[3][2] == "a fluid"
    assert float(lines[3][4]) < 1e-10
