"""Folds what a recording says of every layer of a stack (a ModuleList) into one turn of a loop over the layers."""

import copy
import json
import re
from typing import Any, Dict, List, Optional, Set, Tuple

from .. import fold
from ..merge import Different


class Stack:
    """A list of modules whose length is a dimension of the configuration."""

    def __init__(self, path: str, count: int):
        self.path = path
        self.count = count
        self.kinds: List[int] = [0] * count  # The kind of each layer.
        self._names = re.compile(r"(?<![\w.])" + re.escape(path) + r"\.(\d+)(?=\.|$)")

    def index_in(self, text: str) -> Optional[int]:
        found = self._names.search(text)
        return int(found.group(1)) if found else None

    def without_index(self, text: str) -> str:
        return self._names.sub(self.path + ".{i}", text)


def lengths(recording: Dict[str, Any]) -> Dict[str, int]:
    """The lists of modules of a recording, with their lengths; lists inside lists are left out."""
    lists = [path for path, name in recording["modules"] if name == "ModuleList"]
    outer = [path for path in lists if not any(path.startswith(other + ".") for other in lists if other != path)]
    result = {}
    for path in outer:
        inside = re.compile(re.escape(path) + r"\.(\d+)$")
        result[path] = sum(1 for name, _ in recording["modules"] if inside.match(name))
    return result


def with_templates(recording: Dict[str, Any]) -> Dict[str, Any]:
    """The recording with templates of gradients, bodies and paths in the places that name them by number."""
    recording = copy.deepcopy(recording)
    gradients = recording.pop("gradients")
    paths = [path for path, _ in recording["modules"]]

    def inline(code: List[Any]) -> None:
        for instruction in code:
            if instruction[0] == "repeat":
                inline(instruction[3]["code"])
            elif instruction[0] in ("op", "node"):
                if len(instruction) == 4:
                    instruction.append({})
                if "gradient" in instruction[4]:
                    template = copy.deepcopy(gradients[instruction[4]["gradient"]])
                    inline(template["code"])
                    instruction[4]["gradient"] = template

    for variant in recording["variants"]:
        for code in [variant.get("load", []), variant["forward"]] + [body["code"] for body in variant["bodies"]]:
            inline(code)
        bodies = variant.pop("bodies")
        variant["layers"] = [{"module": paths[layer["module"]], "body": bodies[layer["body"]]}
                             for layer in variant["layers"]]
    return recording


def set_kinds(recording: Dict[str, Any], stacks: List[Stack]) -> List[List[str]]:
    """What tells the layers of each stack apart, as text: modules, parameters and code."""
    result = []
    for stack in stacks:
        parts: List[List[Any]] = [[] for _ in range(stack.count)]
        for key in ("modules", "parameters", "buffers"):
            for entry in recording[key]:
                index = stack.index_in(entry[0])
                if index is not None:
                    parts[index].append([stack.without_index(entry[0])] + entry[1:])
        for variant in recording["variants"]:
            for layer in variant["layers"]:
                index = stack.index_in(layer["module"])
                if index is not None:
                    parts[index].append(layer["body"])
            for number, given in _given_to(variant["forward"]).items():
                index = stack.index_in(variant["layers"][number]["module"])
                if index is not None:
                    parts[index].append(given)
        result.append([json.dumps(part, sort_keys=True) for part in parts])
    return result


def _given_to(code: List[Any]) -> Dict[int, List[int]]:
    """For each call of a layer, the values from before all layers that it is given beside its input: masks, angles."""
    calls = [at for at, one in enumerate(code) if one[0] == "layer"]
    before = {value for one in code[:calls[0]] for value in fold.made(one)} if calls else set()
    return {code[at][1]: [value for value in code[at][2][1:] if value in before] for at in calls}


def _strings(value: Any) -> List[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for one in value for text in _strings(one)]
    return []


def fold_entries(entries: List[List[Any]], stacks: List[Stack]) -> List[Any]:
    """Modules, parameters or buffers, with one entry {"each": stack, "kinds": [...]} for those of a stack."""
    result: List[Any] = []
    done: Dict[int, bool] = {}
    for entry in entries:
        number, index = _place(entry[0], stacks)
        if index is None:
            result.append(entry)
            continue
        if number not in done:
            done[number] = True
            result.append({"each": number, "kinds": _entries_of(entries, stacks[number])})
    return result


