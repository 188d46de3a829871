# The commands of this clone. Each target sets up what it needs: .venv is made by the first one that is run, and brought
# up to date when pyproject.toml or constraints.txt has changed.

VENV := .venv
PYTHON_HERE := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed
EXTRAS := dev,xdist,data,postgres,report,mlflow,wandb,gdrive,s3,fleet,profile,asv,dask

# NeMo Curator has an environment of its own. Its torch is named by version where that is a build for the CPU; elsewhere name
# another in TORCH: what is not built for the CPU drags in gigabytes of CUDA libraries.
CURATOR_VENV := .venv-curator
CURATOR_INSTALLED := $(CURATOR_VENV)/.installed
TORCH ?= torch==2.13.0
NEMO_CURATOR ?= nemo-curator==1.4.0
CURATOR_REPO ?=
# What scripts of its nightly import beside it; its own extras name versions that have to be compiled.
CURATOR_SCRIPTS := av beautifulsoup4 fasttext-wheel ftfy justext lxml-html-clean pycld2 python-magic resiliparse trafilatura warcio

BENCH_MARK ?= dedup
BENCH_ARGS ?=
ifneq ($(wildcard .venv-detectors/bin/python),)
export DETECTORS_PYTHON ?= $(CURDIR)/.venv-detectors/bin/python
endif
PYTEST_ARGS ?=
# Most tests wait for processes: four at a time suit two cores.
TEST_WORKERS ?= 4
# Who has nothing left to do takes tests from the others; slow tests of a module stay together, since they share what it starts;
# conftest.py has their order.
TOGETHER = -n $(TEST_WORKERS) --dist worksteal
BY_MODULE = -n $(TEST_WORKERS) --dist loadscope --no-loadscope-reorder
# Where it is set, every process compiles what it imports anew, and most tests start processes.
unexport PYTHONDONTWRITEBYTECODE

# The oldest versions of what is installed: of the tests, those that meet every one of these packages.
FLOORS_VENV := .venv-floors
FLOORS_INSTALLED := $(FLOORS_VENV)/.installed
FLOORS_TESTS := tests/collection tests/cli/test_init.py tests/end_to_end/test_run_matrix.py tests/store/test_migrations.py \
	tests/store/test_damage.py

# Plugins that people have in their pytest. Here they would change the other tests.
PLUGINS_VENV := .venv-plugins
PLUGINS_INSTALLED := $(PLUGINS_VENV)/.installed
PLUGINS := pytest-asyncio==1.5.0 pytest-cov==7.1.0 pytest-html==4.2.0 pytest-randomly==5.1.0 pytest-repeat==0.9.4 \
	pytest-rerunfailures==16.7 pytest-sugar==1.1.1

# The attention suite has an environment of its own. Of what these two bring most is never imported, so it is not compiled
# before it is.
ATTENTION_VENV := .venv-attention
ATTENTION_INSTALLED := $(ATTENTION_VENV)/.installed
TRANSFORMERS ?= transformers==5.23.0

.DEFAULT_GOAL := help

.PHONY: help
help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# What is held against NeMo Curator runs where that is installed.
ifneq ($(filter compare curator alm_end_to_end,$(BENCH_MARK)),)
BENCH_INSTALLED := $(CURATOR_INSTALLED)
BENCH_PYTHON := ci/with_curator.sh $(CURATOR_VENV)/bin/python
else
BENCH_INSTALLED := $(INSTALLED)
BENCH_PYTHON := $(PYTHON_HERE)
endif

.PHONY: bench
bench: $(BENCH_INSTALLED) ## run the benchmarks marked BENCH_MARK (dedup) and record them; BENCH_ARGS=… go to pytest
	$(BENCH_PYTHON) -m pytest benchmarks -m "$(BENCH_MARK)" --benchmark $(BENCH_ARGS) $(if $(CURATOR_REPO),"--bench-curator-repo=$(CURATOR_REPO)")

.PHONY: test
test: $(INSTALLED) ## run the tests one runs while working, all but the slow ones and the proofs; PYTEST_ARGS=… go to pytest
	$(PYTHON_HERE) -m pytest --ignore tests/proof -m "not slow" $(TOGETHER) $(PYTEST_ARGS)

.PHONY: test-slow
test-slow: $(INSTALLED) ## run the tests marked slow: those that start clusters, fleets, servers, browsers or many pytests
	$(PYTHON_HERE) -m pytest --ignore tests/proof -m slow $(BY_MODULE) $(PYTEST_ARGS)

.PHONY: test-proofs
test-proofs: $(INSTALLED) ## run the long proofs, each at a tenth of its size; make proof runs them in full
	$(PYTHON_HERE) -m pytest tests/proof $(BY_MODULE) $(PYTEST_ARGS)

.PHONY: test-floors
test-floors: $(FLOORS_INSTALLED) ## run tests with the oldest versions that pyproject.toml allows: pytest 8.0, Ray 2.52, pydantic 2.7
	$(FLOORS_VENV)/bin/python -m pytest $(FLOORS_TESTS) -k "not beside_pytest_benchmark" $(TOGETHER) $(PYTEST_ARGS)

