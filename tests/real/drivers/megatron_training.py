"""What Megatron-LM's training script (pretrain_gpt.py, megatron/training) does around the model of a case."""
from functools import partial

import torch

from megatron.core import parallel_state
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.pipeline_parallel import get_forward_backward_func
from megatron.core.utils import get_attr_wrapped_model, get_batch_on_this_cp_rank, get_model_config

import megatron_model as models

BATCH = ("tokens", "labels", "loss_mask", "attention_mask", "position_ids")
LEAST_BUCKET = 40_000_000  # Elements, and for each data-parallel rank (Megatron-LM, --ddp-bucket-size)
BUCKET_OF_RANK = 1_000_000


def reduces_in_fp32(case):
    return case.get("grad_reduce_fp32", models.dtype_of(case) is torch.bfloat16)


def ddp_settings(case):
    """Gradients that are not overlapped are one bucket."""
    overlapped = case.get("overlap_grad_reduce", False)
    gathered = case.get("overlap_param_gather", False)
    settings = models.fields_of(DistributedDataParallelConfig, {
        "grad_reduce_in_fp32": reduces_in_fp32(case),
        "overlap_grad_reduce": overlapped,
        "overlap_param_gather": gathered,
        "use_distributed_optimizer": case.get("dist_opt", False),
        "check_for_nan_in_grad": case.get("check_nan", True),
        "average_in_collective": case.get("average_in_collective", False),
        "num_distributed_optimizer_instances": case.get("dist_opt_instances", 1),
        "align_param_gather": gathered and models.chunks_of(case) is not None,
        **case.get("ddp", {}),
    })
    if not settings.overlap_grad_reduce:
        settings.bucket_size = None
    elif settings.bucket_size is None:
        ranks = parallel_state.get_data_parallel_world_size(with_context_parallel=True)
        settings.bucket_size = max(LEAST_BUCKET, BUCKET_OF_RANK * ranks)
    return settings


def replicate(case, config, chunks):
    """The chunks with buffers for their gradients, made on a stream of their own, as the training script does."""
    settings = ddp_settings(case)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        whole = case.get("opt", {}).get("overlap_param_gather_with_optimizer_step", False)
        wrapped = [DistributedDataParallel(config=config, ddp_config=settings, module=chunk,
                                           disable_bucketing=i > 0 or whole) for i, chunk in enumerate(chunks)]
    torch.cuda.current_stream().wait_stream(stream)
    return wrapped


def optimizer_options(case):
    """The case's own options of the optimizer; types have the names of the command line."""
    return {key: models.DTYPES[value] if key.endswith("_dtype") else value
            for key, value in case.get("opt", {}).items()}


def make_optimizer(case, chunks):
    dtype = models.dtype_of(case)
    return get_megatron_optimizer(models.fields_of(OptimizerConfig, {
        "optimizer": "adam", "lr": 1e-4, "weight_decay": 0.01, "params_dtype": dtype,
        "fp16": dtype is torch.float16, "bf16": dtype is torch.bfloat16, "clip_grad": case.get("clip", 1.0),
        "use_distributed_optimizer": case.get("dist_opt", False),
        "log_num_zeros_in_grad": case.get("log_zeros", False),
        "overlap_param_gather": case.get("overlap_param_gather", False),
        **optimizer_options(case),
    }), chunks, use_gloo_process_groups=False)


def connect(chunks, optimizer):
    """Tells the schedule how losses are scaled and when gradients and parameters are exchanged."""
    config, settings = get_model_config(chunks[0]), chunks[0].ddp_config
    config.grad_scale_func = optimizer.scale_loss
    config.finalize_model_grads_func = finalize_model_grads
    if settings.overlap_grad_reduce:
        config.no_sync_func = [chunk.no_sync for chunk in chunks] if len(chunks) > 1 else chunks[0].no_sync
        if len(chunks) > 1:
            config.grad_sync_func = [chunk.start_grad_sync for chunk in chunks]
    if settings.overlap_param_gather and len(chunks) > 1:
        config.param_sync_func = [chunk.start_param_sync for chunk in chunks]


