# `make book` builds the website, `make test` runs every test. Both set up what they need.
PYTHON ?= python3
VENV := .venv
RUN := PYTHONPATH=book/_ext $(VENV)/bin/python
NICE := PYTHONPATH=book/_ext nice -n 5 $(VENV)/bin/python
TESTS := -m pytest -q tests -n 2 --dist worksteal
NOTEBOOKS := -m pytest -q -n 2 --dist loadfile --nbval-lax --nbval-current-env --nbval-cell-timeout 600
QUICK := tests/catalog tests/encodings tests/torch tests/sympy tests/project
READY := $(VENV)/ready

.PHONY: book serve test slowest quick lab new site pdf coverage compiled mutants \
	cell-mutants census distributed notebooks run-notebooks missing address lint clean

book: $(READY)
	$(RUN) -m posedu_sphinx.build

serve: $(READY)
	$(RUN) -m posedu_sphinx.build --serve

# Two workers on two cores: more threads of NumPy's in each take turns, at twice the cost.
test slowest coverage: export OMP_NUM_THREADS := 1

# Sphinx takes minutes of one core: the notebooks run on the other.
test: $(READY)
	$(RUN) -m posedu_sphinx.exercises.notebooks --solved
	$(RUN) -m posedu_sphinx.site.execute
	$(MAKE) --jobs=2 book run-notebooks
	$(RUN) -m posedu_sphinx.site.chromium
	$(RUN) $(TESTS)

# It is silent until it ends, or its lines and the build's would mix.
run-notebooks: $(READY)
	mkdir -p _build
	($(NICE) $(NOTEBOOKS) notebooks/*.ipynb notebooks/projects/*.ipynb notebooks/exercises/*.ipynb \
	&& POSEDU_STRICT=1 $(NICE) $(NOTEBOOKS) notebooks/exercises/solved) \
	> _build/notebooks.log 2>&1; code=$$?; cat _build/notebooks.log; exit $$code

slowest: $(READY) book
	$(RUN) $(TESTS) --durations 20

# What a contributor runs while writing: no build, no browser, nothing that takes long.
quick: $(READY)
	$(VENV)/bin/ruff check . && $(VENV)/bin/ruff format --check .
	$(RUN) -m pytest $(QUICK) -n 2 --dist worksteal -m "not slow and not site" -q

lab: $(READY)
	$(RUN) -m posedu_sphinx.exercises.lab

new: override export NAME := $(value NAME)
new: override export FAMILY := $(value FAMILY)
new: $(READY)
	$(RUN) -m posedu_sphinx.new "$$NAME" "$$FAMILY"

site: $(READY) book
	$(RUN) -m posedu_sphinx.site.chromium
	POSEDU_SITE=all $(RUN) -m pytest -n 2 tests/sphinx/site/test_site.py

coverage: $(READY) book
	$(RUN) $(TESTS) --cov=posedu --cov-report=term --cov-fail-under=95

# Twice the site: the second build links to the files.
pdf: $(READY) book
	$(RUN) -m posedu_sphinx.site.chromium
	$(RUN) -m posedu_sphinx.site.pdf
	$(RUN) -m posedu_sphinx.build

compiled: $(READY)
	POSEDU_COMPILER=inductor $(RUN) -m pytest -n 2 tests -k compile

mutants: $(READY)
	$(VENV)/bin/python -m pip install --progress-bar on -e '.[mutants]'
	$(RUN) tests/mutation/run.py

cell-mutants: export OMP_NUM_THREADS := 1
cell-mutants: override export PAGES := $(value PAGES)
cell-mutants: $(READY)
	$(VENV)/bin/python -m pip install --progress-bar on -e '.[mutants]'
	PYTHONPATH=book/_ext:tests $(VENV)/bin/python -m mutation.cells $$PAGES

# What the classes of transformers fill in, and what changed since: TRANSFORMERS is the
# folder of `pip install --target FOLDER transformers`, if .venv has none. An hour at
# most; -P, since tests/oracles has a file of the name of a package.
census: export OMP_NUM_THREADS := 1
census: export PYTHONHASHSEED := 0
census: override export TRANSFORMERS := $(value TRANSFORMERS)
census: $(READY)
	PYTHONPATH="$$TRANSFORMERS:tests" $(VENV)/bin/python -P tests/oracles/rope_families.py
	PYTHONPATH=tests $(VENV)/bin/python -P tests/oracles/config_families.py
	PYTHONPATH="$$TRANSFORMERS:tests" $(VENV)/bin/python -P tests/oracles/as_shipped.py

notebooks: $(READY)
	$(RUN) -m posedu_sphinx.exercises.notebooks

# Every encoding on 2 and 4 processes that share a text, and the times of two of them;
# seven minutes on two idle cores.
distributed: export OMP_NUM_THREADS := 1
distributed: $(READY)
	$(VENV)/bin/python -m posedu.book.many_devices --folder book/data
	$(VENV)/bin/python -m posedu.book.timing.many_devices --folder book/data

# By way of the environment: neither make nor a shell runs what stands in these.
missing: override export NAMES := $(value NAMES)
missing: $(READY)
	$(RUN) -m posedu_sphinx.missing $$NAMES

address: override export URL := $(value URL)
address: $(READY)
	$(RUN) -m posedu_sphinx.site.address

lint: $(READY)
	$(VENV)/bin/ruff check . && $(VENV)/bin/ruff format --check . && $(VENV)/bin/mypy
	PYTHONPATH=book/_ext $(VENV)/bin/lint-imports

clean:
	rm -rf _build

$(READY): requirements.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --no-compile --progress-bar on -r requirements.txt
	touch $@
