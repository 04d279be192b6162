# Two commands on a fresh machine:  make demo   and   make test
# Everything runs inside .venv, built once from requirements.lock by the stamp below.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp
UV_VERSION := 0.13.7
TORCH_VERSION := 2.13.0
# Extra arguments for installing torch, for example TORCH_ARGS=--torch-backend=cpu
TORCH_ARGS ?=
WORKERS ?= auto
# One thread per test worker: more threads than cores makes small matrices slower, not faster.
ONE_THREAD := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1
# Tests start dozens of processes that import torch: compile each module once, outside the sources.
COMPILED_ONCE := PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX=$(CURDIR)/$(VENV)/pycache

.PHONY: setup demo test browser-test lint format bench slow docs site pictures costs lock clean

setup: $(STAMP)

$(STAMP): requirements.lock pyproject.toml tools/setup_venv.sh
	PYTHON=$(PYTHON) VENV=$(VENV) UV_VERSION=$(UV_VERSION) TORCH_VERSION=$(TORCH_VERSION) \
	  TORCH_ARGS="$(TORCH_ARGS)" sh tools/setup_venv.sh
	@touch $(STAMP)

demo: $(STAMP)
	$(BIN)/icgd run --example diabetes --trace --trace-budget 6 --out runs/demo
	@echo "Open in a browser: runs/demo/report.html (what came out) and runs/demo/viewer.html (watch it happen)."

test: $(STAMP)
	$(ONE_THREAD) $(COMPILED_ONCE) $(BIN)/pytest -n $(WORKERS) --dist worksteal -q

# Needs chromium and chromedriver; installs them where apt-get may.
browser-test: $(STAMP)
	sh tools/get_browser.sh
	$(ONE_THREAD) ICGD_NEEDS_BROWSER=1 $(COMPILED_ONCE) $(BIN)/pytest -q -n $(WORKERS) tests/pages tests/cli/test_report_command.py

slow: $(STAMP)
	$(ONE_THREAD) $(COMPILED_ONCE) $(BIN)/pytest -n $(WORKERS) -q -m slow

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP)
	$(ONE_THREAD) $(BIN)/icgd bench cot --json runs/bench_cot.json
	$(ONE_THREAD) $(BIN)/icgd bench linear-models --json runs/bench_linear_models.json
	$(ONE_THREAD) $(BIN)/icgd bench machine --json runs/bench_machine.json

# One thread: sums in another order change last digits, and tests compare the tables.
docs: $(STAMP)
	$(ONE_THREAD) $(BIN)/python -m tools.generate_docs
	$(ONE_THREAD) $(BIN)/python -m tools.generate_verdicts
	$(ONE_THREAD) $(BIN)/python -m tools.generate_costs
	$(ONE_THREAD) $(BIN)/python -m tools.docs_figures
	$(BIN)/python -m tools.docs_house
	$(ONE_THREAD) $(BIN)/python -m tools.docs_machine
	$(ONE_THREAD) $(BIN)/python -m tools.docs_tutorials
	$(BIN)/ruff format --quiet docs
	$(MAKE) site

site: $(STAMP)
	rm -rf site
	$(ONE_THREAD) $(BIN)/sphinx-build -q -b html --fail-on-warning --keep-going -d build/doctrees docs site
	$(BIN)/python -m tools.check_docs site

pictures: $(STAMP)
	sh tools/get_browser.sh
	$(ONE_THREAD) $(BIN)/python -m tools.viewer_pictures

costs: $(STAMP)
	$(BIN)/python -m tools.generate_costs
	$(ONE_THREAD) $(BIN)/python -m tools.measure_stacks

# torch and what it brings depend on the machine: both stay out of the lock.
lock:
	$(BIN)/uv pip compile pyproject.toml --extra dev --extra docs --extra train --extra ray --extra track \
	  --no-emit-package torch --no-header --no-annotate --no-emit-index-url --no-emit-find-links \
	  --upgrade -o requirements.lock
	sed -i -e '/^nvidia-/d' -e '/^cuda-/d' -e '/^triton==/d' requirements.lock

clean:
	rm -rf $(VENV) runs site build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
