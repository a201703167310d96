"""Checkpoints in one file or in shards are converted as their state dicts are."""

import json
import os
import tracemalloc
from dataclasses import replace

import pytest
import torch

from posedu.tools.checkpoints import (
    Conversion,
    ConvertError,
    Fused,
    Pairs,
    convert,
    convert_file,
    plan,
)
from support.safetensors_files import read, written

HALF, NEIGHBORS = Pairs(layout="half"), Pairs(layout="interleaved")
HOW = Conversion(source=HALF, target=NEIGHBORS, head_dim=8)
BACK = replace(HOW, source=NEIGHBORS, target=HALF)
INDEX = "model.safetensors.index.json"


@pytest.fixture
def state():
    made = torch.Generator().manual_seed(0)
    shapes = {
        "k_proj.weight": (8, 3),
        "v_proj.weight": (8, 3),
        "q_proj.weight": (16, 3),
        "q_proj.bias": (16,),
        "q_norm.weight": (2, 8),
    }
    return {
        name: torch.randn(shape, generator=made).bfloat16()
        for name, shape in shapes.items()
    }


def test_a_file_is_converted_as_its_tensors_are(tmp_path, state):
    source = written(tmp_path / "old.safetensors", state)
    source.chmod(0o640)
    target = tmp_path / "new.safetensors"
    assert len(convert_file(source, target, HOW).permuted) == 4
    assert target.stat().st_mode == source.stat().st_mode
    found, header = read(target)
    assert header == read(source)[1] and header["__metadata__"] == {"format": "pt"}
    for name, expected in convert(state, HOW).items():
        assert torch.equal(found[name], expected)
    assert sorted(os.listdir(tmp_path)) == ["new.safetensors", "old.safetensors"]
    convert_file(tmp_path / "new.safetensors", tmp_path / "back.safetensors", BACK)
    assert (tmp_path / "back.safetensors").read_bytes() == source.read_bytes()
    convert_file(str(source), str(source), HOW, overwrite=True)
    assert source.read_bytes() == target.read_bytes()


def test_a_file_in_a_folder_keeps_its_name(tmp_path, state):
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    source = written(tmp_path / "old" / "model.safetensors", state)
    convert_file(tmp_path / "old", tmp_path / "new", HOW)
    assert os.listdir(tmp_path / "new") == ["model.safetensors"]
    with pytest.raises(FileExistsError, match=r"overwrite=True.*model\.safetensors"):
        convert_file(source, tmp_path / "new", HOW)


def test_nothing_is_overwritten_unless_asked(tmp_path, state):
    source = written(tmp_path / "old.safetensors", state)
    target = tmp_path / "new.safetensors"
    target.write_text("precious")
    for path in (source, target):
        with pytest.raises(FileExistsError, match="give overwrite=True to replace it"):
            convert_file(source, path, HOW)
    assert target.read_text() == "precious"
    convert_file(source, target, HOW, overwrite=True)
    assert torch.equal(read(target)[0]["v_proj.weight"], state["v_proj.weight"])


# --- Shards


SPLIT = {"q_proj.weight": 1, "q_proj.bias": 1, "v_proj.weight": 1}
"""Number of the shard of each tensor that is not in the last."""


def shards(folder, state, *, layers=2):
    """Write a checkpoint whose queries and keys are in different shards."""
    folder.mkdir()
    names = [f"model-{n:05}-of-00003.safetensors" for n in (1, 2, 3)]
    of_shard = {name: {} for name in names}
    for layer in range(layers):
        for name, tensor in state.items():
            shard = names[0 if layer == 0 and name in SPLIT else 1]
            of_shard[shard][f"layers.{layer}.{name}"] = tensor + layer
    of_shard[names[2]]["lm_head.weight"] = state["k_proj.weight"]
    for name, tensors in of_shard.items():
        written(folder / name, tensors)
    weight_map = {name: shard for shard in names for name in of_shard[shard]}
    index = {"metadata": {"total_size": 7}, "weight_map": weight_map}
    (folder / INDEX).write_text(json.dumps(index, indent=2))
    return {name: x for tensors in of_shard.values() for name, x in tensors.items()}


