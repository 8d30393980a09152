"""torchtitan's Trainer with the model, degrees and options of a case; tokens are random, made on the host."""
import dataclasses
import os
import tempfile
import time

import torch
import torch.utils.flop_counter
import torchtitan.components.metrics
import torchtitan.train
from torchtitan.config import JobConfig

import phases
import resume

PACKAGES = ("torch", "torchtitan")
OPTIONAL = {  # Keys of a case whose absence leaves torchtitan's default.
    "memory_budget": "activation_checkpoint.memory_budget",
    "pp_schedule": "parallelism.pipeline_parallel_schedule",
    "pp_microbatch": "parallelism.pipeline_parallel_microbatch_size",
    "pp_layers_per_stage": "parallelism.pipeline_parallel_layers_per_stage",
    "pp_first_less": "parallelism.pipeline_parallel_first_stage_less_layers",
    "pp_last_less": "parallelism.pipeline_parallel_last_stage_less_layers",
    "pp_overlap": "parallelism.pipeline_parallel_expert_parallel_overlap",
}


class Tokenizer:
    """A tokenizer with what the trainer asks for; no text passes it."""

    eos_id = bos_id = 0

    def get_vocab_size(self):
        return 128256


class Loader:
    """Batches of random tokens, pageable, as torchtitan's own loader gives them."""

    def __init__(self, batch, sequence):
        self._shape = (batch, sequence + 1)

    def __iter__(self):
        while True:
            tokens = torch.randint(1, 1000, self._shape)
            yield {"input": tokens[:, :-1].contiguous()}, tokens[:, 1:].contiguous()

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


def job_config(case, folder):
    """torchtitan's configuration; what a case does not name has the defaults of tests/measured/README.md."""
    config = JobConfig()
    values = {
        "job.dump_folder": folder,
        "model.name": case.get("model", "llama3"),
        "model.flavor": case.get("flavor", "8B"),
        "model.converters": case.get("converters", []),
        "training.local_batch_size": case.get("batch", 1),
        "training.global_batch_size": case.get("global_batch", -1),
        "training.seq_len": case.get("seq", 2048),
        "training.steps": case.get("steps", 3),
        "training.mixed_precision_param": case.get("param_dtype", "bfloat16"),
        "training.mixed_precision_reduce": case.get("reduce_dtype", "float32"),
        "training.dtype": case.get("dtype", "float32"),
        "parallelism.data_parallel_replicate_degree": case.get("dp_replicate", 1),
        "parallelism.data_parallel_shard_degree": case.get("dp_shard", -1),
        "parallelism.tensor_parallel_degree": case.get("tp", 1),
        "parallelism.pipeline_parallel_degree": case.get("pp", 1),
        "parallelism.context_parallel_degree": case.get("cp", 1),
        "parallelism.expert_parallel_degree": case.get("ep", 1),
        "parallelism.expert_tensor_parallel_degree": case.get("etp", 1),
        "parallelism.fsdp_reshard_after_forward": case.get("reshard", "default"),
        "parallelism.disable_loss_parallel": not case.get("loss_parallel", True),
        "activation_checkpoint.mode": case.get("ac", "none"),
        "activation_checkpoint.selective_ac_option": str(case.get("ac_option", "op")),
        "compile.enable": bool(case.get("compile")),
        "optimizer.name": case.get("optimizer", "AdamW"),
        "optimizer.implementation": case.get("opt_impl", "fused"),
        "checkpoint.enable": False,
        "metrics.log_freq": 1,
    }
    for key, option in OPTIONAL.items():
        if key in case:
            values[option] = case[key]
    if isinstance(case.get("compile"), list):
        values["compile.components"] = case["compile"]
    for key, value in {**values, **case.get("set", {})}.items():
        section, name = key.rsplit(".", 1)
        owner = config
        for part in section.split("."):
            owner = getattr(owner, part)
        if not hasattr(owner, name):
            raise ValueError(f"torchtitan has no option {key}")
        setattr(owner, name, value)
    return config


def changed(settings, changes):
    """A copy of the dataclass `settings` with other values; a dictionary changes the settings within."""
    return dataclasses.replace(settings, **{
        key: changed(getattr(settings, key), value) if isinstance(value, dict) else value
        for key, value in changes.items()})


