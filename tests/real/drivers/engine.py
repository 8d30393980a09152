"""DeepSpeed's engine, ZeRO 0 to 3, on the rank that the environment names."""
import os

os.environ.setdefault("DS_ACCELERATOR", "cuda")
os.environ.setdefault("TORCH_CUDA_ARCH_LIST", "9.0")  # FusedAdam and CPUAdam are compiled at their first use.
os.environ.setdefault("CUDA_HOME", "/usr/local/cuda")

import deepspeed
import torch
# Before any phase: pyparsing, which it imports, leaves exceptions in reference cycles with the frames of all callers.
# DeepSpeed imports it where it first quantises a gradient, and that gradient would live as long as the cycle.
import torch.utils.cpp_extension
import transformers

from transformers.integrations import HfDeepSpeedConfig

import models
import resume
from phases import NCCL_PAUSE, Phases, Unobserved

PACKAGES = ("torch", "transformers", "deepspeed")


def merged(into, more):
    """`into` with `more` over it, dictionary by dictionary."""
    for key, value in more.items():
        both = isinstance(value, dict) and isinstance(into.get(key), dict)
        into[key] = merged(into[key], value) if both else value
    return into


def settings(case, hidden):
    """The configuration file of a case; `hf_auto` are the sizes that Trainer's "auto" sets."""
    zero = {"stage": case.get("zero", 2)}
    if case.get("hf_auto"):
        zero["reduce_bucket_size"] = hidden * hidden
        if zero["stage"] == 3:
            zero["stage3_prefetch_bucket_size"] = int(0.9 * hidden * hidden)
            zero["stage3_param_persistence_threshold"] = 10 * hidden
    return merged({
        "train_micro_batch_size_per_gpu": case.get("micro_batch", 1),
        "gradient_accumulation_steps": case.get("accumulation", 1),
        "zero_optimization": zero,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        case.get("dtype", "bf16"): {"enabled": True},
        "gradient_clipping": case.get("clip", 1.0),
        "wall_clock_breakdown": False}, case.get("ds", {}))


def make_model(case, config):
    dtype = models.DTYPES[case.get("param_dtype", case.get("dtype", "bf16"))]
    if case.get("quant"):
        import quantised

        return quantised.load(case)
    init = case.get("init", "zero3" if case.get("zero") == 3 else "cuda")
    place = (deepspeed.zero.Init(config_dict_or_path=config, dtype=dtype) if init == "zero3" else torch.device(init))
    return models.make_model(case, dtype, place)


def load(case, config):
    model = make_model(case, config).train()
    kind = case.get("checkpointing")
    if case.get("prepare_kbit"):
        model = models.prepare_kbit(model, kind)
    else:
        models.checkpoint(model, kind)
    if case.get("lora"):
        lora = {"alpha": 16, **case["lora"]}
        known = HfDeepSpeedConfig(config) if lora.get("dora") and case.get("zero") == 3 else None
        model = models.add_adapters(model, lora, bool(kind))
        del known  # While it lives, PEFT gathers the weights that DoRA needs.
    if case.get("leaf") == "experts":
        blocks = {type(module) for module in model.modules() if hasattr(module, "experts")}
        deepspeed.utils.set_z3_leaf_modules(model, list(blocks))
    return model


def parameter_groups(model, decay_groups):
    """The trained parameters; with `decay_groups` norms and biases are a group of their own, as in Trainer."""
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    if not decay_groups:
        return [p for _, p in named]
    spared = [p for name, p in named if "norm" in name or name.endswith("bias")]
    chosen = {id(p) for p in spared}
    return [{"params": [p for _, p in named if id(p) not in chosen], "weight_decay": 0.01},
            {"params": spared, "weight_decay": 0.0}]


def make_optimizer(name, parameters):
    if name == "fused":
        from deepspeed.ops.adam import FusedAdam

        return FusedAdam(parameters, lr=1e-4)
    if name == "cpu":
        from deepspeed.ops.adam import DeepSpeedCPUAdam

        return DeepSpeedCPUAdam(parameters, lr=1e-4)
    return models.make_optimizer(name, parameters)


