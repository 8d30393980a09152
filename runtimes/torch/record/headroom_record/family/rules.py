"""Rules that tell from the configuration which kind a layer is, and what lists by layer are when they are not given."""

import itertools
import json
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..merge import Different
from .configuration import flat

# A feature of layer i: ["list", key], ["below", key], ["multiple", key, plus] ((i + plus) % key == 0), ["in", key],
# ["first"], ["last"]; a key may be a number.
Feature = List[Any]


def value_of(feature: Feature, config: Dict[str, Any], index: int, count: int) -> Any:
    """What a feature is for a layer; raises Different where the configuration lacks what it reads."""
    kind = feature[0]
    if kind == "first":
        return index == 0
    if kind == "last":
        return index == count - 1
    key = feature[1]
    value = key if isinstance(key, int) else config.get(key)
    if kind == "list":
        if not isinstance(value, list) or len(value) <= index:
            raise Different(f"{key} is no list with a value for each layer")
        return value[index] if not isinstance(value[index], list) else json.dumps(value[index])
    if kind == "in":
        return index in (value or [])
    if not isinstance(value, int):
        raise Different(f"{key} is no number")
    if kind == "below":
        return index < value
    return value > 0 and (index + feature[2]) % value == 0


def _candidates(configs: Sequence[Dict[str, Any]], counts: Sequence[int]) -> List[Feature]:
    found: List[Feature] = []
    listed: List[Feature] = []  # A file may leave such lists out, so that constants come first.
    keys = [key for key in configs[0] if all(key in config for config in configs)]
    for key in keys:
        values = [config[key] for config in configs]
        if all(isinstance(value, list) and len(value) == count for value, count in zip(values, counts)):
            found.append(["list", key])
    for key in keys:
        values = [config[key] for config in configs]
        if key.endswith(("_id", "_ids", "_index")) or all(value == values[0] for value in values):
            continue  # No dimension, or one that did not vary: a constant says as much.
        if all(isinstance(value, int) and not isinstance(value, bool) for value in values):
            if all(0 <= value <= count for value, count in zip(values, counts)):
                found.append(["below", key])
            # A period is seen where a layer after the first ends one.
            if all(1 < value <= 16 for value in values) and any(value < count for value, count in zip(values, counts)):
                found += [["multiple", key, plus] for plus in (1, 0, -1)]
        elif all(isinstance(value, list) and all(isinstance(one, int) for one in value) for value in values) and any(
                values):
            listed.append(["in", key])
    found += [["first"], ["last"]] + [["below", number] for number in range(2, 5)]
    return found + [["multiple", number, plus] for number in range(2, 9) for plus in range(number)] + listed


def find(configs: Sequence[Dict[str, Any]], labels: Sequence[Sequence[Any]], most: int = 2) -> List[Feature]:
    """The fewest features that tell all labels of the layers apart, in every configuration."""
    counts = [len(one) for one in labels]
    candidates = _candidates([flat(config, lists=True) for config in configs], counts)
    columns = {}
    for at, feature in enumerate(candidates):
        try:
            columns[at] = [[value_of(feature, flat(config, lists=True), index, count) for index in range(count)]
                           for config, count in zip(configs, counts)]
        except Different:
            continue
    for size in range(most + 1):
        for chosen in itertools.combinations(columns, size):
            if _tells([columns[one] for one in chosen], labels):
                return [candidates[one] for one in chosen]
    raise Different("no rule of the configuration tells the kinds of layers apart")


def _tells(columns: Sequence[Any], labels: Sequence[Sequence[Any]]) -> bool:
    for number, of_config in enumerate(labels):
        known: Dict[Tuple[Any, ...], Any] = {}
        for index, label in enumerate(of_config):
            key = tuple(column[number][index] for column in columns)
            if known.setdefault(key, label) != label:
                return False
    return True


def label_of(features: Sequence[Feature], config: Dict[str, Any], index: int, count: int) -> List[Any]:
    return [value_of(feature, flat(config, lists=True), index, count) for feature in features]


def default_of_list(configs: Sequence[Dict[str, Any]], key: str, count_key: str) -> Optional[Dict[str, Any]]:
    """The rule of a list by layer that transformers makes itself: one feature, and the value for each of its values."""
    flats = [flat(config, lists=True) for config in configs]
    lists = [one[key] for one in flats]
    others = [{name: value for name, value in one.items() if name != key and not isinstance(value, list)}
              for one in flats]
    counts = [len(one) for one in lists]
    if any(isinstance(value, (list, dict)) for one in lists for value in one):
        return None
    if len({value for one in lists for value in one}) == 1:
        return {"by": [], "values": [[[], lists[0][0]]], "count": count_key}
    for feature in _candidates(others, counts):
        values: Dict[Any, Any] = {}
        fits = True
        for config, one in zip(others, lists):
            for index, value in enumerate(one):
                try:
                    fits = fits and values.setdefault(value_of(feature, config, index, len(one)), value) == value
                except Different:
                    fits = False
        if fits:
            return {"by": [feature], "values": [[[name], value] for name, value in values.items()], "count": count_key}
    return None
