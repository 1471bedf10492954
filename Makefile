# Every target sets itself up: the environment is made once in .venv and used again.
SHELL := /bin/bash
# The first Python that works and that TensorFlow 2.20 and 2.21 are made for.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
  $$p -c 'import ensurepip, sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null \
  && { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ORACLES := $(VENV)/.oracles-installed
PIP_INSTALL := -m pip install --quiet
# The TPU compiler needs a TensorFlow of its own beside the usual one.
TPU_VENV := .venv-tpu-plan
TPU_STAMP := $(TPU_VENV)/.installed
# .venv has the oldest TensorFlow that setup.cfg takes, for which the TPU's wheel and Model Garden
# are made; this one has the newest, and Apache Beam, which asks for an older protobuf.
NEWEST_VENV := .venv-newest
NEWEST_STAMP := $(NEWEST_VENV)/.installed
# The site is made without TensorFlow: docstrings are read, not imported.
DOCS_VENV := .venv-docs
DOCS_STAMP := $(DOCS_VENV)/.installed
BENCHMARKS := $(VENV)/.benchmarks-installed
# Those whose first lines say how make runs them; the other files of the folder are their parts.
BENCHMARK_NAMES := $(sort $(basename $(notdir $(shell grep -l 'make benchmark NAME=' benchmarks/*.py))))
# A process a core: TensorFlow starts slowly, so each file of tests stays in one.
PYTEST := $(BIN)/python -m pytest -q --numprocesses auto --maxprocesses 4 --dist loadfile --durations=30
# oneDNN, which multiplies TensorFlow's matrices, behaves as on a lesser processor where its
# instructions are limited (a limit above what the processor has changes nothing), and 0 turns it
# off. TensorFlow does not know of the limit: under AVX2 a bfloat16 product aborts the process.
# Slow tests ask the same of more heads, longer runs and whole runs on replicas:
# NUMERICAL='numerical and slow' is hours.
NUMERICAL ?= numerical and not slow and not oracle and not long
AVX2 := ONEDNN_MAX_CPU_ISA=AVX2
WITHOUT_ONEDNN := TF_ENABLE_ONEDNN_OPTS=0
SHORT_NUMERICAL := tests/layers tests/models/test_encoder.py tests/models/test_heads.py \
  tests/models/test_packed_encoder.py tests/training/test_lamb.py tests/training/test_optimizer.py
# What depends most on TensorFlow's own version: arithmetic, tf.data, checkpoints, exported graphs.
SHORT_NEWEST := tests/test_command_line.py tests/layers tests/text/test_tokenizer.py \
  tests/training/test_model_fit.py tests/pretraining/test_pretraining.py \
  tests/serving/test_saved_model.py tests/serving/test_int8_products.py
FAST := not slow and not oracle and not beam and not long
FILES := setup.cfg pyproject.toml constraints.txt

export TF_CPP_MIN_LOG_LEVEL ?= 3
export MPLBACKEND ?= Agg
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Tests start many processes: each would compile the package and the tests anew where the environment
# (that of many containers) asks Python to keep nothing of it.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install quickstart test test-slow test-oracles test-more test-processors test-processors-short \
  test-long test-newest test-newest-all tpu-plan-env test-tpu-plan test-browser chromium docs lint format clean

help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 24

install: $(STAMP)  ## make .venv with the package and all that its tests need

$(STAMP): $(FILES)
	@test -n "$(PYTHON)" || { echo "error: Python 3.11 to 3.13 with venv is needed;" \
	  "name one with: make PYTHON=/path/to/python3.11"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) (about 3 GB, a few minutes the first time)"
	@$(BIN)/python $(PIP_INSTALL) --constraint constraints.txt --editable '.[test,viz]'
	@touch $@

$(ORACLES): $(STAMP)
	@# seqeval comes as source only, and its build fetches setuptools_scm without what that needs.
	@$(BIN)/python $(PIP_INSTALL) --constraint constraints.txt setuptools setuptools_scm
	@$(BIN)/python $(PIP_INSTALL) --constraint constraints.txt --no-deps \
	  --no-build-isolation seqeval
	@$(BIN)/python $(PIP_INSTALL) --constraint constraints.txt '.[oracles]'
	@# Model Garden's BERT and KerasHub need few of the packages that they depend on; gliner asks for
	@# an older transformers, and runs with this one.
	@$(BIN)/python $(PIP_INSTALL) --constraint constraints.txt --no-deps \
	  tf-models-official tf_keras gin-config tensorflow-serving-api keras-hub kagglehub kagglesdk gliner
	@$(BIN)/python $(PIP_INSTALL) --constraint constraints.txt --editable . --no-deps
	@touch $@

quickstart: $(STAMP)  ## run the whole road on the sample data: about ten minutes on two cores
	@$(BIN)/python tools/quickstart.py

test: lint  ## check style and types and run the fast tests
	@$(PYTEST) -m "$(FAST)"

test-slow: $(STAMP)  ## run the slow tests
	@# In the order of tests/conftest.py, not of the number of tests in a file.
	@$(PYTEST) --no-loadscope-reorder -m "slow and not oracle and not long and not browser"

chromium: $(STAMP)  ## install the browser that tests of pages drive, where there is none (Debian, as root)
	@$(BIN)/python tests/visualize/chromium.py > /dev/null 2>&1 || { \
	  apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium fonts-dejavu-core \
	  > /dev/null; } || { echo "there is no Chromium: install one, or name a Chrome in CHROMIUM"; exit 1; }

test-browser: chromium  ## run the tests of pages in headless Chromium (installs it)
	@$(BIN)/python -m pytest -q -m browser

test-oracles: $(ORACLES)  ## run the comparisons with other libraries (installs them)
	@$(PYTEST) --no-loadscope-reorder -m "oracle and not long"

test-more: $(ORACLES)  ## run test-slow and test-oracles in one go: both need the same models and exports
	@$(PYTEST) --no-loadscope-reorder -m "(slow or oracle) and not long and not browser"

test-processors: $(STAMP)  ## run the numerical tests with the arithmetic of several processors
	@for setting in ONEDNN_MAX_CPU_ISA={DEFAULT,AVX512_CORE_BF16,AVX512_CORE} $(WITHOUT_ONEDNN); do \
	  echo "=== $$setting"; \
	  env $$setting $(PYTEST) -m "$(NUMERICAL)" || exit 1; \
	done
	@echo "=== $(AVX2)"
	@$(AVX2) $(PYTEST) -m "$(NUMERICAL) and not half_precision"

test-processors-short: $(STAMP)  ## run a few of them, on the two settings that differ most
	@for setting in $(WITHOUT_ONEDNN) $(AVX2); do \
	  echo "=== $$setting"; \
	  env $$setting $(BIN)/python -m pytest -q $(SHORT_NUMERICAL) \
	    -m "$(NUMERICAL) and not half_precision" || exit 1; \
	done

test-long: $(ORACLES) $(TPU_STAMP)  ## run the longest tests, by hand before a release
	@$(PYTEST) --no-loadscope-reorder -m long
	@$(TPU_VENV)/bin/python -m pytest -q -m "tpu_plan and long" \
	  --confcutdir=tests/tpu_plan tests/tpu_plan

.PHONY: benchmark
benchmark:  ## run a benchmark: make benchmark NAME=serving_speed ARGS='--texts=100'
	@case " $(BENCHMARK_NAMES) " in *" $(or $(NAME),?) "*) ;; *) \
	  echo "error: NAME is '$(NAME)': expected one of $(BENCHMARK_NAMES)"; exit 1;; esac
	@$(MAKE) --silent --no-print-directory $(if $(filter tpu_memory,$(NAME)),$(TPU_STAMP),$(BENCHMARKS))
	@$(if $(filter tpu_memory,$(NAME)),$(TPU_VENV),$(VENV))/bin/python benchmarks/$(NAME).py $(ARGS)

$(BENCHMARKS): $(ORACLES)
	@echo "installing what the benchmarks need into $(VENV)"
	@$(BIN)/python $(PIP_INSTALL) --constraint constraints.txt --editable '.[benchmarks]'
	@touch $@

$(NEWEST_STAMP): setup.cfg constraints-newest.txt
	@test -n "$(PYTHON)" || { echo "error: Python 3.11 to 3.13 with venv is needed;" \
	  "name one with: make PYTHON=/path/to/python3.11"; exit 1; }
	@test -x $(NEWEST_VENV)/bin/python || $(PYTHON) -m venv $(NEWEST_VENV)
	@echo "installing into $(NEWEST_VENV) (about 2 GB)"
	@$(NEWEST_VENV)/bin/python $(PIP_INSTALL) --constraint constraints-newest.txt \
	  --editable '.[test,beam,viz]'
	@touch $@

test-newest: $(NEWEST_STAMP)  ## run Apache Beam and a choice of the fast tests on the newest TensorFlow
	@$(NEWEST_VENV)/bin/python -m pytest -q tests/data/test_beam_oracle.py -m beam
	@$(NEWEST_VENV)/bin/python -m pytest -q $(SHORT_NEWEST) -m "$(FAST)"

test-newest-all: $(NEWEST_STAMP)  ## run all fast tests on the newest TensorFlow, by hand before a release
	@$(subst $(BIN),$(NEWEST_VENV)/bin,$(PYTEST)) -m "$(FAST)"

tpu-plan-env: $(TPU_STAMP)  ## make .venv-tpu-plan, in which tools/plan_tpu.py runs

$(TPU_STAMP): setup.cfg constraints-tpu-plan.txt
	@test -x $(TPU_VENV)/bin/python || $(PYTHON) -m venv $(TPU_VENV)
	@echo "installing into $(TPU_VENV) (about 3 GB)"
	@$(TPU_VENV)/bin/python $(PIP_INSTALL) --constraint constraints-tpu-plan.txt \
	  tensorflow-tpu jax libtpu h5py keras safetensors absl-py tqdm pytest pytest-timeout
	@# tensorflow-text asks for the package "tensorflow", which would replace tensorflow-tpu.
	@$(TPU_VENV)/bin/python $(PIP_INSTALL) --constraint constraints-tpu-plan.txt --no-deps \
	  tensorflow-text --editable .
	@touch $@

test-tpu-plan: $(TPU_STAMP)  ## compile the training step for TPUs, without a TPU
	@$(TPU_VENV)/bin/python -m pytest -q -m "tpu_plan and not long" \
	  --confcutdir=tests/tpu_plan tests/tpu_plan

docs: $(DOCS_STAMP)  ## make the documentation site in build/site; a broken link is an error
	@NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --strict
	@echo "open build/site/index.html"

$(DOCS_STAMP): setup.cfg constraints.txt
	@test -n "$(PYTHON)" || { echo "error: Python 3.11 to 3.13 with venv is needed;" \
	  "name one with: make PYTHON=/path/to/python3.11"; exit 1; }
	@test -x $(DOCS_VENV)/bin/python || $(PYTHON) -m venv $(DOCS_VENV)
	@# The extra without the package, which would bring TensorFlow.
	@$(DOCS_VENV)/bin/python -c "import configparser; c = configparser.ConfigParser(); \
	  c.read('setup.cfg'); print(c['options.extras_require']['docs'])" > $(DOCS_VENV)/requirements.txt
	@$(DOCS_VENV)/bin/python $(PIP_INSTALL) --constraint constraints.txt \
	  --requirement $(DOCS_VENV)/requirements.txt
	@touch $@

lint: $(STAMP)  ## check style, format and types
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/python -m mypy

format: $(STAMP)  ## fix style and format
	@$(BIN)/ruff check --fix . && $(BIN)/ruff format .

clean:  ## remove everything that can be made again
	rm -rf $(VENV) $(TPU_VENV) $(NEWEST_VENV) $(DOCS_VENV) build *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis .cache quickstart_output