def train(engine, case, phases):
    """Trains, and returns the last batch in a list, in which `evaluate` can replace it."""
    tokens = None
    pieces = case.get("accumulation", 1)
    for step in range(1, case.get("steps", 2) + 1):
        for piece in range(1, pieces + 1):
            name = f"step{step}.{piece}" if pieces > 1 else f"step{step}"
            with phases(f"{name}.forward"):
                tokens = torch.randint(0, 100, (case.get("micro_batch", 1), case.get("seq", 2048)), device="cuda")
                output = engine(input_ids=tokens, labels=tokens)
                loss = output.loss
                del output
            with phases(f"{name}.backward"):
                engine.backward(loss)
                del loss
            with phases(f"{name}.step" if piece == pieces else f"{name}.step_noop"):
                engine.step()
    return [tokens]


def evaluate(engine, case, phases, batch):
    """A forward pass; its batch takes the place of the last one in the list `batch`."""
    engine.eval()
    with phases("evaluation"), torch.no_grad():
        batch[0] = torch.randint(0, 100, (case.get("micro_batch", 1), case.get("seq", 2048)), device="cuda")
        output = engine(input_ids=batch[0], labels=batch[0])
        del output


def chosen_sizes(engine):
    zero = engine._config.zero_config
    return {"reduce": zero.reduce_bucket_size, "allgather": zero.allgather_bucket_size, "overlap_comm": zero.overlap_comm,
            "prefetch": zero.prefetch_bucket_size, "persistence": zero.param_persistence_threshold,
            "max_live": zero.max_live_parameters, "max_reuse": zero.max_reuse_distance, "sub_group": zero.sub_group_size}


def trust_one_rank():
    """ZeRO 3 compares the orders of ranks. A dry run answers that for several ranks; one alone has nothing to compare."""
    from deepspeed.runtime.zero import partitioned_param_coordinator, stage3

    for module in (partitioned_param_coordinator, stage3):
        module.assert_ints_same_as_other_ranks = lambda ints: None


def start():
    """PyTorch on the rank's GPU and the group of all ranks."""
    torch.backends.cuda.enable_cudnn_sdp(False)
    torch.cuda.set_device(int(os.environ.setdefault("LOCAL_RANK", "0")))  # DeepSpeed's CPU optimizers read it.
    torch.zeros(1, device="cuda")
    device = torch.device("cuda", torch.cuda.current_device())
    if "RANK" not in os.environ:
        trust_one_rank()
    alone = {} if "RANK" in os.environ else {"store": torch.distributed.HashStore(), "rank": 0, "world_size": 1}
    torch.distributed.init_process_group("nccl", device_id=device, **alone)


def make_engine(case, phases):
    """The engine, and how many parameters the model has and trains."""
    config = settings(case, models.model_config(case).hidden_size)
    with phases("model"):
        model = load(case, config)
    counts = {"parameters": models.elements(model.parameters()),
              "trainable": models.elements(p for p in model.parameters() if p.requires_grad)}
    groups = parameter_groups(model, case.get("decay_groups"))
    with phases("optimizer_object"):
        optimizer = make_optimizer(case.get("optimizer", "torch"), groups)
    with phases("deepspeed.initialize"):
        engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config, dist_init_required=False)
    return engine, counts


def save_states(case, folder):
    start()
    engine, _ = make_engine(case, Unobserved())
    train(engine, case, Unobserved())
    engine.save_checkpoint(folder)


def run(case):
    models.disbelieve_guards(case)
    saved = resume.saved_states("engine", case) if case.get("resume") else None
    start()
    phases = Phases(NCCL_PAUSE)
    engine, counts = make_engine(case, phases)
    if saved:
        with phases("resume"):
            engine.load_checkpoint(saved.name)
        saved.cleanup()
    batch = train(engine, case, phases)
    if case.get("eval"):
        evaluate(engine, case, phases, batch)
    inner = engine.optimizer
    return {**counts, "wrapper": type(inner).__name__,
            "optimizer": type(getattr(inner, "optimizer", inner)).__name__, "buckets": chosen_sizes(engine),
            "phases": phases.rows}
