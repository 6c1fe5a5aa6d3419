# Every target works in a bare clone: it makes the environment it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.made
RUNS_STAMP := $(VENV)/.runs
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Ten times as fast as pip, which puts it into the environment first and does its work where it cannot.
UV := $(BIN)/uv pip install --quiet --python $(BIN)/python
ifdef PIP_INDEX_URL
export UV_DEFAULT_INDEX := $(PIP_INDEX_URL)
endif
TOOLS := $(VENV)/tools
TOOLS_STAMP := $(TOOLS)/.made
SHIPPED := requirements/extras.txt requirements/runtime.txt
SOURCES := streamsvm consumers tests

.PHONY: before wheel reader-wheel env demo broker test test-quick test-long nightly fuzz simulation faults mutants papers lint requirements sbom release audit clean test-deploy readers budget

env: $(STAMP)

# What the program itself needs; `env` adds what tests and checkers do.
$(RUNS_STAMP): pyproject.toml requirements/runtime.txt requirements/build.txt requirements/uv.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "streamsvm needs Python 3.11 or newer; say which with PYTHON=python3.12"; exit 1; }
	@echo "making $(VENV): 0.7 GB; what runs first compiles for a minute or two"
	$(PYTHON) -m venv $(VENV)
	$(PIP) --require-hashes -r requirements/uv.txt
	$(UV) --require-hashes -r requirements/build.txt -r requirements/runtime.txt || \
		$(PIP) --require-hashes -r requirements/build.txt -r requirements/runtime.txt
	$(PIP) --no-deps --no-build-isolation --no-index -e .
	@touch $@

$(STAMP): $(RUNS_STAMP) requirements/dev.txt
	@echo "adding to $(VENV) what tests and checkers need: 0.7 GB more"
	$(UV) --require-hashes -r requirements/dev.txt || $(PIP) --require-hashes -r requirements/dev.txt
	@touch $@

demo: $(RUNS_STAMP)
	@$(BIN)/streamsvm demo

broker: env
	@$(BIN)/python -m tests.brokers

# More processes than processors: half of the tests wait for brokers and daemons.
# A process that crashed is not begun again: after the last test its successor would wait for work for ever.
PYTEST := $(BIN)/pytest -n 6 --dist loadfile --no-loadscope-reorder --max-worker-restart 0

# Compiled tests are kept, else each of those processes compiles them all.
test test-quick test-long budget: export PYTHONDONTWRITEBYTECODE :=

# Folders that start no broker and compile little: a minute.
QUICK := $(addprefix tests/,config contract delivery joining kafka/test_failures.py live/checker promise quality \
	simulation)
test-quick: env
	$(BIN)/pytest -q $(QUICK)

# Every test but the long ones: minutes. With STREAMSVM_TEST_SHARE=COMMIT (.ci/run) also a share of those.
test: env
	$(PYTEST) $(if $(STREAMSVM_TEST_SHARE),-m "long or not long")

