"""What a recording of a family asks of a configuration: defaults, values that must be the recorded ones, relations."""

import random
from typing import Any, Dict, List, Optional, Sequence

from ..merge import Different
from . import rules
from .configuration import flat, with_value
from .symbols import Symbols


def config_of(fields: Dict[str, Any]) -> Any:
    """The configuration of transformers, or None where it refuses the combination."""
    from transformers import AutoConfig

    try:
        rest = {key: value for key, value in fields.items() if key != "model_type"}
        return AutoConfig.for_model(fields["model_type"], **rest)
    except Exception:
        return None


def made(fields: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    config = config_of(fields)
    return None if config is None else config.to_dict()


def with_parts(fields: Dict[str, Any]) -> Dict[str, Any]:
    """The fields with what the class sets in its nested configurations, which a change of one key would leave out."""
    whole = made(fields)
    result = dict(fields)
    for name, part in (whole or {}).items():
        kind = part.get("model_type") if isinstance(part, dict) else None
        plain = made({"model_type": kind}) if kind else None
        if plain is not None:
            own = {key: value for key, value in part.items() if value != plain.get(key) and not key.startswith("_")}
            result[name] = {"model_type": kind, **own, **(fields.get(name) or {})}
    return result


def _drawn(fields: Dict[str, Any], numbers: Sequence[str], source: random.Random) -> Optional[Dict[str, Any]]:
    base = flat(made(fields) or {})
    for key in numbers:
        value = base.get(key)
        if isinstance(value, int) and value > 1:
            factor = source.choice((1, 2, 3, 4, 5, 7))
            fields = with_value(fields, key, value * factor if value > 16 else value + source.choice((0, 1, 2, 3, 5)))
    return made(fields)


def _follows(model_type: str, key: str, numbers: Sequence[str], plain: Dict[str, Any]) -> bool:
    """Whether a key that a file leaves out has another value where other keys have."""
    others = _drawn(with_parts({"model_type": model_type}), [one for one in numbers if one != key], random.Random(11))
    before = flat(plain).get(key)
    return others is not None and isinstance(before, int) and flat(others).get(key) != before


def defaults(model_type: str, numbers: Sequence[str], counts: Sequence[str]) -> Dict[str, Any]:
    """The value of each key that a config.json may leave out: a constant, an expression, or a rule for a list."""
    source = random.Random(7)
    plain = made({"model_type": model_type})
    if plain is None:
        return {}
    numbers = [key for key in numbers if not _follows(model_type, key, numbers, plain)]
    drawn = [plain]
    fields = with_parts({"model_type": model_type})
    for _ in range(60):
        one = _drawn(fields, list(numbers) + list(counts), source)
        if one is not None and len(drawn) < 12:
            drawn.append(one)
    flats = [flat(one, lists=True) for one in drawn]
    given = {key: [one.get(key) for one in flats] for key in list(numbers) + list(counts)}
    symbols = Symbols({key: values for key, values in given.items() if all(isinstance(one, int) for one in values)})
    result: Dict[str, Any] = {}
    for key, value in flats[0].items():
        values = [one.get(key) for one in flats]
        if isinstance(value, list):
            found = _of_list(drawn, flats, key, counts)
            if found is not None:
                result[key] = found
        elif all(one == value for one in values):
            result[key] = value
        elif key in given:
            result[key] = value
        elif all(isinstance(one, int) for one in values):
            try:
                found = symbols.expression(values)  # type: ignore[arg-type]
                result[key] = {"expression": found} if isinstance(found, str) else found
            except Different:
                continue
    return result


def is_indexes(key: str, value: Any, count: int) -> bool:
    """Whether it is a list of numbers of layers, such as 2, 5, 8, of `count` layers."""
    return isinstance(value, list) and len(value) > 1 and not key.endswith(("_id", "_ids")) and all(
        isinstance(one, int) and not isinstance(one, bool) and 0 <= one < count for one in value) and all(
        first < second for first, second in zip(value, value[1:]))


def with_indexes(fields: Dict[str, Any], usual: Dict[str, Any]) -> Dict[str, Any]:
    """`usual`, with rules for the lists by layer that transformers makes of a list of numbers of layers in `fields`;
    where a file has no such list, the usual rule holds."""
    result = dict(usual)
    before = flat(made(fields) or {}, lists=True)
    for key, indexes in flat(fields, lists=True).items():
        of_layers = [name for name, rule in usual.items() if isinstance(rule, dict) and "count" in rule
                     and isinstance(before.get(name), list) and is_indexes(key, indexes, len(before[name]))]
        fewer = flat(made(with_value(fields, key, indexes[:-1])) or {}, lists=True) if of_layers else {}
        for name in of_layers:
            rule, own, other = usual[name], before[name], fewer.get(name)
            if own == other or not isinstance(other, list) or len(other) != len(own):
                continue
            values = {index in indexes: value for index, value in enumerate(own)}
            if len(values) == 2 and own == [values[index in indexes] for index in range(len(own))] \
                    and other == [values[index in indexes[:-1]] for index in range(len(own))]:
                result[name] = {"by": [["in", key]], "values": [[[at], value] for at, value in values.items()],
                                "count": rule["count"], "otherwise": rule}
    return result


def _of_list(drawn: Sequence[Dict[str, Any]], flats: Sequence[Dict[str, Any]], key: str, counts: Sequence[str]) \
        -> Optional[Any]:
    values = [one[key] for one in flats]
    for count in counts:
        if all(isinstance(one, list) and len(one) == other.get(count) for one, other in zip(values, flats)):
            return rules.default_of_list(drawn, key, count)
    return values[0] if all(one == values[0] for one in values) else None


def _lifted(model_type: str) -> Dict[str, str]:
    """The keys of text_config that a file may have at its top instead, where it has no text_config."""
    usual = (made({"model_type": model_type}) or {}).get("text_config")
    result: Dict[str, str] = {}
    for key, value in (usual if isinstance(usual, dict) else {}).items():
        if type(value) is not int or value == 0 or key.endswith(("_id", "_index", "chunk_size_feed_forward")):
            continue
        found = made({"model_type": model_type, key: 2 * value})
        part = (found or {}).get("text_config")
        if isinstance(part, dict) and part.get(key) == 2 * value:
            result[key] = f"text_config.{key}"
    return result


def aliases(model_type: str) -> Dict[str, str]:
    """Other names of keys, as transformers takes them, those of nested parts too."""
    from transformers import AutoConfig, PretrainedConfig

    def of(config: Any, prefix: str) -> Dict[str, str]:
        found = {prefix + name: prefix + key for name, key in type(config).attribute_map.items()}
        for key, value in vars(config).items():
            if isinstance(value, PretrainedConfig):
                found.update(of(value, f"{prefix}{key}."))
        return found

    try:
        return {**_lifted(model_type), **of(AutoConfig.for_model(model_type), "")}
    except Exception:  # A configuration that has no defaults.
        return {}


def lists_of(recordings: Sequence[Dict[str, Any]], features: Sequence[Any], lengths: Sequence[Sequence[int]]) \
        -> Dict[str, Any]:
    """Lists of the configuration that no rule reads: their one value for all layers, or the list itself."""
    read = {feature[1] for feature in features if feature[0] in ("list", "in")}
    flats = [flat(one["config"], lists=True) for one in recordings]
    result: Dict[str, Any] = {}
    for key, value in flats[0].items():
        if not isinstance(value, list) or key in read or key.endswith(("_id", "_ids", "suppress_tokens", "multipliers")) \
                or key.startswith(("architectures", "quantization_config")):
            continue
        values = [one.get(key) for one in flats]
        of_layers = all(isinstance(one, list) and len(one) in own for one, own in zip(values, lengths))
        if of_layers and value and all(one == value[0] for own in values for one in own):
            result[key] = {"each": value[0]}
        elif of_layers and value and (same := _key_of_each(values, flats)):
            result[key] = {"each": {"key": same}}
        elif all(one == value for one in values):
            result[key] = value
        else:  # Made by transformers from other keys: no other list was seen.
            result[key] = {"made": True}
    return result


def _key_of_each(lists: Sequence[List[Any]], flats: Sequence[Dict[str, Any]]) -> Optional[str]:
    """The key whose number each list repeats for every layer."""
    if any(len({str(one) for one in own}) != 1 for own in lists):
        return None
    return next((key for key, value in flats[0].items() if type(value) is int and all(
        one.get(key) == own[0] for one, own in zip(flats, lists))), None)


def fixed_of(recordings: Sequence[Dict[str, Any]], keys: Sequence[str]) -> Dict[str, Any]:
    """Keys that had one value in all recordings, and that may change the code."""
    flats = [flat(one["config"]) for one in recordings]
    return {key: flats[0].get(key) for key in keys if not key.startswith("quantization_config")
            and all(one.get(key) == flats[0].get(key) for one in flats)}


def sorted_guards(guards: Sequence[List[Any]]) -> List[List[Any]]:
    return sorted((list(one) for one in guards), key=str)


_UNUSED = ("dtype", "architectures", "transformers_version", "auto_map", "_name_or_path")


def written_of(kind: str, fields: Dict[str, Any], config: Dict[str, Any]) -> Dict[str, Any]:
    """Values of the recorded config.json that transformers turns into others: kinds of layers by other names, a key
    that is set whatever the file says, and keys that stand for others."""
    from transformers import AutoConfig

    def made_of(part: Dict[str, Any]) -> Dict[str, Any]:
        arguments = {key: value for key, value in part.items() if key != "model_type"}
        return flat(AutoConfig.for_model(kind, **arguments).to_dict(), lists=True)

    made, given = flat(config, lists=True), flat(fields, lists=True)
    whole, usual = made_of(fields), made_of({})
    derived = [one for one in made if one not in given and whole.get(one) != usual.get(one)]
    result: Dict[str, Any] = {}
    for key, value in given.items():
        if value is None or key == "model_type" or key.endswith(_UNUSED):
            continue
        try:
            without = made_of(_without(fields, key))
        except Exception:  # The configuration cannot do without it.
            without = whole
        makes = [one for one in (derived if key in made else made) if without.get(one) != whole.get(one)]
        if makes:
            result[key] = {"value": value, "makes": makes, "alone": True}
        elif key in made and made[key] != value:
            result[key] = {"value": value, "makes": [key]}
    return result


def _without(fields: Dict[str, Any], path: str) -> Dict[str, Any]:
    head, _, rest = path.partition(".")
    return {key: _without(value, rest) if rest and key == head else value
            for key, value in fields.items() if rest or key != head}
