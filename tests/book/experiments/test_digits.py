"""The digits experiment: encodings, stored results and properties."""

from dataclasses import replace

import hypothesis
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from posedu.book.experiments import digits, training
from posedu.book.experiments.digits import (
    ALL,
    CONDITIONS,
    FURTHER,
    SHIFTS,
    SIDE,
    VIEWS,
    Result,
    Settings,
)
from posedu.torch import GTA, Encoding, FoPE, grid
from support import ROOT

# Two layers: before training the class token asks nothing in the first.
SMALL = Settings(epochs=1, layers=2, heads=1, d=8)
RELATIVE = [name for name, condition in ALL.items() if condition.relative]
OTHERS = [name for name, condition in ALL.items() if not condition.relative]
EPS = torch.finfo(torch.float64).eps
COORDINATES = {
    "liere": "ends",
    "comrope-ap": "centers",
    "comrope-ld": "centers",
}


def model_of(name, seed=0):
    with torch.random.fork_rng(devices=[]):
        return digits.build(ALL[name], SMALL, seed).double()


def some_images(width, height, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shape = (1, height, width)
    return 2 * torch.rand(shape, generator=generator, dtype=torch.float64) - 1


# --- Coordinates


@pytest.mark.parametrize("rule", ["interpolated", "extrapolated"])
def test_both_rules_agree_on_training_images(rule):
    assert torch.equal(
        digits.pixels(SIDE, SIDE, rule), grid(SIDE, SIDE, coordinates="index")
    )


def test_interpolated_pixels_cover_the_picture_and_extrapolated_ones_more():
    near, far = (digits.pixels(12, 4, r) for r in ("interpolated", "extrapolated"))
    assert torch.allclose(near.mean(0), torch.full((2,), (SIDE - 1) / 2).double())
    assert near[1, 0] - near[0, 0] == pytest.approx(SIDE / 12)
    assert near[12, 1] - near[0, 1] == SIDE / 4
    assert far[[1, 12, -1]].tolist() == [[1, 0], [0, 1], [11, 3]]


def test_pixels_refuse_another_rule():
    with pytest.raises(ValueError, match="'interpolated' or 'extrapolated'"):
        digits.pixels(8, 8, "resized")


@pytest.mark.parametrize("name", ALL)
def test_the_training_coordinates_are_the_papers(name):
    positions = ALL[name].positions(digits.pixels(SIDE, SIDE, "interpolated"))
    published = grid(SIDE, SIDE, coordinates=COORDINATES.get(name, "index"))
    published = published / 8 if name == "gta" else published
    assert torch.allclose(positions[1:], published, rtol=0, atol=EPS)
    middle = 0.5 if name.startswith("comrope") else 0.0
    assert positions[0].tolist() == [middle, middle]


@pytest.mark.parametrize("name", ALL)
def test_a_shift_moves_every_token_the_class_token_too_by_pixels(name):
    here = digits.pixels(5, 3, "interpolated")
    moved = ALL[name].positions(here, (2, -1)) - ALL[name].positions(here)
    unit = 8 if name.startswith(("comrope", "gta")) else 7 if name == "liere" else 1
    expected = torch.tensor([2.0, -1.0]).double() / unit
    assert torch.allclose(moved, expected.expand(16, 2))


@pytest.mark.parametrize("name", ALL)
def test_training_moves_comrope_s_pixels_within_their_patches_and_no_others(
    name, monkeypatch
):
    seen = []
    forward = digits.TinyViT.forward
    monkeypatch.setattr(
        digits.TinyViT,
        "forward",
        lambda model, x, positions: (
            seen.append(positions) or forward(model, x, positions)
        ),
    )
    (images, labels), _ = digits.split(1)
    model = digits.build(ALL[name], SMALL, 1)
    digits.fit(model, ALL[name], images[:128], labels[:128], SMALL, 1)
    still = ALL[name].positions(digits.pixels(SIDE, SIDE, "interpolated"))
    first, second, *loss = (positions - still for positions in seen)
    assert loss and not any(moved.any() for moved in loss)
    if name.startswith("comrope"):
        assert not first[0].any() and not second[0].any()  # the class token
        assert 0.9 / 16 < first[1:].abs().max() <= 1 / 16
        assert not torch.equal(first, second)
    else:
        assert not first.any() and not second.any()


# --- Encodings of the experiment's own


def test_the_learned_table_is_read_at_x_y_between_and_beyond_its_entries():
    table = digits.LearnedTable(3).double()
    entries = table.entries[0].permute(2, 1, 0)  # x, y, feature
    positions = torch.tensor([[5, 2], [5.5, 2], [5, 2.25], [-3, 2], [90, 7]]).double()
    read, backwards = table.embed(
        torch.zeros(2, 5, 3).double(), torch.stack((positions, positions.flip(0)))
    )
    expected = (
        entries[5, 2],
        (entries[5, 2] + entries[6, 2]) / 2,
        0.75 * entries[5, 2] + 0.25 * entries[5, 3],
        entries[0, 2],
        entries[7, 7],
    )
    assert torch.allclose(read, torch.stack(expected), rtol=0, atol=16 * EPS)
    assert torch.equal(backwards, read.flip(0))


def test_flat_gta_is_that_of_a_camera_that_stands_still():
    flat, whole = digits.FlatGTA(8), GTA(8, image_dim=8)
    x, places = torch.randn(3, 1, 2, 5, 8).double(), torch.rand(5, 2).double()
    poses = torch.cat((torch.zeros(5, 6), places), -1)
    for ours, theirs in zip(
        (*flat.rotate(x[0], x[1], places), flat.values(x[2], places)),
        (*whole.rotate(x[0], x[1], poses), whole.values(x[2], poses)),
        strict=True,
    ):
        assert torch.equal(ours, theirs) and not torch.allclose(ours, x[0])
    assert torch.equal(flat.output(x[0], places), whole.output(x[0], poses))


def test_raster_fope_is_fope_at_the_raster_index():
    options = dict(
        layout="half", length=64, padding="identity", coefficients="paper", heads=2
    )
    raster, plain = digits.RasterFoPE(16, **options), FoPE(16, **options)
    plain.load_state_dict(raster.state_dict())
    q = torch.randn(3, 2, 5, 16).double()
    places = torch.tensor([[0, 0], [3, 0], [0, 1], [7, 7], [0.5, 2]]).double()
    index = torch.tensor([0, 3, 8, 63, 16.5]).double()
    turned = zip(raster.rotate(q, q, places), plain.rotate(q, q, index), strict=True)
    assert all(torch.equal(a, b) for a, b in turned)


# --- The exact prediction


def rounding_bound(model, images, here, there):
    """Bound on the change of logits by rounding coordinates before and after a shift.

    To first order; every coordinate's rounding is charged to its logits by their
    Jacobian, and each token's arithmetic with an eps of its own.
    """
    jacobian = torch.autograd.functional.jacobian(lambda p: model(images, p), there)
    moved = (jacobian.abs() * (here.abs() + there.abs())).sum((-1, -2))
    return 8 * EPS * (moved + len(here))


@hypothesis.settings(max_examples=15)
@given(
    name=st.sampled_from(RELATIVE),
    size=st.sampled_from([(3, 5), (6, 2), (4, 4)]),
    shift=st.tuples(*[st.floats(-1000, 1000)] * 2),
    seed=st.integers(0, 1000),
)
def test_a_common_shift_changes_no_logit_of_a_relative_encoding(
    name, size, shift, seed
):
    model, images = model_of(name, seed), some_images(*size, seed)
    places = digits.pixels(*size, "extrapolated")
    here, there = (ALL[name].positions(places, s) for s in ((0.0, 0.0), shift))
    with torch.no_grad():
        change = (model(images, there) - model(images, here)).abs()
    assert (change <= rounding_bound(model, images, here, there)).all()


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("seed", range(3))
def test_it_changes_the_logits_of_the_others(name, seed):
    _, changes = digits.shift_changes(
        model_of(name, seed), ALL[name], some_images(SIDE, SIDE, seed)
    )
    assert changes.keys() == SHIFTS.keys()
    assert min(change.abs().max() for change in changes.values()) > 1e-4


@pytest.mark.parametrize("name", [name for name in RELATIVE if name != "none"])
def test_it_does_so_to_all_if_the_class_token_stays_behind(name):
    model, images = model_of(name), some_images(5, 3)
    here = ALL[name].positions(digits.pixels(5, 3, "extrapolated"))
    there = ALL[name].positions(digits.pixels(5, 3, "extrapolated"), (1, 2))
    there[0] = here[0]
    with torch.no_grad():
        change = (model(images, there) - model(images, here)).abs().max()
    assert change > 1e-4


# --- Fairness


def test_all_conditions_of_a_seed_start_from_the_same_weights():
    def trunk(name):
        return {
            key: value
            for key, value in model_of(name).state_dict().items()
            if "encoding" not in key and "input" not in key
        }

    first = trunk("none")
    assert first.keys() == dict(model_of("none").named_parameters()).keys()
    for name in CONDITIONS:
        other = trunk(name)
        assert other.keys() == first.keys()
        assert all(torch.equal(other[key], first[key]) for key in first), name


def test_five_seeds_test_every_image_once_and_train_on_none_they_test():
    tested = []
    for seed in range(5):
        (train, _), (test, labels) = digits.split(seed)
        rows = {tuple(row) for row in train.flatten(1).tolist()}
        assert not rows & {tuple(row) for row in test.flatten(1).tolist()}
        assert len(train) + len(test) == 1797
        assert len(labels.unique()) == 10
        tested.append(test)
    everything = torch.cat(tested).flatten(1)
    every, counts = everything.unique(dim=0, return_counts=True)
    assert len(every) == len(everything) == 1797 and counts.max() == 1
    assert not torch.equal(digits.split(5)[1][0], tested[0])


def test_only_linear_maps_decay(monkeypatch):
    groups = []

    class Spy(torch.optim.AdamW):
        def __init__(self, given):
            groups.extend(given)
            super().__init__(given)

    monkeypatch.setattr(training, "AdamW", Spy)
    model = model_of("liere").float()
    images = some_images(SIDE, SIDE).float()
    digits.fit(model, ALL["liere"], images, torch.tensor([3]), SMALL, 0)
    decayed, others = ({*group["params"]} for group in groups)
    assert groups[0]["weight_decay"] == SMALL.decay and groups[1]["weight_decay"] == 0
    trained = {p for p in model.parameters() if p.requires_grad}
    assert decayed | others == trained and not decayed & others
    turning = {
        p for m in model.modules() if isinstance(m, Encoding) for p in m.parameters()
    }
    assert turning and turning <= others


# --- Runs and what is kept of them


@pytest.fixture
def few(monkeypatch):
    """A hundred images to train on and twenty to test on."""
    (images, labels), (test_images, test_labels) = digits.split(0)
    halves = (images[:100], labels[:100]), (test_images[:20], test_labels[:20])
    monkeypatch.setattr(digits, "split", lambda seed: halves)


@pytest.fixture
def counted(monkeypatch):
    """Runs that cost nothing, and the list of those that were made."""
    made = []

    def run(encoding, seed, settings):
        made.append((encoding, seed))
        if made[-1] == ("axial", 3):
            raise KeyboardInterrupt
        everywhere = dict.fromkeys((*VIEWS, *SHIFTS), (3 + seed) / 8)
        nowhere = dict.fromkeys(SHIFTS, 0.0)
        return digits.Run(
            encoding=encoding,
            seed=seed,
            accuracy=everywhere,
            logit_change=nowhere,
            largest_logit=1.0,
            loss=0.1,
            parameters=0,
            seconds=0.0,
        )

    monkeypatch.setattr(digits.experiment, "run_one", run)
    return made


def test_a_miniature_from_the_command_line(few, tmp_path, capsys):
    path = tmp_path / "digits.json"
    command = ["--encodings", "learned", "axial", "--seeds", "1", "--epochs", "1"]
    assert digits.main([*command, "--processes", "1", "--out", str(path)]) == 0
    printed = capsys.readouterr()
    assert "learned absolute" in printed.out and "axial RoPE" in printed.out
    assert "2/2" in printed.err
    result = Result.load(path)
    assert result.complete and result.settings == Settings(epochs=1)
    (made,) = result.made()
    assert made["versions"].keys() >= {"torch", "numpy", "scikit-learn"}
    assert made.keys() >= {"device", "date", "commit", "threads"}
    learned, axial = result.runs
    for run in (learned, axial):
        assert run.accuracy.keys() == {*VIEWS, *SHIFTS}
        assert all(0 <= a <= 1 for a in run.accuracy.values())
        assert 0 < run.loss < 2 * np.log(10) and run.seconds > 0
        assert run.largest_logit > 0
    assert learned.parameters == 48 * SIDE * SIDE and axial.parameters == 0
    assert max(axial.logit_change.values()) < 1e-10 < 1e-4
    assert min(learned.logit_change.values()) > 1e-4
    same = {axial.accuracy[name] for name in ("8 × 8", *SHIFTS)}
    assert len(same) == 1


def test_a_run_can_be_repeated(few):
    first, second = (digits.run("mixed", 1, SMALL) for _ in range(2))
    assert replace(first, seconds=0.0) == replace(second, seconds=0.0)


def test_an_interrupt_keeps_what_is_finished_and_a_second_call_does_the_rest(
    counted, tmp_path, capsys
):
    path = tmp_path / "digits.json"
    options = dict(encodings=["none", "axial"], seeds=3, save_to=path)
    result = digits.experiment(**options)
    assert "interrupted: 5 runs are saved" in capsys.readouterr().err
    assert len(result.runs) == 5 and not result.complete
    assert Result.load(path) == result
    assert "not complete" in str(result)

    del counted[:]
    options["encodings"] = ["none"]
    assert len(digits.experiment(**options).runs) == 5 and counted == []
    grown = digits.experiment(**options | {"encodings": ["none", "mixed"]})
    assert counted == [("mixed", seed) for seed in (1, 2, 3)]
    assert not grown.complete and grown.encodings() == ["none", "axial", "mixed"]
    assert Result.load(path) == grown


def test_an_interrupted_command_says_so(counted, tmp_path):
    path = str(tmp_path / "digits.json")
    command = ["--encodings", "axial", "--processes", "1", "--out", path]
    assert digits.main(command) == 130
    assert len(Result.load(path).runs) == 2


def test_a_file_of_other_settings_is_refused(counted, tmp_path, capsys):
    path = tmp_path / "digits.json"
    digits.experiment(encodings=["none"], seeds=1, save_to=path)
    before = path.read_text("utf-8")
    with pytest.raises(SystemExit):
        digits.main(["--encodings", "none", "--epochs", "7", "--out", str(path)])
    assert "give another file" in capsys.readouterr().err
    assert path.read_text("utf-8") == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(encodings=["rope"]), "'learned' or 'none'"),
        (dict(seeds=0), "seeds must be a positive"),
        (dict(processes=0), "processes must be a positive"),
        (dict(settings=Settings(epochs=0)), "epochs must be a positive"),
    ],
)
def test_hostile_options_are_refused(counted, options, message):
    with pytest.raises(ValueError, match=message):
        digits.experiment(**options)
    assert counted == []


