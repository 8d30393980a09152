"""The model of a case, with random weights: what a checkpoint would bring matters to no allocation."""
import contextlib
import itertools

import torch
import transformers


def no_init_weights():
    """transformers' switch that leaves new weights as they are; its place changed with release 5."""
    try:
        from transformers.initialization import no_init_weights as switch
    except ImportError:
        from transformers.modeling_utils import no_init_weights as switch
    return switch()


@contextlib.contextmanager
def default_dtype(dtype):
    """Floating-point tensors are made in `dtype`."""
    usual = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(usual)


def make_model(model_class, config, dtype, place, drawn=False):
    """The model in the context `place`; unless `drawn`, no values are drawn for its weights."""
    def build():
        return model_class.from_config(config, attn_implementation=config._attn_implementation)

    kept = fp32_modules(build) if dtype == torch.float16 and isinstance(place, torch.device) else ()
    with default_dtype(dtype), place, contextlib.nullcontext() if drawn else no_init_weights(), made_in_fp32(kept):
        model = build()
    model.tie_weights()  # no_init_weights skips it.
    return model


def fp32_modules(build):
    """The modules that from_pretrained keeps in fp32 while all others are fp16: their numbers, in the order in which
    `build` makes modules.

    Source: transformers, modeling_utils.py, _keep_in_fp32_modules."""
    made = []
    with torch.device("meta"), no_init_weights(), watching_modules(made.append):
        model = build()
    kept = [f".{name}." for name in getattr(model, "_keep_in_fp32_modules", None) or ()]
    wide = {id(module) for name, module in model.named_modules() if any(part in f".{name}." for part in kept)}
    return {number for number, module in enumerate(made) if id(module) in wide}


@contextlib.contextmanager
def made_in_fp32(numbers):
    """While a model is made: the modules with these numbers make their parameters in fp32, until the next one begins."""
    usual, count = torch.get_default_dtype(), itertools.count()

    def begun(_module):
        torch.set_default_dtype(torch.float32 if next(count) in numbers else usual)

    with watching_modules(begun) if numbers else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def watching_modules(begun):
    """`begun` is called with each module whose constructor begins."""
    constructor = torch.nn.Module.__init__

    def watched(module, *args, **kwargs):
        constructor(module, *args, **kwargs)
        begun(module)

    torch.nn.Module.__init__ = watched
    try:
        yield
    finally:
        torch.nn.Module.__init__ = constructor


def checkpoint_all(model, reentrant):
    """Gradient checkpointing as Trainer switches it on."""
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": reentrant})


def prepare_kbit(model, checkpointed, reentrant):
    """PEFT's preparation of quantised models, which also switches checkpointing on."""
    from peft import prepare_model_for_kbit_training

    return prepare_model_for_kbit_training(model, use_gradient_checkpointing=checkpointed,
                                           gradient_checkpointing_kwargs={"use_reentrant": reentrant})


def task_type(model):
    """PEFT's word for what the model does. It has none for masked language models."""
    for ending, word in (("ForSequenceClassification", "SEQ_CLS"), ("ForTokenClassification", "TOKEN_CLS")):
        if type(model).__name__.endswith(ending):
            return word
    if getattr(model.config, "is_encoder_decoder", False):
        return "SEQ_2_SEQ_LM"
    return "CAUSAL_LM" if hasattr(model, "prepare_inputs_for_generation") else None


def adapt(model, options, **others):
    """The model with LoRA's adapters; `options` are LoraConfig's, `others` get_peft_model's."""
    from peft import LoraConfig, get_peft_model

    return get_peft_model(model, LoraConfig(task_type=task_type(model), **options), **others)


def apply_liger(model, **options):
    """Liger's kernels of the model's family."""
    from liger_kernel.transformers import _apply_liger_kernel_to_instance

    _apply_liger_kernel_to_instance(model=model, **options)


def module_lists(model):
    """The lists of modules, but those of experts."""
    return [m for name, m in model.named_modules()
            if isinstance(m, torch.nn.ModuleList) and "expert" not in name]


def configuration_of(case):
    keys = dict(case.model["config"])
    kind = keys.pop("model_type")
    types = getattr(transformers.CONFIG_MAPPING[kind], "__annotations__", {})
    for key, value in keys.items():
        if type(value) is int and "float" in str(types.get(key)) and "int" not in str(types[key]):
            keys[key] = float(value)  # Releases from 5 on refuse 30 where they want 30.0.
    config = transformers.AutoConfig.for_model(kind, **keys)
    config.use_cache = False
    config._attn_implementation = attention_of(case)
    return config


def attention_of(case):
    """transformers' name of the plan's attention."""
    return {"sdpa": "sdpa", "sdpa-no-cudnn": "sdpa", "eager": "eager", "flash": "flash_attention_2"}[case["attention"]]


def place_of(case):
    """A context in which the constructor puts new parameters where the framework wants them."""
    if case.zero_stage == 3:
        import deepspeed

        return deepspeed.zero.Init(config_dict_or_path=case.deepspeed, dtype=getattr(torch, case.parameter_type))
    if case["quant"]:
        import accelerate

        return accelerate.init_empty_weights(include_buffers=False)
    # FSDP2 shards before there is memory; FSDP1 moves layer after layer from the host.
    return torch.device({2: "meta", 1: "cpu"}.get(case.fsdp_version, "cuda"))


