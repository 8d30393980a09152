"""How a row's case distributes its model, in the words of the plan's training script (validators/torch/python)."""
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[3] / "validators" / "torch" / "python"))

from headroom_torch.case import Case
from headroom_torch.parallel import shard_layers, wrap_layers

PREFETCH = {"BACKWARD_PRE": "pre", "BACKWARD_POST": "post", None: "none"}


def plan_of(case):
    """The plan's keys that `shard_layers` and `wrap_layers` read."""
    parallel = case["parallel"]
    first = parallel["kind"] == "fsdp1"
    strategy = parallel.get("strategy", "FULL_SHARD")
    reshard = parallel.get("reshard", True)  # A number: the ranks of the smaller group.
    in_part = isinstance(reshard, int) and not isinstance(reshard, bool)
    fsdp = {
        "version": 1 if first else 2,
        "replicas": parallel["world"] if strategy == "NO_SHARD" else parallel.get("replicate", 1),
        "reshard_ranks": reshard if in_part else 0,
        "reshard_after_forward": strategy not in ("SHARD_GRAD_OP", "_HYBRID_SHARD_ZERO2") if first else bool(reshard),
        "param_dtype": parallel.get("param_dtype", "bf16"),
        "reduce_dtype": parallel.get("reduce_dtype", "fp32"),
        "cpu_offload": parallel.get("offload", False),
        "shard_decoder": False,
        # When the rows were recorded, a configuration without `tie_word_embeddings` counted as tied.
        "shard_embeddings": (parallel.get("shard_embeddings", False)
                             and not case.get("config", {}).get("tie_word_embeddings", True)),
        "backward_prefetch": PREFETCH[parallel.get("prefetch", "BACKWARD_PRE")],
        "forward_prefetch": parallel.get("forward_prefetch", False),
        "limit_all_gathers": parallel.get("limit_all_gathers", True),
        "use_orig_params": parallel.get("use_orig_params", True),
    }
    precision = {"autocast_bf16": "autocast-bf16", "autocast_fp16": "autocast-fp16"}.get(case.get("precision"), "bf16")
    return Case({"model": {}, "plan": {"runtime": "fsdp", "gpus": parallel["world"], "fsdp": fsdp,
                                       "lora": case.get("lora"), "precision": precision}})


def distribute(model, case):
    """The model under FSDP1 or FSDP2."""
    return (wrap_layers if case["parallel"]["kind"] == "fsdp1" else shard_layers)(model, plan_of(case))