def _place(name: str, stacks: List[Stack]) -> Tuple[int, Optional[int]]:
    for number, stack in enumerate(stacks):
        index = stack.index_in(name)
        if index is not None:
            return number, index
    return -1, None


def _entries_of(entries: List[List[Any]], stack: Stack) -> List[List[Any]]:
    kinds: List[Any] = [None] * (max(stack.kinds) + 1)
    for index, kind in enumerate(stack.kinds):
        own = []
        for entry in entries:
            if stack.index_in(entry[0]) == index:
                rest = [dict(one, tied=[stack.without_index(name) for name in one["tied"]])
                        if isinstance(one, dict) and "tied" in one else one for one in entry[1:]]
                own.append([stack.without_index(entry[0])] + rest)
        if kinds[kind] is not None and kinds[kind] != own:
            raise Different(f"layer {index} of {stack.path} is unlike others of its kind")
        kinds[kind] = own
    return kinds


class _Section:
    """A run of instructions with a block for each layer of one stack, in order."""

    def __init__(self, number: int, starts: List[int], ends: List[int]):
        self.number, self.starts, self.ends = number, starts, ends


class CodeFolder:
    """Folds code: a run of blocks, one for each layer, becomes ["each", stack, {...}, outputs]."""

    def __init__(self, stacks: List[Stack], calls: List[str], given: int):
        self._stacks = stacks
        self._calls = calls  # The path of the module of each call of a layer.
        self._given = given
        self._by_values = not calls  # In code without calls, who uses the value of a layer belongs to it.

    def folded(self, code: List[Any]) -> List[Any]:
        owners = self._owners(code)
        code, sections = _with_own_drops(code, self._sections(code, owners))
        return _Writer(code, sections, self._stacks, self._given).written()

    def _owners(self, code: List[Any]) -> List[Optional[Tuple[int, int]]]:
        """The stack and layer that each instruction names, or whose values it uses where no name is."""
        made_by: Dict[int, Tuple[int, int]] = {}
        result: List[Optional[Tuple[int, int]]] = []
        for instruction in code:
            owner = None
            if instruction[0] == "layer":
                number, index = _place(self._calls[instruction[1]], self._stacks)
                owner = None if index is None else (number, index)
            else:
                names = [one for one in _strings(instruction[1:4]) if "." in one]
                places = {_place(name, self._stacks) for name in names}
                places = {place for place in places if place[1] is not None}
                if not places and self._by_values:
                    places = {made_by[one] for one in fold.references(instruction) if one in made_by}
                if len(places) == 1:
                    owner = next(iter(places))  # type: ignore[assignment]
            if owner is not None and self._by_values:
                made_by.update((one, owner) for one in fold.made(instruction) if isinstance(one, int))
            result.append(owner)
        return result

    def _sections(self, code: List[Any], owners: List[Optional[Tuple[int, int]]]) -> List[_Section]:
        sections: List[_Section] = []
        at = 0
        while at < len(code):
            owner = owners[at]
            if owner is None:
                at += 1
                continue
            number, index = owner
            if index != 0:
                raise Different(f"layer {index} of {self._stacks[number].path} comes first")
            firsts, lasts = [at], [at]
            for later in range(at + 1, len(code)):
                if owners[later] is None:
                    continue
                if owners[later] == (number, len(firsts) - 1):
                    lasts[-1] = later
                elif owners[later] == (number, len(firsts)):
                    firsts.append(later)
                    lasts.append(later)
                else:
                    break
            stack = self._stacks[number]
            if len(firsts) != stack.count:
                raise Different(f"code of {len(firsts)} of {stack.count} layers of {stack.path}")
            section = self._with_ends(code, number, firsts, lasts)
            sections.append(section)
            at = section.ends[-1]
        return sections

    def _with_ends(self, code: List[Any], number: int, firsts: List[int], lasts: List[int]) -> _Section:
        """Instructions between two layers belong to the first of them, but for those that lead up to the second."""
        gaps = [start - last - 1 for last, start in zip(lasts, firsts[1:])]
        least = min(gaps) if gaps else 0
        before = 0
        while before < min(least, firsts[0]) and all(
                _skeleton(code[first - 1 - before]) == _skeleton(code[firsts[0] - 1 - before])
                for first in firsts[1:]) and code[firsts[0] - 1 - before][0] == "op" and gaps:
            before += 1
        kinds = self._stacks[number].kinds
        # The first layer's input may have a name beyond it, so that no drop follows it: others tell more.
        later = {kind: gap - before for kind, gap in list(zip(kinds, gaps))[1:]}
        of_kind = later or {kind: gap - before for kind, gap in zip(kinds, gaps)}
        after = of_kind.get(kinds[-1], min(of_kind.values()) if of_kind else 0)
        starts = [first - before for first in firsts]
        ends = starts[1:] + [lasts[-1] + 1 + after]
        return _Section(number, starts, ends)


