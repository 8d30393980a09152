"""Finds out what each key of a configuration does to the code of a model, and draws configurations that share code."""

import copy
import gc
import json
import os
import random
import re
import tempfile
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..image_text import Images
from ..recording import Mode, record
from . import keys, stacks
from .configuration import IMAGES, flat, with_value
from .reads import Reads

_SEQUENCE = 96  # Tokens of text in a probe.
_MOST_TOKENS = 1024  # An image has no more in a probe.
_FACTORS = (2, 0.5, 1.5, 3, 0.75, 1.25)
# Numbers that no size depends on, and switches that always change the code: they need no probe.
_FREE = ("initializer_range", "rms_norm_eps", "layer_norm_eps", "norm_eps", "rope_theta", "router_aux_loss_coef",
         "pad_token_id", "bos_token_id", "eos_token_id", "sep_token_id", "aux_loss_alpha", "max_position_embeddings")
_FIXED = ("attention_bias", "mlp_bias", "attention_dropout", "hidden_dropout", "tie_word_embeddings", "hidden_act",
          "attn_output_gate", "output_router_logits", "use_qk_norm", "router_jitter_noise",
          "mm_tokens_per_image",
          "chunk_size", "mamba_chunk_size")  # Chunks: numbers of them are no expressions where they are odd.
_WINDOWS = ("sliding_window", "attention_chunk_size", "attention_window_size", "window_size")
_LARGEST_WINDOW = 8192  # As plan.py: from there on, no sequence beyond the window is recorded.
# Above, the kernels of attention take no groups of heads (transformers/integrations/sdpa_attention.py).
_LARGEST_HEAD = 256
_HIDDEN = ("hidden_size", "n_embd", "d_model", "embed_dim", "dim")
_HEADS = ("num_attention_heads", "n_head", "num_heads")
# What configurations of one family differ in most often.
_USUAL = _HIDDEN + _HEADS + ("num_key_value_heads", "head_dim", "vocab_size", "intermediate_size", "moe_intermediate_size",
                             "num_experts", "num_local_experts", "n_routed_experts", "num_experts_per_tok", "n_inner",
                             "ffn_dim", "d_ff", "ffn_hidden_size")
_WIDTHS = ("intermediate", "ffn", "ff_dim", "inner", "mlp")
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "depth", "encoder_layers", "decoder_layers")


class Probe:
    """What the model of one configuration does at one size."""

    def __init__(self, recording: Dict[str, Any]):
        self.config = recording["config"]
        self.lengths = stacks.lengths(recording)
        plain = stacks.with_templates(recording)
        self.text = json.dumps({key: plain[key] for key in ("modules", "parameters", "buffers", "variants")})
        for key in ("parameters", "buffers"):
            for entry in plain[key]:
                entry[1] = len(entry[1])
        for variant in plain["variants"]:
            for entry in variant["inputs"]:
                entry[2] = len(entry[2])
            bodies = {id(one["body"]): one["body"]["code"] for one in variant["layers"]}
            for code in [variant.get("load", []), variant["forward"]] + list(bodies.values()):
                _strip(code)
        self.skeleton = json.dumps({key: plain[key] for key in ("modules", "parameters", "buffers", "variants")})


def _strip(code: List[Any]) -> None:
    """Leaves out the sizes of outputs and what is allocated inside."""
    for one in code:
        if one[0] == "repeat":
            one[1] = 0
            _strip(one[3]["code"])
        elif one[0] == "linear":
            one[3][2] = len(one[3][2])
        elif one[0] in ("op", "node"):
            for output in one[3] if one[0] == "op" else []:
                output[2] = len(output[2])
                if len(output) == 4 and output[3].startswith("bytes"):
                    output[3] = "bytes"
            if len(one) == 5:
                one[4].pop("inside", None)
                scalars = one[4].get("scalars", {})
                for key, value in list(scalars.items()):
                    if not isinstance(value, bool) and isinstance(value, int) and abs(value) > 8:
                        scalars[key] = "n"
                if "gradient" in one[4]:
                    _strip(one[4]["gradient"]["code"])