.PHONY: test-plugins
test-plugins: $(PLUGINS_INSTALLED) ## run the tests of other pytest plugins in use together with this one
	$(PLUGINS_VENV)/bin/python -m pytest tests/other_plugins -p no:asyncio -p no:randomly -p no:sugar $(TOGETHER) $(PYTEST_ARGS)

.PHONY: test-curator
test-curator: $(CURATOR_INSTALLED) ## run what a CPU can of NeMo Curator under test; CURATOR_REPO=… tries its own scripts, too; SUITES=short
	ci/test_curator.sh $(CURATOR_VENV)/bin/python $(if $(CURATOR_REPO),"$(CURATOR_REPO)")

.PHONY: test-attention
test-attention: $(ATTENTION_INSTALLED) ## run the attention suite, and print its tables; SUITES=short runs half of it
	ci/test_attention.sh $(ATTENTION_VENV)/bin

.PHONY: proof
proof: $(INSTALLED) ## run the long proofs in full (up to 90 minutes)
	CURATOR_BENCH_PROOF=full $(PYTHON_HERE) -m pytest tests/proof $(PYTEST_ARGS)

.PHONY: detectors
detectors: $(INSTALLED) ## install asv and Apache Otava into .venv-detectors, for `make bench BENCH_MARK=statistics` and `make proof`
	$(PYTHON_HERE) -m venv .venv-detectors
	.venv-detectors/bin/python -m pip install --quiet --disable-pip-version-check asv apache-otava

.PHONY: check
check: $(INSTALLED) ## check format, lint, types, who imports whom, dependencies, shell scripts, workflows and the Dockerfile
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports --no-cache --no-logo
	$(VENV)/bin/deptry src
	$(VENV)/bin/shellcheck .ci/run ci/*.sh
	$(VENV)/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	ci/actionlint.sh
	$(VENV)/bin/zizmor --offline --quiet --no-progress .github/workflows
	$(VENV)/bin/hadolint Dockerfile

.PHONY: site
site: $(INSTALLED) ## build the manual as a site, in build/site; a link that leads nowhere stops it
	$(PYTHON_HERE) docs/build_site.py

.PHONY: format
format: $(INSTALLED) ## put the code into the house's format
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

.PHONY: dist
dist: $(INSTALLED) ## build the wheel and the sdist, and run a matrix with each in an empty environment elsewhere
	ci/dist.sh

.PHONY: release
release: $(INSTALLED) ## build and check the files of a release in dist/, of a clean tree whose CHANGELOG names the version
	ci/release.sh

.PHONY: constraints
constraints: ## write constraints.txt anew: the newest versions that suit every extra but curator and attention
	ci/constraints.sh $(EXTRAS),all

.PHONY: clean
clean: ## remove what make and the tools built (.venv*, dist, caches), never results or databases
	rm -rf $(VENV) $(CURATOR_VENV) $(ATTENTION_VENV) $(FLOORS_VENV) $(PLUGINS_VENV) .venv-detectors dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks .codspeed
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A clone that was moved and a Python that was removed leave an environment that works on the wrong files or not at all;
# the stamp holds the folder it was made for, and counts only there.
ifneq ($(shell $(PYTHON_HERE) -c '' 2>/dev/null && cat $(INSTALLED) 2>/dev/null),$(CURDIR))
.PHONY: $(INSTALLED)
endif
ifneq ($(shell $(CURATOR_VENV)/bin/python -c '' 2>/dev/null && cat $(CURATOR_INSTALLED) 2>/dev/null),$(CURDIR))
.PHONY: $(CURATOR_INSTALLED)
endif

ifneq ($(shell $(FLOORS_VENV)/bin/python -c '' 2>/dev/null && cat $(FLOORS_INSTALLED) 2>/dev/null),$(CURDIR))
.PHONY: $(FLOORS_INSTALLED)
endif

ifneq ($(shell $(PLUGINS_VENV)/bin/python -c '' 2>/dev/null && cat $(PLUGINS_INSTALLED) 2>/dev/null),$(CURDIR))
.PHONY: $(PLUGINS_INSTALLED)
endif

ifneq ($(shell $(ATTENTION_VENV)/bin/python -c '' 2>/dev/null && cat $(ATTENTION_INSTALLED) 2>/dev/null),$(CURDIR))
.PHONY: $(ATTENTION_INSTALLED)
endif

$(INSTALLED): pyproject.toml constraints.txt
	@ci/setup.sh $(VENV) $(EXTRAS)

$(CURATOR_INSTALLED): pyproject.toml constraints.txt
	@ci/setup.sh $(CURATOR_VENV) dev,data,curator --no-compile $(TORCH) $(NEMO_CURATOR) soundfile datasketch gitpython rich $(CURATOR_SCRIPTS)

$(FLOORS_INSTALLED): pyproject.toml
	@FLOORS=1 ci/setup.sh $(FLOORS_VENV) xdist,report,postgres,data "hypothesis>=6.100"

$(PLUGINS_INSTALLED): pyproject.toml constraints.txt Makefile
	@ci/setup.sh $(PLUGINS_VENV) xdist hypothesis $(PLUGINS)

$(ATTENTION_INSTALLED): pyproject.toml constraints.txt
	@ci/setup.sh $(ATTENTION_VENV) attention,xdist --no-compile $(TORCH) $(TRANSFORMERS)
