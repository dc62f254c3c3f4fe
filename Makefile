# Everything runs in .venv, which is made on first use and refreshed when a requirement file changes.

PYTHON ?= python3
ROUNDS ?= 2000
IMAGES ?= 50000
EXAMPLES ?= 50
SECONDS ?= 30
KILLS ?= 50
MINUTES ?= 60
ATTACKS ?= 6000
ARGS ?=
CLIENTS ?= pinned
LATEST := $(HOME)/.cache/clew/clients-latest
INSTALLED := $(or $(CLEW_CLIENTS),$(HOME)/.cache/clew/clients)
BASE ?=

# What stops whole servers, or waits for a lease to run out, has the machine to itself.
ALONE := tests/crash/test_restart.py tests/crash/test_servers.py tests/crash/test_zombie.py
PARALLEL := -n 3 --dist worksteal

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
UV_EXPORT := $(BIN)/uv export --quiet --frozen --no-emit-project --no-annotate --no-header

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help up down test test-clients same-session fresh check format bench bench-compare bench-capture bench-search bench-transcript bench-team bench-memory bench-objects bench-hostile bench-connect bench-web lighthouse sbom fuzz nightly kill-campaign worker-campaign object-campaign workspace-campaign bench-workspace bench-idle powerloss-campaign api-campaign tamper-campaign attack lock clean

help:  ## Show this list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

up: $(VENV)/.run  ## Install clew into .venv, capture what is on this machine, and leave clew running.
	@$(BIN)/clew up --background
	@echo "the commands: $(BIN)/clew --help; make down stops it, too"

down:  ## Stop the clew that make up left running.
	@if [ -x $(BIN)/clew ]; then $(BIN)/clew down; else echo "clew is not installed"; fi

test: $(VENV)/.dev  ## Run the tests, e.g. make test ARGS='-n auto -k lease'.
	@sh tools/system_packages.sh
ifeq ($(ARGS),)
	$(BIN)/python -m pytest -q $(PARALLEL) $(addprefix --ignore ,$(ALONE))
	$(BIN)/python -m pytest -q $(ALONE)
else
	$(BIN)/python -m pytest $(ARGS)
endif

test-clients: $(VENV)/.dev  ## Run the real agent programs against a scripted model, as pinned, or the newest with CLIENTS=latest; HARD=all for every hard conversation.
ifeq ($(CLIENTS),latest)
	@bash tools/install_clients.sh --latest $(LATEST)
	CLEW_CLIENTS=$(LATEST) $(BIN)/python -m pytest tests/clients -m clients -n 2 $(ARGS)
else
	@bash tools/install_clients.sh
	$(BIN)/python -m pytest tests/clients -m clients -n 2 $(ARGS)
endif

same-session: $(VENV)/.dev  ## Compare how clients resume the session files in FOLDER with how they resume what clew writes of them.
	@bash tools/install_clients.sh
	cd tests && ../$(BIN)/python -m clients.same_session "$(abspath $(FOLDER))" $(ARGS)

fresh:  ## Install clew in a new Debian as a newcomer would, and try it; ARGS are steps: up tool pipx wheel test.
	@bash tools/fresh.sh $(ARGS)

check: $(VENV)/.dev  ## Lint, check the format, types, layers, file lengths and complexity.
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/file_lengths.py
	$(BIN)/python tools/complexity.py

format: $(VENV)/.dev  ## Fix what ruff can fix, and format.
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

bench: $(VENV)/.dev  ## Measure everything; ARGS go to bench/run.py.
	@sh tools/system_packages.sh
	$(BIN)/python bench/run.py $(ARGS)
	@$(MAKE) --no-print-directory bench-capture ARGS=
	@$(MAKE) --no-print-directory bench-search ARGS=
	@$(MAKE) --no-print-directory bench-transcript ARGS=
	@$(MAKE) --no-print-directory bench-team ARGS=
	@$(MAKE) --no-print-directory bench-memory ARGS=
	@$(MAKE) --no-print-directory bench-objects ARGS=
	@$(MAKE) --no-print-directory bench-web ARGS=

