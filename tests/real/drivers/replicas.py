"""A process of the row's world, and DistributedDataParallel as the row has it."""
import os

import torch


def take_device():
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))


def join_group(parallel):
    """`eager`: the communicator is made at once, not at the first collective."""
    device = torch.device("cuda", torch.cuda.current_device())
    alone = {} if "RANK" in os.environ else {"store": torch.distributed.HashStore(), "rank": 0, "world_size": 1}
    torch.distributed.init_process_group(
        "nccl", device_id=device if parallel.get("eager", True) else None, **alone)


def replicate(model, parallel):
    """Rows that do not say `init_sync` lack the first broadcast of parameters and buffers."""
    join_group(parallel)
    return torch.nn.parallel.DistributedDataParallel(
        model, device_ids=[torch.cuda.current_device()], init_sync=parallel.get("init_sync", False),
        gradient_as_bucket_view=parallel.get("bucket_view", False), bucket_cap_mb=parallel.get("bucket_cap_mb", 25),
        static_graph=parallel.get("static_graph", False))
