"""Records a family: explores its configuration, records several, joins them, and checks the result with one more."""

import json
import re
import sys
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Set

from .. import write
from ..merge import Different
from ..modes import usual_modes
from . import keys, stacks
from .configuration import IMAGES, flat
from .expand import expanded
from .family import family_of

LAST = 3  # The level at which nothing varies (Explorer.narrow).


def recorded(fields: Dict[str, Any], count: int = 6, seed: int = 1, fixed: Sequence[str] = (),
             keep: Optional[Callable[[Dict[str, Any]], None]] = None, level: int = 0,
             task: Optional[str] = None, images: Optional[Any] = None) -> str:
    """The text of the recording of the family of a configuration; raises Different where there is none at all.

    `images` (of class Images) are those of the first configuration; others have other numbers of them.

    As many keys vary as the code lets; a higher `level` (Explorer.narrow) tries fewer, and takes less time. `keep` is
    given what the code said, which `join` takes. `task` names another head than the first that
    transformers has.
    """
    from .explore import Explorer  # It needs PyTorch; joining does not.

    explorer = Explorer(fields, seed, task, images)
    explorer.classify(fixed, level == LAST)
    before, error = None, Different("its code cannot be recorded")
    while level <= LAST:
        explorer.narrow(level)
        varied = explorer.varied()
        level += 1
        if varied == before:
            continue
        before = varied
        found = _gathered(explorer, count if varied else 1)
        if found is None:
            continue
        if keep is not None:
            keep(found)
        try:
            return join(found)
        except Different as other:
            error = other
            _say(f"headroom: {error}")
            if not is_of_sizes(error):
                level = max(level, LAST)  # Loops and kinds of layers are what they are, whatever else varies.
    raise error


def is_of_sizes(error: Different) -> bool:
    """Whether configurations share code, and a size of it is no expression of their keys."""
    return "no expression" in str(error) or "no product" in str(error) or "no whole number" in str(error)


def _gathered(explorer: Any, count: int) -> Optional[Dict[str, Any]]:
    """What the real code says: recordings of `count` configurations, and what its keys do."""
    _say(f"{explorer.tried} probes; dimensions: {explorer.dimensions + explorer.counts + explorer.coupled}")
    recordings = _recordings(explorer, count)
    if not recordings:
        return None
    kind = explorer.fields["model_type"]
    varied = [key for key in explorer.varied() if key != IMAGES]
    asked = explorer.with_changes(explorer.draw(0) if count > 1 else {})  # With the layers of the first recording.
    return {"recordings": recordings, "written": keys.written_of(kind, asked, recordings[0]["config"]),
            "free": explorer.still_free(), "values": [key for key in explorer.values if key != IMAGES],
            "absent": explorer.absent(), "varied": varied,
            "where": [rule for rule in keys.sorted_guards(explorer.guards([one["config"] for one in recordings]))
                      if IMAGES not in rule],
            "defaults": keys.with_indexes(explorer.fields, keys.defaults(
                kind, [key for key in varied if key not in explorer.counts], explorer.counts)),
            "aliases": keys.aliases(kind)}


def _modes_of(kind: str) -> List[List[str]]:
    """What is recorded, the most first: some code does not run with quantised layers or with Liger's kernels, some not
    under autocast either."""
    from ..liger import knows

    kernels = (True, False) if knows(kind) else (False,)
    plain = usual_modes("sdpa", qlora=False)
    return [usual_modes("sdpa", qlora, liger) for liger in kernels for qlora in (True, False)] + [plain[:1]]


def _recordings(explorer: Any, count: int) -> List[Dict[str, Any]]:
    """Recordings of `count` configurations, or none where the code of one cannot be recorded."""
    result: List[Dict[str, Any]] = []
    choices = _modes_of(explorer.fields["model_type"])
    while len(result) < count:
        changes = explorer.draw(len(result)) if count > 1 else {}
        _say(f"records {json.dumps(changes)}")
        try:
            result.append(explorer.recorded(changes, choices[0], brief=len(result) > 0))
        except (Exception, SystemExit) as error:  # The model's own code may raise anything.
            _say(f"{type(error).__name__}: {str(error)[:300]}")
            if result or len(choices) == 1:
                return []
            choices.pop(0)
    return result


def join(found: Dict[str, Any]) -> str:
    """The text of the recording of the family; raises Different where its configurations share no code."""
    recordings = found["recordings"]
    if len({str(one["config"].get("images")) for one in recordings}) == 1:  # No code for any number of images.
        for one in recordings:
            one["variants"] = [variant for variant in one["variants"] if variant.get("images") != "several"]
    _start_together(recordings)
    for one in recordings:
        one["config"] = write.finite(one["config"])
    numbers = [key for key, value in flat(recordings[0]["config"]).items()
               if isinstance(value, int) and not isinstance(value, bool) and not key.endswith("_id")]
    family = family_of(recordings[:-1] or recordings, numbers)
    family["keys"] = _keys(found, family, [key for key in _used(family, numbers) if key != IMAGES])
    for recording in recordings:
        _check(family, recording)
    return re.sub(rf"\b{re.escape(IMAGES)}\b", "I", write.text(family))