bench-compare: $(VENV)/.dev  ## Measure this tree beside an older one, e.g. make bench-compare BASE=../old ARGS=--quick.
	@sh tools/system_packages.sh
	@test -n "$(BASE)" || { echo "BASE is missing: name a checkout of the old tree, as in make bench-compare BASE=../old" >&2; exit 2; }
	$(BIN)/python bench/compare.py "$(BASE)" $(ARGS)

bench-capture: $(VENV)/.dev  ## Measure capture beside agentsview and SessionFS; ARGS go to bench/capture.py.
	$(BIN)/python bench/capture.py $(ARGS)
	$(BIN)/python bench/hook.py

bench-search: $(VENV)/.dev  ## Measure search, lists and usage, beside agentsview and at a million events; ARGS go to bench/search.py.
	@sh tools/system_packages.sh
	$(BIN)/python bench/search.py $(ARGS)

bench-transcript: $(VENV)/.dev  ## Measure the pages of a transcript of 50,000 events; ARGS go to bench/transcript.py.
	@sh tools/system_packages.sh
	$(BIN)/python bench/transcript.py $(ARGS)

bench-team: $(VENV)/.dev  ## Measure the server, lists with many grants, checkpoints and masking; ARGS go to bench/server.py.
	@sh tools/system_packages.sh
	$(BIN)/python bench/server.py $(ARGS)
	$(BIN)/python bench/access.py
	$(BIN)/python bench/audit.py
	$(BIN)/python bench/masking.py

bench-memory: $(VENV)/.dev  ## Measure the peak memory of reading a session of 500 MB; ARGS go to bench/memory.py.
	$(BIN)/python bench/memory.py $(ARGS)

bench-objects: $(VENV)/.dev  ## Measure an object of 2 GB and 100,000 small ones beside plain files; ARGS go to bench/objects.py.
	$(BIN)/python bench/objects.py $(ARGS)

bench-connect: $(VENV)/.dev  ## Measure what connecting adds to sessions of real clients; ARGS go to bench/connect.py.
	@bash tools/install_clients.sh
	$(BIN)/python bench/connect.py $(ARGS)

bench-web: $(VENV)/.dev  ## Measure the pages in a browser, and beside agentsview's; ARGS go to bench/web.py, e.g. ARGS=--quick.
	@sh tools/system_packages.sh
	$(BIN)/python bench/web.py $(ARGS)

lighthouse: $(VENV)/.dev  ## Score every page with Lighthouse, which is installed on first use; ARGS go to bench/lighthouse.py.
	@sh tools/system_packages.sh
	@bash tools/install_clients.sh "$(INSTALLED)" node lighthouse
	$(BIN)/python bench/lighthouse.py "$(INSTALLED)" $(ARGS)

bench-workspace: $(VENV)/.dev  ## Measure snapshots and restores beside git, restic and cp; ARGS='--files 14000 --mb 320' for the whole tree.
	$(BIN)/python bench/workspace.py $(ARGS)

bench-hostile: $(VENV)/.dev  ## Measure what one hostile key does to another tenant; ARGS go to bench/hostile.py.
	$(BIN)/python bench/hostile.py $(ARGS)

bench-idle: $(VENV)/.dev  ## Measure what waiting costs for MINUTES; ARGS go to bench/idle.py.
	$(BIN)/python bench/idle.py --minutes $(MINUTES) $(ARGS)

fuzz: $(VENV)/.dev  ## Fuzz every reader for SECONDS each, e.g. make fuzz SECONDS=300 ARGS='--jobs 2'.
	$(BIN)/python fuzz/run.py --seconds $(SECONDS) $(ARGS)

nightly: fuzz kill-campaign  ## What runs every night: readers fuzzed for 30 seconds each, and the kill campaign.

kill-campaign: $(VENV)/.dev  ## Kill writers ROUNDS times, and look for a lost event after each.
	@sh tools/system_packages.sh
	CLEW_KILL_ROUNDS=$(ROUNDS) $(BIN)/python -m pytest tests/crash -m "campaign or not campaign" $(ARGS)

worker-campaign: $(VENV)/.dev  ## Kill one of two workers KILLS times, and look whether every job was done once.
	@sh tools/system_packages.sh
	CLEW_WORKER_KILLS=$(KILLS) $(BIN)/python -m pytest tests/crash/test_workers.py -s $(ARGS)