@pytest.mark.parametrize("given", ["", INDEX])
def test_shards_are_converted_as_their_tensors_are(tmp_path, state, given):
    whole = shards(tmp_path / "old", state)
    (tmp_path / "old" / "config.json").write_text("{}")
    new = tmp_path / "deep" / "new"
    done = convert_file(tmp_path / "old" / given, new, HOW)
    assert len(done.permuted) == 8 and len(done.left) == 3
    expected = convert(whole, HOW)
    files = sorted(path.name for path in (tmp_path / "old").glob("model*"))
    assert sorted(os.listdir(new)) == files
    assert (new / INDEX).read_bytes() == (tmp_path / "old" / INDEX).read_bytes()
    for name in files[:3]:
        tensors, header = read(new / name)
        assert header == read(tmp_path / "old" / name)[1]
        for key, tensor in tensors.items():
            assert torch.equal(tensor, expected[key])
    convert_file(new, tmp_path / "back", BACK)
    for name in files:
        old = (tmp_path / "old" / name).read_bytes()
        assert (tmp_path / "back" / name).read_bytes() == old
    with pytest.raises(FileExistsError, match="give overwrite=True"):
        convert_file(tmp_path / "old", new, BACK)
    convert_file(tmp_path / "old", new, replace(HOW, target=HALF), overwrite=True)
    assert (new / files[0]).read_bytes() == (tmp_path / "old" / files[0]).read_bytes()


def test_one_shard_is_refused(tmp_path, state):
    shards(tmp_path / "old", state)
    first = tmp_path / "old" / "model-00001-of-00003.safetensors"
    with pytest.raises(ConvertError, match=r"layers\.0\.q_proj.weight has no matrix"):
        convert_file(first, tmp_path / "new.safetensors", HOW)


def test_shards_are_not_converted_in_place(tmp_path, state):
    shards(tmp_path / "old", state)
    before = {p.name: p.read_bytes() for p in (tmp_path / "old").iterdir()}
    (tmp_path / "link").symlink_to(tmp_path / "old")
    for folder in ("old", "link"):
        with pytest.raises(ConvertError, match="must be written to another folder"):
            convert_file(tmp_path / "old", tmp_path / folder, HOW, overwrite=True)
    assert {p.name: p.read_bytes() for p in (tmp_path / "old").iterdir()} == before


class Stopped:
    """A progress bar that interrupts after some bytes."""

    def __init__(self, after):
        self.left = after

    def __call__(self, **options):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False

    def set_description(self, name, **options):
        """Do nothing."""

    def update(self, size):
        self.left -= size
        if self.left < 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize("after", [0, 300, 900, 1500])
def test_an_interrupted_conversion_leaves_nothing(tmp_path, state, monkeypatch, after):
    shards(tmp_path / "old", state)
    size = sum(p.stat().st_size for p in (tmp_path / "old").glob("*.safetensors"))
    assert after < size
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / INDEX).write_text("precious")
    monkeypatch.setattr("posedu.tools.checkpoints._files.tqdm", Stopped(after))
    for folder in ("new", "there"):
        with pytest.raises(KeyboardInterrupt):
            convert_file(tmp_path / "old", tmp_path / folder, HOW, overwrite=True)
    assert sorted(os.listdir(tmp_path)) == ["old", "there"]
    assert os.listdir(tmp_path / "there") == [INDEX]
    assert (tmp_path / "there" / INDEX).read_text() == "precious"


