# The course's commands: `make help` lists them, docs/COMMANDS.md explains them. GNU make 3.81
# (macOS) is enough.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.SUFFIXES:

# Settings, by name on the command line: make lab PYTHON=python3.12
PYTHON =
TORCH_INDEX =
WHEELS =
COMPILER =
NB =
COURSE =
WRITTEN =
VARIANT =
PART =
SUITE =
OUT = data/gpu
SYSTEM =
VERSION =
LAB_ARGS =
HUB_ARGS =
MEMORY =
CORES =
IDLE =
EXCHANGE =
STATE =
MEMBERS =
HOST =
PORT =
BOARD =
CONTEST =
NEW =
TEST_ARGS =
REQUIRE =

BIN := .venv/bin
PY := $(BIN)/python

# A value as one word of the shell's, whatever it holds; and each word of a list of values.
q = '$(subst ','\'',$(1))'
each = $(foreach word,$(1),$(call q,$(word)))

SETTINGS = PYTHON=$(call q,$(PYTHON)) TORCH_INDEX=$(call q,$(TORCH_INDEX)) \
    WHEELS=$(call q,$(WHEELS)) COMPILER=$(call q,$(COMPILER))

HUB_SETTINGS = MEMORY=$(call q,$(MEMORY)) CORES=$(call q,$(CORES)) IDLE=$(call q,$(IDLE)) \
    COURSE=$(call q,$(COURSE)) EXCHANGE=$(call q,$(EXCHANGE)) STATE=$(call q,$(STATE)) \
    MEMBERS=$(call q,$(MEMBERS))

LINT = sh tools/lint.sh

COMMANDS := help setup setup-all setup-openmpi setup-hub lab board contest hub hosts test test-all \
    notebooks html site course grading bench claims conformance gpu lint format reset wheels \
    release clean distclean
.PHONY: $(COMMANDS)

help: ## Print this list
	@echo "make COMMAND [SETTING=...]"
	@echo
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1 \t\2/p' Makefile | expand -t 16
	@echo
	@echo "Settings, by name behind the command:"
	@echo "  set-up     PYTHON=interpreter (3.11 to 3.13)   TORCH_INDEX=index with another build of torch"
	@echo "             WHEELS=folder (without a network)   COMPILER=no (go on without C++)"
	@echo "  lab        WORK=folder of your copies   LAB_ARGS='options of JupyterLab'"
	@echo "  board      HOST=address on which to listen   PORT=8765   BOARD=file   NEW=yes (another class)"
	@echo "  contest    CONTEST=folder of programs (default: work/contest, made with starters)"
	@echo "  hub        MEMORY=5G CORES=2 (a student's)   IDLE=seconds   COURSE=name   HUB_ARGS=..."
	@echo "             EXCHANGE=folder   STATE=folder   MEMBERS=groups that may log in"
	@echo "  notebooks, html, site, grading, reset, claims    NB=01 or 01_mpi_basics"
	@echo "  test, test-all    TEST_ARGS='arguments of pytest'   REQUIRE=markers whose skip is a failure"
	@echo "  test-all   TEST_ARGS=--last (when each part last ran)   PART=name, one of:"
	@sed -n 's/^    "\([a-z-]*\)": Part("\([^"]*\)".*/             \1 \t\2/p' tools/test_all.py | expand -t 28
	@echo "  conformance, release    TEST_ARGS=options: '--ranks 2', --no-site"
	@echo "  bench      SUITE=name   gpu        OUT=folder of the record"
	@echo "  course     COURSE=folder   NB=01   WRITTEN=yes (a question that a person grades)"
	@echo "             VARIANT=48213 (a number: other names and numbers in the exercises)"
	@echo "  wheels     WHEELS=folder   SYSTEM=linux-x86_64, linux-aarch64, macos-arm64   VERSION=3.12"

setup: ## Make the environment .venv, or bring it up to date
	@$(SETTINGS) sh tools/setup.sh reader

setup-all: ## Add to .venv what tests, site, bench and grading need
	@$(SETTINGS) sh tools/setup.sh all

setup-openmpi: setup-all
	@$(SETTINGS) sh tools/setup.sh openmpi

lab: setup ## Open JupyterLab in work/, your own copies of the notebooks
	@exec $(PY) -m tools.work lab $(LAB_ARGS)

board: setup ## Open the board on which a class predicts together: make board HOST=192.168.1.5
	@$(PY) -m tools.board --file=$(call q,$(or $(BOARD),board.sqlite)) $(if $(HOST),--host=$(call q,$(HOST))) \
	    $(if $(PORT),--port=$(call q,$(PORT))) $(if $(NEW),--new)

contest: setup ## Rank your programs against the course's and each other: make contest CONTEST=folder
	@$(PY) -m tools.contest $(call q,$(CONTEST))

