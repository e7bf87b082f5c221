# Two commands do everything on a new machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
EXTRAS ?= dev
COMMA := ,
STAMP := $(VENV)/.installed-$(subst $(COMMA),-,$(EXTRAS))
DIST ?= dist
PARALLEL := -n auto --dist loadfile --no-loadscope-reorder
export PATH := $(CURDIR)/.tools/bin:$(PATH)
NATIVE := $(wildcard src/native/*.[ch]pp src/native/*/*.[ch]pp src/native/*/*.map)

.PHONY: help install tools demo test test-ttnn check bench soak chaos pictures tables dashboards api fuzz fuzz-guided sanitize wheel test-fast coverage test-pythons metrics clean

help: ## this text
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

install: $(STAMP) ## makes .venv with ttmem in it

$(STAMP): pyproject.toml setup.py $(NATIVE)
	@test -x $(BIN)/python || { echo "making $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "installing ttmem into $(VENV)"
	@$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[$(EXTRAS)]'
	@touch $@

tools: install ## installs the programs that tests check our files with, into .tools and .venv
	@.ci/tools

demo: install ## a workload, a server and the table, with no card
	@$(BIN)/ttmem demo

test: install ## the tests (TESTS: which)
	@$(BIN)/python -m pytest $(PARALLEL) $(TESTS)

test-ttnn: install ## the tests beside the real runtime, stock ttnn on mock devices
	@$(BIN)/python -m pytest tests/ttnn

check: install ## ruff and mypy --strict
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

bench: install ## every benchmark, one table
	@$(BIN)/python -m benchmarks

soak: install ## an hour (SOAK_SECONDS) of server, monitor, watched ttnn and clients; memory stays flat
	@$(BIN)/python -m benchmarks.soak

chaos: install ## 15 minutes (CHAOS_SECONDS) of faults, every total compared; CHAOS_SEED repeats a run
	@$(BIN)/python -m chaos

pictures: install ## the pictures of the README and the docs, from the real program
	@$(BIN)/python -m docs.make_pictures

tables: install ## src/native/tables.hpp: the numbers and columns that Python and C++ share
	@$(BIN)/python src/native/make_tables.py

dashboards: install ## deploy/: the Grafana dashboard and the rules for Prometheus
	@$(BIN)/python -m deploy.make_dashboards

api: install ## docs/api.md, from the docstrings
	@$(BIN)/python -m docs.make_api

fuzz: install ## 100,000 mutated streams, and as many regions, against decoders and server
	@$(BIN)/python -m fuzz

fuzz-guided: install ## coverage-guided fuzzing of the parsers: libFuzzer and atheris (FUZZ_COUNT inputs, FUZZ_SECONDS for each)
	@$(BIN)/python -m fuzz.guided $(or $(FUZZ_COUNT),1000000) --seconds $(or $(FUZZ_SECONDS),0)

sanitize: install ## native module and probe under sanitizers and valgrind; not part of the tests, takes minutes
	@$(BIN)/python -m tests.probe.sanitize $(SANITIZE)

wheel: install ## an sdist and one wheel for every CPython from 3.10 on, in dist/
	@rm -rf $(DIST)
	@$(BIN)/python -m build --outdir $(DIST)/unrepaired . >/dev/null
	@PATH="$(BIN):$$PATH" $(BIN)/python -m auditwheel repair --plat manylinux_2_34_x86_64 \
		--wheel-dir $(DIST) $(DIST)/unrepaired/*.whl
	@mv $(DIST)/unrepaired/*.tar.gz $(DIST) && rm -r $(DIST)/unrepaired && ls -l $(DIST)

test-fast: install ## the tests that need neither ttnn nor much time
	@$(BIN)/python -m pytest -m "not slow" $(PARALLEL)

coverage: install ## the fast tests, and which lines of ttmem they run; fails below the floor in pyproject.toml
	@$(BIN)/python -m coverage run -m pytest $(or $(TESTS),-m "not slow")
	@$(BIN)/python -m coverage report --skip-covered

test-pythons: install ## the fast tests on every CPython of this machine, with the wheel installed
	@$(BIN)/python -m tests.house.wheel

metrics: install ## how large and how fragmented the source tree is
	@$(BIN)/python -m tests.house.metrics

clean: ## removes what the other targets made
	rm -rf $(VENV) .tools build dist src/*.egg-info src/ttmem/_native*.so src/ttmem/probe/*.so .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage
