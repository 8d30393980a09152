"""Distributes a model with DistributedDataParallel, FSDP2, FSDP1 or DeepSpeed. Each GPU has one process."""
import functools
import os

import torch

from headroom_torch.case import DTYPES
from headroom_torch.models import layers_of


def join_group(backend="nccl"):
    """All ranks, which torchrun or the dry run names in the environment."""
    torch.distributed.init_process_group(backend, device_id=torch.device("cuda", torch.cuda.current_device()))


def torch_type(word):
    return None if word is None else getattr(torch, DTYPES[word])


def distribute(model, case):
    """The model as the loop calls it."""
    if case.runtime == "fsdp":
        # Norms of gradients on the host are summed up there.
        join_group("cpu:gloo,cuda:nccl" if case["fsdp"]["cpu_offload"] else "nccl")
        return shard_layers(model, case) if case.fsdp_version == 2 else wrap_layers(model, case)
    if case["gpus"] == 1:
        return model
    join_group()
    ddp = case["ddp"]
    return torch.nn.parallel.DistributedDataParallel(
        model, device_ids=[torch.cuda.current_device()], gradient_as_bucket_view=ddp["gradient_as_bucket_view"],
        bucket_cap_mb=ddp["bucket_cap_bytes"] / (1 << 20), init_sync=ddp["init_sync"])


def shard_layers(model, case):
    """FSDP2: a group of parameters for each layer, one for the rest."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard

    fsdp, world, copies = case["fsdp"], case["gpus"], case["fsdp"]["replicas"]
    mesh = (init_device_mesh("cuda", (copies, world // copies), mesh_dim_names=("replicate", "shard"))
            if copies > 1 else init_device_mesh("cuda", (world,)))
    options = dict(
        mesh=mesh, reshard_after_forward=fsdp["reshard_ranks"] or fsdp["reshard_after_forward"],
        mp_policy=MixedPrecisionPolicy(torch_type(fsdp["param_dtype"]), torch_type(fsdp["reduce_dtype"])),
        offload_policy=CPUOffloadPolicy() if fsdp["cpu_offload"] else OffloadPolicy())
    lists = layers_of(model)
    for layers in lists if fsdp["shard_decoder"] else lists[:1]:
        for layer in layers:
            fully_shard(layer, **options)
    if fsdp["shard_embeddings"] and not getattr(model.config, "tie_word_embeddings", True):
        for embedding in (model.get_input_embeddings(), model.get_output_embeddings()):
            if embedding is not None:  # A model that classifies has no output embeddings.
                fully_shard(embedding, **options)
    fully_shard(model, **options)
    if any(p.is_meta for p in model.parameters()):  # Quantised weights are there already.
        model.to_empty(device="cpu" if fsdp["cpu_offload"] else "cuda")
    return model


def wrap_layers(model, case):
    """FullyShardedDataParallel with each layer wrapped, as Accelerate sets it up."""
    from torch.distributed.fsdp import (BackwardPrefetch, CPUOffload, FullyShardedDataParallel, MixedPrecision,
                                        ShardingStrategy)
    from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy

    fsdp, world, copies = case["fsdp"], case["gpus"], case["fsdp"]["replicas"]
    if case["lora"]:
        from peft.utils.other import fsdp_auto_wrap_policy

        policy = fsdp_auto_wrap_policy(model)
    else:
        classes = {type(layer) for layers in layers_of(model) for layer in layers}
        policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls=classes)
    hybrid = 1 < copies < world
    reshards = fsdp["reshard_after_forward"]
    strategy = (ShardingStrategy.NO_SHARD if copies == world > 1
                else {(False, True): ShardingStrategy.FULL_SHARD, (False, False): ShardingStrategy.SHARD_GRAD_OP,
                      (True, True): ShardingStrategy.HYBRID_SHARD,
                      (True, False): ShardingStrategy._HYBRID_SHARD_ZERO2}[hybrid, reshards])
    group = None
    if hybrid:
        from torch.distributed.device_mesh import init_device_mesh

        group = init_device_mesh("cuda", (copies, world // copies), mesh_dim_names=("replicate", "shard"))
    computed = torch_type(fsdp["param_dtype"])
    # Adapters that are wider than the frozen weights run under the policy only with autocast.
    mixed = not case["lora"] or case.autocast_type is not None
    model = FullyShardedDataParallel(
        model, sharding_strategy=strategy, auto_wrap_policy=policy, device_mesh=group,
        cpu_offload=CPUOffload(offload_params=True) if fsdp["cpu_offload"] else None,
        mixed_precision=MixedPrecision(param_dtype=computed, reduce_dtype=torch_type(fsdp["reduce_dtype"]),
                                       buffer_dtype=computed) if mixed else None,
        backward_prefetch={"pre": BackwardPrefetch.BACKWARD_PRE, "post": BackwardPrefetch.BACKWARD_POST,
                           "none": None}[fsdp["backward_prefetch"]],
        forward_prefetch=fsdp["forward_prefetch"], use_orig_params=fsdp["use_orig_params"],
        limit_all_gathers=fsdp.get("limit_all_gathers", True), device_id=torch.cuda.current_device())
    if case.autocast_type is not None:
        widen_trained(model, FullyShardedDataParallel)
    return model


def widen_trained(model, wrapper):
    """Trained flat parameters become fp32 after wrapping, as Accelerate does under mixed precision."""
    for module in wrapper.fsdp_modules(model):
        handle = module._handle
        if handle is None:
            continue
        flat = handle.flat_param
        if flat.requires_grad and flat.dtype != torch.float32:
            flat.data = flat.data.to(torch.float32)
            handle._orig_param_dtype = torch.float32


def join_deepspeed():
    """NCCL among all ranks, known to DeepSpeed: zero.Init shards among them."""
    import deepspeed

    join_group()
    deepspeed.init_distributed()


def start_engine(model, optimizer, parameters, case):
    """DeepSpeed's engine. It makes the optimizer itself if its configuration names one."""
    import deepspeed

    given = {} if optimizer is None and not case.deepspeed.get("optimizer") else {"model_parameters": parameters}
    if optimizer is not None:
        given = {"optimizer": optimizer}
    return deepspeed.initialize(model=model, config=case.deepspeed, dist_init_required=False, **given)[0]


def set_device():
    """The GPU of this process."""
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
