# embviz: every target sets up what it needs, and is quick when nothing changed.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
TORCH := $(shell sed -n 's/^torch==/torch==/p' constraints.txt)
CORES ?= 2
WORKERS ?= $(shell expr $(CORES) + 1)
NBVAL := --nbval --nbval-sanitize-with tests/nbval.cfg --nbval-cell-timeout 300
FORKED := -p tests.forked_kernels
PICTURES := -p tests.tolerated_pictures
CHAPTERS := $(wildcard book/*.ipynb book/*/*.ipynb)

.DEFAULT_GOAL := help
.PHONY: help setup book lab test quick chapters pictures rehearse bench drill mutants check format clean

help:  ## list the targets
	@sed -n 's/^\([a-z]*\):.*##/\1\t/p' $(MAKEFILE_LIST) | expand -t 12

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
	$(VENV)/bin/embviz lab $(ARGS)

# One thread a process: two processes of two threads each wait for one another (a chapter took ten times as long).
# One process more than cores: browsers and kernels are waited for. The long files, chapters, come first, so that
# the short ones fill up the end.
test: export OMP_NUM_THREADS = 1
test: setup  ## run all tests, every chapter included
	$(PY) -m pytest -n $(WORKERS) --dist loadscope --no-loadscope-reorder $(FORKED) $(PICTURES) $(NBVAL) $(CHAPTERS) tests

quick: export OMP_NUM_THREADS = 1
quick: setup  ## format, lint, and the tests of what changed since main (SINCE=COMMIT: since that commit)
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(PY) -m pytest -n $(WORKERS) --dist loadscope $(FORKED) $(PICTURES) $(NBVAL) $$($(PY) -m tests.changed $(SINCE))

chapters: setup  ## run every chapter again and store its outputs
	$(PY) book/execute.py $(CHAPTERS)

pictures: export OMP_NUM_THREADS = 1
pictures: setup  ## run the chapters whose pictures differ between processors, and check these within a tolerance
	$(PY) -m pytest $(PICTURES) $(NBVAL) $(or $(PICTURED),$(shell grep -l nbval-ignore-output $(CHAPTERS)))

rehearse: setup  ## compare one chapter's outputs under other instruction sets and thread counts
	ATEN_CPU_CAPABILITY=avx2 OPENBLAS_CORETYPE=Haswell MKL_ENABLE_INSTRUCTIONS=AVX2 OMP_NUM_THREADS=1 $(PY) -m pytest $(NBVAL) $(REHEARSED)
	ATEN_CPU_CAPABILITY=default OMP_NUM_THREADS=2 $(PY) -m pytest $(NBVAL) $(REHEARSED)
REHEARSED ?= book/reflections/half_the_dimensions.ipynb

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