setup-hub: setup-all ## Make JupyterHub's environment, .venv-hub: deploy/jupyterhub/README.md
	@sh deploy/jupyterhub/setup.sh

hub: setup-hub ## Start a class on JupyterHub, as root: make hub MEMORY=5G CORES=2
	@env $(HUB_SETTINGS) $(PY) deploy/jupyterhub/settings.py
	@exec env $(HUB_SETTINGS) .venv-hub/bin/python -m jupyterhub -f deploy/jupyterhub/jupyterhub_config.py $(HUB_ARGS)

hosts: setup ## Check whether this machine can emulate several hosts, then open JupyterLab
	@$(PY) -c 'import sys; from helpers.checkup import FAILS, hosts; found = hosts(); \
	    print(found, flush=True); sys.exit(found.status == FAILS)'
	@exec $(PY) -m tools.work lab $(LAB_ARGS)

reset: setup ## Put a fresh copy of a notebook in work/ and keep a backup: make reset NB=01
	@[ -n $(call q,$(NB)) ] || { echo "Say which notebook: make reset NB=01" >&2; exit 1; }
	@$(PY) -m tools.work reset $(call q,$(NB))

test: setup-all ## Check the style, run the tests and each notebook: 20 minutes
	@$(if $(TEST_ARGS),,$(LINT))
	@REQUIRE=$(call q,$(REQUIRE)) $(PY) -m tools.test $(TEST_ARGS)

test-all: setup-all ## Run everything that is tested, for hours, or a part: make test-all PART=slurm
	@REQUIRE=$(call q,$(REQUIRE)) $(PY) -m tools.test_all $(call each,$(PART)) $(TEST_ARGS)

notebooks: setup-all ## Make the notebooks from notebooks/source
	@$(PY) -m tools.notebooks $(call each,$(NB))

site: setup-all ## Execute the notebooks and build the site, in build/site: make site NB=01
	@$(PY) -m tools.site $(call each,$(NB))

html: setup-all ## Build one self-contained HTML file per notebook, in build/html: make html NB=01
	@$(PY) -m tools.site $(call each,$(NB)) --single build/html $(if $(NB),--output build/site-part)

course: setup-all ## Make an nbgrader course folder from the notebooks: make course COURSE=~/course
	@[ -n $(call q,$(COURSE)) ] || { echo "Say where: make course COURSE=~/course" >&2; exit 1; }
	@$(PY) -m tools.course $(call q,$(COURSE)) $(call each,$(NB)) $(if $(WRITTEN),--written=$(call q,$(WRITTEN))) \
	    $(if $(VARIANT),--variant=$(call q,$(VARIANT)))

grading: setup-all ## Grade the notebooks as a class does, solved and untouched: make grading NB=01
	@$(PY) -m tools.grading $(call each,$(NB))

bench: setup-all ## Measure ours beside its peers and write the record: make bench SUITE=cluster
	@$(PY) -m bench $(call each,$(SUITE))

claims: setup ## Run the experiments behind what the notebooks conclude: make claims NB=03
	@$(PY) -m claims $(call each,$(NB))

conformance: setup-all ## Run PyTorch's own distributed tests on our backend and on gloo
	@$(PY) -m bench.conformance $(TEST_ARGS)

gpu: ## Run the GPU tests and benchmarks with any Python that has torch: make gpu PYTHON=python3
	@PYTHON=$(call q,$(PYTHON)) OUT=$(call q,$(OUT)) sh tools/gpu.sh

lint: setup-all ## Check the style, the types, the docstrings and who imports whom
	@$(LINT)

format: setup-all ## Format the code
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .

wheels: ## Fill a folder for a class without a network: make wheels WHEELS=wheels
	@$(SETTINGS) WHEELS= COMPILER=no sh tools/setup.sh reader
	@$(PY) -m tools.wheels $(call q,$(or $(WHEELS),wheels)) TORCH_INDEX=$(call q,$(TORCH_INDEX)) \
	    SYSTEM=$(call q,$(SYSTEM)) VERSION=$(call q,$(VERSION))

release: setup-all ## Make a release in dist/: archive, site, locks with hashes
	@$(PY) -m tools.publish $(TEST_ARGS)

clean: ## Remove what was made, but not the environment and not work/
	@rm -rf build dist html .pytest_cache .ruff_cache .hypothesis *.egg-info
	@find . -name __pycache__ -not -path './.venv*' -not -path './work/*' -prune -exec rm -rf {} +

distclean: clean ## Remove the environments too
	@rm -rf .venv .venv-openmpi .venv-hub .venv.log .venv-openmpi.log

# Not .DEFAULT, which passes over a folder's name: `make tests` would find it up to date.
UNKNOWN := $(filter-out $(COMMANDS) Makefile,$(MAKECMDGOALS))
ifneq ($(UNKNOWN),)
.PHONY: $(UNKNOWN)
$(UNKNOWN):
	@sh tools/nearest.sh $(call q,$@)
endif
