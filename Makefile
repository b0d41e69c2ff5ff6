# grid-gen: `make demo` and `make test` set up all they need in .venv; `make help` lists the rest.

PYTHON ?= python3
BIN := .venv/bin
# The compiled kernels of `make gpu-test`: that machine may have no home folder to write to.
GPU_CACHE := $(CURDIR)/build/gpu-cache

# What this machine lacks or has: a compiler wheel where there is no C++ compiler, CuPy where there
# is a GPU. `make test EXTRAS=cuda13` chooses by hand.
COMPILER := $(shell command -v "$$CXX" || command -v c++ || command -v g++ || command -v clang++)
GPU := $(shell nvidia-smi -L 2>/dev/null | grep '^GPU ')
EXTRAS ?= $(if $(COMPILER),,zig) $(if $(GPU),cuda12)
# Tests compile kernels for GPUs, and run them translated, wherever NVRTC has wheels.
NVRTC := $(if $(filter Linux,$(shell uname -s)),$(filter x86_64 aarch64,$(shell uname -m)))

# The environment grows by extras; a stamp that is named after them says that they are there.
comma := ,
extras = $(subst $() ,$(comma),$(strip $(1) $(EXTRAS)))
DEMO_READY := .venv/ready-$(call extras,demo)
TEST_READY := .venv/ready-$(call extras,test $(if $(filter cuda%,$(EXTRAS)),,$(if $(NVRTC),cuda12)))
PROVE_READY := .venv/ready-$(call extras,test prove $(if $(filter cuda%,$(EXTRAS)),,cuda12))
BENCH_READY := .venv/ready-$(call extras,bench)
LINT_READY := .venv/ready-lint
DOCS_READY := .venv/ready-docs
RELEASE_READY := .venv/ready-release
# One worker for each core. An idle worker takes over tests of others.
PYTEST := $(BIN)/python -m pytest -n auto --dist worksteal
# Python compiles the modules that it imports; pip would compile all.
INSTALL := $(BIN)/python -m pip install --quiet --no-compile

.PHONY: help demo test test-exhaustive prove mutants gpu-test gpu-bench gpu-first-day bench docs lint format type golden kernels-diff wheel try-wheel check setup clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(DEMO_READY) ## run grid-gen on a real robot, evaluate the result, print a table
	$(BIN)/python benchmarks/demo.py $(ROBOT)

test: $(TEST_READY) ## run all tests
	$(PYTEST) $(TESTS)

test-exhaustive: $(TEST_READY) ## run what `make test` leaves out, or a part of it: SHARE=3/16
	$(PYTEST) -m exhaustive $(if $(SHARE),--share $(SHARE)) $(TESTS)

prove: $(PROVE_READY) ## prove for every launch that kernels stay in bounds; find planted faults
	$(PYTEST) -m "exhaustive or not exhaustive" tests/prove

mutants: $(PROVE_READY) ## plant faults, and run the tests that must find them; a part: SHARE=1/16
	$(BIN)/python tests/mutants.py --share $(or $(SHARE),1/1) $(if $(EACH),--each $(EACH)) $(if $(OUTPUT),--output $(OUTPUT))

gpu-test: ## test the cuda backend on this machine's GPU, with the packages there are
	PYTHONPATH=codegen GRIDGEN_CACHE_DIR="$(GPU_CACHE)" GRIDGEN_REQUIRE_GPU=1 \
	    $(PYTHON) -m pytest -o filterwarnings=default tests/numerics/test_cuda.py \
	    tests/numerics/test_torch_on_gpu.py

gpu-bench: ## measure the cuda backend on this machine's GPU, with the packages there are
	PYTHONPATH=codegen GRIDGEN_CACHE_DIR="$(GPU_CACHE)" \
	    $(PYTHON) benchmarks/gpu.py --output build/gpu.json $(BENCH)

gpu-first-day: ## measure a new GPU: a dozen kernels, the figures of the cost model, tests
	PYTHONPATH=codegen GRIDGEN_CACHE_DIR="$(GPU_CACHE)" \
	    $(PYTHON) benchmarks/first_day.py --output build/first-day.json

bench: $(BENCH_READY) ## measure every function next to Pinocchio's; BENCH=--compile: its C++ too
	$(BIN)/python benchmarks/cpu.py --quick $(BENCH)

docs: $(DOCS_READY) ## build the manual, a site in build/docs; a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --config-file .mkdocs.yml

lint: $(LINT_READY) ## ruff: rules and layout
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(LINT_READY) ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

type: $(LINT_READY) ## mypy --strict
	$(BIN)/mypy --strict

golden: $(TEST_READY) ## write generated/two_link, digests and the manual's tables, after an intended change
	rm -rf generated/two_link
	$(BIN)/grid-gen robots/two_link.urdf --output generated
	$(BIN)/python docs/derived.py
	$(BIN)/python tests/golden/kernels.py

kernels-diff: $(TEST_READY) ## show what the working tree changes in kernels: BASE=HEAD~1
	@$(BIN)/python tests/golden/kernels.py $(or $(BASE),HEAD)

wheel: $(RELEASE_READY) ## build dist/*.tar.gz, and dist/*.whl from it, and check both
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*

try-wheel: ## install dist/*.whl alone, with PYTHON=python3.12, and check a robot's functions
	rm -rf build/try-wheel && $(PYTHON) -m venv build/try-wheel
	build/try-wheel/bin/python -m pip install --quiet dist/*.whl $(if $(COMPILER),,ziglang)
	cd build && try-wheel/bin/grid-gen ../robots/two_link.urdf --output try-wheel/modules --check --quiet
	build/try-wheel/bin/python --version

check: lint type test ## everything that CI checks

setup: $(TEST_READY) $(LINT_READY) ## set up the virtual environment for all of it

clean: ## remove what make has made, except generated/
	rm -rf .venv build dist

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	    { echo "grid-gen needs Python >= 3.10: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(INSTALL) "pip>=22"

# There are no wheels of Pinocchio for some machines: the demo goes without.
$(DEMO_READY): .venv/bin/python pyproject.toml
	@echo "pip installs packages into .venv, once ..."
	$(INSTALL) --editable ".[$(call extras,demo pinocchio)]" || \
	    { echo "Pinocchio does not install here" >&2; $(INSTALL) --editable ".[$(call extras,demo)]"; }
	@touch $@

$(TEST_READY) $(PROVE_READY) $(BENCH_READY) $(DOCS_READY) $(RELEASE_READY) $(LINT_READY): .venv/ready-%: .venv/bin/python pyproject.toml
	@echo "pip installs packages into .venv, once ..."
	$(INSTALL) --editable ".[$*]"
	@touch $@
