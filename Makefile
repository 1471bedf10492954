# Every target sets itself up: the environment is made once in .venv and used again.
SHELL := /bin/bash
# The first Python that works and that TensorFlow 2.20 is made for.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
  $$p -c 'import ensurepip, sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null \
  && { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ORACLES := $(VENV)/.oracles-installed
# The TPU compiler needs a TensorFlow of its own beside the usual one.
TPU_VENV := .venv-tpu-plan
TPU_STAMP := $(TPU_VENV)/.installed
# Apache Beam asks for an older protobuf than constraints.txt names.
BEAM_VENV := .venv-beam
BEAM_STAMP := $(BEAM_VENV)/.installed
# A process a core: TensorFlow starts slowly, so each file of tests stays in one.
PYTEST := $(BIN)/python -m pytest -q --numprocesses auto --maxprocesses 4 --dist loadfile
FILES := setup.cfg pyproject.toml constraints.txt

export TF_CPP_MIN_LOG_LEVEL ?= 3
export MPLBACKEND ?= Agg
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help install quickstart test test-slow test-oracles test-beam tpu-plan-env test-tpu-plan lint \
  format clean

help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

install: $(STAMP)  ## make .venv with the package and all that its tests need

$(STAMP): $(FILES)
	@test -n "$(PYTHON)" || { echo "error: Python 3.11 to 3.13 with venv is needed;" \
	  "name one with: make PYTHON=/path/to/python3.11"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) (about 2 GB, a few minutes the first time)"
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test,viz]'
	@touch $@

$(ORACLES): $(STAMP)
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt '.[oracles]'
	@# Model Garden's BERT needs few of the forty packages that it depends on.
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-deps \
	  tf-models-official tf_keras gin-config tensorflow-serving-api
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable . --no-deps
	@touch $@

quickstart: $(STAMP)  ## run the whole road on the sample data: about ten minutes on two cores
	@$(BIN)/python tools/quickstart.py

test: lint  ## check the style and run the fast tests
	@$(PYTEST) -m "not slow and not oracle and not beam"

test-slow: $(STAMP)  ## run the slow tests
	@# In the order of tests/conftest.py, not of the number of tests in a file.
	@$(PYTEST) --no-loadscope-reorder -m "slow and not oracle"

test-oracles: $(ORACLES)  ## run the comparisons with other libraries (installs them)
	@$(PYTEST) -m oracle

$(BEAM_STAMP): setup.cfg
	@test -x $(BEAM_VENV)/bin/python || $(PYTHON) -m venv $(BEAM_VENV)
	@echo "installing into $(BEAM_VENV) (about 2 GB)"
	@$(BEAM_VENV)/bin/python -m pip install --quiet --editable '.[test,beam]'
	@touch $@

test-beam: $(BEAM_STAMP)  ## compare records made on Apache Beam (in an environment of its own)
	@$(BEAM_VENV)/bin/python -m pytest -q -m beam

tpu-plan-env: $(TPU_STAMP)  ## make .venv-tpu-plan, in which tools/plan_tpu.py runs

$(TPU_STAMP): setup.cfg constraints-tpu-plan.txt
	@test -x $(TPU_VENV)/bin/python || $(PYTHON) -m venv $(TPU_VENV)
	@echo "installing into $(TPU_VENV) (about 3 GB)"
	@$(TPU_VENV)/bin/python -m pip install --quiet --constraint constraints-tpu-plan.txt \
	  tensorflow-tpu jax libtpu h5py keras safetensors absl-py tqdm pytest pytest-timeout
	@# tensorflow-text asks for the package "tensorflow", which would replace tensorflow-tpu.
	@$(TPU_VENV)/bin/python -m pip install --quiet --constraint constraints-tpu-plan.txt --no-deps \
	  tensorflow-text --editable .
	@touch $@

test-tpu-plan: $(TPU_STAMP)  ## compile the training step for TPUs, without a TPU
	@$(TPU_VENV)/bin/python -m pytest -q -m tpu_plan --confcutdir=tests/tpu_plan tests/tpu_plan

lint: $(STAMP)  ## check style and format
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

format: $(STAMP)  ## mend style and format
	@$(BIN)/ruff check --fix . && $(BIN)/ruff format .

clean:  ## remove everything that can be made again
	rm -rf $(VENV) $(TPU_VENV) $(BEAM_VENV) build *.egg-info .pytest_cache .ruff_cache .hypothesis .cache quickstart_output
