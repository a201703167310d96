# `make book` builds the website, `make test` runs every test. Both set up what they need.
PYTHON ?= python3
VENV := .venv
RUN := PYTHONPATH=book/_ext $(VENV)/bin/python
QUICK := tests/catalog tests/encodings tests/torch tests/sympy tests/project
READY := $(VENV)/ready

.PHONY: book serve test quick lab new site coverage compiled mutants notebooks missing \
	address lint clean

book: $(READY)
	$(RUN) -m posedu_sphinx.build

serve: $(READY)
	$(RUN) -m posedu_sphinx.build --serve

test: $(READY) book
	$(RUN) -m posedu_sphinx.site.chromium
	$(RUN) -m pytest tests -n 2 --dist worksteal
	$(RUN) -m pytest -n 2 --dist loadfile --nbval-lax --nbval-current-env --nbval-cell-timeout 600 notebooks/*.ipynb notebooks/exercises/*.ipynb
	$(RUN) -m posedu_sphinx.exercises.notebooks --solved
	POSEDU_STRICT=1 $(RUN) -m pytest -n 2 --dist loadfile --nbval-lax --nbval-current-env --nbval-cell-timeout 600 notebooks/exercises/solved

# What a contributor runs while writing: no build, no browser, nothing that takes long.
quick: $(READY)
	$(VENV)/bin/ruff check . && $(VENV)/bin/ruff format --check .
	$(RUN) -m pytest $(QUICK) -n 2 --dist worksteal -m "not slow and not site" -q

lab: $(READY)
	$(RUN) -m posedu_sphinx.exercises.lab

new: $(READY)
	$(RUN) -m posedu_sphinx.new $(NAME) $(FAMILY)

site: $(READY) book
	$(RUN) -m posedu_sphinx.site.chromium
	POSEDU_SITE=all $(RUN) -m pytest -n 2 tests/sphinx/site/test_site.py

coverage: $(READY) book
	$(RUN) -m pytest tests -n 2 --dist worksteal --cov=posedu --cov-report=term --cov-fail-under=95

compiled: $(READY)
	POSEDU_COMPILER=inductor $(RUN) -m pytest -n 2 tests -k compile

mutants: $(READY)
	$(VENV)/bin/python -m pip install --progress-bar on -e '.[mutants]'
	$(RUN) tests/mutation/run.py

notebooks: $(READY)
	$(RUN) -m posedu_sphinx.exercises.notebooks

missing: $(READY)
	$(RUN) -m posedu_sphinx.missing $(NAMES)

# By way of the environment: neither make nor a shell reads what stands in it.
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
	$(VENV)/bin/python -m pip install --progress-bar on -r requirements.txt
	touch $@
