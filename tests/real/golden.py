"""Golden values of Megatron-LM's functional tests, run again with the real Megatron-Core: `./run golden`.

    python3 tests/real/golden.py [--headroom PROGRAM] [--venv NAME=FOLDER]... [--json FILE] [NAME...]

tests/measured/megatron_golden.json has the arguments of each test's training script, and the peak of allocated memory
that its last rank had on real GPUs. The arguments become a case of the driver megatron_core, which is run on that rank
of the stated world. NAME: a part of an id. A test whose arguments have no translation is left out, and says which.
Exit code 1: a row did not run, or the median is more than 1 % off.
"""
import argparse
import collections
import json
import pathlib
import re
import statistics
import sys

import record
import rows
from environments import ROOT, Environments, parse_given

SOURCE = rows.MEASURED / "megatron_golden.json"
MOST = 1.0  # Percent, the median
VERSIONS = {"mcore": "0.16.1", "te": "2.11.0"}
CAPABILITIES = {"A100": 80, "H100": 90, "GB200": 100}
IGNORED = {  # Arguments that decide about no byte on the GPU
    "train-iters", "train-samples", "use-mcore-models", "mock-data", "tokenizer-type", "disable-gloo-process-groups",
    "use-tp-pp-dp-mapping", "rotary-base", "enable-experimental", "rampup-batch-size"}
MODEL = {  # Arguments that are members of `model` in a case
    "num-layers": "layers", "hidden-size": "hidden", "ffn-hidden-size": "ffn", "num-attention-heads": "heads",
    "num-query-groups": "kv_heads", "kv-channels": "kv_channels", "seq-length": "seq", "swiglu": "swiglu",
    "max-position-embeddings": "max_pos", "make-vocab-size-divisible-by": "vocab_divisor", "normalization": "norm",
    "untie-embeddings-and-output-weights": "untied", "position-embedding-type": "position",
    "rotary-percent": "rotary_percent", "attention-dropout": "attention_dropout", "hidden-dropout": "hidden_dropout",
    "qk-layernorm": "qk_layernorm"}
CASE = {  # Arguments that are members of a case
    "tensor-model-parallel-size": "tp", "pipeline-model-parallel-size": "pp", "context-parallel-size": "cp",
    "expert-model-parallel-size": "ep", "expert-tensor-parallel-size": "etp", "sequence-parallel": "sp",
    "micro-batch-size": "micro_batch", "num-layers-per-virtual-pipeline-stage": "vpp", "cp-comm-type": "cp_comm_type",
    "use-distributed-optimizer": "dist_opt", "num-distributed-optimizer-instances": "dist_opt_instances",
    "overlap-grad-reduce": "overlap_grad_reduce", "overlap-param-gather": "overlap_param_gather",
    "ddp-average-in-collective": "average_in_collective", "calculate-per-token-loss": "per_token_loss",
    "attention-softmax-in-fp32": "attention_softmax_in_fp32", "apply-query-key-layer-scaling": "qk_layer_scaling",
    "deterministic-mode": "deterministic", "cross-entropy-loss-fusion": "ce_fusion"}
CONFIG = {  # Arguments that are fields of TransformerConfig under another name
    "decoder-first-pipeline-num-layers": "num_layers_in_first_pipeline_stage",
    "decoder-last-pipeline-num-layers": "num_layers_in_last_pipeline_stage",
    "account-for-embedding-in-pipeline-split": "account_for_embedding_in_pipeline_split",
    "account-for-loss-in-pipeline-split": "account_for_loss_in_pipeline_split",
    "microbatch-group-size-per-virtual-pipeline-stage": "microbatch_group_size_per_vp_stage",
    "overlap-p2p-communication-warmup-flush": "overlap_p2p_comm_warmup_flush",
    "rotary-interleaved": "rotary_interleaved", "apply-layernorm-1p": "layernorm_zero_centered_gamma",
    "norm-epsilon": "layernorm_epsilon",
    "cross-entropy-fusion-impl": "cross_entropy_fusion_impl",
    "overlap-moe-expert-parallel-comm": "overlap_moe_expert_parallel_comm",
    "delay-wgrad-compute": "delay_wgrad_compute", "mtp-num-layers": "mtp_num_layers",
    "mtp-loss-scaling-factor": "mtp_loss_scaling_factor", "fp8-format": "fp8", "fp8-recipe": "fp8_recipe",
    "fine-grained-activation-offloading": "fine_grained_activation_offloading", "offload-modules": "offload_modules",
    "pipeline-model-parallel-layout": "pipeline_model_parallel_layout"}
