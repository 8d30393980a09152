"""Runs a model at several sizes and puts the recording together."""

import functools
import itertools
import json
import platform
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch

from . import blocks, fallbacks, liger, quantised, write
from .finish import finish, named_load, short, written
from .frozen import frozen
from .host_values import HostValues
from .image_text import Images
from .images import ImageBatches
from .merge import Different
from .model import CLASSIFIERS, TYPES, Source, build, configuration_of, labels_batch, parameter_names, \
    speech_batch, task_of
from .observer import Observer, TooManyTurns
from .plan import Plan
from .precision import differs_in_fp16
from .schema import DTYPES
from .trace import Run
from .variants import Recorder


MICRO_BATCHES = (1, 2, 4)  # Recorded one by one where the code depends on the number of images.


class Refused(Exception):
    """The model cannot be recorded; the text says why."""


class Mode:
    """One precision and attention implementation: parameters, autocast, attention, as in `fp32/bf16/eager`. A fourth
    part says that linear layers are quantised, or also prepared for training, as in `bf16//sdpa/prepared`, or that the
    kernels are Liger's, as in `bf16//sdpa/liger`."""

    def __init__(self, text: str):
        parts = text.split("/") + ["", "", ""]
        self.parameters = parts[0]
        self.autocast = parts[1] or None
        self.attention = parts[2] or "sdpa"
        self.liger = parts[3] == "liger"
        self.linears = None if self.liger else parts[3] or None


def _built(source: Source, kind: Any, mode: Mode, observer: Observer, config: Any) -> Tuple[Any, Any]:
    """The model and what building it asked for; with eager attention where it has no other."""
    while True:
        blocks.start()
        observer.windows = []
        try:
            model, load = build(source, kind, config, mode.parameters, mode.attention, observer)
        except ValueError as error:
            if mode.attention == "eager" or "attn_implementation" not in str(error):
                raise
            observer.scope = None
            mode.attention = "eager"
            continue
        blocks.write_inside(observer.windows)
        model.train()
        return model, load


def _found(run: Run, plan: Plan) -> Tuple[Recorder, List[Any]]:
    """The variants; where one layer does not stand for others, or the first run was not like later ones, once more."""
    tries = ((False, run.groups), (False, None), (True, None))
    for number, (whole, groups) in enumerate(tries):
        run.whole, run.groups = whole, groups
        recorder = Recorder(run, plan)
        try:
            return recorder, recorder.variants()
        except TooManyTurns as error:
            raise Refused(str(error)) from None
        except Different as error:
            if number == len(tries) - 1 or error.loops:
                raise Refused(str(error)) from None
    raise AssertionError


class _Parts:
    """What the modes of one recording share."""

    def __init__(self, masks_made: bool) -> None:
        self.images: Dict[str, Any] = {}  # The keys of the added variants that tell their images.
        self.masks_made = masks_made
        self.gradients: Dict[str, int] = {}
        self.variants: List[Any] = []
        self.checked: List[List[int]] = []
        self.multiple = 1

    def add(self, mode: Mode, model: Any, loaded: Optional[List[Any]], run: Run, recorder: Recorder,
            found: List[Any]) -> None:
        index = {path: at for at, (path, _) in enumerate(model.named_modules())}
        capability = torch.cuda.get_device_capability()
        self.multiple = max(self.multiple, recorder.multiple)
        for holds, (forward, bodies, used) in found:
            self.checked += [list(point) for point in used if list(point) not in self.checked]
            least = recorder.least(forward, bodies, used)
            if least is not None:
                holds["sequence_from"] = max(least, holds.get("sequence_from", 0))
            variant = dict({"parameters": mode.parameters, "autocast": mode.autocast, "attention": mode.attention,
                            "compute_capability": f"{capability[0]}.{capability[1]}"}, **holds)
            variant.update(self.images)
            if self.masks_made:
                variant["masks"] = "made"
            if mode.linears is not None:
                variant["linears"] = mode.linears
            if mode.liger:
                variant["kernels"] = "liger"
            if loaded is not None:
                finish(loaded, self.gradients)
                variant["load"] = [short(one) for one in loaded]
                loaded = None
            variant.update(written(forward, bodies, run.groups, index, self.gradients))
            self.variants.append(variant)


def _take_sequences_whole(masking: Any) -> None:
    """Has find_packed_sequence_indices answer None. With one sequence, transformers reads one value from the GPU to
    decide, which the stand-in does not know. The original still runs: its operators belong to the recording."""
    original = getattr(masking, "find_packed_sequence_indices", None)
    if original is None:  # Releases that do not ask.
        return

    @functools.wraps(original)
    def find_none(position_ids: Any) -> None:
        original(position_ids)

    masking.find_packed_sequence_indices = find_none


def record(source_text: str, modes: Sequence[Mode], points: Optional[Sequence[Tuple[int, int]]],
           wanted: Optional[str] = None, masks_made: bool = False, brief: bool = False,
           images: Optional[Images] = None, micro_batches: Sequence[int] = MICRO_BATCHES,
           freeze: Sequence[str] = (), of_any: bool = False, text_too: bool = False) -> str:
    """`of_any`: the images stand for others, of other sizes too, which the model's image processor makes one of.
    `text_too`: besides, batches of text alone are recorded, and those of one sequence with one image."""
    import transformers

    fallbacks.watch()
    _take_sequences_whole(getattr(transformers, "masking_utils", None))
    if masks_made:
        transformers.masking_utils.fast_all = getattr(transformers.masking_utils.fast_all, "__wrapped__",
                                                      transformers.masking_utils.fast_all)

    torch.backends.cuda.enable_cudnn_sdp(False)
    if images is not None:  # The stand-in has no cuDNN; its convolutions are written as PyTorch calls cuDNN.
        torch.backends.cudnn.enabled = False
        wanted = wanted or "image-text"
    source = Source(source_text)
    config = source.configuration()
    task, kind = ("own", None) if config is None else task_of(config, wanted)
    if task in CLASSIFIERS:
        source.batch = labels_batch(task, config.num_labels)
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    parts = _Parts(masks_made)
    model, groups = None, None
    loaded_as: List[str] = []
    contents = [images] if images is None or not text_too else [None, images.one(), images]
    for shown, mode in itertools.product(contents, modes):
        if mode is modes[0]:
            groups = None  # Without images, the layers of a tower do not run.
        observer = Observer()
        model, load = _built(source, kind, mode, observer, config)
        if mode.linears == "prepared":
            quantised.prepare(model)
        names = parameter_names(model)
        if groups is not None:
            groups.of(model)
        batch, plan = source.batch, Plan(config, points, brief)
        if task == "speech-seq2seq":
            batch = speech_batch(config, TYPES[mode.parameters])
        parts.images = {}
        if shown is not None:
            observer.values = HostValues()
            batches = ImageBatches(shown, model, config, source.folder, observer.values)
            batch, plan = batches.batch, Plan(config, points, brief, batches.shortest, micro_batches)
            parts.images = batches.words(of_any)
            plan.only_alone, plan.of_any = text_too and shown is not images, of_any
        run = Run(observer, model, names, TYPES.get(mode.autocast or ""), batch, groups, mode.linears)
        with liger.around(model, mode.liger, observer):
            recorder, found = _found(run, plan)
        groups = run.groups
        loaded = None if mode.parameters in loaded_as else named_load(load, names)
        loaded_as.append(mode.parameters)
        parts.add(mode, model, loaded, run, recorder, found)
    return write.text({
        "headroom_recording": 1, "model": source.name, "task": task,
        "versions": dict({"python": platform.python_version(), "torch": torch.__version__.split("+")[0],
                          "transformers": transformers.__version__}, **fallbacks.missing()),
        "differs_in_fp16": differs_in_fp16(model),
        "config": {} if config is None else configuration_of(config, task),
        "sizes": {"checked": parts.checked, "sequence_multiple": parts.multiple},
        "modules": [[path, type(module).__name__] for path, module in model.named_modules()],
        "parameters": _parameters(model, modes[-1].parameters, freeze),
        "buffers": [[name, list(buffer.shape), DTYPES[buffer.dtype]] for name, buffer in model.named_buffers()],
        "gradients": [json.loads(one) for one in parts.gradients],
        "variants": parts.variants})


def _parameters(model: Any, usual: str, freeze: Sequence[str]) -> List[List[Any]]:
    """`freeze`: modules that are not trained. Their code was recorded with all gradients, and the engine leaves out
    those that nobody wants."""
    fixed = frozen([name for name, _ in model.named_parameters()], freeze)
    owners: Dict[int, str] = {}
    tied: Dict[str, List[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        first = owners.setdefault(id(parameter), name)
        if first != name:
            tied.setdefault(first, []).append(name)
    result = []
    for name, parameter in model.named_parameters():
        extra: Dict[str, Any] = {}
        if name in tied:
            extra["tied"] = tied[name]
        if not parameter.requires_grad or name in fixed:
            extra["trainable"] = False
        if DTYPES[parameter.dtype] != usual:
            extra["dtype"] = DTYPES[parameter.dtype]
        result.append([name, list(parameter.shape)] + ([extra] if extra else []))
    return result
