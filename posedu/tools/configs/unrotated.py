"""Positional encodings of models without rotation, from their configurations.

What the classes of transformers have is in ``unrotated.json`` by ``model_type``, which
``tests/oracles/unrotated_families.py`` measures.
"""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from posedu.tools.configs._fields import count, first, heads, mapping, number
from posedu.tools.configs.other_encoding import OtherEncoding

HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
BUCKETS, DISTANCE = "relative_attention_num_buckets", "relative_attention_max_distance"
STATED, USUAL = "position_embedding_type", "absolute"
"""Name of the encoding in configurations of BERT and others, and its usual value."""


def is_known(model_type: object) -> bool:
    """Return whether encodings of the family named ``model_type`` were measured."""
    return isinstance(model_type, str) and model_type in _stored()


def other_encodings(config: Mapping[str, Any]) -> tuple[OtherEncoding, ...]:
    """Return the encodings of a model without rotation that are known.

    They are those of the family's class in transformers, with the numbers of the
    configuration ``config``; for another family, ALiBi or T5's bias, if the
    configuration names one of them.

    Raises
    ------
    ConfigError
        A number in the configuration has another type.
    """
    family = config.get("model_type")
    if is_known(family):
        return tuple(_of_family(fact, config) for fact in _facts(family, config))
    if has_alibi(config):
        return (_alibi(config),)
    if config.get(BUCKETS):
        return (_t5({"buckets": BUCKETS, "distance": DISTANCE}, config),)
    return ()


def has_alibi(config: Mapping[str, Any]) -> bool:
    """Return whether a configuration turns ALiBi on."""
    inner = config.get("attn_config")
    within = isinstance(inner, Mapping) and inner.get("alibi") is True
    stated = config.get(STATED) == "alibi"
    return config.get("alibi") is True or within or stated


def _facts(family: str, config: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what was measured of a family with the flags of a configuration.

    There is nothing if the combination of flags was not measured.
    """
    record = _stored()[family]
    switched = [
        each["encodings"]
        for each in record.get("switches", ())
        if config.get(each["name"]) == each["value"]
    ]
    if len(switched) > 1 or config.get(STATED, USUAL) != USUAL:
        return []
    return (switched[0] or []) if switched else record["encodings"]


def _of_family(fact: Mapping[str, Any], config: Mapping[str, Any]) -> OtherEncoding:
    """Return an encoding of a family from what was measured, and a configuration."""
    match fact["kind"]:
        case "alibi":
            return _alibi(config)
        case "t5":
            return _t5(fact, config)
        case "learned":
            options = {"first": fact["first"]}
            if "size" in fact:
                own = _whole(config, fact["size"], fact["default"])
                options["rows"] = own + fact["more"]
            return OtherEncoding(kind="learned", options=options)
        case "transformer-xl":
            most = config.get(fact.get("largest"))
            is_clamped = most is not None and most != -1
            options = {"largest": count(fact["largest"], most)} if is_clamped else {}
            return OtherEncoding(kind="transformer-xl", options=options)
        case "recurrent":
            options = {"attention": fact["attention"]}
            return OtherEncoding(kind="recurrent", options=options)
    return OtherEncoding(kind=fact["kind"])


def _alibi(config: Mapping[str, Any]) -> OtherEncoding:
    inner = config.get("attn_config")
    inner = {} if inner is None else mapping("attn_config", inner)
    given = first(inner, "alibi_bias_max") or first(config, "alibi_bias_max")
    options: dict[str, Any] = {"bias_max": number(*given) if given else 8.0}
    if own := first(config, *HEADS):
        options["heads"] = heads(*own)
    return OtherEncoding(kind="alibi", options=options)


def _t5(fact: Mapping[str, Any], config: Mapping[str, Any]) -> OtherEncoding:
    options = {
        name: _whole(config, fact[name], fact.get(f"default_{name}", usual))
        for name, usual in (("buckets", 32), ("distance", 128))
    }
    return OtherEncoding(kind="t5", options=options)


def _whole(config: Mapping[str, Any], name: str, default: int) -> int:
    """Return a whole number of a configuration, or the default of the class."""
    given = config.get(name)
    return default if given is None else count(name, given)


@cache
def _stored() -> dict[str, dict[str, Any]]:
    data = files("posedu.tools.configs").joinpath("unrotated.json")
    return json.loads(data.read_text("utf-8"))["families"]