def _with_own_drops(code: List[Any], sections: List[_Section]) -> Tuple[List[Any], List[_Section]]:
    """Values from before a run of layers that its last layer lets go are let go behind it: no other layer does so."""
    code = list(code)
    for number, section in enumerate(sections):
        at = section.ends[-1] - 1
        made = {value for one in code[section.starts[0]:at] for value in fold.made(one)}
        if code[at][0] != "drop" or not any(isinstance(one, int) and one not in made for one in code[at][1:]):
            continue
        own = [one for one in code[at][1:] if one in made]
        if not own:
            continue
        code[at:at + 1] = [["drop"] + own, ["drop"] + [one for one in code[at][1:] if one not in made]]
        for later in sections[number + 1:]:
            later.starts = [start + 1 for start in later.starts]
            later.ends = [end + 1 for end in later.ends]
    return code, sections


def _skeleton(instruction: List[Any]) -> Any:
    if instruction[0] == "op":
        return [instruction[1], [type(one).__name__ for one in instruction[2]],
                [output[1:] for output in instruction[3]]]
    return [instruction[0], len(instruction)]


class _Writer:
    """Numbers values anew: those of a loop have one number in each kind of layer, whatever the layer is."""

    def __init__(self, code: List[Any], sections: List[_Section], stacks: List[Stack], given: int):
        self._code, self._sections, self._stacks = code, sections, stacks
        self._next = given
        self._outer: Dict[int, Any] = {value: value for value in range(given)}
        self._of_layer: Dict[int, Tuple[int, int, int]] = {}  # Value: stack, layer, number in its kind.
        self._gathered: Dict[int, Tuple[int, int]] = {}  # Values of all turns that later code uses: output, turn.
        self._kinds: Dict[int, List[int]] = {}  # Output of a loop: the kinds of its turns.
        self._uses = self._find_uses()

    def _find_uses(self) -> Dict[int, List[int]]:
        uses: Dict[int, List[int]] = {}
        for at, instruction in enumerate(self._code):
            for value in fold.references(instruction):
                if isinstance(value, int):
                    uses.setdefault(value, []).append(at)
        return uses

    def _number(self) -> int:
        self._next += 1
        return self._next - 1

    def written(self) -> List[Any]:
        result: List[Any] = []
        at = 0
        for section in self._sections:
            result += self._plain(at, section.starts[0])
            result.append(self._loop(section))
            at = section.ends[-1]
        return result + self._plain(at, len(self._code))

    def _plain(self, start: int, end: int) -> List[Any]:
        result = []
        for instruction in self._code[start:end]:
            for value in fold.made(instruction):
                if isinstance(value, int):
                    self._outer[value] = self._number()
            result.append(_with_runs(_renamed(instruction, self._outside), self._kinds))
        return result

    def _outside(self, value: int) -> Any:
        if value in self._gathered:
            return "@{}:{}".format(*self._gathered[value])
        if value in self._outer:
            return self._outer[value]
        raise Different("a value of one layer is used far from it")

    def _loop(self, section: _Section) -> List[Any]:
        stack = self._stacks[section.number]
        blocks = [self._code[start:end] for start, end in zip(section.starts, section.ends)]
        far = self._far(section)
        handed = self._boundaries(section, far)
        slots = len(handed[0])
        first = self._first(section, blocks, handed)
        kinds = [{"numbers": [self._number() for _ in _values_of(blocks[stack.kinds.index(kind)])], "code": None}
                 for kind in range(max(stack.kinds) + 1)]
        first_drops: List[str] = []
        for turn, block in enumerate(blocks):
            kind = stack.kinds[turn]
            made = _values_of(block)
            if len(made) != len(kinds[kind]["numbers"]):
                raise Different(f"layer {turn} of {stack.path} is unlike others of its kind")
            own: Dict[int, int] = dict(zip(made, kinds[kind]["numbers"]))
            for value, number in own.items():
                self._of_layer[value] = (section.number, turn, number)
            before = {value: f"<{slot}" for slot, value in enumerate(first if turn == 0 else handed[turn - 1])
                      if value is not None}

            def reference(value: int) -> Any:
                if value in own:
                    return own[value]
                if value in before:
                    return before[value]
                if value in self._outer:
                    return self._outer[value]
                place = self._of_layer.get(value)
                if place is not None and place[:2] == (section.number, turn):
                    return place[2]
                raise Different(f"layer {turn} of {stack.path} uses a value of another layer")

            block, let_go = _without_drops(block, set(before))
            drops = sorted(before[value] for value in let_go)
            if turn == 0:
                first_drops = drops
            code = [_renamed(instruction, reference, stack) for instruction in block]
            hands = [None if value is None else own.get(value, before.get(value)) for value in handed[turn]]
            if kinds[kind]["code"] is None:
                kinds[kind].update(code=code, hands=hands)
            known = kinds[kind]["hands"]
            kinds[kind]["hands"] = [one if other is None else other for one, other in zip(hands, known)]
            if kinds[kind]["code"] != code or any(None not in (one, other) and one != other
                                                  for one, other in zip(hands, known)):
                raise Different(f"code of layer {turn} of {stack.path} is unlike that of others of its kind")
            if turn > 0 and kinds[kind].setdefault("drops", drops) != drops:
                raise Different(f"layer {turn} of {stack.path} lets go of other values than others of its kind")
        outputs = [self._number() for _ in range(slots)]
        for slot, number in enumerate(outputs):
            self._kinds[number] = stack.kinds
            if any(one[slot] in far for one in handed):
                self._gathered.update((one[slot], (number, turn)) for turn, one in enumerate(handed)
                                      if one[slot] is not None)
            elif handed[-1][slot] is not None:
                self._outer[handed[-1][slot]] = number
        # A kind that was seen in the first layer only lets go what others do.
        usual = next((kind["drops"] for kind in kinds if "drops" in kind), [])
        return ["each", section.number,
                {"first": [None if value is None else self._outside(value) for value in first],
                 "first_drops": first_drops,
                 "kinds": [{"code": kind["code"], "hands": kind["hands"], "drops": kind.get("drops", usual)}
                           for kind in kinds]}, outputs]

    def _far(self, section: _Section) -> Set[int]:
        """Values of every turn that code behind the loop uses together, such as a cache of keys and values."""
        places: Set[int] = set()
        result: Set[int] = set()
        for turn, (start, end) in enumerate(zip(section.starts, section.ends)):
            last = turn == len(section.starts) - 1
            for instruction in self._code[start:end]:
                for value in fold.made(instruction):
                    uses = [use for use in self._uses.get(value, []) if use >= section.ends[-1]
                            and not any(one.starts[0] <= use < one.ends[-1] for one in self._sections)]
                    if last:
                        uses = [use for use in uses if use in places]
                    if uses:
                        places.update(uses)
                        result.add(value)
        return result

    def _boundaries(self, section: _Section, far: Set[int]) -> List[List[Optional[int]]]:
        """The values that each turn hands on, in slots: those that it makes, and those that pass through it.

        Last come those that code behind the loop uses from all turns.
        """
        turns = len(section.starts)
        result: List[List[Optional[int]]] = []
        later: List[List[Optional[int]]] = []
        before: List[Optional[int]] = []
        for turn, (start, end) in enumerate(zip(section.starts, section.ends)):
            made = _values_of(self._code[start:end])
            slots = [value if value is not None and self._is_needed(value, end, turn == turns - 1) else None
                     for value in before]
            for value in made:
                if value in far or not self._is_needed(value, end, turn == turns - 1):
                    continue
                if None in slots:
                    slots[slots.index(None)] = value
                else:
                    slots.append(value)
            result.append(slots)
            later.append(sorted((value for value in made if value in far), key=self._place_of_use))
            before = slots
        width, more = max(len(one) for one in result), max(len(one) for one in later)
        return [one + [None] * (width - len(one)) + two + [None] * (more - len(two))
                for one, two in zip(result, later)]

    def _place_of_use(self, value: int) -> Tuple[int, int]:
        """Where the value stands among those that later code uses together: the last use, and the place in it."""
        use = self._uses[value][-1]
        return use, fold.references(self._code[use]).index(value)

    def _is_needed(self, value: int, end: int, is_last: bool) -> bool:
        """Whether code from `end` on uses the value; the block of the same layer in a later section names it itself."""
        uses = [use for use in self._uses.get(value, []) if use >= end]
        if is_last:
            uses = [use for use in uses if not any(section.starts[-1] <= use < section.ends[-1]
                                                   for section in self._sections)]
        else:
            uses = [use for use in uses if not any(section.starts[0] <= use < section.ends[-1]
                                                   for section in self._sections if section.starts[0] >= end)]
        return bool(uses)

    def _first(self, section: _Section, blocks: List[Any], handed: List[List[Optional[int]]]) \
            -> List[Optional[int]]:
        """The values that stand for those of the turn before in the first turn; None for what it does not read."""
        kinds = self._stacks[section.number].kinds
        slots = len(handed[0])
        if slots == 0:
            return []
        like = next((turn for turn in range(1, len(blocks)) if kinds[turn] == kinds[0]), None)
        if like is None:
            return [value if slot == 0 else None for slot, value in enumerate(
                (self._called_with(blocks[0])[:1] + [None] * slots)[:slots])]
        known: Dict[int, int] = {}
        for one, other in zip(blocks[0], blocks[like]):
            for mine, theirs in zip(fold.references(one), fold.references(other)):
                if isinstance(theirs, int) and theirs in handed[like - 1]:
                    known.setdefault(theirs, mine)
        return [known.get(value) if value is not None else None for value in handed[like - 1]]

    @staticmethod
    def _called_with(block: List[Any]) -> List[int]:
        call = next((one for one in block if one[0] == "layer"), None)
        if call is None:
            raise Different("the first layer is unlike all others")
        return call[2]