def unneeded(case, first):
    """What the first or the last stage of a pipeline does not need; prediction of further tokens needs all."""
    if first:
        return "labels", "loss_mask"
    return () if case.get("config", {}).get("mtp_num_layers") else ("tokens", "position_ids")


def make_batch(case, chunk):
    """A micro-batch in the order of `BATCH`; what this rank does not need is None.

    Tensor-parallel ranks other than the first receive all of it, and keep what their stage needs."""
    first, last = models.ends(chunk)
    if not (first or last):
        return [None] * len(BATCH)
    rows, width = case["micro_batch"], case["model"]["seq"]
    masked = case.get("mask_in_dataloader", True)
    empty = partial(torch.empty, device="cuda")
    batch = {"tokens": empty(rows, width, dtype=torch.int64), "labels": empty(rows, width, dtype=torch.int64),
             "loss_mask": empty(rows, width, dtype=torch.float32),
             "attention_mask": empty(rows, 1, width, width, dtype=torch.bool) if masked else None,
             "position_ids": empty(rows, width, dtype=torch.int64)}
    if case.get("pp", 1) > 1 and parallel_state.get_tensor_model_parallel_rank() > 0:
        batch.update(dict.fromkeys(unneeded(case, first)))
    if case.get("cp", 1) > 1:
        batch = get_batch_on_this_cp_rank(batch)
    return [batch[name] for name in BATCH]


def loss_of(loss_mask, output, model=None):
    """The sum of the losses of all tokens, their number, and both for the log (pretrain_gpt.py, loss_func)."""
    losses, mask = output.view(-1).float(), loss_mask.view(-1).float()
    loss = torch.sum(losses * mask)
    count = mask.sum().clone().detach().to(torch.int)
    report = {"lm loss": torch.cat([loss.clone().detach().view(1), count.view(1)])}
    for is_bad in (torch.isnan, torch.isinf):  # The script's rerun_state_machine looks at every loss.
        is_bad(loss).item()
    return loss, count, report


class Schedule:
    """The forward and backward passes of all micro-batches, as Megatron-Core orders them."""

    def __init__(self, case, chunks):
        self._case = case
        self._chunks = chunks
        self._interleaved = models.chunks_of(case) is not None
        self._run = get_forward_backward_func()

    def __call__(self):
        """Runs them, and returns the reports of the last stage's losses."""
        data = [iter(())] * len(self._chunks) if self._interleaved else iter(())
        width = self._case["model"]["seq"]
        return self._run(
            forward_step_func=self._forward_step, data_iterator=data, model=self._chunks,
            num_microbatches=self._case["microbatches"], seq_length=width, decoder_seq_length=width,
            micro_batch_size=self._case["micro_batch"], forward_only=False)

    def _forward_step(self, _, model, return_schedule_plan=False, *__):
        chunk = get_attr_wrapped_model(model, "vp_stage") if self._interleaved else None
        tokens, labels, loss_mask, attention_mask, positions = make_batch(self._case, chunk)
        loss = partial(loss_of, loss_mask, model=model)
        call = model.build_schedule_plan if return_schedule_plan is True else model
        return call(tokens, positions, attention_mask, labels=labels, loss_mask=loss_mask), loss


class LossLog:
    """The log's sum of losses, on the last stage (megatron/training/training.py, training_log)."""

    def __init__(self):
        self._reports = self._sums = self._mean = self._total = None

    def keep(self, reports):
        """Holds the reports of a step until those of the next one are there."""
        self._reports = reports

    def add(self):
        """Adds the mean loss of the step to the total."""
        if not parallel_state.is_pipeline_last_stage(ignore_virtual=True) or not self._reports:
            return
        self._sums = torch.vstack([report["lm loss"].view(-1) for report in self._reports]).sum(dim=0)
        self._mean = self._sums[0] / self._sums[1]
        if self._total is None:
            self._total = torch.tensor([0.0], dtype=torch.float, device="cuda")
        self._total = self._total + self._mean