def build_model(case):
    """The model with its adapters, its kernels and its checkpoints, before anything is distributed."""
    if case["attention"] == "sdpa-no-cudnn":
        torch.backends.cuda.enable_cudnn_sdp(False)
    config = configuration_of(case)
    model_class = getattr(transformers, case.model["class"])
    model = make_model(model_class, config, getattr(torch, case.parameter_type), place_of(case))
    if getattr(model.config, "is_encoder_decoder", False):
        model.config.decoder_start_token_id = model.config.pad_token_id = 0
    if case["quant"]:
        model = quantise(model, case["quant"], case)
    return prepare(model, case)


def prepare(model, case):
    """Adapters, training mode, checkpoints and kernels."""
    kbit = case["quant"] and case["quant"]["prepare_kbit"] and case["lora"]
    checkpointing = case.checkpointing
    if kbit:
        model = prepare_kbit(model, checkpointing is not None, bool(checkpointing and checkpointing[0]))
    elif case["quant"]:
        checkpoint_layers(model, checkpointing, case["lora"])
    if case["lora"]:
        model = add_adapters(model, case["lora"])
    model.train()
    if not case["quant"]:
        checkpoint_layers(model, checkpointing, case["lora"])
    elif kbit:
        choose_layers(model, checkpointing)
    if case["liger"] or case["loss"] == "fused-linear":
        use_liger(model, case)
    return model


def add_adapters(model, lora):
    return adapt(model, {
        "r": lora["rank"], "lora_alpha": 2 * lora["rank"], "lora_dropout": lora["dropout"],
        "target_modules": lora["targets"] or "all-linear", "use_dora": lora["dora"],
        "use_rslora": lora["rank_stabilised"], "modules_to_save": lora["modules_to_save"] or None})


def checkpoint_layers(model, checkpointing, lora):
    if checkpointing is None:
        return
    checkpoint_all(model, checkpointing[0])
    choose_layers(model, checkpointing)
    if lora:
        model.enable_input_require_grads()


def choose_layers(model, checkpointing):
    """Switches checkpointing off again in layers that keep their activations."""
    if checkpointing is None or checkpointing[1] is None:
        return
    from transformers.modeling_layers import GradientCheckpointingLayer

    layers = [m for m in model.modules() if isinstance(m, GradientCheckpointingLayer)]
    for index, layer in enumerate(layers):
        layer.gradient_checkpointing = checkpointing[1](index)


def use_liger(model, case):
    kernels = case["liger"]
    apply_liger(model, rope=kernels, rms_norm=kernels, swiglu=kernels, geglu=kernels, cross_entropy=False,
                fused_linear_cross_entropy=case["loss"] == "fused-linear")


def quantise(model, quant, case):
    """Linear layers but the head become bitsandbytes' layers; parameter after parameter is quantised on the GPU."""
    import bitsandbytes
    from transformers import BitsAndBytesConfig
    from transformers.integrations.bitsandbytes import replace_with_bnb_linear

    four = quant["bits"] == 4
    stored = getattr(torch, case.parameter_type)
    computed = getattr(torch, case.autocast_type or case.parameter_type)
    config = BitsAndBytesConfig(load_in_4bit=four, load_in_8bit=not four, bnb_4bit_quant_type="nf4",
                                bnb_4bit_use_double_quant=quant["double_quant"], bnb_4bit_compute_dtype=computed)
    model = replace_with_bnb_linear(model, modules_to_not_convert=["lm_head"], quantization_config=config)
    for _, module in list(model.named_modules()):
        for key, parameter in list(module._parameters.items()):
            if parameter is None or parameter.device.type != "meta":
                continue
            value = torch.empty(parameter.shape, dtype=stored, device="cuda")
            kind = type(parameter).__name__
            if kind in ("Params4bit", "Int8Params"):
                made = getattr(bitsandbytes.nn, kind)
                value = made(value, requires_grad=False, **parameter.__dict__).to("cuda")
            else:
                value = torch.nn.Parameter(value)
            module._parameters[key] = value
            del value
    model.tie_weights()
    for module in model.modules():
        for key, buffer in list(module._buffers.items()):
            if buffer is not None:
                module._buffers[key] = buffer.to("cuda")
    model.is_loaded_in_4bit, model.is_loaded_in_8bit = four, not four
    model.quantization_method = "bitsandbytes"
    model.config.quantization_config = config
    return model


def fill_weights(model):
    """Gives weights on the GPU random values in place: zeros would send all tokens to the same experts, and draw less
    power."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            local = parameter.to_local() if hasattr(parameter, "to_local") else parameter
            local = getattr(parameter, "ds_tensor", local)
            if local.device.type != "cuda" or not local.is_floating_point() or type(parameter).__name__ == "Params4bit":
                continue
            if parameter.dim() > 1 or local.numel() == 0:
                local.data.normal_(0, 0.02)
            else:
                local.data.fill_(0.0 if name.endswith("bias") else 1.0)


def layers_of(model):
    """The lists of layers that are run one after the other: the decoder's, or the encoder's and the decoder's."""
    lists = module_lists(model)
    most = max(len(m) for m in lists)
    if not getattr(model.config, "is_encoder_decoder", False):
        return [next(m for m in lists if len(m) == most)]
    return [model.get_encoder().block if hasattr(model.get_encoder(), "block") else model.get_encoder().layers,
            model.get_decoder().block if hasattr(model.get_decoder(), "block") else model.get_decoder().layers]


def autocast_of(case):
    """The context of a forward pass."""
    if case.autocast_type is None:
        return contextlib.nullcontext()
    return torch.autocast("cuda", dtype=getattr(torch, case.autocast_type))
