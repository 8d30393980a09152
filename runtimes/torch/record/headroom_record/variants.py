"""Finds which sizes share one code, and the expressions of their sizes."""

from typing import Any, Dict, List, Optional, Sequence, Tuple

from . import loops
from .merge import Different, merge
from .plan import MULTIPLE, Plan
from .sizes import Sizes, value_of
from .skip import Groups
from .trace import Run, Trace


def _merged(traces: Sequence[Trace], groups: Groups, sizes: Sizes) -> Tuple[List[Any], List[Any]]:
    """The forward pass and the body of each group of layers, for all sizes of the traces."""
    given = len(traces[0].inputs)
    forward = _one([trace.folded.forward for trace in traces], [trace.folded.places for trace in traces], given, sizes)
    nowhere = [[("", 0)] * given for _ in traces]
    forward.insert(0, ["#inputs"] + merge([trace.inputs for trace in traces], nowhere, sizes))
    bodies = []
    for first in groups.first:
        parts = [trace.folded.bodies[trace.folded.layers[first][1]] for trace in traces]
        places = [trace.folded.body_places[trace.folded.layers[first][1]] for trace in traces]
        bodies.append(_one_body(parts, places, sizes))
    return forward, bodies


def _one(codes: List[List[Any]], places: List[List[Any]], given: int, sizes: Sizes) -> List[Any]:
    if len({len(code) for code in codes}) != 1:
        sizes.loops = True
        rolled = [loops.roll(code, place, given) for code, place in zip(codes, places)]
        codes, places = [code for code, _ in rolled], [place for _, place in rolled]
    return merge(codes, places, sizes)


def _one_body(parts: List[Dict[str, Any]], places: List[List[Any]], sizes: Sizes) -> Dict[str, Any]:
    """The body of a layer. Its outputs are numbered anew where loops are rolled: they are named by a last entry."""
    codes = [part["code"] + [["result"] + part["outputs"]] for part in parts]
    given = parts[0]["arguments"]
    if any(part["arguments"] != given for part in parts):
        raise Different("a layer takes other values at another size")
    code = _one(codes, [place + [("", 0)] for place in places], given, sizes)
    return {"arguments": given, "code": code[:-1], "outputs": code[-1][1:]}


class Recorder:
    """Finds the variants of one model's code: which sizes share it, and its expressions."""

    def __init__(self, run: Run, plan: Plan):
        self._run = run
        self._plan = plan
        self._traces: Dict[Tuple[int, int], Trace] = {}
        self.multiple = 1

    def _at(self, points: Sequence[Tuple[int, int]]) -> List[Trace]:
        for point in points:
            if point not in self._traces:
                self._traces[point] = self._run.trace(point)
        return [self._traces[point] for point in points]

    def _merge(self, points: Sequence[Tuple[int, int]]) -> Any:
        traces = self._at(points)
        sizes = Sizes(points)
        try:
            forward, bodies = _merged(traces, self._run.groups, sizes)
        except Different as error:
            error.loops = error.loops or sizes.loops
            raise
        return forward, bodies, list(points)

    def least(self, forward: List[Any], bodies: List[Any], used: List[Tuple[int, int]]) -> Optional[int]:
        """The shortest sequence for which loops turn as written: as seen in runs with few turns."""
        counts = [one for code in [forward] + [body["code"] for body in bodies] for one in loops.counts(code)]
        if not counts:
            return None
        shortest = min(sequence for _, sequence in used)
        turning = next(sequence for sequence in range(1, shortest + 1)
                       if all(value_of(one, 2, sequence) >= 1 for one in counts))
        smaller = [trace for (batch, sequence), trace in self._traces.items()
                   if turning <= sequence < shortest and (batch == 1) == (used[0][0] == 1)
                   and (sequence % MULTIPLE == 0) == (used[0][1] % MULTIPLE == 0)]
        return turning if smaller and all(self._is_like(trace, bodies) for trace in smaller) else shortest

    def _is_like(self, trace: Trace, bodies: List[Any]) -> bool:
        for group, first in enumerate(self._run.groups.first):
            code = trace.folded.bodies[trace.folded.layers[first][1]]["code"]
            if loops.names(code, *trace.point) != loops.names(bodies[group]["code"], *trace.point):
                return False
        return True

    def variants(self) -> List[Any]:
        """Each with what it holds for, and its code. Loops are seen as such where they turn often enough."""
        for factor in (1, 2, 8):
            self._plan.factor = factor
            try:
                return self._variants()
            except Different as error:
                if not error.loops or factor == 8 or self._plan.given is not None:
                    raise
        return []

    def _variants(self) -> List[Any]:
        plan = self._plan
        if plan.given is not None:
            return [({}, self._merge(plan.given))]
        if plan.always_above:
            return self._of_sequences({"sequence_from": max(plan.window, plan.shortest)}, plan.above)
        holds = {"sequence_from": plan.shortest} if plan.shortest and not plan.of_any else {}
        found = self._of_sequences(holds, plan.below)
        if plan.window is not None:
            above = self._of_sequences({"sequence_from": plan.window}, plan.above)
            for holds, _ in found:
                holds["sequence_below"] = plan.window
            found += above
        return found

    def _of_sequences(self, holds: Dict[str, Any], scaled: Any) -> List[Any]:
        plan = self._plan
        try:
            return self._of_batches(holds, scaled(plan.several + plan.odd), scaled(plan.alone + plan.alone_odd))
        except Different:
            pass
        # Code that pads to multiples runs other operators where nothing is missing.
        found = self._of_batches(dict(holds, sequence_multiple=MULTIPLE), scaled(plan.several), scaled(plan.alone))
        try:
            found += self._of_batches(dict(holds, sequence_no_multiple=MULTIPLE), scaled(plan.odd), scaled(plan.alone_odd))
        except Different:
            self.multiple = MULTIPLE
        return found

    def _of_batches(self, holds: Dict[str, Any], several: List[Tuple[int, int]], alone: List[Tuple[int, int]]) \
            -> List[Any]:
        if self._plan.only_alone:
            return [(dict(holds, micro_batch=1), self._merge(alone))]
        if self._plan.micro_batches and not self._is_of_any_batch(several):
            sequences = [sequence for _, sequence in alone]
            return [(dict(holds, micro_batch=one), self._merge([(one, sequence) for sequence in sequences]))
                    for one in self._plan.micro_batches]
        merged = self._merge(several)
        try:
            return [(holds, self._merge(several + alone[:1]))]
        except Different:
            return [(holds, merged), (dict(holds, micro_batch=1), self._merge(alone))]

    def _is_of_any_batch(self, several: List[Tuple[int, int]]) -> bool:
        """Whether the code is the same for other numbers of sequences, and so of images."""
        other = next(point for point in several if point[0] != several[0][0])
        try:
            self._merge([several[0], other])
        except Different:
            return False
        return True
