"""Each trial finds the one mutant that it is for, and right models have no fault."""

import json

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from posedu.command import main as command
from posedu.tools import read_rope
from posedu.tools.diagnose import as_json, diagnose
from support.tiny_models import CONFIG, Attention, Configuration, Output, Tiny, names

UNROTATED = {"model_type": "gpt2", "hidden_size": 64, "num_attention_heads": 2}


def results(diagnosis):
    return {trial.name: trial.ok for trial in diagnosis.trials}


class NewName(Tiny):
    """The cache is named ``cache`` in the arguments and in the result."""

    def forward(
        self,
        input_ids,
        attention_mask=None,
        position_ids=None,
        cache=None,
        use_cache=False,
    ):
        out = super().forward(input_ids, attention_mask, position_ids, cache)
        return Output(logits=out.logits, cache=out.past_key_values)


class AnyName(Tiny):
    """The cache is among any other keywords."""

    def forward(self, input_ids, attention_mask=None, position_ids=None, **more):
        return super().forward(input_ids, attention_mask, position_ids, **more)


class NoCache(Tiny):
    """Other keywords are taken and not used."""

    def forward(self, input_ids, attention_mask=None, position_ids=None, **more):
        out = super().forward(input_ids, attention_mask, position_ids)
        return Output(logits=out.logits)


@pytest.mark.parametrize("made", [Tiny, NewName, AnyName])
def test_a_cache_of_either_name_is_tried(made):
    right = diagnose(made(config=CONFIG))
    assert right.ok and results(right)["cached"] and not right.untried
    assert names(diagnose(made(config=CONFIG, cache_shift=1)))[0] == "cache"


def test_a_model_that_returns_no_cache_was_not_tried_with_one():
    found = diagnose(NoCache(config=CONFIG))
    assert found.untried == (
        "cached (it returns no cache)",
        "padded and cached (it returns no cache)",
    )
    assert found.ok and found.summary == (
        "no fault; not tried: cached, padded and cached (it returns no cache)"
    )


def no_cache():
    return NoCache(config=CONFIG)