def test_an_interrupted_conversion_leaves_the_file_unchanged(
    tmp_path, state, monkeypatch
):
    source = written(tmp_path / "old.safetensors", state)
    before = source.read_bytes()
    monkeypatch.setattr("posedu.tools.checkpoints._files.tqdm", Stopped(200))
    with pytest.raises(KeyboardInterrupt):
        convert_file(source, source, HOW, overwrite=True)
    assert source.read_bytes() == before
    assert os.listdir(tmp_path) == ["old.safetensors"]


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ("[", "is not an index of safetensors files"),
        ("[]", "is not an index of safetensors files"),
        ('{"weight_map": ["a"]}', "is not an index of safetensors files"),
        ('{"weight_map": {"a": "../a.safetensors"}}', "is not the name of a shard"),
        ('{"weight_map": {"a": "a.bin"}}', "is not the name of a shard"),
        ('{"weight_map": {"a": 3}}', "is not an index of safetensors files"),
    ],
)
def test_a_wrong_index_is_refused(tmp_path, index, message):
    (tmp_path / INDEX).write_text(index)
    with pytest.raises(ConvertError, match=message):
        convert_file(tmp_path, tmp_path / "new", HOW)


@pytest.mark.parametrize("change", ["more", "less", "elsewhere"])
def test_an_index_of_other_tensors_is_refused(tmp_path, state, change):
    shards(tmp_path / "old", state)
    path = tmp_path / "old" / INDEX
    index = json.loads(path.read_text())
    names = index["weight_map"]
    if change == "more":
        names["layers.9.weight"] = names["lm_head.weight"]
    elif change == "less":
        del names["layers.1.v_proj.weight"]
    else:
        names["layers.1.v_proj.weight"] = names["lm_head.weight"]
    path.write_text(json.dumps(index))
    with pytest.raises(ConvertError, match=r"layers\..* is in one of them only"):
        plan(tmp_path / "old", HOW)


def test_a_missing_shard_is_named(tmp_path, state):
    shards(tmp_path / "old", state)
    (tmp_path / "old" / "model-00002-of-00003.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match="model-00002-of-00003"):
        plan(tmp_path / "old", HOW)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([], "got none: give the path of one"),
        (["a.safetensors", "b.safetensors"], r"got a\.safetensors, b\.safetensors"),
        (["model.safetensors", INDEX], rf"got {INDEX}, model\.safetensors"),
        ([INDEX, "x.safetensors.index.json"], r"got .*index.json, x\.safetensors"),
    ],
)
def test_an_ambiguous_folder_is_refused(tmp_path, files, message):
    for name in files:
        (tmp_path / name).write_text("{}")
    with pytest.raises(ConvertError, match=message):
        plan(tmp_path, HOW)


# --- Memory and progress


def test_memory_holds_less_than_a_tensor(tmp_path):
    """The largest tensors have 12 MiB, of which one head and a part are in memory."""
    big = Conversion(source=HALF, target=NEIGHBORS, head_dim=128)
    weight = torch.arange(2048 * 3072).view(2048, 3072).bfloat16()
    names = ("q_proj.weight", "k_proj.weight", "v_proj.weight", "up_proj.weight")
    source = written(tmp_path / "old.safetensors", dict.fromkeys(names, weight))
    size = weight.numel() * weight.itemsize
    tracemalloc.start()
    try:
        convert_file(source, tmp_path / "new.safetensors", big)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    head = size / 16
    assert 2 * head < peak < 2**20 + 4 * head < size / 2
    found = read(tmp_path / "new.safetensors")[0]["q_proj.weight"]
    order = torch.tensor(big.order(128, 0))
    assert torch.equal(found.view(16, 128, -1), weight.view(16, 128, -1)[:, order])


def test_the_progress_bar_counts_every_byte(tmp_path, state, monkeypatch, capsys):
    shards(tmp_path / "old", state)
    size = sum(p.stat().st_size for p in (tmp_path / "old").glob("*.safetensors"))
    bar = Stopped(size)
    monkeypatch.setattr("posedu.tools.checkpoints._files.tqdm", bar)
    convert_file(tmp_path / "old", tmp_path / "new", HOW)
    assert bar.left == 0
    monkeypatch.undo()
    convert_file(tmp_path / "old", tmp_path / "again", HOW)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr("posedu.tools.checkpoints._files.DELAY", 0)
    convert_file(tmp_path / "old", tmp_path / "shown", HOW)
    assert "100%" in capsys.readouterr().err


