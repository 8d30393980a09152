"""transformers with bitsandbytes' 4-bit and int8 weights and optimizers and PEFT adapters, on one GPU or under DDP."""
import contextlib

import accelerate
import bitsandbytes
import peft
import torch
import transformers
from transformers import BitsAndBytesConfig
from transformers.integrations.bitsandbytes import replace_with_bnb_linear

import models
import replicas
from phases import NCCL_PAUSE, Phases

PACKAGES = ("torch", "transformers", "accelerate", "peft", "bitsandbytes")
QUANTISED = (bitsandbytes.nn.Params4bit, bitsandbytes.nn.Int8Params)


def settings(quant):
    """BitsAndBytesConfig of a case's `quant`."""
    storage = {"bf16": torch.bfloat16, None: torch.uint8}[quant.get("storage")]
    return BitsAndBytesConfig(
        load_in_4bit=quant["bits"] == 4, load_in_8bit=quant["bits"] == 8, bnb_4bit_quant_type=quant.get("type", "nf4"),
        bnb_4bit_use_double_quant=quant.get("double", False), bnb_4bit_quant_storage=storage,
        bnb_4bit_compute_dtype=models.DTYPES[quant.get("compute", "bf16")])


def place_weights(model, quant, dtype, place):
    """Gives each parameter memory, one after the other, as from_pretrained does; bitsandbytes quantises on the way."""
    for _, module in list(model.named_modules()):
        for name, parameter in list(module._parameters.items()):
            if parameter is None or parameter.device.type != "meta":
                continue
            on_host = quant.get("load") == "cpu" and isinstance(parameter, QUANTISED)
            values = torch.empty(parameter.shape, dtype=dtype, device="cpu" if on_host else place)
            if isinstance(parameter, QUANTISED):
                made = type(parameter)(values, requires_grad=False, **parameter.__dict__).to(place)
            else:
                made = torch.nn.Parameter(values)
            module._parameters[name] = made
            del values, made
    model.tie_weights()


def place_buffers(model, place, floating):
    """Moves the buffers that are `floating`, or all others, to `place`. Positions are integers, and come last."""
    for module in model.modules():
        for name, buffer in list(module._buffers.items()):
            if buffer is not None and buffer.is_floating_point() == floating:
                module.register_buffer(name, buffer.to(place), persistent=False)


def heads_of(model):
    """Names of the output layer, which transformers does not quantise."""
    head = model.get_output_embeddings()
    return [name for name, module in model.named_modules() if module is head]


def load(case, place="cuda"):
    """The model with quantised weights; `place`: where they end."""
    dtype = models.DTYPES[case.get("dtype", "bf16")]
    quant = case.get("quant")
    if not quant:
        return models.make_model(case, dtype, torch.device("cuda"))
    model = models.make_model(case, dtype, accelerate.init_empty_weights(include_buffers=False))
    config = settings(quant)
    kept = quant.get("skip", heads_of(model)) + list(getattr(model, "_keep_in_fp32_modules", None) or [])
    model = replace_with_bnb_linear(model, modules_to_not_convert=kept, quantization_config=config)
    place_buffers(model, place, floating=True)
    place_weights(model, quant, dtype, place)
    place_buffers(model, place, floating=False)
    if quant["bits"] == 4:
        model.to(place)
    model.is_loaded_in_4bit, model.is_loaded_in_8bit = quant["bits"] == 4, quant["bits"] == 8
    model.quantization_method = "bitsandbytes"
    model.config.quantization_config = config
    return model


def prepare(model, case):
    """k-bit preparation or plain checkpointing, then the adapters."""
    kind = case.get("checkpointing")
    checkpointed = kind in ("full", "full_reentrant")
    if case.get("prepare_kbit"):
        model = models.prepare_kbit(model, kind)
    else:
        models.checkpoint(model, kind)
        if checkpointed and case.get("peft"):
            model.enable_input_require_grads()
    if case.get("peft"):
        keys = dict(case["peft"])
        kind = peft.PEFT_TYPE_TO_CONFIG_MAPPING[peft.PeftType[keys.pop("peft_type")]]
        model = peft.get_peft_model(model, kind(task_type=models.shared.task_type(model), **keys),
                                    autocast_adapter_dtype=case.get("autocast_adapter", True))
    return model.train()


def sizes_by_type(model):
    """{class/dtype/trained or frozen: [elements, bytes]} of the parameters."""
    sizes = {}
    for parameter in model.parameters():
        dtype = str(parameter.dtype).removeprefix("torch.")
        kind = f"{type(parameter).__name__}/{dtype}/{'train' if parameter.requires_grad else 'frozen'}"
        entry = sizes.setdefault(kind, [0, 0])
        entry[0] += parameter.numel()
        entry[1] += parameter.numel() * parameter.element_size()
    return sizes


def train(model, optimizer, case, phases):
    dtype = models.AUTOCAST.get(case.get("precision"))
    pieces = case.get("accumulation", 1)
    shape = (case.get("micro_batch", 1), case.get("seq", 2048))
    for step in range(1, case.get("steps", 2) + 1):
        for piece in range(1, pieces + 1):
            name = f"step{step}.{piece}" if pieces > 1 else f"step{step}"
            with phases(f"{name}.forward"):
                tokens = torch.randint(0, 100, shape, device="cuda")
                batch = {"input_ids": tokens, "labels": tokens.clone()}  # until the next batch takes its place
                with torch.autocast("cuda", dtype=dtype) if dtype else contextlib.nullcontext():
                    loss = model(**batch).loss
            with phases(f"{name}.backward"):
                loss.backward()
                del loss
        with phases(f"step{step}.optimizer"):
            if case.get("clip"):
                torch.nn.utils.clip_grad_norm_(model.parameters(), case["clip"])
            optimizer.step()
        optimizer.zero_grad()


def run(case):
    torch.backends.cuda.enable_cudnn_sdp(False)
    replicas.take_device()
    torch.zeros(1, device="cuda")
    phases = Phases(NCCL_PAUSE if case.get("parallel") else 0)
    with phases("load"):
        model = load(case)
    with phases("peft"):
        model = prepare(model, case)
        if case.get("parallel"):
            model = replicas.replicate(model, case["parallel"])
    if case.get("liger"):
        models.use_liger(model, case["liger"])
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = models.make_optimizer(case.get("optimizer", "torch"), trained)
    train(model, optimizer, case, phases)
    return {"parameters": models.elements(model.parameters()), "trainable": models.elements(trained),
            "by_type": sizes_by_type(model), "optimizer": type(optimizer).__name__, "phases": phases.rows}
