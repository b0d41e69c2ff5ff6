"""A robot's library as users have it: in C, in C++, by CMake; its numbers are those of Python."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gridgen
from gridgen.backends.cpu.compiler import host_compiler
from gridgen.backends.cpu.units import FLAGS, SUFFIXES, library_unit
from gridgen.backends.library import compile_ahead, parse_targets
from gridgen.check import random_states
from gridgen.functions.arrays import ARRAYS, DEFAULTED
from gridgen.kernel import Kernel
from gridgen.robot import Robot
from helpers.robots import OWN

USERS = Path(__file__).with_name("library_users")
STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")
#: Whole SIMD packs and a part of one.
STATES = 37


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> dict[str, gridgen.GeneratedModule]:
    """Two robots that a program may have side by side."""
    folder = tmp_path_factory.mktemp("modules")
    options = gridgen.GenerateOptions(output=folder, functions=("inverse_dynamics",))
    return {
        name: gridgen.generate(OWN / f"{name}.urdf", options) for name in ("two_link", "pendulum")
    }


def questions(modules: dict[str, gridgen.GeneratedModule]) -> tuple[bytes, bytes]:
    """Return what two_robots.cpp reads, and what it is to write."""
    read, written = b"", b""
    rng = np.random.default_rng(8)
    for dtype in ("float32", "float64"):
        for module in modules.values():
            x = rng.normal(size=(3, STATES, module.tree.nv)).astype(dtype)
            read += np.int64(STATES).tobytes() + x.tobytes()
            written += Robot(module, "cpu").inverse_dynamics(*x).tobytes()
    return read, written


def run(*command: Any, **options: Any) -> bytes:
    result = subprocess.run([*map(str, command)], capture_output=True, check=False, **options)
    assert result.returncode == 0, result.stderr.decode(errors="replace")[:4000]
    return result.stdout


def test_programs_in_cpp_and_c(modules: dict[str, gridgen.GeneratedModule], tmp_path: Path) -> None:
    """Two robots in one program; warnings are errors; bit for bit what Python has."""
    compiler = host_compiler()
    if "ziglang" in compiler.command:
        pytest.skip("Zig would build its C++ library first, which takes minutes")
    words = (*compiler.command, *compiler.flags)
    folders = [f"-I{module.folder}" for module in modules.values()]
    objects = []
    for name, module in modules.items():
        objects.append(tmp_path / f"{name}.o")
        source = module.folder / f"{name}.cpp"
        run(*words, "-march=native", *FLAGS, *STRICT, "-c", source, "-o", objects[-1])
    program = tmp_path / "two_robots"
    source = USERS / "two_robots.cpp"
    strict = (*STRICT, "-pthread", "-o", program)
    run(*words, "-std=c++17", *folders, source, *objects, *strict)
    read, written = questions(modules)
    assert run(program, "fork", input=read, timeout=60) == written

    program, source = tmp_path / "one_robot", USERS / "one_robot.c"
    compiled = tmp_path / "one_robot.o"
    run("cc", "-std=c99", *STRICT, folders[0], "-c", source, "-o", compiled)
    run(*words, compiled, objects[0], "-lm", "-o", program)
    run(program)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("machine", "instruction"),
    [("aarch64", r"\bfml[as]\s.*4s"), ("riscv64", r"\bfn?m(add|sub)\.s")],
)
def test_programs_of_other_processors(
    modules: dict[str, gridgen.GeneratedModule], tmp_path: Path, machine: str, instruction: str
) -> None:
    """GCC compiles fused multiply-adds; the program, emulated, has the bits of this machine."""
    compiler, emulator = f"{machine}-linux-gnu-g++", f"qemu-{machine}"
    if missing := [name for name in (compiler, emulator) if shutil.which(name) is None]:
        pytest.skip(f"no {' and no '.join(missing)}")
    sources = [module.folder / f"{name}.cpp" for name, module in modules.items()]
    run(compiler, *FLAGS, *STRICT, "-S", sources[0], "-o", tmp_path / "text.s")
    assert len(re.findall(instruction, (tmp_path / "text.s").read_text())) > 20
    flags = [flag for flag in FLAGS if flag not in ("-fno-exceptions", "-fno-rtti")]
    folders = [f"-I{module.folder}" for module in modules.values()]
    program = tmp_path / "two_robots"
    linked = (USERS / "two_robots.cpp", *sources, "-static", "-pthread", "-o", program)
    run(compiler, *flags, *folders, *linked)
    read, written = questions(modules)
    assert run(emulator, program, input=read, timeout=60) == written
    for name, module in modules.items():
        kernel = module.kernels.by_name["inverse_dynamics"]
        code = compile_ahead(
            module.sources(kernel),
            (kernel,),
            ("float32", "float64"),
            parse_targets([f"{machine}-linux"]),
            lambda _: None,
        )
        [library] = (file for file in code if file.endswith(".so"))
        (tmp_path / f"lib{name}.so").write_bytes(code[library])
    program, sysroot = tmp_path / "with_libraries", f"/usr/{machine}-linux-gnu"
    linked = (USERS / "two_robots.cpp", f"-L{tmp_path}", "-ltwo_link", "-lpendulum", "-pthread")
    run(compiler, "-std=c++17", *folders, *linked, "-o", program)
    places = f"LD_LIBRARY_PATH={tmp_path}:{sysroot}/lib"
    assert run(emulator, "-L", sysroot, "-E", places, program, input=read, timeout=60) == written
    if machine == "aarch64":
        source, program = USERS / "subnormals.cpp", tmp_path / "subnormals"
        run(
            compiler,
            *FLAGS,
            *STRICT,
            "-I",
            modules["pendulum"].folder / "include" / "gridgen",
            source,
            "-static",
            "-o",
            program,
        )
        run(emulator, program)


def test_inverse_kinematics_in_cpp(tmp_path: Path) -> None:
    """Bit for bit what Python finds, with every option; warnings are errors."""
    compiler = host_compiler()
    if "ziglang" in compiler.command:
        pytest.skip("Zig would build its C++ library first, which takes minutes")
    names = ("mass_matrix",)
    options = gridgen.GenerateOptions(
        output=tmp_path, functions=names, inverse_kinematics=("tool0",)
    )
    module = gridgen.generate(OWN / "arm6.urdf", options)
    program, words = tmp_path / "reach", (*compiler.command, *compiler.flags)
    include, object_ = f"-I{module.folder}", tmp_path / "arm6.o"
    only = ("-DGRIDGEN_ONLY", "-DGRIDGEN_ONLY_inverse_kinematics_of_tool0")
    source = module.folder / "arm6.cpp"
    run(*words, "-march=native", *FLAGS, *STRICT, *only, "-c", source, "-o", object_)
    strict = (*STRICT, "-pthread", "-o", program)
    run(*words, "-std=c++17", include, USERS / "reach.cpp", object_, *strict)
    robot, read, written = gridgen.load(OWN / "arm6.urdf"), b"", b""
    rng = np.random.default_rng(8)
    q, start = robot.random_configuration(rng, STATES), robot.random_configuration(rng, 1)[0]
    for dtype in ("float32", "float64"):
        targets = robot.forward_kinematics(q, "tool0").astype(dtype)
        q0 = start.astype(dtype)
        read += np.int64(STATES).tobytes() + targets.tobytes() + q0.tobytes()
        chosen = {"tolerance": (1e-3, 1e-2), "iterations": 40, "num_starts": 3}
        one = targets[:1]
        for poses, keywords in (
            *((targets, {}), (one, {})),
            *((one, {"q0": q0, **chosen}), (one, {"rest": q0})),
        ):
            for result in robot.inverse_kinematics(poses, "tool0", **keywords):
                written += result.astype(dtype).tobytes()
    assert run(program, input=read, timeout=60) == written


@pytest.mark.exhaustive
@pytest.mark.usefixtures("sanitizers")
@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_threads_share_batches_without_races(
    modules: dict[str, gridgen.GeneratedModule], tmp_path: Path, sanitizer: str
) -> None:
    """Large batches, so that helpers are awake in many of them."""
    compiler, program = host_compiler(), tmp_path / "two_robots"
    words = (*compiler.command, *compiler.flags, f"-fsanitize={sanitizer}", "-g")
    folders = [f"-I{module.folder}" for module in modules.values()]
    sources = [module.folder / f"{name}.cpp" for name, module in modules.items()]
    flags = [flag for flag in FLAGS if flag not in ("-fno-exceptions", "-fno-rtti")]
    flags += ["-march=native", "-pthread"]
    run(*words, *flags, *folders, USERS / "two_robots.cpp", *sources, "-o", program)
    rng, read = np.random.default_rng(2), b""
    for dtype in ("float32", "float64"):
        for module in modules.values():
            states = 200_000
            x = rng.normal(size=(3, states, module.tree.nv)).astype(dtype)
            read += np.int64(states).tobytes() + x.tobytes()
    for _ in range(3):
        run(program, input=read)


@pytest.mark.exhaustive
@pytest.mark.skipif(shutil.which("cmake") is None, reason="no CMake")
@pytest.mark.parametrize("installed", [False, True])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("compiler", ["g++", "zig"])
def test_a_project_of_cmake(
    modules: dict[str, gridgen.GeneratedModule],
    tmp_path: Path,
    compiler: str,
    shared: bool,
    installed: bool,
) -> None:
    environment = dict(os.environ)
    if compiler == "g++":
        if shutil.which("g++") is None:
            pytest.skip("no g++")
        environment |= {"CC": "gcc", "CXX": "g++"}
    else:
        pytest.importorskip("ziglang")
        for variable, word in (("CC", "cc"), ("CXX", "c++")):
            script = tmp_path / word
            script.write_text(f'#!/bin/sh\nexec {sys.executable} -m ziglang {word} "$@"\n')
            script.chmod(0o755)
            environment[variable] = str(script)
    options = [f"-DBUILD_SHARED_LIBS={'ON' if shared else 'OFF'}"]
    options += ["-DCMAKE_POLICY_DEFAULT_CMP0074=NEW"]
    place = next(iter(modules.values())).folder.parent
    chosen = [f"-DMODULES={place}", f"-DINSTALLED={'ON' if installed else 'OFF'}"]
    if installed:
        for name, module in modules.items():
            build = tmp_path / f"build_{name}"
            run("cmake", "-S", module.folder, "-B", build, *options, env=environment)
            run("cmake", "--build", build, "--parallel", "2")
            run("cmake", "--install", build, "--prefix", tmp_path / "installed")
        chosen.append(f"-DCMAKE_PREFIX_PATH={tmp_path / 'installed'}")
    run("cmake", "-S", USERS, "-B", tmp_path / "build", *options, *chosen, env=environment)
    run("cmake", "--build", tmp_path / "build", "--parallel", "2")
    read, written = questions(modules)
    assert run(tmp_path / "build" / "two_robots", input=read) == written
    run(tmp_path / "build" / "one_robot")


@pytest.mark.exhaustive
@pytest.mark.skipif(shutil.which("cmake") is None, reason="no CMake")
def test_the_control_loop_of_the_examples(tmp_path: Path) -> None:
    """It follows its motion, and says how late it was."""
    options = gridgen.GenerateOptions(output=tmp_path, functions=("inverse_dynamics", "step"))
    module = gridgen.generate(OWN / "arm7.urdf", options)
    example, build = OWN.parent / "examples" / "control_loop", tmp_path / "build"
    run("cmake", "-S", example, "-B", build, f"-DMODULE={module.folder}")
    run("cmake", "--build", build, "--parallel", "2")
    said = run(build / "control_loop", "500").decode()
    assert "the law is computed in" in said
    assert float(said.split("farthest from the motion:")[1].split()[0]) < 1e-3


ROBOTS = [
    ("gripper", {"inputs": ("f_ext", "base_motion")}),
    ("two_link", {"parameters": ("all", "armature", "damping"), "joint_dynamics": True}),
    ("quadruped", {"floating_base": True, "longest_program": 2000}),
]


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "options"), ROBOTS, ids=[name for name, _ in ROBOTS])
def test_every_c_function_computes_what_python_does(
    tmp_path: Path, name: str, options: dict[str, Any]
) -> None:
    """One state and many, defaults given and left out, both types; loops and mimic joints too."""
    options = gridgen.GenerateOptions(output=tmp_path, **options)
    module = gridgen.generate(OWN / f"{name}.urdf", options)
    robot, kernels = Robot(module, "cpu"), module.kernels.by_name
    files = compile_ahead(
        module.sources(next(iter(kernels.values()))),
        tuple(kernels.values()),
        ("float32", "float64"),
        parse_targets(["cpu"]),
        lambda step: None,
    )
    path = tmp_path / "library.so"
    path.write_bytes(files[f"lib{name}-native.so"])
    library = ctypes.CDLL(str(path))
    states = random_states(module.tree, STATES, np.random.default_rng(3))
    one = {"gravity", "dt", "base_velocity", "base_acceleration", "params", "armature", "damping"}
    compared = 0
    for kernel in (k for k in kernels.values() if k.team is None and not k.calls):
        for dtype, suffix in SUFFIXES.items():
            x = {
                key: np.ascontiguousarray((states[key][:1] if key in one else states[key]), dtype)
                for key in kernel.inputs
            }
            given = {key: value[0] if key in one else value for key, value in x.items()}
            for count in (STATES, 1):
                batch = {k: v if k in one else v[:count] for k, v in given.items()}
                expected = robot.evaluate(kernel.name, batch)
                expected = expected if isinstance(expected, tuple) else (expected,)
                results = [np.full_like(array, np.nan) for array in expected]
                call = library[f"{name}_{kernel.name}_{suffix}"]
                arguments = [
                    handed_over(kernel, key, x[key])
                    for key in kernel.inputs
                    if key not in DEFAULTED
                ]
                arguments += [*map(pointer, results), ctypes.c_longlong(count)]
                arguments += [pointer(x[key]) for key in kernel.inputs if key in DEFAULTED]
                assert call(*arguments) == 0, kernel.name
                for result, reference in zip(results, expected, strict=True):
                    np.testing.assert_array_equal(result, reference, err_msg=kernel.name)
                compared += 1
    assert compared > 60
    if platform.libc_ver()[0] == "glibc":
        own = [k for k in kernels.values() if k.team is None and not k.calls and not k.is_over_time]
        stacks = dict(re.findall(r"(\w+_stack) = (\d+)", files[f"{name}_stack.h"].decode()))
        for function, found in watch(path, module, own, 1, tmp_path).items():
            status, did, stack = found
            assert (status, did) == (0, 0)
            assert stack <= int(stacks[f"{function}_stack"]), function
        for function, found in watch(path, module, own, STATES, tmp_path).items():
            assert found[2] <= int(stacks[f"{function}_batch_stack"]), function


#: Calls functions of a library for one state, and for many, with the C library's functions watched.
WATCH = """
import ctypes, json, sys
import numpy as np

