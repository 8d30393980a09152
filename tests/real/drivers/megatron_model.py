"""Megatron-Core's configuration and model of a case, chunk by chunk."""
import dataclasses

import torch
import torch.nn.functional

from megatron.core import parallel_state
from megatron.core.fusions.fused_bias_geglu import quick_gelu
from megatron.core.models.gpt import GPTModel, gpt_layer_specs
from megatron.core.tensor_parallel import set_defaults_if_not_set_tensor_model_parallel_attributes
from megatron.core.transformer.enums import AttnBackend
from megatron.core.transformer.module import Float16Module
from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout
from megatron.core.transformer.transformer_config import MLATransformerConfig, TransformerConfig

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
OPTIONS = {  # Names of a case whose configuration has another name, and what stands where the case is silent
    "deterministic": ("deterministic_mode", False),
    "grad_accum_fusion": ("gradient_accumulation_fusion", False),
    "masked_softmax_fusion": ("masked_softmax_fusion", True),
    "bias_dropout_fusion": ("bias_dropout_fusion", True),
    "rope_fusion": ("apply_rope_fusion", True),
    "ce_fusion": ("cross_entropy_loss_fusion", False),
    "per_token_loss": ("calculate_per_token_loss", False),
    "cp_comm_type": ("cp_comm_type", "p2p"),
    "init": ("perform_initialization", False),
}
SHAPE = {  # The same for names within `model`
    "bias": ("add_bias_linear", True),
    "norm": ("normalization", "LayerNorm"),
    "hidden_dropout": ("hidden_dropout", 0.1),
    "attention_dropout": ("attention_dropout", 0.1),
    "qk_layernorm": ("qk_layernorm", False),
    "kv_heads": ("num_query_groups", None),
    "kv_channels": ("kv_channels", None),
    "qkv_bias": ("add_qkv_bias", False),
}


def dtype_of(case):
    return DTYPES[case.get("dtype", "bf16")]


def chunks_of(case):
    """The number of chunks of a stage if stages are interleaved; None if each stage is one chunk."""
    layout, stages = case.get("config", {}).get("pipeline_model_parallel_layout"), case.get("pp", 1)
    if case.get("chunks"):
        chunks = case["chunks"]
    elif layout:
        chunks = PipelineParallelLayerLayout.get_num_stages_from_str(layout) // stages
    elif case.get("vpp"):
        chunks = case["model"]["layers"] // stages // case["vpp"]
    else:
        return None
    return chunks if chunks > 1 else None