def test_latent_and_fused_matrices_in_files(tmp_path):
    names = {
        "0.q_b_proj.weight": (20, 3),
        "0.kv_a_proj_with_mqa.weight": (11, 3),
        "0.kv_b_proj.weight": (12, 7),
        "1.qkv_proj.weight": (40, 3),
        "1.qkv_proj.bias": (40,),
    }
    numbers = torch.Generator().manual_seed(3)
    state = {
        name: torch.randn(shape, generator=numbers).bfloat16()
        for name, shape in names.items()
    }
    fused = Fused(order="grouped", heads=2, kv_heads=1)
    conversion = Conversion(
        source=HALF,
        target=NEIGHBORS,
        head_dim=10,
        width=4,
        rotated="trailing",
        fused=fused,
    )
    for layer in "01":
        own = {name: tensor for name, tensor in state.items() if name[0] == layer}
        source = written(tmp_path / f"{layer}.safetensors", own)
        convert_file(source, tmp_path / f"new-{layer}.safetensors", conversion)
        found, _ = read(tmp_path / f"new-{layer}.safetensors")
        for name, expected in convert(own, conversion).items():
            assert torch.equal(found[name], expected)
        assert any(not torch.equal(found[name], own[name]) for name in own)


# --- Headers


BROKEN = {
    "empty": lambda raw: b"",
    "no header": lambda raw: raw[:5],
    "a header longer than the file": lambda raw: b"\xff" * 8 + raw[8:],
    "a header that is no JSON": lambda raw: raw[:8] + b"[" + raw[9:],
    "cut off": lambda raw: raw[:-1],
}


def test_a_header_with_a_name_twice_is_refused(tmp_path, state):
    path = written(tmp_path / "old.safetensors", state)
    twice = path.read_bytes().replace(b"v_proj.weight", b"k_proj.weight")
    path.write_bytes(twice)
    with pytest.raises(ConvertError, match="a name is given twice"):
        convert_file(path, path, HOW, overwrite=True)
    assert path.read_bytes() == twice


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_file_is_refused(tmp_path, state, fault):
    path = written(tmp_path / "old.safetensors", state)
    path.write_bytes(BROKEN[fault](path.read_bytes()))
    target = tmp_path / "new.safetensors"
    with pytest.raises(
        ConvertError, match=r"old\.safetensors is not a safetensors file"
    ):
        convert_file(path, target, HOW)
    assert not target.exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"dtype": "I8"},
            "k_proj.weight must be of floats, got I8: quantized weights have",
        ),
        ({"shape": [8, 4]}, "bytes of k_proj.weight do not fit its shape"),
        ({"data_offsets": [0, 10**6]}, "lies outside"),
        ({"data_offsets": [-2, 46]}, "lies outside"),
        ({"data_offsets": [0]}, "is not a safetensors file"),
        ({"shape": [10**12, 0], "data_offsets": [0, 0]}, r"has the shape \[10000"),
        ({"shape": [-8, -3]}, r"has the shape \[-8, -3\]"),
        ({"shape": [8.0, 3]}, r"has the shape \[8.0, 3\]"),
        ({"data_offsets": [0.0, 48.0]}, "offsets that are not whole numbers"),
        ({"data_offsets": [2, 50]}, "overlaps another"),
    ],
)
def test_a_wrong_header_is_refused(tmp_path, state, changes, message):
    path = written(tmp_path / "old.safetensors", state, **{"k_proj.weight": changes})
    with pytest.raises(ConvertError, match=message):
        convert_file(path, tmp_path / "new.safetensors", HOW)
