"""A training case: a model, the plan under which it trains, and what the framework's own configuration file says.

    {"schema_version": 1,
     "model": {"name": "llama-3.2-1b", "class": "AutoModelForCausalLM", "config": {"model_type": "llama", ...}},
     "plan": {...}, every key of configs/schema/plan.schema.json,
     "deepspeed": {...} or null}
"""
import os

# The type of the stored parameters, and the type in which autocast computes.
PRECISIONS = {
    "fp32": ("float32", None),
    "bf16": ("bfloat16", None),
    "fp16": ("float16", None),
    "autocast-bf16": ("float32", "bfloat16"),
    "autocast-fp16": ("float32", "float16"),
    "bf16-autocast": ("bfloat16", "bfloat16"),
    "bf16-master": ("bfloat16", None),  # DeepSpeed keeps the fp32 copy.
    "fp16-master": ("float16", None),
}
DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


class Case:
    """The values that the rest of the script asks for."""

    def __init__(self, document):
        self.model = document["model"]
        self.plan = document["plan"]
        self.deepspeed = document.get("deepspeed")

    def __getitem__(self, key):
        """A key of the plan."""
        return self.plan[key]

    @property
    def runtime(self):
        return self.plan["runtime"]

    @property
    def parameter_type(self):
        """Name of the torch type in which parameters are stored."""
        return PRECISIONS[self.plan["precision"]][0]

    @property
    def autocast_type(self):
        """Name of the torch type that autocast computes in; None without autocast."""
        return PRECISIONS[self.plan["precision"]][1]

    @property
    def fsdp_version(self):
        """1, 2, or 0 for a plan without FSDP."""
        return self.plan["fsdp"]["version"] if self.runtime == "fsdp" else 0

    @property
    def zero_stage(self):
        """0 to 3; None for a plan without DeepSpeed."""
        return self.plan["zero"]["stage"] if self.runtime == "deepspeed" else None

    @property
    def checkpointing(self):
        """(reentrant, which) or None. `which(index)` says whether the layer with this index is run again in backward."""
        words = self.plan["checkpointing"].split("-")
        reentrant = words[-1] == "reentrant"
        if words[0] == "none":
            return None
        if words[0] == "full":
            return reentrant, None
        count = int(words[1])
        return reentrant, (lambda i: i < count) if words[0] == "first" else (lambda i: i % count == 0)


def allocator_setting(case):
    """PYTORCH_ALLOC_CONF for the plan; empty: PyTorch's defaults."""
    mib = 1 << 20
    allocator = case["allocator"]
    parts = []
    if allocator["expandable_segments"]:
        parts.append("expandable_segments:True")
    if allocator["max_split_bytes"]:
        parts.append(f"max_split_size_mb:{allocator['max_split_bytes'] // mib}")
    if allocator["max_non_split_rounding_bytes"] != 20 * mib:
        parts.append(f"max_non_split_rounding_mb:{allocator['max_non_split_rounding_bytes'] // mib}")
    if allocator["garbage_collection_threshold_ratio"]:
        parts.append(f"garbage_collection_threshold:{allocator['garbage_collection_threshold_ratio']}")
    if allocator["roundup_power2_divisions"]:
        parts.append(f"roundup_power2_divisions:{allocator['roundup_power2_divisions']}")
    return ",".join(parts)


def set_allocator(case):
    """Must run before torch is imported. Releases of PyTorch read one of two names."""
    setting = allocator_setting(case)
    for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
        os.environ.pop(name, None)
        if setting:
            os.environ[name] = setting
