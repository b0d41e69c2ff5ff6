"""What is measured on the first day on a GPU, on a pretended one: all but the times."""

from __future__ import annotations

import ast
import json
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
FEW = Sizes(
    words=1 << 13, l2_words=512, steps=40, rounds=2, code=(64, 128, 512), warps=(1, 2), kept=(4, 16)
)
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


class InProcess(first_day.Day):
    """A run whose measurements are functions of this process."""

    def __init__(self, output: Path, clock: Clock) -> None:
        super().__init__(output)
        self.clock = clock

    def _measured(self, name: str) -> dict[str, Any]:
        if name == "device":
            return first_day.described(self.clock)
        if name == "latency":  # a process that fails leaves nothing
            return {"checks": {name: {"status": "1", "said": "an error", "seconds": 2}}}
        return first_day.measure(name, self.clock, FEW)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    output = tmp_path_factory.mktemp("day") / "first-day.json"
    commands: list[tuple[str, ...]] = []

    def ran(words: Any, seconds: float, log: Path) -> dict[str, Any]:
        commands.append(tuple(map(str, words)))
        return CHECK

    with pytest.MonkeyPatch.context() as patch, installed():
        import cupy

        patch.setattr(first_day, "BATCHES", (40,))
        some = (("arm7", "mass_matrix", "warp"), ("arm7", "mass_matrix", "thread"))
        patch.setattr(first_day, "KERNELS", some)
        patch.setattr(first_day, "ran", ran)
        patch.setattr(first_day, "measured_limits", lambda clock: dict(LIMITS))
        named = {"name": "T", "date": "2026-01-01"}
        patch.setattr(first_day, "device_description", lambda cupy: named)
        patch.setitem(DEVICES, "sm_91", DEVICES["sm_90"])
        day = InProcess(output, Counted(cupy, 0.1))
        day.run()
        kernels = [name for name in first_day.names() if name not in first_day.FIGURES]
        first_day.calls()
    # Every kernel is compiled before, and the checks come last.
    compiled = [words[-1] for words in commands if "--compile" in words]
    assert sorted(compiled) == sorted(kernels)
    assert "pytest" in commands[-1]
    assert json.loads(output.read_text()) == json.loads(json.dumps(day.results))
    return day.results


def test_every_open_figure_is_measured(results: dict[str, Any]) -> None:
    """All but that of the process that failed."""
    figures, fields = results["figures"], fitted(results["figures"])
    assert set(fields) < set(Device.__dataclass_fields__)
    assert set(first_day.FITTED) - set(fields) == {"latency"}
    assert all(value > 0 for value in fields.values())
    assert fields["launch"] > 0
    assert figures["memory_reached"] == pytest.approx(3.6e12 / DEVICES["sm_90"].bandwidth, rel=0.1)
    assert list(figures["paces"]) == ["1", "2"]
    assert list(figures["paces"]["2"]) == ["1024", "2048", "8192"]
    assert all(row["error"] <= 1 for row in results["rows"] if "error" in row)


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
    assert len(lines) < 80
    assert "| tests | 0 1 passed | 3 |" in lines
    assert "| latency | 1 an error | 2 |" in lines
    for function in ("mass_matrix warp", "contact_forward_dynamics", "self_distance"):
        assert any(line.startswith(f"| arm7 {function} | 40 |") for line in lines)


def test_a_command_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    """Its whole output is in the log."""
    log = tmp_path / "log"
    words = (sys.executable, "-c", "import time; print(1, flush=True); time.sleep(9)")
    assert first_day.ran(words, 0.5, log)["status"] == "stopped"
    assert log.read_text() == "1\n"
    words = (sys.executable, "-c", "print(1); print('last')")
    assert first_day.ran(words, 9, log)["said"] == "last"
    assert log.read_text() == "1\nlast\n"