def _renamed(instruction: List[Any], reference: Any, stack: Optional[Stack] = None) -> List[Any]:
    class Names(dict):
        def get(self, key: Any, default: Any = None) -> Any:
            return reference(key)

    renamed = fold.renamed(instruction, Names())
    if renamed[0] == "layer":
        renamed = ["layer", "i"] + renamed[2:]
    return _without_index(renamed, stack) if stack is not None else renamed


def _without_index(value: Any, stack: Stack) -> Any:
    if isinstance(value, str):
        return stack.without_index(value) if value[1:2] != ":" else value[:2] + stack.without_index(value[2:])
    if isinstance(value, list):
        return [_without_index(one, stack) for one in value]
    return value


def _values_of(block: List[Any]) -> List[int]:
    """The values that the code of a block makes, in order."""
    return [value for instruction in block for value in fold.made(instruction) if isinstance(value, int)]


def _without_drops(block: List[Any], values: Any) -> Tuple[List[Any], List[int]]:
    """The block without the drop of values of the turn before at its end, and these values."""
    if not block or block[-1][0] != "drop":
        return block, []
    let_go = [one for one in block[-1][1:] if one in values]
    kept = [one for one in block[-1][1:] if one not in values]
    return block[:-1] + ([["drop"] + kept] if kept else []), let_go