# What `make test` leaves, part by part: hours. A part that failed does not keep the others from running. The package of
# which mutants are played is drawn.
nightly: env
	$(MAKE) --keep-going test-long simulation fuzz mutants DRAW=20 \
		PACKAGE=$$(dirname */*/__init__.py | grep -v ^tests | tr / . | shuf -n 1)

# What is marked as long, and ten times as many cases of hypothesis.
test-long: env
	$(PYTEST) -m long
	STREAMSVM_TEST_EXAMPLES=all $(PYTEST) tests/model tests/ingest

# Trainers and scorers in every short schedule of the smallest simulated worlds, and in 100,000 random ones.
simulation: env
	$(BIN)/python -m tests.simulation --exhaustive 2
	$(BIN)/python -m tests.simulation --schedules 100000

# Every scenario of a live system on real brokers, one after the other: hours.
faults: env
	$(BIN)/pytest -m "long or not long" --timeout 3600 tests/live

# How many of DRAW faults, drawn anew from a package by a seed, its tests find: PACKAGE=streamsvm.quality. It goes on from what
# it left in .mutants; by default the seed is the commit's.
mutants: env
	$(BIN)/python -m tests.mutants $(PACKAGE) $(if $(DRAW),--draw $(DRAW)) $(if $(SEED),--seed $(SEED))

# Hostile bytes; what was counted stays in .fuzz, and the next run goes on from there.
fuzz: env
	mkdir -p .fuzz
	$(BIN)/python -m tests.fuzz all --more 1000000 --json .fuzz

# The tables of the two papers, measured again; DATA is a folder of their sets (tests/papers/__main__.py).
papers: env
	$(BIN)/python -m tests.papers $(if $(DATA),--data $(DATA))

test-deploy: env
	STREAMSVM_TEST_DEPLOY=1 $(BIN)/pytest tests/deploy -s

lint: env
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -q tests/deploy/test_checkers.py tests/consumers/host/test_supervision.py -k "files or mistake or unit"

# By names: files, functions, classes, options, commands, metrics, calls of four walks; tests/budget.py has the limits.
# With LOWER=1 today's figures become the limits where they are lower.
budget: env
	$(BIN)/python -m tests.budget $(if $(LOWER),--lower)

# The build that a rewrite is compared with, tagged first-house: its wheel in an environment of its own, beside a checkout
# whose benchmarks and decoders run as child processes. Old and new meet in files, topics and processes only.
BEFORE := .before
FIRST_HOUSE ?= ebf6da4031aecd08cafa2e401e430c9ed627dae7
before: env $(BEFORE)/.made
$(BEFORE)/.made:
	git rev-parse --quiet --verify $(FIRST_HOUSE)^0 >/dev/null || git fetch --quiet origin $(FIRST_HOUSE)
	rm -rf $(BEFORE) && git worktree prune && git worktree add --quiet --detach $(BEFORE)/tree $(FIRST_HOUSE)
	$(PYTHON) -m venv $(BEFORE)/venv
	$(BIN)/uv pip install --quiet --python $(BEFORE)/venv/bin/python --require-hashes -r $(BEFORE)/tree/requirements/dev.txt
	cd $(BEFORE)/tree && ../venv/bin/hatchling build --target wheel --directory ../dist
	$(BIN)/uv pip install --quiet --python $(BEFORE)/venv/bin/python --no-deps --no-index $(BEFORE)/dist/*.whl
	cd $(BEFORE) && pwd | sed 's,$$,/tree,' > $$(venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/tests.pth
	@touch $@

wheel: env
	$(BIN)/hatchling build --target wheel

reader-wheel: env
	cd deploy/reader && $(CURDIR)/$(BIN)/hatchling build --target wheel --directory $(CURDIR)/dist

# The readers in other languages (Maven and Java 17, Node.js 20 with npm): built and tested against tests/golden and tests/contract, then each
# used as its page says, in an empty folder with a broker. The first run fetches what they need.
readers: env
	cd deploy/node && npm ci --ignore-scripts --no-audit --no-fund && npm run types && npm test
	mvn -B -q -f deploy/java/pom.xml verify
	STREAMSVM_TEST_READERS=1 $(BIN)/pytest -s tests/interop/test_packages.py tests/interop/test_contract.py

requirements: env
	{ head -n 1 requirements/uv.txt; echo uv | $(BIN)/uv pip compile --quiet --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-header --no-annotate -; } > $(VENV)/uv.txt && mv $(VENV)/uv.txt requirements/uv.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
		--no-annotate --extra dev pyproject.toml -o requirements/dev.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
		--no-annotate --constraint requirements/dev.txt pyproject.toml -o requirements/runtime.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
		--no-annotate --constraint requirements/dev.txt --extra avro --extra onnx --extra protobuf --extra sign \
		pyproject.toml -o requirements/extras.txt
	{ head -n 1 requirements/build.txt; echo hatchling | $(BIN)/uv pip compile --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-header --no-annotate --constraint requirements/dev.txt -; } \
		> $(VENV)/build.txt && mv $(VENV)/build.txt requirements/build.txt

	{ head -n 1 requirements/tools.in; $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-header --no-annotate --constraint requirements/dev.txt requirements/tools.in; } \
		> $(VENV)/tools.txt && mv $(VENV)/tools.txt requirements/tools.txt

$(TOOLS_STAMP): requirements/tools.txt
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/tools.txt
	@touch $(TOOLS_STAMP)

sbom: $(TOOLS_STAMP)
	@for file in $(SHIPPED); do $(TOOLS)/bin/python deploy/sbom.py $$file dist/sbom-$$(basename $$file .txt).cdx.json || exit; done

# Every artefact of the commit, twice the same bytes, into dist/release; each is installed alone on PYTHONS and tried.
PYTHONS ?= $(PYTHON)
release: $(RUNS_STAMP) $(TOOLS_STAMP)
	$(BIN)/python deploy/release.py dist/release $(TOOLS)/bin/python $(PYTHONS)

audit: $(TOOLS_STAMP)
	@$(TOOLS)/bin/python deploy/audit.py $(SHIPPED) requirements/build.txt requirements/dev.txt; \
		status=$$?; [ $$status -ne 75 ] || echo "NOT REACHED: this says nothing about the versions"; exit $$status

clean:
	find streamsvm -name '*.nb[ci]' -delete
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis dist build deploy/java/target deploy/node/node_modules