def test_what_was_not_tried_is_data_and_a_status(capsys):
    target = f"{__name__}:no_cache"
    assert command(["diagnose", target]) == 0
    assert capsys.readouterr().out.endswith("(it returns no cache)\n")
    assert command(["diagnose", target, "--strict", "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["untried"] == as_json(diagnose(no_cache()))["untried"]
    assert len(said["untried"]) == 2


class Pair(nn.Module):
    """An encoder, and a decoder that is given the mean of the encoder's states."""

    def __init__(self, **options):
        super().__init__()
        self.config = UNROTATED
        self.encoder = Tiny(rotates=False)
        self.decoder = Tiny(rotates=False, added=True, **options)
        self.bridge = nn.Linear(64, 64)

    def forward(
        self,
        input_ids,
        attention_mask=None,
        decoder_input_ids=None,
        past_key_values=None,
        use_cache=False,
    ):
        states = self.encoder(input_ids, attention_mask).logits
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        weights = attention_mask[..., None] / attention_mask.sum(1)[:, None, None]
        out = self.decoder(decoder_input_ids, past_key_values=past_key_values)
        more = self.bridge((weights * states).sum(1, keepdim=True))
        return Output(logits=out.logits + more, past_key_values=out.past_key_values)


def test_the_text_of_an_encoder_is_not_cut():
    right = diagnose(Pair())
    assert right.ok, right
    tried = results(right)
    assert tried["padded"] and tried["cached"] and tried["padded and cached"]
    assert names(diagnose(Pair(cache_shift=1))) == ["cache"]


class Beginning(Tiny):
    """Positions that the model counts itself begin at 2, after the padding."""

    def forward(self, input_ids, attention_mask=None, position_ids=None):
        if position_ids is None:
            is_real = input_ids != self.config.pad_token_id
            position_ids = (1 + is_real.cumsum(1)) * is_real
        return super().forward(input_ids, attention_mask, position_ids)


def test_positions_that_begin_at_another_number():
    config = Configuration(**UNROTATED, pad_token_id=1)
    found = diagnose(
        Beginning(config=config, added=True, rotates=False), positions=(0, 1, 2, 8, 33)
    )
    assert found.ok, found
    tried = results(found)
    assert tried["own positions"] is False
    assert tried["padded"] and tried["padded and counted"]
    assert "RoBERTa's begin at 2" in str(found)


class Doubling(Tiny):
    """Positions that the model counts itself are two apart."""

    def forward(self, input_ids, attention_mask=None, position_ids=None):
        if position_ids is None:
            count = 2 * torch.arange(input_ids.shape[1])
            position_ids = count.expand(*input_ids.shape)
        return super().forward(input_ids, attention_mask, position_ids)


def test_own_positions_that_are_not_one_apart():
    assert names(diagnose(Doubling(config=CONFIG))) == ["own positions"]


class Recounting(Tiny):
    """With a cache, positions are the number of cached tokens, whatever is given."""

    def forward(
        self,
        input_ids,
        attention_mask=None,
        position_ids=None,
        past_key_values=None,
        use_cache=False,
    ):
        if past_key_values:
            position_ids = None
        return super().forward(input_ids, attention_mask, position_ids, past_key_values)


class Unmasking(Tiny):
    """With a cache, padding is not masked."""

    def forward(
        self,
        input_ids,
        attention_mask=None,
        position_ids=None,
        past_key_values=None,
        use_cache=False,
    ):
        if past_key_values:
            attention_mask = None
        return super().forward(input_ids, attention_mask, position_ids, past_key_values)


@pytest.mark.parametrize("made", [Recounting, Unmasking])
def test_padding_with_a_cache(made):
    found = diagnose(made(config=CONFIG))
    assert names(found) == ["padded cache"]
    assert results(found)["cached"] and results(found)["padded and counted"]


class Ignoring(Tiny):
    """Positions are ignored."""

    def forward(self, input_ids, attention_mask=None, position_ids=None):
        return super().forward(input_ids, attention_mask)


def test_positions_that_are_ignored_are_named_so():
    found = diagnose(Ignoring(config=CONFIG))
    assert names(found) == ["ignored"], found
    assert found.layers[0].query.width == 32
    table = diagnose(Tiny(config=CONFIG, rotates=False))
    assert names(table) == ["no rotation"]


DYNAMIC = CONFIG | {
    "max_position_embeddings": 512,
    "rope_scaling": {"rope_type": "dynamic", "factor": 4.0},
}


class Dynamic(Attention):
    """Frequencies for the length of the text, or for the longest text so far."""

    def __init__(self, keeps):
        super().__init__()
        self.keeps, self.longest = keeps, 0
        [self.rope] = read_rope(DYNAMIC).kinds.values()

    def rotate(self, x, positions):
        length = int(positions.max()) + 1
        self.longest = max(self.longest, length)
        used = self.longest if self.keeps else length
        omega = self.rope.frequencies(max(used, 512))
        self.omega = torch.tensor(omega, dtype=torch.float32)
        return super().rotate(x, positions)


def dynamic(keeps):
    model = Tiny(config=DYNAMIC)
    for n in range(2):
        model.layers[n] = Dynamic(keeps)
    return model


def test_frequencies_that_are_kept_from_a_longer_text():
    assert diagnose(dynamic(keeps=False)).ok
    assert names(diagnose(dynamic(keeps=True))) == ["longer text"]


def test_a_model_without_rotation_is_right():
    for added in (True, False):
        model = Tiny(config=UNROTATED, added=added, rotates=False)
        found = diagnose(model, positions=(0, 1, 2, 8, 33))
        assert found.ok and not found.uncompared, found
        assert "unrotated" in [finding.name for finding in found.findings]


def test_a_rotation_that_the_configuration_does_not_have_is_a_fault():
    found = diagnose(Tiny(config=UNROTATED))
    assert not found.uncompared
    assert [finding.name for finding in found.faults] == ["rotation"]


def test_a_configuration_that_may_be_of_a_rotation_is_not_compared():
    found = diagnose(Tiny(config=Configuration(model_type="of nobody")))
    assert not found.ok and "no RoPE parameters" in found.uncompared


def test_a_part_of_a_configuration_with_numbers_as_names_is_read():
    """So are the names of classes in configurations of transformers."""
    found = diagnose(Tiny(config=Configuration(**CONFIG, id2label={0: "a", 1: "b"})))
    assert found.ok and not found.uncompared, found


class Pooled(Attention):
    """Queries see tokens, and the mean of each two of them, without a mask."""

    def __init__(self, fused):
        super().__init__()
        self.fused = fused

    def forward(self, x, positions, mask, cache):
        y, cache = super().forward(x, positions, mask, cache)
        heads = x.unflatten(-1, (2, 32)).transpose(1, 2)
        pairs = heads[:, :, : x.shape[1] // 2 * 2].unflatten(2, (-1, 2)).mean(3)
        both = torch.cat([heads, pairs], 2)
        if self.fused:
            more = F.scaled_dot_product_attention(heads, both, both)
        else:
            sink = heads.new_zeros(*heads.shape[:3], 1)
            scores = torch.matmul(heads, both.transpose(-1, -2))
            weights = torch.cat([scores, sink], -1).softmax(-1)[..., :-1]
            more = weights @ both
        return y + more.transpose(1, 2).flatten(2), cache


@pytest.mark.parametrize("fused", [False, True])
def test_keys_that_are_pooled_are_moved_by_padding(fused):
    model = Tiny(config=CONFIG)
    model.layers[1] = Pooled(fused)
    found = diagnose(model)
    assert not {"padding", "elsewhere"} & {*names(found)}, found
    assert "Some keys are pooled from several tokens" in str(found)


def test_keys_of_zero_show_no_rotation():
    """They may be so in a model before training, as ZAYA's."""
    model = Tiny(config=CONFIG)
    for layer in model.layers:
        for part in (layer.project.weight, layer.project.bias):
            part.data[64:128] = 0
    found = diagnose(model)
    assert found.ok and "note (zero): all layers" in str(found), found
    assert found.layers[0].query.width == 32