def padded_vocabulary(case):
    """The vocabulary, rounded up so that every tensor-parallel rank has a multiple of the divisor."""
    multiple = case["model"].get("vocab_divisor", 128) * case.get("tp", 1)
    return -(-case["model"]["vocab"] // multiple) * multiple


def activation(case):
    """The activation function, whether it is gated, and whether it is fused with the bias."""
    model = case["model"]
    if case.get("quick_gelu"):
        return {"activation_func": quick_gelu, "gated_linear_unit": True, "bias_activation_fusion": True}
    if model.get("swiglu"):
        return {"activation_func": torch.nn.functional.silu, "gated_linear_unit": True,
                "bias_activation_fusion": case.get("bias_swiglu_fusion", True)}
    return {"activation_func": torch.nn.functional.gelu,
            "bias_activation_fusion": case.get("bias_gelu_fusion", True) and model.get("bias", True)}


def width_of_mlp(model):
    """Four times the hidden size; two thirds of that, in multiples of 64, if the MLP is gated."""
    if model.get("ffn"):
        return model["ffn"]
    return int(4 * model["hidden"] * 2 / 3) // 64 * 64 if model.get("swiglu") else 4 * model["hidden"]


def degrees(case):
    """How the case divides the model among ranks."""
    tensor, chunks = case.get("tp", 1), chunks_of(case)
    return {
        "tensor_model_parallel_size": tensor,
        "pipeline_model_parallel_size": case.get("pp", 1),
        "virtual_pipeline_model_parallel_size": chunks,
        "context_parallel_size": case.get("cp", 1),
        "hierarchical_context_parallel_sizes": case.get("hier_cp"),
        "expert_model_parallel_size": case.get("ep", 1),
        "expert_tensor_parallel_size": case.get("etp"),
        "sequence_parallel": case.get("sp", False) and tensor > 1,
        "batch_p2p_comm": chunks is None,
        "overlap_p2p_comm": chunks is not None,
        "deallocate_pipeline_outputs": True,
    }


def recomputation(case):
    return {f"recompute_{key if key != 'layers' else 'num_layers'}": value
            for key, value in case.get("recompute", {}).items()}


def settings(case):
    """What the configuration is made of; the case's own `config` comes last and wins."""
    model, dtype = case["model"], dtype_of(case)
    scaling = case.get("qk_layer_scaling", False)
    experts = dict(model.get("moe", {}))
    return {
        "num_layers": model["layers"],
        "hidden_size": model["hidden"],
        "num_attention_heads": model["heads"],
        "ffn_hidden_size": width_of_mlp(model),
        "params_dtype": dtype,
        "pipeline_dtype": dtype,
        "bf16": dtype is torch.bfloat16,
        "fp16": dtype is torch.float16,
        "persist_layer_norm": True,
        "apply_query_key_layer_scaling": scaling,
        "attention_softmax_in_fp32": case.get("attention_softmax_in_fp32", False) or scaling,
        "attention_backend": AttnBackend[case.get("attention", "auto")],
        "transformer_impl": "transformer_engine" if uses_transformer_engine(case) else "local",
        "num_moe_experts": experts.pop("experts", None),
        **{name: case.get(key, default) for key, (name, default) in OPTIONS.items()},
        **{name: model.get(key, default) for key, (name, default) in SHAPE.items()},
        **degrees(case), **recomputation(case), **activation(case), **experts, **model.get("mla", {}),
        **case.get("config", {}),
    }


def uses_transformer_engine(case):
    return case.get("spec", "te") == "te"


def fields_of(kind, values):
    """An object of the dataclass `kind`, from those of `values` that it has fields for."""
    names = {field.name for field in dataclasses.fields(kind)}
    return kind(**{key: value for key, value in values.items() if key in names})


def configuration(case):
    """The TransformerConfig of a case. `attrs` are attributes beyond its fields, which GPTModel looks for."""
    kind = MLATransformerConfig if case["model"].get("mla") else TransformerConfig
    config = fields_of(kind, settings(case))
    for name, value in case.get("attrs", {}).items():
        setattr(config, name, value)
    return config


def layers_of(case, config, chunk):
    """What the layers of a chunk are made of."""
    engine, model = uses_transformer_engine(case), case["model"]
    if model.get("moe"):
        return gpt_layer_specs.get_gpt_decoder_block_spec(
            config, use_transformer_engine=engine, normalization=config.normalization, vp_stage=chunk)
    if engine:
        return gpt_layer_specs.get_gpt_layer_with_transformer_engine_spec(
            qk_layernorm=config.qk_layernorm, multi_latent_attention=bool(model.get("mla")))
    return gpt_layer_specs.get_gpt_layer_local_spec(
        qk_layernorm=config.qk_layernorm, multi_latent_attention=bool(model.get("mla")),
        normalization=config.normalization)


def further_tokens(case, config, layers, chunk):
    """What the multi-token prediction of a chunk is made of; none if the model has none."""
    if not config.mtp_num_layers:
        return {}
    if not getattr(layers, "layer_specs", True):  # The last chunk has no layer of its own (gpt_builders.py).
        layers = gpt_layer_specs.get_gpt_layer_with_transformer_engine_spec(
            config.num_moe_experts, config.moe_grouped_gemm, config.qk_layernorm, bool(case["model"].get("mla")))
    return {"mtp_block_spec": gpt_layer_specs.get_gpt_mtp_block_spec(
        config, layers, use_transformer_engine=uses_transformer_engine(case), vp_stage=chunk)}


def ends(chunk):
    """Whether a chunk has the embedding, and whether it has the loss; `chunk` is None in a stage of one chunk."""
    if chunk is None:
        return parallel_state.is_pipeline_first_stage(), parallel_state.is_pipeline_last_stage()
    return (parallel_state.is_pipeline_first_stage(ignore_virtual=False, vp_stage=chunk),
            parallel_state.is_pipeline_last_stage(ignore_virtual=False, vp_stage=chunk))


def make_chunk(case, config, chunk):
    model = case["model"]
    first, last = ends(chunk)
    layers = layers_of(case, config, chunk)
    made = GPTModel(
        config=config, transformer_layer_spec=layers, vocab_size=padded_vocabulary(case),
        max_sequence_length=model.get("max_pos") or model["seq"], pre_process=first, post_process=last,
        parallel_output=True, share_embeddings_and_output_weights=not model.get("untied", False),
        position_embedding_type=model.get("position", "learned_absolute"),
        rotary_percent=model.get("rotary_percent", 1.0), rotary_base=model.get("rotary_base", 10000), vp_stage=chunk,
        **further_tokens(case, config, layers, chunk))
    if chunk is not None:
        made.vp_stage = chunk
    return made


def make_chunks(case, config):
    """The chunks of this stage on the GPU, in their precision."""
    chunks = chunks_of(case)
    made = [make_chunk(case, config, chunk) for chunk in (range(chunks) if chunks else [None])]
    for chunk in made:
        for parameter in chunk.parameters():
            set_defaults_if_not_set_tensor_model_parallel_attributes(parameter)
        chunk.cuda(torch.cuda.current_device())
    return made if dtype_of(case) is torch.float32 else [Float16Module(config, chunk) for chunk in made]