def put_model_and_data(case, config):
    """The trainer's lookup of models answers with the case's changes of the flavour, and with tokens of ours."""
    module = torchtitan.train.train_spec_module
    original = module.get_train_spec

    def train_spec(name):
        spec = original(name)
        flavors = dict(spec.model_args)
        flavor = config.model.flavor
        flavors[flavor] = changed(flavors[flavor], case.get("model_args", {}))
        if case.get("pp", 1) > 1:
            tell_shapes(case, config, flavors)
        loader = Loader(config.training.local_batch_size, config.training.seq_len)
        return dataclasses.replace(spec, model_args=flavors, build_tokenizer_fn=lambda *_, **__: Tokenizer(),
                                   build_dataloader_fn=lambda *_, **__: loader)

    module.get_train_spec = train_spec


def tell_shapes(case, config, flavors):
    """Answers for the neighbour that tells a stage the shape of what it will send: hidden states of one micro-batch."""
    width = flavors[config.model.flavor].dim
    sequence = config.training.seq_len // (case.get("cp", 1) * case.get("tp", 1))
    replicas = case.get("dp_replicate", 1)
    shards = config.parallelism.data_parallel_shard_degree
    if shards == -1:
        shards = case["world"] // (case["pp"] * case.get("tp", 1) * case.get("cp", 1) * replicas)
    sharded = shards * case.get("cp", 1) > 1
    dtype = config.training.mixed_precision_param if sharded else config.training.dtype
    shape = (config.parallelism.pipeline_parallel_microbatch_size, sequence, width)

    def receive(objects, *_, **__):
        objects[0] = (torch.empty(shape, dtype=getattr(torch, dtype), device="meta"),)

    torch.distributed.recv_object_list = receive


def count_grouped_queries():
    """PyTorch 2.11 asserts that queries and keys have the same heads, and cannot plan a memory budget where they do
    not. Its pull request 177188 counts the heads of the queries."""
    counter = torch.utils.flop_counter

    def sdpa_flop_count(query_shape, key_shape, value_shape):
        batch, heads, queries, width = query_shape
        keys, value_width = key_shape[2], value_shape[3]
        products = batch * heads
        return (counter.bmm_flop((products, queries, width), (products, width, keys))
                + counter.bmm_flop((products, queries, keys), (products, keys, value_width)))

    counter.sdpa_flop_count = sdpa_flop_count


class Measured(torchtitan.train.Trainer):
    """The trainer, read after every step and when it has resumed."""

    def __init__(self, config):
        super().__init__(config)
        self.rows = []
        if config.checkpoint.enable:
            self._load, self.checkpointer.load = self.checkpointer.load, self.load_measured

    def load_measured(self, step):
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        loaded = self._load(step=step)
        if loaded:
            self.read("resume", allocated_before=before)
        return loaded

    def train_step(self, batches):
        super().train_step(batches)
        time.sleep(phases.NCCL_PAUSE)
        self.read(f"step{1 + sum(row['phase'].startswith('step') for row in self.rows)}")

    def read(self, phase, **more):
        torch.cuda.synchronize()
        stats = torch.cuda.memory_stats()
        self.rows.append({
            "phase": phase, **more,
            "allocated_after": stats["allocated_bytes.all.current"],
            "peak_allocated": stats["allocated_bytes.all.peak"],
            "peak_active": stats["active_bytes.all.peak"],
            "peak_reserved": stats["reserved_bytes.all.peak"],
            "reserved_after": stats["reserved_bytes.all.current"],
            "retries": stats["num_alloc_retries"],
        })
        torch.cuda.reset_peak_memory_stats()


def trained(case, folder):
    """The trainer at the end of its steps; states are saved in `folder`, or loaded if it has some."""
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1",
                        "MASTER_PORT": "0"}.items():
        os.environ.setdefault(name, value)  # A world of one, which nobody has announced.
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    torchtitan.components.metrics.DeviceMemoryMonitor.reset_peak_stats = lambda self: None  # `Measured` does it.
    config = job_config(case, folder)
    put_model_and_data(case, config)
    if "memory_budget" in case:
        count_grouped_queries()
    trainer = Measured(config)
    trainer.train()
    return trainer


def resumed(case):
    """The case after a first step whose states were saved: its own steps follow."""
    saving = {"checkpoint.enable": True, "checkpoint.last_save_model_only": False, "checkpoint.interval": 1000}
    return {**case, "steps": case.get("steps", 3) + 1, "set": {**case.get("set", {}), **saving}}


def save_states(case, folder):
    trained({**resumed(case), "steps": 1}, folder)


def run(case):
    with resume.saved_states("titan", case) if case.get("resume") else tempfile.TemporaryDirectory() as folder:
        trainer = trained(resumed(case) if case.get("resume") else case, folder)
    local = [getattr(p, "_local_tensor", p).numel() for part in trainer.model_parts for p in part.parameters()]
    return {"local_parameters": sum(local), "phases": trainer.rows}