object-campaign: KILLS = 200
object-campaign: $(VENV)/.dev  ## Kill writers and collectors of objects KILLS times, and look for a lost or a forgotten object.
	@sh tools/system_packages.sh
	CLEW_OBJECT_KILLS=$(KILLS) $(BIN)/python -m pytest tests/crash/test_objects.py -s $(ARGS)

workspace-campaign: KILLS = 200
workspace-campaign: $(VENV)/.dev  ## Kill snapshots, restores and collections KILLS times, and flip 1,000 bytes of packs.
	CLEW_WORKSPACE_KILLS=$(KILLS) CLEW_WORKSPACE_FLIPS=1000 CLEW_WORKSPACE_STEPS=300 $(BIN)/python -m pytest \
		tests/crash/test_workspaces.py tests/service/test_workspace_property.py -s $(ARGS)

api-campaign: $(VENV)/.dev  ## Ask every HTTP operation for what its description allows, and what not, EXAMPLES times.
	@sh tools/system_packages.sh
	CLEW_API_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest tests/server/test_api.py -m campaign $(ARGS)

tamper-campaign: $(VENV)/.dev  ## Tamper ROUNDS times with a copy of a log, and look whether each time is found.
	CLEW_TAMPERINGS=$(ROUNDS) $(BIN)/python -m pytest tests/audit/test_tampering.py $(ARGS)

attack: $(VENV)/.dev  ## Attack running servers ATTACKS times on each database, and find planted holes, e.g. make attack ARGS='--seed 7'.
	@sh tools/system_packages.sh
	PYTHONPATH=tests $(BIN)/python -m attack.campaign --attacks $(ATTACKS) $(ARGS)

powerloss-campaign: $(VENV)/.dev  ## Open IMAGES disk images that a power loss could leave, and look for a lost event.
	@sh tools/system_packages.sh
	CLEW_POWERLOSS_IMAGES=$(IMAGES) $(BIN)/python -m pytest tests/crash -m "campaign or not campaign" $(ARGS)

lock: $(VENV)/.made  ## Pin the newest versions that fit pyproject.toml, with hashes, in requirements/.
	@$(PIP) install --require-hashes -r requirements/lock.txt
	@$(BIN)/uv lock --quiet --upgrade
	@mkdir -p requirements
	@$(call pin,build,--only-group build)
	@$(call pin,run,--no-default-groups --extra postgres --extra server --extra s3)
	@$(call pin,dev,--all-groups --no-group fuzz --no-group lock --all-extras)
	@$(call pin,lock,--only-group lock)
	@{ echo "# Made by: make lock"; $(UV_EXPORT) --only-group fuzz; } > $(VENV)/fuzz.txt && mv $(VENV)/fuzz.txt fuzz/requirements.txt
	@rm -f uv.lock

# $(1) is the file's name, $(2) what goes into it. A failed export leaves the old file.
define pin
{ echo "# Made by: make lock"; $(UV_EXPORT) $(2); } > $(VENV)/$(1).txt && mv $(VENV)/$(1).txt requirements/$(1).txt
endef

sbom: $(VENV)/.dev  ## Print a bill of materials (CycloneDX) of everything that requirements/ pins, e.g. make -s sbom > clew.cdx.json.
	@$(BIN)/python tools/sbom.py $(ARGS)

clean:  ## Remove .venv and everything that tools left behind.
	rm -rf $(VENV) fuzz/.venv fuzz/.corpus fuzz/.crashes build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests tools bench -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

# The environment, in three steps. A step's stamp is written last, so an interrupted step is done again.

$(VENV)/.made:
	@PYTHON="$(PYTHON)" sh tools/make_venv.sh $(VENV)
	@touch $@

$(VENV)/.run: requirements/build.txt requirements/run.txt pyproject.toml | $(VENV)/.made
	@echo "Installing clew into $(VENV)"
	@$(PIP) install --require-hashes -r requirements/build.txt -r requirements/run.txt
	@$(PIP) install --no-build-isolation --no-deps --editable .
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.run
	@echo "Installing the tools for tests and checks into $(VENV)"
	@$(PIP) install --require-hashes -r requirements/dev.txt
	@touch $@