OPTIMIZER = {  # Fields of OptimizerConfig with the names of their arguments
    "decoupled-lr", "decoupled-min-lr", "overlap-param-gather-with-optimizer-step"}
EXPERTS = {  # Fields of experts with the names of their arguments
    "moe-router-topk", "moe-ffn-hidden-size", "moe-shared-expert-intermediate-size", "moe-router-load-balancing-type",
    "moe-token-dispatcher-type", "moe-grouped-gemm", "moe-aux-loss-coeff", "moe-permute-fusion", "moe-router-dtype",
    "moe-router-pre-softmax", "moe-router-group-topk", "moe-router-num-groups", "moe-router-topk-scaling-factor",
    "moe-router-score-function", "moe-router-enable-expert-bias", "moe-router-bias-update-rate", "moe-layer-freq"}
LATENT = {  # Fields of latent attention with the names of their arguments
    "q-lora-rank", "kv-lora-rank", "qk-head-dim", "qk-pos-emb-head-dim", "v-head-dim", "rotary-scaling-factor",
    "mscale", "mscale-all-dim"}
SWITCHED_OFF = {  # Arguments that switch a member of a case off
    "no-gradient-accumulation-fusion": "grad_accum_fusion", "no-rope-fusion": "rope_fusion",
    "no-bias-gelu-fusion": "bias_gelu_fusion", "no-masked-softmax-fusion": "masked_softmax_fusion",
    "no-create-attention-mask-in-dataloader": "mask_in_dataloader"}
SPECIAL = {"transformer-impl", "attention-backend", "bf16", "fp16", "disable-bias-linear", "vocab-size",
           "num-virtual-stages-per-pipeline-rank", "hierarchical-context-parallel-sizes", "recompute-granularity",
           "recompute-method", "recompute-num-layers", "recompute-modules", "multi-latent-attention", "num-experts",
           "global-batch-size", "group-query-attention"}


def pattern(text):
    """The layers that have experts: Megatron-LM takes an expression of lists, such as ([0]*1+[1]*15)."""
    layers = []
    for part in text.strip("()").split("+"):
        found = re.fullmatch(r"\[([01](?:,[01])*)\](?:\*(\d+))?", part)
        if not found:
            return text
        layers += [int(digit) for digit in found[1].split(",")] * int(found[2] or 1)
    return layers


