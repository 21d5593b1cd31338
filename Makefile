PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv
HFC := .venv-hfc
# Universal locks serve every Python from this one up; hashes make an install the same wherever packages come from.
LOCK := $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--no-annotate --custom-compile-command "make lock"

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test lint bench lock hfc soak screenshots

help:
	@echo "make demo   install the base and judge the sample answers on this machine, every proof verified"
	@echo "make test   install what the tests need and run them all (ARGS='-k merkle' chooses)"
	@echo "make kafka  Apache Kafka for the tests, by Maven (ARGS=-Dkafka.version=4.4.0 chooses another release)"
	@echo "make screenshots   the explorer's views at two widths in both themes, into build/screenshots"
	@echo "make lint   style, types, import rules, container files, shell"
	@echo "make bench  ratios against the libraries that GlassBox is built on, and evaluations per second"
	@echo "make hfc    install hfc into $(HFC), for who must reach Fabric through it"
	@echo "make soak   a million simulated schedules from a new seed on, then every fault mixed on three Kafka brokers for"
	@echo "            20 minutes (SCHEDULES=100000, MINUTES=3 and SEED=7 choose)"
	@echo "make lock   write requirements/*.txt anew from pyproject.toml"

demo: $(VENV)/base.stamp
	@$(BIN)/glassbox demo $(ARGS)

# Where Kafka, the chaincode or hfc cannot be had (no Maven, no Go, no compiler) their tests are skipped and say what to
# install; in CI they fail. All tests run in two processes, those that ARGS chooses in one.
test: $(VENV)/dev.stamp
	@if command -v mvn >/dev/null; then $(MAKE) --no-print-directory kafka ARGS= || true; fi
	@if command -v go >/dev/null; then go -C chaincode build ./... || true; fi
	@$(MAKE) --no-print-directory hfc || true
	$(BIN)/pytest $(or $(ARGS),-n 2)

bench: $(VENV)/dev.stamp
	$(BIN)/pytest -m bench -s -p no:xdist tests/bench $(ARGS)

screenshots: $(VENV)/dev.stamp
	$(BIN)/python -m tests.browser.screenshots build/screenshots

kafka: build/kafka/stamp

build/kafka/stamp: deploy/kafka/pom.xml
	@rm -rf $(@D)
	@mvn -q -B -f $< dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=$(abspath $(@D)) $(ARGS)
	@touch $@

soak: $(VENV)/dev.stamp kafka
	$(BIN)/python -m tests.simulation $(or $(SEED),$(shell date +%s)) --count $(or $(SCHEDULES),1000000)
	SEED=$(SEED) MINUTES=$(MINUTES) $(BIN)/python -m tests.faults.soak

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/hadolint Dockerfile
	$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec docker-compose.yml
	$(BIN)/shellcheck .ci/run deploy/fabric/builder/bin/*

# dev first: base is resolved inside it, so that users run the versions that the tests ran.
lock: $(VENV)/bootstrap.stamp
	$(LOCK) requirements/bootstrap.in -o requirements/bootstrap.txt $(ARGS)
	@git diff --quiet requirements/bootstrap.txt && touch $(VENV)/bootstrap.stamp || true  # or the next make starts anew
	$(LOCK) pyproject.toml --all-extras -c requirements/bootstrap.txt -o requirements/dev.txt $(ARGS)
	$(LOCK) pyproject.toml -c requirements/dev.txt -o requirements/base.txt $(ARGS)
	$(LOCK) pyproject.toml --extra fabric --extra postgres -c requirements/dev.txt -o requirements/cpu.txt $(ARGS)
	$(LOCK) pyproject.toml --extra fabric --extra postgres --extra models -c requirements/dev.txt \
		-o requirements/gpu.txt $(ARGS)
	$(LOCK) requirements/hfc.in --override requirements/hfc.in -o requirements/hfc.txt $(ARGS)

$(VENV)/bootstrap.stamp: requirements/bootstrap.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null || \
		{ echo "GlassBox needs Python 3.11, 3.12 or 3.13, and $(PYTHON) is none of them: name one with PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv --clear $(VENV) || \
		{ echo "$(PYTHON) cannot make a virtual environment: install its venv package (Debian: apt-get install python3-venv)" >&2; exit 1; }
	@echo "Installing into $(VENV): once, and again only when requirements/ changes"
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

# --compile-bytecode: paid once here, so that the first start is as quick as the second.
$(VENV)/base.stamp $(VENV)/dev.stamp: $(VENV)/%.stamp: requirements/%.txt pyproject.toml $(VENV)/bootstrap.stamp
	@$(UV) pip install --python $(BIN)/python --quiet --compile-bytecode --require-hashes -r $<
	@$(UV) pip install --python $(BIN)/python --quiet --no-deps --no-build-isolation --editable .
	@touch $@

hfc: $(HFC)/hfc.stamp

# --no-deps: the lock is complete, and what fabric-sdk-py itself asks for was overridden.
$(HFC)/hfc.stamp: requirements/hfc.txt $(VENV)/bootstrap.stamp
	@$(UV) venv --quiet --clear --python $(BIN)/python $(HFC)
	@$(UV) pip install --python $(HFC)/bin/python --quiet --require-hashes --no-deps \
		--build-constraints $< -r $<
	@touch $@