class Explorer:
    """Tries configurations near one."""

    def __init__(self, fields: Dict[str, Any], seed: int = 1, task: Optional[str] = None,
                 images: Optional[Images] = None):
        self.task = task
        self._images = images
        self._random = random.Random(seed)
        self._known: Dict[str, Optional[Probe]] = {}
        self._reads = Reads()
        self._calls = 0
        self._is_settled = False  # Whether what was imported is kept out of later collections of garbage.
        self.fields = fields = keys.with_parts(fields)  # What the configuration says; the rest are defaults.
        self.why = ""  # The last failure.
        self.tried = 0
        self._fewer = self._few_layers()
        base = self.probe(self._fewer)
        if base is None and self._fewer:  # Some configurations name each layer.
            self._fewer = {}
            base = self.probe({})
        if base is None:
            raise SystemExit(f"headroom: {fields.get('model_type')}: {self.why}")
        self.base = base
        self.values = {key: value for key, value in flat(self.base.config).items() if not _is_name(key)}
        self._config = keys.config_of(self.with_changes(self._fewer))
        self.free: List[str] = []
        self._unread: List[str] = []  # Those of `free` that were not tried, because no code had read them.
        self.dimensions: List[str] = []
        self.counts: List[str] = []
        self.coupled: List[List[str]] = []
        self.fixed: List[str] = []
        self._varied: Dict[str, int] = {}  # In how many draws a dimension had another value than the base.

    def absent(self) -> List[str]:
        """Keys that code asks for and that no configuration declares."""
        return [] if self._config is None else self._reads.absent(self._config)

    def still_free(self) -> List[str]:
        """The keys without effect, but for those that only code of a later, larger model has read."""
        return [key for key in self.free if key not in self._unread or self._config is None
                or not self._reads.reads(self._config, key)]

    def with_changes(self, changes: Dict[str, Any]) -> Dict[str, Any]:
        fields = self.fields
        for key, value in changes.items():
            if key == IMAGES:
                continue
            fields = _with_longer_lists(fields, key, value)
            fields = with_value(fields, key, value)
        return fields

    def recorded(self, changes: Dict[str, Any], modes: Sequence[str], points: Any = None, brief: bool = False) \
            -> Dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "config.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(self.with_changes(changes), file)
            try:
                images = self._images_of(changes)
                with self._reads:
                    found = json.loads(record(path, [Mode(mode) for mode in modes], points, self.task, brief=brief,
                                              images=images, of_any=True, text_too=points is None))
                if images is not None:
                    found["config"]["images"] = {"count": images.count}
                return found
            finally:
                self._calls += 1
                if self._calls % 4 == 1:  # Models are cycles; their tensors take no memory here.
                    gc.collect()
                if not self._is_settled:
                    self._is_settled = True
                    gc.freeze()

    def probe(self, changes: Dict[str, Any]) -> Optional[Probe]:
        key = json.dumps(changes, sort_keys=True)
        if key not in self._known:
            self.tried += 1
            try:
                images = self._images_of(changes)
                point = (2, _SEQUENCE + (0 if images is None else _MOST_TOKENS * images.count))
                self._known[key] = Probe(self.recorded(changes, ("bf16//sdpa",), (point,)))
            except (Exception, SystemExit) as error:  # The model's own code may raise anything.
                self.why = f"{type(error).__name__}: {str(error)[:300]}"
                self._known[key] = None
        return self._known[key]

    def _few_layers(self) -> Dict[str, int]:
        """Fewer layers than the configuration has, with all kinds of layers that its lists tell: probes are quicker."""
        config = keys.made(self.fields) or {}
        values = flat(config, lists=True)
        most = max((value for key, value in values.items()
                    if key.rsplit(".", 1)[-1] in _LAYERS and isinstance(value, int)), default=0)
        if any(keys.is_indexes(key, one, most) for key, one in flat(self.fields, lists=True).items()):
            return {}  # It names layers that would go.
        result: Dict[str, int] = {}
        for key, value in values.items():
            if key.rsplit(".", 1)[-1] not in _LAYERS or not isinstance(value, int) or value <= 4:
                continue
            lists = [one for one in values.values() if isinstance(one, list) and len(one) == value
                     and len({str(kind) for kind in one}) <= 8]  # Not a list of numbers of layers.
            first = max((one for name, one in values.items() if "first_k" in name and isinstance(one, int)), default=0)
            result[key] = next((count for count in (4, 6, 8, 12, 16, 24, 32) if count > first and count < value and all(
                len({str(one) for one in part[:count]}) == len({str(one) for one in part}) for part in lists)), value)
        return {key: count for key, count in result.items() if count != values[key]}

    def _at(self, changes: Dict[str, Any]) -> Optional[Probe]:
        return self.probe(dict(self._fewer, **changes))

    def classify(self, fixed: Sequence[str] = (), quick: bool = False) -> None:
        """Sorts the keys: without effect, dimensions, counts of layers, and those that change the code.

        Those of `fixed` keep their value. `quick`: so do all that code reads, and nothing is tried.
        """
        open_keys: List[str] = []
        for key, value in self.values.items():
            last = key.rsplit(".", 1)[-1]
            is_read = self._config is None or self._reads.reads(self._config, key)
            if quick:
                is_free = not is_read or self._is_known_free(last)
                kind = "free" if is_free else "fixed"
            else:
                kind = "fixed" if (last in _FIXED and is_read) or key in fixed else self._kind(key, value)
            # Masks of longer sequences depend on it, and probes are short.
            if last in _WINDOWS and value is not None and key not in fixed:
                kind = "dimension" if isinstance(value, int) and 1 < value <= _LARGEST_WINDOW else "fixed"
            if kind == "free":
                self.free.append(key)
                if not is_read and last not in _FREE:
                    self._unread.append(key)
            elif kind == "dimension":
                (self.dimensions if type(value) is int else self.fixed).append(key)
            elif kind == "count":
                self.counts.append(key)
            elif type(value) is int and value > 1 and key not in fixed and last not in _FIXED + _WINDOWS:
                open_keys.append(key)
            else:
                self.fixed.append(key)
        if not quick:
            self._couple(open_keys)
        if self._images is not None:
            self.values[IMAGES] = self._images.count
            self.dimensions.append(IMAGES)

    def _images_of(self, changes: Dict[str, Any]) -> Optional[Images]:
        before = self._images
        return before and Images(f"{changes.get(IMAGES, before.count)}x{before.height}x{before.width}")

    def varied(self) -> List[str]:
        """The keys whose values differ in what is drawn."""
        return self.dimensions + self.counts + [key for group in self.coupled for key in group]

    def narrow(self, level: int) -> None:
        """Keeps of what varies: -1, all; 0, all but most of the towers; 1, what configurations of one family differ in
        most often; 2, numbers of layers; 3, nothing."""
        def stays(key: str) -> bool:
            is_tower = any(one in key for one in ("vision", "audio"))  # Of which most models of a family have one.
            return level < 0 or level == 0 and not is_tower or level <= 1 and (
                key == IMAGES or key.rsplit(".", 1)[-1] in _USUAL)

        self.dimensions = [key for key in self.dimensions if stays(key)]
        self.coupled = [group for group in self.coupled if all(stays(key) for key in group)]
        self.counts = self.counts if level < 3 else []
        self._varied = {}

    def _kind(self, key: str, value: Any) -> str:
        if self._is_known_free(key.rsplit(".", 1)[-1]):
            return "free"
        if self._config is not None and not self._reads.reads(self._config, key):
            return "free"
        is_free = False
        for other in _others(key, value):
            found = self._at({key: other})
            if found is None:
                continue
            if found.text == self.base.text:
                is_free = True  # Unless another value has an effect: some codes round what they are given.
            elif is_free:
                return "fixed"
            elif found.skeleton == self.base.skeleton:
                return "fixed" if self._is_rounded(key, value, found) else "dimension"
            elif found.lengths != self.base.lengths:
                return "count"
        return "free" if is_free else "fixed"

    def _is_rounded(self, key: str, value: Any, twice: Probe) -> bool:
        """Whether sizes follow the width of a feed-forward network in steps: no expression says so."""
        if not any(one in key.rsplit(".", 1)[-1] for one in _WIDTHS) or type(value) is not int:
            return False
        little = self._at({key: value + 24})  # A multiple of 8, and of hardly anything else.
        if little is None or little.skeleton != self.base.skeleton:
            return False
        numbers = [[int(one) for one in re.findall(r"\d+", probe.text)] for probe in (self.base, twice, little)]
        return len({len(one) for one in numbers}) == 1 and any(
            (other - one) * 24 != (near - one) * value and near != other for one, other, near in zip(*numbers))

    def _is_known_free(self, last: str) -> bool:
        return last in _FREE and not (last == "max_position_embeddings" and self._has_positions())

    def _has_positions(self) -> bool:
        """Whether positions are learned: a parameter's size depends on their number."""
        most = self.values.get("max_position_embeddings")
        return f"[{most}, " in self.base.text

    def _couple(self, open_keys: List[str]) -> None:
        """Keys that share code only if they change together: heads of queries and keys, a product and its part."""
        left = list(open_keys)
        while left:
            key = left.pop(0)
            alone = self._at({key: self.values[key] * 2})
            if alone is not None and alone.skeleton == self.base.skeleton:  # Nothing is missing but the right steps.
                self.fixed.append(key)
                continue
            same = [other for other in left if self.values[other] == self.values[key]]
            groups = ([[key] + same] if len(same) > 1 else []) + [[key, other] for other in same] + \
                [[key, other] for other in self.dimensions + left if other not in same]
            for group in groups:
                found = self._at({one: self.values[one] * 2 for one in group})
                if found is not None and found.skeleton == self.base.skeleton and found.text != self.base.text:
                    self.coupled.append(group)
                    left = [one for one in left if one not in group]
                    break
            else:
                self.fixed.append(key)

    def draw(self, number: int) -> Dict[str, Any]:
        """Changes of as many dimensions as the model takes; the first draw keeps them all."""
        fewer = {key: few for key, few in self._fewer.items() if key in self.counts}  # Others keep their own number.
        if number == 0:
            return fewer
        units = [[key] for key in self.dimensions if not any(key in group for group in self.coupled)] + self.coupled
        self._random.shuffle(units)
        units.sort(key=lambda group: self._varied.get(group[0], 0))
        wanted: Dict[str, Any] = {}
        for group in units:
            wanted.update(self._one(group, self._random.choice(_FACTORS)))
        changes = dict(fewer)
        for key in self.counts:
            few = self._fewer.get(key, self.values[key])
            changes[key] = few + self._random.choice((1, 2, 3, 4, 5))
        if self._joins(changes) is None:
            for key in self.counts:
                changes[key] = self._fewer.get(key, self.values[key])
        self._add(changes, list(self._divisible(changes, wanted).items()))
        for group in units:
            for factor in _FACTORS if not self._varied.get(group[0]) else ():
                if all(changes.get(key, self.values[key]) == self.values[key] for key in group):
                    self._add(changes, list(self._divisible(changes, self._one(group, factor)).items()))
        for group in units:
            if changes.get(group[0], self.values[group[0]]) != self.values[group[0]]:
                self._varied[group[0]] = self._varied.get(group[0], 0) + 1
        return changes

    def _divisible(self, changes: Dict[str, Any], wanted: Dict[str, Any]) -> Dict[str, Any]:
        """Without numbers of heads that do not divide the hidden size: some code would round, and no model does so."""
        values = {**self.values, **changes, **wanted}
        result = dict(wanted)
        for key in wanted:
            prefix = key.rpartition(".")[0]
            prefix += "." if prefix else ""
            hidden = next((prefix + one for one in _HIDDEN if isinstance(values.get(prefix + one), int)), None)
            heads = next((prefix + one for one in _HEADS if isinstance(values.get(prefix + one), int)), None)
            if hidden is None or heads is None or key not in (hidden, heads):
                continue
            if self.values[hidden] % self.values[heads] == 0 and values[hidden] % (8 * values[heads]) != 0:
                result.pop(heads if heads in result else key, None)
                values = {**self.values, **changes, **result}
                if values[hidden] % (8 * values[heads]) != 0:
                    result.pop(key, None)
        return result

    def _one(self, group: List[str], factor: float) -> Dict[str, int]:
        """Another value for each key of a group."""
        few = self._random.choice((1, 2))
        if group == [IMAGES]:  # No more than there is room for below a window.
            has_window = any(key.rsplit(".", 1)[-1] in _WINDOWS and value for key, value in self.values.items())
            return {IMAGES: self.values[IMAGES] + (1 if has_window else few)}
        result = {}
        for key in group:
            is_window = key.rsplit(".", 1)[-1] in _WINDOWS  # No larger one: plan.py has a limit.
            result[key] = _scaled(self.values[key], factor / 4 if is_window else factor, few)
            if key.endswith("head_dim") and result[key] > _LARGEST_HEAD >= self.values[key]:
                result[key] = _scaled(self.values[key], 0.5 if few == 1 else 0.75, few)
        return result

    def _joins(self, changes: Dict[str, Any]) -> Optional[Probe]:
        found = self.probe(changes)
        if found is None:
            return None
        return found if found.lengths != self.base.lengths or found.skeleton == self.base.skeleton else None

    def _add(self, changes: Dict[str, Any], wanted: List[Tuple[str, Any]]) -> None:
        """Adds wanted values, all at once where that works, else by halves."""
        if not wanted:
            return
        tried = dict(changes, **dict(wanted))
        if self._like_base(tried):
            changes.update(wanted)
        elif len(wanted) > 1 and not self._is_group([key for key, _ in wanted]):
            self._add(changes, wanted[:len(wanted) // 2])
            self._add(changes, wanted[len(wanted) // 2:])

    def _is_group(self, names: List[str]) -> bool:
        return any(set(names) <= set(group) for group in self.coupled)

    def _like_base(self, changes: Dict[str, Any]) -> bool:
        """Whether a model with the base's numbers of layers has the base's code."""
        same = {key: value for key, value in changes.items() if key not in self.counts}
        found = self._at(same)
        return found is not None and found.skeleton == self.base.skeleton

    def guards(self, configs: Sequence[Dict[str, Any]]) -> List[List[Any]]:
        """What must hold between dimensions, for the code to be the recorded one."""
        flats = [flat(config) for config in configs]
        numbers = [key for key, value in self.values.items() if isinstance(value, int) and not isinstance(value, bool)
                   and value > 1 and (key in self.dimensions or any(key in group for group in self.coupled))]
        result: List[List[Any]] = []
        for at, key in enumerate(numbers):
            for other in numbers[at + 1:]:
                if all(one.get(key) == one.get(other) for one in flats):
                    result.append([key, "==", other])
                elif self.values[key] != self.values[other] and (
                        "head" in key and "head" in other or {key, other} == {"embedding_size", "hidden_size"}):
                    if self._differs({key: max(self.values[key], self.values[other]),
                                      other: max(self.values[key], self.values[other])}):
                        result.append([key, "!=", other])
            is_regression = key == "num_labels"  # Another loss, which does not run with labels in bf16.
            if is_regression or self.values[key] <= 64 and self._differs({key: 1}):
                result.append([key, "!=", 1])
        return result

    def _differs(self, changes: Dict[str, Any]) -> bool:
        found = self._at(changes)
        return found is not None and found.skeleton != self.base.skeleton


def _is_name(key: str) -> bool:
    last = key.rsplit(".", 1)[-1]
    return last in ("model_type", "transformers_version", "architectures", "_name_or_path", "dtype", "torch_dtype",
                    "is_encoder_decoder", "use_cache", "output_attentions", "output_hidden_states", "return_dict",
                    "problem_type", "chunk_size_feed_forward", "_attn_implementation_autoset", "gradient_checkpointing",
                    "suppress_tokens", "begin_suppress_tokens", "forced_decoder_ids")


def _others(key: str, value: Any) -> List[Any]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, float):
        return [value * 0.5 if value else 0.1]
    if value is None:
        return [1, 64] if key.endswith("_id") else []
    if isinstance(value, int):
        if key.endswith("_id") or key.endswith("_index"):
            return [value + 1, max(0, value - 1)]
        return [value * 2, value // 2, value * 4, value + 1] if value > 1 else [value + 1]
    return []


def _scaled(value: int, factor: float, few: int) -> int:
    if value <= 4:  # Counts of heads, groups or experts: both multiples and odd numbers.
        return {2: value * 2, 0.5: max(2, value // 2), 3: value * 3, 1.25: value * 4}.get(factor, value + few)
    found = value * factor
    if value % 8 == 0 and value >= 64:
        return max(8, int(found) // 8 * 8)
    return max(2, int(found))


def _with_longer_lists(fields: Dict[str, Any], key: str, value: Any) -> Dict[str, Any]:
    """Lists by layer become as long as the new number of layers."""
    path, _, last = key.rpartition(".")
    if last not in _LAYERS:
        return fields
    part = fields
    for name in path.split(".") if path else []:
        part = part.get(name) or {}
    before = part.get(last)
    result = copy.deepcopy(fields)
    part = result
    for name in path.split(".") if path else []:
        part = part.setdefault(name, {})
    for name, one in list(part.items()):
        if isinstance(one, list) and isinstance(before, int) and len(one) == before:
            part[name] = [one[index % before] for index in range(value)]
    return result
