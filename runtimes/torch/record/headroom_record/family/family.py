"""The recording of a family, from recordings of several of its configurations."""

from typing import Any, Dict, List, Sequence

from ..merge import Different
from . import rules, stacks
from .configuration import flat
from .join import Join, with_tables
from .symbols import Symbols


def _stacks_of(recordings: Sequence[Dict[str, Any]]) -> List[List[stacks.Stack]]:
    """For each recording its stacks: the lists of modules whose lengths vary."""
    lengths = [stacks.lengths(recording) for recording in recordings]
    paths = [path for path in lengths[0] if len({one.get(path) for one in lengths}) > 1]
    if any(path not in one for one in lengths for path in paths):
        raise Different("a list of modules in one configuration only")
    return [[stacks.Stack(path, one[path]) for path in paths] for one in lengths]


def _rules_of(recordings: Sequence[Dict[str, Any]], of_recording: List[List[stacks.Stack]]) -> List[Dict[str, Any]]:
    """Sets the kinds of all layers; the rules that tell them from the configuration."""
    texts = [stacks.set_kinds(recording, own) for recording, own in zip(recordings, of_recording)]
    configs = [recording["config"] for recording in recordings]
    result = []
    for number in range(len(of_recording[0])):
        features = rules.find(configs, [one[number] for one in texts])
        labels: List[Any] = []
        for config, own in zip(configs, of_recording):
            stack = own[number]
            for index in range(stack.count):
                label = rules.label_of(features, config, index, stack.count)
                if label not in labels:
                    labels.append(label)
                stack.kinds[index] = labels.index(label)
        for config, own in zip(configs, of_recording):
            if len(set(own[number].kinds)) != len(labels):
                raise Different("a kind of layer is in one configuration, not in another")
        result.append({"path": of_recording[0][number].path, "by": features, "kinds": labels})
    return result


def folded(recording: Dict[str, Any], own: List[stacks.Stack]) -> Dict[str, Any]:
    """One recording with its stacks as loops."""
    result = {key: recording[key] for key in ("sizes", "modules", "parameters", "buffers", "variants")}
    for key in ("modules", "parameters", "buffers"):
        result[key] = stacks.fold_entries(recording[key], own)
    result["variants"] = [_variant(variant, own) for variant in recording["variants"]]
    result["stacks"] = [{"count": stack.count} for stack in own]
    return result


def _variant(variant: Dict[str, Any], own: List[stacks.Stack]) -> Dict[str, Any]:
    calls = [layer["module"] for layer in variant["layers"]]
    result = dict(variant)
    if "load" in variant:
        result["load"] = stacks.CodeFolder(own, [], 0).folded(variant["load"])
    result["forward"] = stacks.CodeFolder(own, calls, len(variant["inputs"])).folded(variant["forward"])
    layers: List[Dict[str, Any]] = []
    expected = 0
    for layer in variant["layers"]:
        number, index = stacks._place(layer["module"] + ".", own)
        if index is None:
            layers.append(layer)
            continue
        stack = own[number]
        if index == 0:
            layers.append({"each": number, "kinds": [None] * (max(stack.kinds) + 1)})
            expected = 0
        if index != expected or layers[-1].get("each") != number:
            raise Different(f"layers of {stack.path} are not called in order")
        expected += 1
        kind = stack.kinds[index]
        known = layers[-1]["kinds"][kind]
        if known is not None and known != layer["body"]:
            raise Different(f"layer {index} of {stack.path} runs other code than others of its kind")
        layers[-1]["kinds"][kind] = layer["body"]
    result["layers"] = layers
    return result


def family_of(recordings: Sequence[Dict[str, Any]], dimensions: Sequence[str]) -> Dict[str, Any]:
    """The recording with the dimensions of the configurations; raises Different where they have unlike code."""
    plain = [stacks.with_templates(recording) for recording in recordings]
    of_recording = _stacks_of(plain)
    found = _rules_of(plain, of_recording)
    parts = [folded(recording, own) for recording, own in zip(plain, of_recording)]
    values: Dict[str, List[int]] = {}
    for key in dimensions:
        column = [flat(recording["config"]).get(key) for recording in recordings]
        if all(isinstance(one, int) and not isinstance(one, bool) for one in column):
            values[key] = column
    for part in parts:
        part["sizes"] = {"checked": parts[0]["sizes"]["checked"],
                         "sequence_multiple": part["sizes"]["sequence_multiple"]}
    join = Join(Symbols(values))
    result = join.joined(parts)
    for rule, one in zip(found, result.pop("stacks")):
        rule["count"] = one["count"]
    first = recordings[0]
    family = {"headroom_family": 1, "model": first["model"], "task": first["task"], "versions": first["versions"],
              "stacks": found}
    family.update(result)
    if "differs_in_fp16" in first:
        family["differs_in_fp16"] = first["differs_in_fp16"]
    with_tables(family)
    return family
