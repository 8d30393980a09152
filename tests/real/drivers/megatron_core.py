"""Megatron-Core with Transformer Engine or its own modules: training steps of one rank of the row's world.

What needs a GPU's library that the stand-in GPU does not have is replaced by modules of the folder `stand_ins`, which
have the tensors of the real ones.
"""
import gc
import os
import pathlib
import sys
import time

import torch
import triton.runtime.cache
from torch._inductor import codecache

sys.path.append(str(pathlib.Path(__file__).resolve().parent / "stand_ins" / "packages"))  # For the imports that follow

import deep_ep
import megatron.core
import transformer_engine
from megatron.core import parallel_state, tensor_parallel

import megatron_model as models
import megatron_training as training
import replicas
from phases import NCCL_PAUSE, allocator_figures, device_work
from stand_ins import fused_attention

PACKAGES = ("torch",)  # `releases` has the others.
BACKENDS = {"flash": "NVTE_FLASH_ATTN", "fused": "NVTE_FUSED_ATTN", "unfused": "NVTE_UNFUSED_ATTN"}


def prepare():
    """What all rows of a process share: hashes of the sources of PyTorch and Triton, which name compiled code."""
    codecache.torch_key()
    triton.runtime.cache.triton_key()


def choose_attention(case):
    """Lets Transformer Engine use the one kind of attention that the case names, as the training script does."""
    chosen = case.get("attention", "auto")
    if chosen in BACKENDS:
        for kind, variable in BACKENDS.items():
            os.environ[variable] = str(int(kind == chosen))


def tune_steadily():
    """Triton launches each variant of a kernel as often as fits into an eighth of a second. Here two events are always
    a millisecond apart, as they were when the rows were first recorded, and not as far as the host needs."""
    torch.cuda.Event.elapsed_time = lambda begun, ended: 1.0


def join_world(case):
    """Takes the rank's GPU, and makes all groups of the case."""
    replicas.take_device()
    replicas.join_group({"eager": case.get("eager_nccl", True)})
    parallel_state.initialize_model_parallel(
        case.get("tp", 1), case.get("pp", 1), models.chunks_of(case), context_parallel_size=case.get("cp", 1),
        hierarchical_context_parallel_sizes=case.get("hier_cp"), expert_model_parallel_size=case.get("ep", 1),
        expert_tensor_parallel_size=case.get("etp"), create_gloo_process_groups=False,
        num_distributed_optimizer_instances=case.get("dist_opt_instances", 1))
    tensor_parallel.model_parallel_cuda_manual_seed(1234)


class Books:
    """A row for each phase. Python's cyclic collector runs at the ends of phases and at no other time."""

    def __init__(self):
        self.rows = []
        gc.disable()
        gc.freeze()
        self._begin()

    def _begin(self):
        torch.cuda.reset_peak_memory_stats()
        self._before = torch.cuda.memory_allocated()

    def end(self, phase):
        """Ends a phase of the set-up; the next one begins."""
        torch.cuda.synchronize()
        gc.collect()
        self._write(phase, allocator_figures(torch.cuda.memory_stats()))

    def end_of_training(self, phase, log=None):
        """Ends a phase of a step, which has work. What `log` then does counts in the bytes at the end of the phase,
        not in its work or on the way to its peak."""
        torch.cuda.synchronize()
        gc.collect()
        time.sleep(NCCL_PAUSE)
        work, figures = device_work(), allocator_figures(torch.cuda.memory_stats())
        if log:
            log.add()
            after = torch.cuda.memory_allocated()
            figures.update(allocated_after=after, peak_allocated=max(figures["peak_allocated"], after),
                           reserved_after=torch.cuda.memory_reserved())
        self._write(phase, {**figures, "work": work} if work else figures)

    def _write(self, phase, figures):
        self.rows.append({"phase": phase, "allocated_before": self._before, **figures})
        self._begin()


def train(case, chunks, optimizer, books):
    """The steps of the training script. Work is counted from when the gradients have been zeroed."""
    passes, log = training.Schedule(case, chunks), training.LossLog()
    for chunk in chunks:
        chunk.train()
    kept = None
    for step in range(1, case.get("steps", 3) + 1):
        for chunk in chunks:
            chunk.zero_grad_buffer()
        optimizer.zero_grad()
        device_work()
        log.keep(passes())
        books.end_of_training(f"step{step}.forward_backward")
        kept = optimizer.step()  # The norm of the gradients lives until the next one.
        books.end_of_training(f"step{step}.optimizer", log)
    del kept


def releases():
    """The releases and the device, as rows have them."""
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return {"torch": torch.__version__, "mcore": megatron.core.__version__, "cc": [properties.major, properties.minor],
            "total": properties.total_memory, "te": transformer_engine.__version__}


def run(case):
    choose_attention(case)
    torch.backends.cuda.enable_cudnn_sdp(False)
    if case.get("deterministic"):
        torch.use_deterministic_algorithms(True)
    tune_steadily()
    fused_attention.install()
    deep_ep.HybridEPBuffer.experts_per_token = case["model"].get("moe", {}).get("moe_router_topk", 1)
    join_world(case)
    books = Books()
    config = models.configuration(case)
    chunks = models.make_chunks(case, config)
    books.end("model")
    chunks = training.replicate(case, config, chunks)
    books.end("ddp")
    optimizer = training.make_optimizer(case, chunks)
    books.end("optimizer_object")
    training.connect(chunks, optimizer)
    train(case, chunks, optimizer, books)
    return {"versions": releases(), "parameters": sum(p.nelement() for chunk in chunks for p in chunk.parameters()),
            "padded_vocab": models.padded_vocabulary(case), "phases": books.rows}