def test_the_table_says_means_and_intervals(counted):
    result = digits.experiment(encodings=["none"], seeds=2)
    text = str(result)
    mean, half = digits.interval(np.array([50.0, 62.5]))
    assert mean == 56.25 and f"{mean:.1f} ± {half:.1f}" in text
    page = result._repr_html_()
    assert f"{mean:.1f} ± {half:.1f}" in page and page.count('scope="col"') == 10
    assert "50.0" in str(digits.experiment(encodings=["none"], seeds=1))


# --- Intervals


def test_an_interval_is_student_s_with_the_variance_of_overlapping_training_sets():
    values = np.random.default_rng(0).normal(size=10)
    mean, half = digits.interval(values, 0.9)
    low, high = stats.t.interval(0.9, 9, values.mean(), stats.sem(values))
    assert mean == pytest.approx((low + high) / 2)
    assert half == pytest.approx((high - low) / 2 * np.sqrt(1 + 10 / 4))


def test_an_interval_needs_two_seeds():
    with pytest.raises(ValueError, match="at least 2 seeds, got 1"):
        digits.interval(np.ones(1))


# --- The result that the book shows

TEN_SEEDS = ("axial", "mixed", *FURTHER)


def test_encodings_by_themselves_have_the_seeds_that_all_of_them_have():
    result = Result.load(ROOT / "book/data/digits-cpu.json")
    first, further = result.among(CONDITIONS), result.among(TEN_SEEDS)
    assert first.complete and further.complete and not result.complete
    assert len(first.runs) == 5 * len(CONDITIONS) and len(further.runs) == 10 * len(
        TEN_SEEDS
    )
    with pytest.raises(ValueError, match="no runs of fox"):
        result.among(["axial", "fox"])


def test_the_committed_result_is_whole_and_confirms_the_prediction():
    path = ROOT / "book/data/digits-cpu.json"
    result = Result.load(path)
    assert result.settings == Settings()
    seeds = {name: 5 for name in CONDITIONS} | dict.fromkeys(TEN_SEEDS, 10)
    assert {run.key for run in result.runs} == {
        (name, seed + 1) for name in ALL for seed in range(seeds[name])
    }
    assert all(made["commit"].isalnum() for made in result.made())
    for run in result.runs:
        changes = run.logit_change.values()
        if ALL[run.encoding].relative:
            assert max(changes) < 1e-10 * run.largest_logit, run
        else:
            assert min(changes) > 1e-3 * run.largest_logit, run
