# Everything is installed into .venv on first use, and again only when the requirements change.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

# Other versions of Python, each with a small environment without torch, and what is tested there: the files that need
# none. A test in one of them that does is marked `torch`.
PYENV ?= $(HOME)/.pyenv/versions
PYTHONS := 3.12 3.13
LIGHT := tests/reporting tests/records tests/cli/test_pack.py tests/cli/test_results.py \
	tests/cli/test_main.py \
	tests/recipes/test_alignment.py tests/test_cli.py tests/test_extras.py tests/test_layers.py \
	tests/test_pages.py tests/test_public_names.py tests/test_pythons.py tests/test_readme.py tests/test_results_list.py \
	$(addprefix tests/data/test_,$(addsuffix .py,archives bombs classes download folders hostile_folders \
	hostile_server interrupt layouts packages pixel_noise places safety sources stream))
LIGHT_PACKAGES := "filelock>=4.2" "numpy>=2" "pillow>=10" "rich>=13" "typer>=0.16" "scipy>=1.14" "jinja2>=3.1" \
	"pytest>=8.2" "pytest-xdist>=3.6" "hypothesis>=6.100"

.PHONY: test unit fuzz torture check lint types readme network docs reproduce pages release-check clean
.PHONY: pythons $(PYTHONS:%=python-%) $(PYTHONS:%=wheel-%)

# One thread in each of the processes: more would only get in each other's way.
test: export OMP_NUM_THREADS = 1
test: $(READY)
	$(BIN)/pytest -n auto --dist worksteal

unit: export OMP_NUM_THREADS = 1
unit: $(READY)
	$(BIN)/pytest -n auto --dist worksteal -m "not miniature and not readme and not network"

# Calls of every public name, right and wrong; more of them than `make test` has time for.
CALLS ?= 50000
fuzz: export OMP_NUM_THREADS = 1
fuzz: $(READY)
	$(BIN)/python tests/fuzz/run.py --calls $(CALLS)

# Kills, failing disks, damaged files and hostile sources: docs/reliability.md.
torture: export OMP_NUM_THREADS = 1
torture: $(READY)
	$(BIN)/python tests/torture/run.py --jobs 2

check: lint types test readme

lint: $(READY)
	$(BIN)/ruff format --check
	$(BIN)/ruff check

types: $(READY)
	$(BIN)/mypy

readme: $(READY)
	$(BIN)/pytest -m readme

network: $(READY)
	$(BIN)/pytest -m network

# The site, in build/site: any warning, such as a link that leads nowhere or a cell that fails, is an error.
docs: export OMP_NUM_THREADS = 1
docs: $(READY)
	$(BIN)/python -m sphinx -q -W --keep-going --fresh-env -c docs/site -b html . build/site
	@echo "build/site/index.html; links that were not followed: build/site/external-links.txt"

pythons: $(PYTHONS:%=python-%)

# The newest one of pyenv.
found = $(lastword $(sort $(wildcard $(PYENV)/$(1).*/bin/python)))

$(PYTHONS:%=python-%): python-%:
	@if [ -z "$(call found,$*)" ]; then echo "python $* is missing: nothing is tested with it"; \
	else $(MAKE) --no-print-directory .venv-$*/.ready && OMP_NUM_THREADS=1 .venv-$*/bin/pytest -q -n auto \
	-m "not torch and not miniature and not readme and not network" $(LIGHT); fi

.venv-%/.ready: pyproject.toml constraints.txt Makefile
	$(call found,$*) -m venv .venv-$*
	.venv-$*/bin/pip install --quiet --no-compile --constraint constraints.txt $(LIGHT_PACKAGES)
	.venv-$*/bin/pip install --quiet --no-deps --editable .
	touch $@

# What Poise gains, in small: about four minutes on two cores.
reproduce: export OMP_NUM_THREADS = 1
reproduce: $(READY)
	$(BIN)/poise data get mnist
	$(BIN)/poise reproduce rare-digits --quick --jobs 2 --out runs
	$(BIN)/poise table runs/rare-digits-quick
	$(BIN)/poise report runs/rare-digits-quick

# What a release has to pass: both files build and are described well, the workflows are valid, the README's blocks run
# with the wheel alone, and tables and pages are made with other versions of Python.
release-check: export OMP_NUM_THREADS = 1
release-check:
	rm -rf dist .venv-release .venv-wheel
	$(PYTHON) -m venv .venv-release
	.venv-release/bin/pip install --quiet build check-jsonschema twine
	.venv-release/bin/python -m build --outdir dist
	.venv-release/bin/twine check --strict dist/*
	.venv-release/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(PYTHON) -m venv .venv-wheel
	.venv-wheel/bin/pip install --quiet --no-compile --constraint constraints.txt "$$(echo dist/*.whl)[experiments]"
	.venv-wheel/bin/python tests/installed.py blocks
	.venv-wheel/bin/python tests/installed.py tables
	$(MAKE) --no-print-directory $(PYTHONS:%=wheel-%)

$(PYTHONS:%=wheel-%): wheel-%:
	@if [ -z "$(call found,$*)" ]; then echo "python $* is missing: the wheel is not tested with it"; else \
	rm -rf .venv-wheel-$* && $(call found,$*) -m venv .venv-wheel-$* \
	&& .venv-wheel-$*/bin/pip install --quiet --no-compile --constraint constraints.txt $(LIGHT_PACKAGES) \
	&& .venv-wheel-$*/bin/pip install --quiet --no-deps dist/*.whl \
	&& .venv-wheel-$*/bin/python tests/installed.py tables; fi

# What documents take from the records of results/; the last needs MNIST in the cache, and prints its numbers.
pages: $(READY)
	$(BIN)/python -m docs.pages
	$(BIN)/python docs/cifar_figures.py results all --epochs results/benchmarks/epochs-h200.json
	$(BIN)/python docs/synthetic_mnist.py results

clean:
	rm -rf .venv .venv-release .venv-wheel $(PYTHONS:%=.venv-%) $(PYTHONS:%=.venv-wheel-%) .mypy_cache .ruff_cache .pytest_cache build dist

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@
