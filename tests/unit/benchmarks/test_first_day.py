"""What is measured on the first day on a GPU, on a pretended one: all but the times."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import first_day
from first_day import Sizes, fitted, markdown, with_measured
from gpu_timing import Clock

import gridgen.cost.devices
from fake_gpu.installation import installed
from gridgen.cost.devices import DEVICES, Device

pytest.importorskip("cupy", reason="NVRTC comes with it")

#: As small as an executor wants it.
FEW = Sizes(words=1 << 13, l2_words=512, steps=40, rounds=2, code=(64, 128, 512), kept=(4, 16))
LIMITS = {"copied_bytes": 3.6e12, "written_bytes": 2e12}
CHECK = {"status": "0", "said": "1 passed", "seconds": 3}


class Counted(Clock):
    """A clock by which each figure takes a microsecond more than the last."""

    def figures(self, call: Any) -> dict[str, Any]:
        with self.stream:
            call()
            self.stream.synchronize()
        self.times = getattr(self, "times", 0) + 1
        return {"us": self.times, "graph_us": self.times}


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch, installed():
        import cupy

        patch.setattr(first_day, "BATCHES", (40,))
        patch.setattr(first_day, "COMPARED", ("mass_matrix",))
        patch.setattr(first_day, "LARGE", ())
        patch.setitem(DEVICES, "sm_91", DEVICES["sm_90"])
        clock = Counted(cupy, 0.1)
        found = first_day.measured(clock, FEW, LIMITS)
        found["rows"] = first_day.compared(clock)
        first_day.calls()
    return found | {"device": {"name": "T", "date": "2026-01-01"}, "checks": {"tests": CHECK}}


def test_every_open_figure_is_measured(results: dict[str, Any]) -> None:
    figures, fields = results["figures"], fitted(results["figures"])
    assert set(fields) < set(Device.__dataclass_fields__)
    assert all(value > 0 for value in fields.values())
    assert fields["launch"] == 1e-6
    assert figures["memory_reached"] == pytest.approx(3.6e12 / DEVICES["sm_90"].bandwidth, rel=0.1)
    assert list(figures["paces"]) == ["1024", "2048", "8192"]


def test_a_fit_is_what_predictions_read(results: dict[str, Any]) -> None:
    """Written twice, the second time over the first; other architectures stay."""
    text = Path(gridgen.cost.devices.__file__).read_text(encoding="utf-8")
    for arch, launch in (("sm_90", 2e-6), ("sm_75", 3e-6), ("sm_90", 4e-6)):
        text = with_measured(text, arch, fitted(results["figures"]) | {"launch": launch})
    module: dict[str, Any] = {"__name__": gridgen.cost.devices.__name__}
    exec(compile(ast.parse(text), "devices.py", "exec"), module)
    devices = module["DEVICES"]
    launches = [devices[arch].launch for arch in ("sm_75", "sm_80", "sm_90")]
    assert launches == [3e-6, 2.5e-6, 4e-6]
    assert max(map(len, text.splitlines())) <= 100
    with pytest.raises(SystemExit, match="no row for sm_103"):
        with_measured(text, "sm_103", {})


def test_the_report_is_a_page(results: dict[str, Any]) -> None:
    lines = markdown(results).splitlines()
    assert len(lines) < 60
    assert "| tests | 0 1 passed | 3 |" in lines
    for function in ("mass_matrix", "contact_forward_dynamics", "self_distance"):
        assert any(line.startswith(f"| arm7 {function} | 40 |") for line in lines)


def test_a_check_that_takes_too_long_is_stopped() -> None:
    ended = first_day.ran((sys.executable, "-c", "import time; time.sleep(9)"), 0.5)
    assert ended["status"] == "stopped"
    assert first_day.ran((sys.executable, "-c", "print(1); print('last')"), 9)["said"] == "last"