def typed(text):
    """A script's argument, which is text, as what it stands for: [a b] is a list, and ([0]*1+[1]*15) a pattern."""
    if text in ("true", "false"):
        return text == "true"
    text = text.replace("\\", "")  # Some are quoted for a shell.
    if text.startswith("(["):
        return pattern(text)
    if text.startswith("["):
        return [typed(word) for word in text.strip("[]").split()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def untranslated(arguments):
    """The arguments that no case expresses."""
    known = IGNORED | set(MODEL) | set(CASE) | set(CONFIG) | OPTIMIZER | EXPERTS | LATENT | set(SWITCHED_OFF) | SPECIAL
    return sorted(set(arguments) - known)


def shape(arguments, vocabulary):
    """`model` of a case. --vocab-size is for NullTokenizer, which adds a token for the end of a document."""
    model = {name: arguments[key] for key, name in MODEL.items() if key in arguments}
    model["bias"] = not arguments.get("disable-bias-linear", False)
    model["vocab"] = arguments["vocab-size"] + 1 if "vocab-size" in arguments else vocabulary
    if "num-experts" in arguments:
        model["moe"] = {"experts": arguments["num-experts"],
                        **fields(arguments, EXPERTS)}
    if arguments.get("multi-latent-attention"):
        model["mla"] = fields(arguments, LATENT)
    return model


def fields(arguments, names):
    return {name.replace("-", "_"): arguments[name] for name in sorted(names) if name in arguments}


def attention(arguments, capability, nondeterministic, without_exact_flash):
    """What the test asks for; without that, what Transformer Engine chooses on such a GPU.

    Source: transformer_engine/pytorch/attention/dot_product_attention/utils.py, get_attention_backend. Until November
    2025, the containers for long-term support had no deterministic FlashAttention: their deterministic rows equal those
    with --attention-backend unfused."""
    if arguments.get("transformer-impl") == "local":
        return "unfused"
    if "attention-backend" in arguments:
        return arguments["attention-backend"]
    if capability == 90 or capability > 90 and nondeterministic:
        return "fused"
    return "unfused" if without_exact_flash and not nondeterministic else "flash"


def recomputation(arguments):
    names = {"recompute-granularity": "granularity", "recompute-method": "method", "recompute-num-layers": "layers",
             "recompute-modules": "modules"}
    return {name: arguments[key] for key, name in names.items() if key in arguments}


def layout(arguments):
    """Chunks and groups, which the script takes as lists or as numbers of another kind."""
    found = {}
    chunks = arguments.get("num-virtual-stages-per-pipeline-rank")
    if chunks:
        found["chunks"] = chunks
    if "hierarchical-context-parallel-sizes" in arguments:
        sizes = arguments["hierarchical-context-parallel-sizes"]
        found["hier_cp"] = sizes if isinstance(sizes, list) else [int(size) for size in sizes.split()]
    return found


def case_of(row):
    """The case of a golden row, or a sentence that says what is in the way."""
    if row["num_gpus"] is None:
        return "the number of GPUs is not stated"
    if row["model"].get("arch") != "gpt":
        return f"{row['model'].get('arch')} is no GPT"
    capability = next((value for name, value in CAPABILITIES.items() if row["gpu"].split()[1] == name), None)
    arguments = {key: typed(value) for key, value in row["other"]["model_args"].items()}
    unknown = untranslated(arguments)
    if unknown:
        return f"no translation of --{', --'.join(unknown)}"
    if capability is None:
        return f"the compute capability of {row['gpu']} is not known"
    experts_by_layer = arguments.get("moe-layer-freq", [0] * arguments["num-layers"])
    if not isinstance(experts_by_layer, list) or len(experts_by_layer) != arguments["num-layers"]:
        return f"no translation of --moe-layer-freq {row['other']['model_args']['moe-layer-freq']}"
    environment = row["other"].get("env", {})
    nondeterministic = environment.get("NVTE_ALLOW_NONDETERMINISTIC_ALGO", "1") != "0"
    changed = re.search(r"\d{4}-\d{2}", row["framework_version"])
    old = row["framework_version"].startswith("lts container") and changed is not None and changed[0] < "2025-11"
    case = {name: arguments[key] for key, name in CASE.items() if key in arguments}
    case.update({name: not arguments[key] for key, name in SWITCHED_OFF.items() if key in arguments})
    case.setdefault("grad_accum_fusion", True)
    case.setdefault("mask_in_dataloader", True)
    case["attention"] = attention(arguments, capability, nondeterministic, old)
    case["flash_attn2"] = case["attention"] == "flash"
    case["spec"] = "local" if arguments.get("transformer-impl") == "local" else "te"
    case["dtype"] = next((name for name in ("bf16", "fp16") if arguments.get(name)), "fp32")
    case["world"], case["rank"] = row["num_gpus"], row["num_gpus"] - 1
    together = case["world"] // (case.get("tp", 1) * case.get("pp", 1) * case.get("cp", 1)) * case["micro_batch"]
    case["microbatches"] = max(1, arguments.get("global-batch-size", together) // together)  # Of sequences at a time
    case["config"] = {name: arguments[key] for key, name in CONFIG.items() if key in arguments}
    case["opt"] = fields(arguments, OPTIMIZER)
    case["env"] = environment
    return {**case, **layout(arguments), "recompute": recomputation(arguments), "steps": 3, "gpu": {"cc": capability},
            "model": shape(arguments, row["model"].get("vocab"))}


def peak_of(answer):
    """The highest allocated bytes of any phase."""
    return max(phase.get("peak_allocated", 0) for phase in answer["phases"])


def configurations(golden, cases):
    """Golden rows with the same case, together; many tests have the same arguments."""
    same = {}
    for row in golden:
        if not isinstance(cases[row["id"]], str):
            same.setdefault(json.dumps(cases[row["id"]], sort_keys=True), []).append(row)
    return list(same.values())


def run(same, cases, arguments):
    """Runs each configuration once, and says how far each of its rows is off: [{"id", "measured", "dry_run"}], and how
    many did not run."""
    environments = Environments(parse_given(arguments.venv))
    members = {group[0]["id"]: group for group in same}
    wanted = [{"id": name, "framework": "megatron", "versions": VERSIONS, "case": cases[name]} for name in members]
    found, failed = [], 0
    for batch in record.batches_of(wanted, None, False):
        for before, now, _ in record.run_batch(batch, arguments, environments):
            for row in members[before["id"]]:
                if "phases" not in now:
                    failed += 1
                    print(f"{row['id']}: {now.get('error') or now.get('oom')}", flush=True)
                    continue
                measured, peak = int(row["measured"]["peak_mem_value"]), peak_of(now)
                found.append({"id": row["id"], "measured": measured, "dry_run": peak})
                print(f"{row['id']}: measured {measured} B, dry run {peak} B, {off(found[-1]):+.3f} %", flush=True)
    return found, failed


def off(row):
    """How far a dry run is off, in percent."""
    return 100 * (row["dry_run"] / row["measured"] - 1)


def parse():
    parser = argparse.ArgumentParser(prog="./run golden", description=__doc__.splitlines()[0])
    parser.add_argument("--headroom", default=str(ROOT / "build/release/cli/headroom"), help="the program")
    parser.add_argument("--venv", action="append", default=[], metavar="NAME=FOLDER",
                        help="a virtual environment that is there already")
    parser.add_argument("--json", type=pathlib.Path, help="file for the bytes of every row")
    parser.add_argument("--list", action="store_true", help="say what is left out, and run nothing")
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    arguments.watched = False
    return parser, arguments


def main():
    parser, arguments = parse()
    golden = [row for row in json.loads(SOURCE.read_text(encoding="utf-8"))["rows"]
              if not arguments.names or any(name in row["id"] for name in arguments.names)]
    if not golden:
        parser.error(f"no test has {' or '.join(arguments.names)} in its id")
    cases = {row["id"]: case_of(row) for row in golden}
    for reason, count in collections.Counter(case for case in cases.values() if isinstance(case, str)).most_common():
        print(f"{count} rows are left out: {reason}")
    same = configurations(golden, cases)
    print(f"{sum(map(len, same))} of {len(golden)} rows can be run; they have {len(same)} configurations")
    if arguments.list or not same:
        sys.exit(0 if arguments.list else 1)
    found, failed = run(same, cases, arguments)
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    errors = sorted(abs(off(row)) for row in found)
    if errors:
        print(f"{len(errors)} rows ran, {failed} did not; median {statistics.median(errors):.3f} %, 90th percentile "
              f"{errors[int(0.9 * (len(errors) - 1))]:.3f} %, worst {errors[-1]:.3f} %")
    sys.exit(1 if failed or not errors or statistics.median(errors) > MOST else 0)


if __name__ == "__main__":
    main()
