"""Turns the "case" of a row of tests/measured (its keys: tests/measured/README.md) into a training case of
validators/torch, so that rows and plans are trained by one script.
"""
OPTIMIZERS = {
    "adamw": ("adamw", "foreach"), "adamw_foreach": ("adamw", "foreach"), "adamw_fused": ("adamw", "fused"),
    "adamw_loop": ("adamw", "loop"), "sgd": ("sgd", "foreach"), "sgd_momentum": ("sgd", "foreach"),
    "adafactor": ("adafactor", "loop"), "adafactor_torch": ("adafactor-torch", "foreach"), "none": ("none", "foreach"),
    "torch": ("adamw", "foreach"), "torch_fused": ("adamw", "fused"), "torch_loop": ("adamw", "loop"),
    "adam8bit": ("adamw", "8bit"), "adamw8bit": ("adamw", "8bit"), "paged_adamw8bit": ("adamw", "paged-8bit"),
    "paged_adamw32bit": ("adamw", "paged"), "lion8bit": ("lion", "8bit"),
}
CLASSES = {"masked": "AutoModelForMaskedLM", "seq2seq": "AutoModelForSeq2SeqLM",
           "sequence-classification": "AutoModelForSequenceClassification",
           "token-classification": "AutoModelForTokenClassification"}
CHECKPOINTING = {None: "none", "none": "none", "full": "full", "full_wrapper": "full", "full_reentrant": "full-reentrant"}
KNOWN = {
    "id", "model", "layers", "config", "trace", "events", "attention", "param_dtype", "dtype", "precision", "micro_batch",
    "seq", "accumulation", "steps", "checkpointing", "optimizer", "clip", "drop_logits", "eval", "lora", "parallel", "gpu",
    "allocator", "task", "quant", "peft", "prepare_kbit", "liger", "cudnn",
}


def precision_of(case, quantised):
    stored = case.get("dtype", "bf16") if quantised else case.get("param_dtype", "fp32")
    cast = case.get("precision")
    if cast in (None, "none"):
        return stored
    return "bf16-autocast" if stored == "bf16" else cast.replace("_", "-")


def adapters_of(case):
    if case.get("peft"):
        peft = case["peft"]
        given = {"r": peft.get("r", 8), "dropout": peft.get("lora_dropout", 0.0), "targets": peft.get("target_modules"),
                 "dora": peft.get("use_dora", False), "rslora": peft.get("use_rslora", False)}
    elif case.get("lora"):
        given = case["lora"]
    else:
        return None
    targets = given.get("targets", "all-linear")
    return {"rank": given["r"], "dropout": given.get("dropout", 0.0), "dora": given.get("dora", False),
            "rank_stabilised": given.get("rslora", False), "targets": [] if targets in (None, "all-linear") else targets,
            "modules_to_save": given.get("modules_to_save", [])}


def sharding_of(case, parallel):
    """The plan's part `fsdp`."""
    stored = case.get("param_dtype", "fp32")
    reshard = parallel.get("reshard", True)
    strategy = parallel.get("strategy", "FULL_SHARD")
    one = parallel["kind"] == "fsdp1"
    prefetch = {"BACKWARD_PRE": "pre", "BACKWARD_POST": "post", "none": "none", None: "none"}
    return {
        "version": 1 if one else 2,
        "reshard_after_forward": strategy in ("FULL_SHARD", "HYBRID_SHARD") if one else bool(reshard),
        "reshard_ranks": reshard if isinstance(reshard, int) and not isinstance(reshard, bool) else 0,
        "cpu_offload": parallel.get("offload", False), "shard_decoder": False,
        "shard_embeddings": parallel.get("shard_embeddings", False) and not case["config"].get("tie_word_embeddings", True),
        "param_dtype": parallel.get("param_dtype", "bf16") or stored,
        "reduce_dtype": parallel.get("reduce_dtype", "fp32") or stored,
        "replicas": parallel["world"] if strategy == "NO_SHARD" else parallel.get("replicate", 1),
        "use_orig_params": parallel.get("use_orig_params", True),
        "backward_prefetch": prefetch[parallel.get("prefetch", "BACKWARD_PRE")],
        "forward_prefetch": parallel.get("forward_prefetch", False)}


def allocator_of(text):
    mib = 1 << 20
    given = dict(part.split(":") for part in text.split(",")) if text else {}
    split = given.get("max_split_size_mb")
    return {"expandable_segments": given.get("expandable_segments") == "True",
            "max_split_bytes": int(split) * mib if split else None,
            "max_non_split_rounding_bytes": int(given.get("max_non_split_rounding_mb", 20)) * mib,
            "garbage_collection_threshold_ratio": float(given.get("garbage_collection_threshold", 0)),
            "roundup_power2_divisions": int(given.get("roundup_power2_divisions", 0))}


def training_case(case):
    """The document that headroom_torch.case.Case takes. Raises ValueError for a key that it cannot express."""
    unknown = sorted(set(case) - KNOWN)
    if unknown:
        raise ValueError(f"keys of this row that the script does not know: {', '.join(unknown)}")
    parallel = case.get("parallel") or {}
    kind = parallel.get("kind")
    quantised = "quant" in case or "peft" in case
    optimizer = OPTIMIZERS[case.get("optimizer", "adamw")]
    config = dict(case["config"])
    if "layers" in case:
        config["num_hidden_layers"] = case["layers"]
    checkpointing = case.get("checkpointing")
    quant = case.get("quant")
    plan = {
        "runtime": "fsdp" if kind in ("fsdp1", "fsdp2") else "transformers", "gpus": parallel.get("world", 1),
        "precision": precision_of(case, quantised), "loss": "hf", "liger": bool(case.get("liger")),
        "attention": {"flash_attention_2": "flash"}.get(case.get("attention"), case.get("attention", "sdpa")),
        "micro_batch": case.get("micro_batch", 1), "sequence": case.get("seq", 2048),
        "accumulation": case.get("accumulation", 1), "steps": case.get("steps", 2),
        "checkpointing": CHECKPOINTING.get(checkpointing, checkpointing), "clip_norm": case.get("clip") or None,
        "keep_logits": not case.get("drop_logits", True), "keep_batch": quantised, "evaluation": case.get("eval", False),
        "optimizer": {"kind": optimizer[0], "form": optimizer[1],
                      "momentum": 0.9 if case.get("optimizer") == "sgd_momentum" else 0.0},
        "ddp": {"gradient_as_bucket_view": parallel.get("bucket_view", False),
                "bucket_cap_bytes": int(parallel.get("bucket_cap_mb", 25) * (1 << 20)),
                "init_sync": False},  # The rows were recorded without rank 0's parameters being sent to all.
        "fsdp": sharding_of(case, parallel) if kind in ("fsdp1", "fsdp2") else None, "zero": None,
        "lora": adapters_of(case),
        "quant": {"bits": quant["bits"], "double_quant": quant.get("double", False),
                  "prepare_kbit": bool(case.get("prepare_kbit"))} if quant else None,
        "allocator": allocator_of(case.get("allocator"))}
    if isinstance(case.get("liger"), dict):
        plan["loss"] = "fused-linear" if case["liger"].get("fused_linear_cross_entropy") else "hf"
    if plan["attention"] == "sdpa" and not case.get("cudnn"):
        plan["attention"] = "sdpa-no-cudnn"
    return {"schema_version": 1, "plan": plan, "deepspeed": None,
            "model": {"name": case.get("model", ""), "class": CLASSES.get(case.get("task"), "AutoModelForCausalLM"),
                      "config": config}}