def _start_together(recordings: List[Dict[str, Any]]) -> None:
    """Loops of the first configuration, which ran at more sizes, may be known from shorter sequences on."""
    for variants in zip(*(one["variants"] for one in recordings)):
        starts = [variant.get("sequence_from") for variant in variants]
        if None not in starts and len(set(starts)) == 2 and len(set(starts[1:])) == 1 and starts[0] < starts[1]:
            variants[0]["sequence_from"] = starts[1]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _used(family: Dict[str, Any], numbers: List[str]) -> List[str]:
    """The dimensions that expressions name."""
    text = json.dumps(family)
    return [key for key in numbers if key in text]


def _keys(found: Dict[str, Any], family: Dict[str, Any], used: List[str]) -> Dict[str, Any]:
    recordings, defaults = found["recordings"], found["defaults"]
    features = [feature for stack in family["stacks"] for feature in stack["by"]]
    names = {feature[1] for feature in features if len(feature) > 1 and isinstance(feature[1], str)}
    of_lists = _read_by([defaults.get(name) for name in names])
    fixed = keys.fixed_of(recordings, [key for key in found["values"] if key not in found["free"]
                                       and key not in names and key not in of_lists and not key.endswith("_id")])
    fixed.update((key, None) for key in found.get("absent", ()) if key not in defaults)
    # Code reads these although no configuration declares them; a file must have them where they vary.
    defaults = dict({key: None for key in used if key not in defaults}, **defaults)
    lengths = [list(stacks.lengths(one).values()) for one in recordings]
    read = [feature for one in defaults.values() if isinstance(one, dict) for feature in one.get("by", [])]
    lists = keys.lists_of(recordings, features + read, lengths)
    needed = {key for key in found["values"] if key.rsplit(".", 1)[-1] == "head_dim"}  # The reader asks for it.
    needed |= set(used) | set(fixed) | names | set(lists) | set(found["varied"]) | _read_by(defaults.values())
    return {"defaults": {key: value for key, value in defaults.items() if key in needed},
            "fixed": fixed, "lists": lists, "written": _still_written(found, needed, lists),
            "where": found["where"], "aliases": found["aliases"]}


def _still_written(found: Dict[str, Any], needed: Set[str], lists: Dict[str, Any]) -> Dict[str, Any]:
    """Without the keys that vary and that make only what nothing needs, what no file names, or what has a default for
    every value and is made by no key that keeps its own."""
    derived = {key for key, rule in lists.items() if rule == {"made": True}}
    reads = {made: _read_by([rule]) | {rule["count"]} for made, rule in found["defaults"].items()
             if isinstance(rule, dict) and "otherwise" in rule}  # Those lists follow from what they read.
    written = {key: one for key, one in found["written"].items()
               if not all(key in reads.get(made, ()) for made in one["makes"])}
    kept = {made for key, one in written.items() if key not in found["varied"] for made in one["makes"]}
    return {key: one for key, one in written.items() if not (
        one.get("alone") and key in found["varied"]
        and all(made not in needed or made in derived or (made in found["defaults"] and made not in kept)
                for made in one["makes"]))}


def _read_by(defaults: Iterable[Any]) -> Set[str]:
    """The keys that rules for lists read."""
    return {rule[1] for one in defaults if isinstance(one, dict) for rule in one.get("by", [])
            if len(rule) > 1 and isinstance(rule[1], str)}


def _check(family: Dict[str, Any], recording: Dict[str, Any]) -> None:
    """Raises Different unless the family says of a configuration what its own recording says."""
    made, own = (_without_inside(stacks.with_templates(one)) for one in (expanded(family, recording["config"]),
                                                                       recording))
    for key in ("modules", "parameters", "buffers", "variants"):
        different = _first_difference(made[key], own[key], key)
        if different:
            raise Different(f"a configuration that was recorded to check the others differs: {different}")


def _without_inside(value: Any) -> Any:
    if isinstance(value, list):
        for one in value:
            _without_inside(one)
        if value and value[0] == "op" and len(value) == 5:
            value[4].pop("inside", None)
    elif isinstance(value, dict):
        for one in value.values():
            _without_inside(one)
    return value


_PADDED = re.compile(r"(\d+)\*((?:[BS]\*)*)ceil\(S/(\d+)\)")


def _for_multiples(size: Any, multiple: int) -> Any:
    """A size for sequences that are multiples: "64*B*ceil(S/64)" is "B*S" there."""
    def whole(term: "re.Match[str]") -> str:
        number, divisor = int(term[1]), int(term[3])
        if number % divisor or multiple % divisor:
            return term[0]
        return ("" if number == divisor else f"{number // divisor}*") + term[2] + "S"

    return _PADDED.sub(whole, size) if isinstance(size, str) else size


def _first_difference(one: Any, other: Any, path: str, multiple: int = 1) -> str:
    """Where two recordings differ; `multiple` is that of the sequences for which the code holds."""
    if type(one) is not type(other):
        return f"{path}: {str(one)[:80]}, {str(other)[:80]}"
    if isinstance(one, dict):
        if one.keys() != other.keys():
            return f"{path}: keys {sorted(one.keys() ^ other.keys())}"
        multiple = one.get("sequence_multiple", multiple)
        return next((text for text in (_first_difference(one[key], other[key], f"{path}.{key}", multiple)
                                       for key in one) if text), "")
    if isinstance(one, list):
        if len(one) != len(other):
            return f"{path}: {len(one)} and {len(other)} entries"
        return next((text for text in (_first_difference(first, second, f"{path}[{at}]", multiple)
                                       for at, (first, second) in enumerate(zip(one, other))) if text), "")
    return "" if _for_multiples(one, multiple) == _for_multiples(other, multiple) else f"{path}: {one}, {other}"
