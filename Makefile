# embviz: every target sets up what it needs, and is quick when nothing changed.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
TORCH := $(shell sed -n 's/^torch==/torch==/p' constraints.txt)
CORES ?= 2
WORKERS ?= $(CORES)
NBVAL := --nbval --nbval-sanitize-with tests/nbval.cfg --nbval-cell-timeout 300
PYTEST := --dist loadscope --no-loadscope-reorder -p tests.forked_kernels $(NBVAL)
CHAPTERS := $(wildcard book/*.ipynb book/*/*.ipynb)

.DEFAULT_GOAL := help
.PHONY: help setup book lab test test-all elsewhere cells quick chapters bench drill mutants check format clean

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*##/\1\t/p' $(MAKEFILE_LIST) | expand -t 12

# What the pages need, and npm where the machine has none.
PAGES := pages$(shell command -v npm >/dev/null || echo ,npm)

$(VENV)/.pages: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "embviz needs Python 3.11 or later: make PYTHON=/path/to/python3.11"; exit 1; }
	@echo "Installing what the pages need into $(VENV): about a minute and 1.2 GB."
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable ".[$(PAGES)]"
	@touch $@

# PyMDE brings torchvision, which embviz does not use; where it doesn't fit the torch that is there, Transformers
# and Lightning could not be imported beside it.
$(VENV)/.ready: $(VENV)/.pages
	@echo "Adding PyTorch and the rest to $(VENV): 3 GB in all with a PyTorch for CPUs, several GB more with one for GPUs."
	@echo "TORCH_INDEX=address, PyTorch's address of builds for CPUs, chooses the small one where pip would not."
	$(PIP) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) "$(TORCH)"
	$(PIP) --editable ".[all]"
	@$(PY) -c 'import torchvision' 2>/dev/null || $(PY) -m pip uninstall --quiet --yes torchvision
	@touch $@

$(VENV)/.vendor: $(VENV)/.pages book/vendor.toml
	$(PY) book/vendor.py
	@touch $@

setup: $(VENV)/.ready $(VENV)/.vendor  ## make the whole environment in .venv and fetch the browser libraries

book: $(VENV)/.vendor  ## build the book from stored outputs; needs the smallest environment
	$(PY) book/build.py
	@echo "Open $(CURDIR)/book/_build/html/index.html"

lab: setup  ## open copies of the chapters live in JupyterLab; ARGS=--in-place opens the chapters themselves
	$(PY) -m book lab $(ARGS)

# One thread a process: two processes of two threads each wait for one another (a chapter took ten times as long).
# The long files come first, so that the short ones fill up the end.
test: export OMP_NUM_THREADS ?= 1
test: setup  ## run every cell of every chapter, expensive ones from stored results, and all tests but the slow ones
	$(PY) -m pytest -n $(WORKERS) -m "not slow" $(PYTEST) $(CHAPTERS) tests

test-all: export OMP_NUM_THREADS ?= 1
test-all: setup  ## the same with slow tests, expensive cells computed and compared with what is stored, JupyterLab, drills
	EMBVIZ_COMPUTE=1 $(PY) -m pytest -n $(WORKERS) $(PYTEST) $(CHAPTERS) tests
	$(PY) -m pytest tests/drills/drill_*.py -p no:xdist -q

elsewhere: setup  ## make test as the machine is, with the least capable kernels, and with two threads
	$(PY) -m tests.elsewhere $(SETTINGS) -- $(MAKE) --no-print-directory $(or $(ELSEWHERE),test)

cells: export OMP_NUM_THREADS ?= 1
cells: setup  ## run every cell of every chapter, as make test does
	$(PY) -m pytest -n $(WORKERS) $(PYTEST) $(CHAPTERS)

quick: export OMP_NUM_THREADS = 1
quick: setup  ## format, lint, and the tests beside what changed since main (SINCE=COMMIT: since that commit)
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(PY) -m pytest -n $(WORKERS) -m "not slow" $(PYTEST) tests/test_house.py $$( \
	  { git diff --name-only --diff-filter=d $(or $(SINCE),$$(git merge-base HEAD main)); git ls-files --others --exclude-standard; } | \
	  sed -nE 's,^embviz/([a-z]+)/.*,tests/\1,p; s,^embviz/([a-z]+)\.py$$,tests/test_\1.py,p; s,^book/([a-z]+)/.*\.py$$,tests/book/\1,p; s,^((tests/.*/)?test_.*\.py|book/.*\.ipynb)$$,\1,p' | \
	  sort -u | xargs ls -d 2>/dev/null)

chapters: setup  ## run every chapter again and store its outputs; ARGS=--compute computes stored results again
	$(PY) book/execute.py $(ARGS) $(CHAPTERS)

bench: setup  ## measure the speed table, each row beside a peer
	$(PY) -m pytest tests/bench/bench_*.py -p no:xdist -q
	@$(PY) -m tests.bench.speed_table

drill: setup  ## damage, fill, slow down and kill what should survive it; takes some minutes
	$(PY) -m pytest tests/drills/drill_*.py -p no:xdist -rA -q

mutants: export OMP_NUM_THREADS = 1
mutants: setup  ## plant lies in the code, one at a time, and report those that no test notices
	$(PY) -m tests.mutants --jobs $(CORES)

check: setup  ## lint, format and types
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy

format: setup  ## rewrite the code in the project's format
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix --exclude "*.ipynb" .

clean:  ## remove what was built; keep the environment and the results
	rm -rf book/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