def _with_runs(instruction: List[Any], kinds: Dict[int, List[int]]) -> List[Any]:
    """Values of all turns, one after another ("@36:0", "@37:0", "@36:1", ...), become "each 36 37", or "back 36 37";
    those of all turns but the last become "most 36 37". `kinds`: of the turns of each output of a loop."""
    if not any(isinstance(one, str) and one.startswith("@") for part in [instruction] + instruction[1:]
               if isinstance(part, list) for one in part):
        return instruction
    return _run(instruction, kinds) if instruction[0] in ("drop", "result") else [
        _run(part, kinds) if isinstance(part, list) else part for part in instruction]


def _run(values: List[Any], kinds: Dict[int, List[int]]) -> List[Any]:
    result: List[Any] = []
    at = 0
    while at < len(values):
        end = at
        while end < len(values) and isinstance(values[end], str) and values[end].startswith("@"):
            end += 1
        if end == at:
            result.append(values[at])
            at += 1
            continue
        run = [tuple(int(one) for one in text[1:].split(":")) for text in values[at:end]]
        count = max(turn for _, turn in run) + 1
        ids = list(dict.fromkeys(one for one, _ in run))
        of_turns = kinds[ids[0]]  # The last turn hands on such a value, too, if others of its kind do.
        without_last = count == len(of_turns) - 1 and of_turns[-1] in {of_turns[turn] for _, turn in run}
        for word, order in (("most" if without_last else "each", range(count)), ("back", range(count - 1, -1, -1))):
            if run == [(one, turn) for turn in order for one in ids if (one, turn) in run]:
                result.append(" ".join([word] + [str(one) for one in ids]))
                break
        else:
            raise Different("values of all layers are used in another order")
        at = end
    return result