watch, did = ctypes.CDLL(sys.argv[2]), ctypes.c_int()
watch.stack_of.restype = ctypes.c_long
library, calls = ctypes.CDLL(sys.argv[1]), json.loads(sys.stdin.read())
for name, (dtype, states, arrays) in calls.items():
    arrays = [np.array(array, dtype) for array in arrays]
    table = [n for x in arrays for n in (x.ctypes.data, x.size // states, 1)]
    table = (ctypes.c_longlong * len(table))(*table)
    function = library[f"{name}_strided"]
    status = watch.watched(function, table, ctypes.c_longlong(states), ctypes.byref(did))
    print(name, status, did.value, watch.stack_of(function, table, ctypes.c_longlong(states)))
"""


def watch(
    path: Path, module: gridgen.GeneratedModule, kernels: list[Kernel], count: int, folder: Path
) -> dict[str, tuple[int, int, int]]:
    """Return each function's status for some states, how often it allocates or locks, its stack."""
    states = random_states(module.tree, count, np.random.default_rng(3))
    calls = {}
    for kernel in kernels:
        inputs = [np.broadcast_to(states[k], (count, *s)) for k, s in kernel.inputs.items()]
        arrays = [*inputs, *(np.zeros((count, *shape)) for shape in kernel.outputs.values())]
        lists = [array.ravel().tolist() for array in arrays]
        for dtype, suffix in SUFFIXES.items():
            name = f"{module.folder.name}_{kernel.name}_{suffix}"
            calls[name] = dtype, count, lists
    interposed = folder / "watch.so"
    run("cc", "-O1", "-shared", "-fPIC", USERS / "watch.c", "-o", interposed)
    words = (sys.executable, "-c", WATCH, path, interposed)
    environment = os.environ | {"LD_PRELOAD": str(interposed)}
    lines = run(*words, input=json.dumps(calls).encode(), env=environment).decode().splitlines()
    rows = [line.split() for line in lines]
    assert len(rows) == len(calls)
    return {name: tuple(map(int, numbers)) for name, *numbers in rows}


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="watches functions of glibc")
def test_one_state_allocates_and_locks_nothing(tmp_path: Path) -> None:
    """Nor do loops over bodies, whose scratch memory is on the stack; packs allocate it."""
    options = gridgen.GenerateOptions(
        output=tmp_path, functions=("forward_dynamics_gradient",), longest_program=0
    )
    module = gridgen.generate(OWN / "two_link.urdf", options)
    (kernel,) = (k for k in module.kernels.by_name.values() if k.team is None)
    sources = module.sources(kernel)
    files = compile_ahead(sources, [kernel], tuple(SUFFIXES), parse_targets(["cpu"]), print)
    path = tmp_path / "library.so"
    path.write_bytes(files["libtwo_link-native.so"])
    assert sources.scratch[kernel.name]
    if not host_compiler().gcc:
        pytest.skip("the compiler reports no stack")
    stacks = dict(re.findall(r"(\w+stack) = (\d+)", files["two_link_stack.h"].decode()))
    for states, actions, name in ((1, 0, "stack"), (3, 2, "batch_stack")):
        for function, found in watch(path, module, [kernel], states, tmp_path).items():
            status, did, stack = found
            assert (status, did) == (0, actions)
            limit = int(stacks[f"{function}_{name}"])
            assert stack <= limit, f"{function}: {stack} bytes for {states}"
            assert states > 1 or stack > limit / 2  # no angle is far away


@pytest.mark.parametrize("machine", ["thumb-freestanding-eabihf", "wasm32-freestanding"])
def test_one_state_on_a_controller(
    modules: dict[str, gridgen.GeneratedModule], tmp_path: Path, machine: str
) -> None:
    """Without SIMD packs, exceptions and threads; it needs four functions at most."""
    pytest.importorskip("ziglang")
    module, sizes = modules["two_link"], []
    for macros in ((), ("-DGRIDGEN_ONE_STATE",)):
        code = tmp_path / f"{len(macros)}.o"
        words = ("-target", machine, *("-mcpu=cortex_m7",) * machine.startswith("thumb"), *STRICT)
        only = ("-DGRIDGEN_ONLY", "-DGRIDGEN_ONLY_inverse_dynamics", "-DGRIDGEN_ONLY_F32")
        source = (
            "-fno-sanitize=undefined",
            "-Wno-ignored-optimization-argument",
            *FLAGS,
            *macros,
            *only,
            module.folder / "two_link.cpp",
        )
        zig = (sys.executable, "-m", "ziglang", "c++")
        run(*zig, *words, *source, "-c", "-o", code, cwd=tmp_path)
        sizes.append(code.stat().st_size)
    assert sizes[1] < sizes[0] / 2


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def handed_over(kernel: Kernel, name: str, array: np.ndarray) -> object:
    """Return an argument: one number for all states by value."""
    if kernel.inputs[name] or not ARRAYS[kernel.kind(name)].shared:
        return pointer(array)
    kind = ctypes.c_float if array.dtype == np.float32 else ctypes.c_double
    return kind(array.flat[0])


def test_a_unit_has_one_function_of_one_type() -> None:
    unit = library_unit("arm", "mass_matrix", "float32", is_over_time=False)
    for part in ("GRIDGEN_ONLY_mass_matrix", "GRIDGEN_ONLY_F32", "arm_mass_matrix_f32_entry"):
        assert part in unit
