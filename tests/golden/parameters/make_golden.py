"""Writes transformers-5.17.json: what Hugging Face transformers registers and runs.

For small models of every family: the parameters in the order of model.named_parameters(), and the
calls of one forward pass in training mode, in order. A call is a module that owns parameters, given
as the position of its first one in the list of parameters, or "dropout p" on a hidden state. Left
out are dropout of attention probabilities, T5's table of relative positions, and modules that hold
other modules besides their own parameters.

Needs torch 2.11 and transformers 5.17.0. Run from this folder: python make_golden.py
"""

import json
import os
import warnings

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
warnings.filterwarnings("ignore")

import torch  # noqa: E402
import transformers  # noqa: E402
from transformers import (  # noqa: E402
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
)

SIZES = dict(
    hidden_size=48,
    intermediate_size=40,
    num_hidden_layers=2,
    num_attention_heads=6,
    num_key_value_heads=2,
    vocab_size=50,
    max_position_embeddings=16,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
)
TOKENS = dict(pad_token_id=0, bos_token_id=1, eos_token_id=2, vocab_size=50)
LATENT = dict(
    num_key_value_heads=6,
    moe_intermediate_size=10,
    n_routed_experts=8,
    num_experts_per_tok=2,
    kv_lora_rank=14,
    qk_nope_head_dim=6,
    qk_rope_head_dim=4,
    v_head_dim=5,
)
T5 = dict(TOKENS, decoder_start_token_id=0, d_model=24, d_kv=5, d_ff=40, num_heads=6)
GPT2 = dict(TOKENS, n_embd=24, n_head=6, n_positions=16)
FALCON = dict(
    TOKENS,
    hidden_size=24,
    num_hidden_layers=2,
    num_attention_heads=6,
    hidden_dropout=0.2,
    attention_dropout=0.3,
)


def sized(drop=(), **keys):
    return {key: value for key, value in dict(SIZES, **keys).items() if key not in drop}


def opt(**keys):
    return sized(("num_key_value_heads", "intermediate_size"), ffn_dim=40, **keys)


def multi_head(**keys):
    return sized(("num_key_value_heads",), **keys)


# Name: model_type and the keys of its config.json.
MODELS = {
    "llama": ("llama", sized(tie_word_embeddings=False)),
    "llama-biased": ("llama", sized(attention_bias=True, mlp_bias=True, head_dim=10, tie_word_embeddings=True)),
    "mistral": ("mistral", sized(tie_word_embeddings=False, sliding_window=8)),
    "mixtral": ("mixtral", sized(num_local_experts=4, num_experts_per_tok=2, tie_word_embeddings=False)),
    "qwen2": ("qwen2", sized(tie_word_embeddings=True)),
    "qwen2_moe": ("qwen2_moe", sized(moe_intermediate_size=10, shared_expert_intermediate_size=20, num_experts=5, num_experts_per_tok=2, decoder_sparse_step=2, tie_word_embeddings=False)),
    "qwen3": ("qwen3", sized(head_dim=12, tie_word_embeddings=True)),
    "qwen3-biased": ("qwen3", sized(head_dim=12, attention_bias=True, tie_word_embeddings=False)),
    "qwen3_moe": ("qwen3_moe", sized(head_dim=12, moe_intermediate_size=14, num_experts=5, num_experts_per_tok=2, mlp_only_layers=[0], tie_word_embeddings=False)),
    "gemma": ("gemma", sized(head_dim=12)),
    "gemma2": ("gemma2", sized(head_dim=12, sliding_window=8)),
    "gemma3_text": ("gemma3_text", sized(head_dim=12, sliding_window=8)),
    "phi3": ("phi3", sized(tie_word_embeddings=False, resid_pdrop=0.2)),
    "gpt2": ("gpt2", dict(GPT2, n_layer=2, resid_pdrop=0.2)),
    "gpt2-untied": ("gpt2", dict(GPT2, n_layer=1, n_inner=40, tie_word_embeddings=False, resid_pdrop=0, embd_pdrop=0)),
    "gpt_neox": ("gpt_neox", multi_head(hidden_dropout=0.2, attention_dropout=0.3)),
    "gpt_neox-sequential": ("gpt_neox", multi_head(use_parallel_residual=False, attention_bias=False, hidden_dropout=0.2)),
    "opt": ("opt", opt(word_embed_proj_dim=48, attention_dropout=0.3)),
    "opt-350m": ("opt", opt(word_embed_proj_dim=20, do_layer_norm_before=False)),
    "opt-projected": ("opt", opt(word_embed_proj_dim=20, enable_bias=False, tie_word_embeddings=False)),
    "bloom": ("bloom", dict(TOKENS, hidden_size=24, n_layer=2, n_head=6, hidden_dropout=0.2, attention_dropout=0.3)),
    "falcon-7b": ("falcon", dict(FALCON, multi_query=True, parallel_attn=True, new_decoder_architecture=False, alibi=False, bias=False)),
    "falcon-40b": ("falcon", dict(FALCON, num_kv_heads=2, new_decoder_architecture=True, alibi=False, bias=False)),
    "falcon-11b": ("falcon", dict(FALCON, num_kv_heads=2, new_decoder_architecture=True, num_ln_in_parallel_attn=1, alibi=False, bias=False, tie_word_embeddings=False)),
    "falcon-rw": ("falcon", dict(FALCON, multi_query=False, parallel_attn=False, new_decoder_architecture=False, alibi=True, bias=True)),
    "deepseek_v2": ("deepseek_v2", sized(**LATENT, n_shared_experts=2, first_k_dense_replace=1, q_lora_rank=None, topk_method="greedy")),
    "deepseek_v2-latent-queries": ("deepseek_v2", sized(**LATENT, n_shared_experts=2, first_k_dense_replace=0, q_lora_rank=9, topk_method="greedy", attention_bias=True, mlp_bias=True)),
    "deepseek_v3": ("deepseek_v3", sized(**LATENT, n_shared_experts=1, first_k_dense_replace=1, q_lora_rank=9, n_group=2, topk_group=1)),
    "gpt_oss": ("gpt_oss", sized(head_dim=12, num_local_experts=4, num_experts_per_tok=2, sliding_window=8, tie_word_embeddings=False)),
    "granite": ("granite", sized(tie_word_embeddings=True)),
    "olmo2": ("olmo2", sized(tie_word_embeddings=False)),
    "cohere": ("cohere", sized(use_qk_norm=False)),
    "cohere-qk-norm": ("cohere", sized(use_qk_norm=True)),
    "starcoder2": ("starcoder2", sized(use_bias=True, residual_dropout=0.2, embedding_dropout=0.1)),
    "glm4": ("glm4", sized(head_dim=12, attention_bias=True, tie_word_embeddings=False)),
    "stablelm": ("stablelm", sized(tie_word_embeddings=False, hidden_dropout=0.2)),
    "stablelm-parallel": ("stablelm", sized(tie_word_embeddings=False, use_parallel_residual=True, qk_layernorm=True, use_qkv_bias=True, hidden_dropout=0.2)),
    "bert": ("bert", multi_head(hidden_dropout_prob=0.2)),
    "bert-untied": ("bert", multi_head(tie_word_embeddings=False)),
    "t5": ("t5", dict(T5, num_layers=2, num_decoder_layers=2)),
    "t5-gated": ("t5", dict(T5, num_layers=1, num_decoder_layers=2, feed_forward_proj="gated-gelu", tie_word_embeddings=False, dropout_rate=0.2)),
}
CLASSES = {"bert": AutoModelForMaskedLM, "t5": AutoModelForSeq2SeqLM}


def forward_calls(model):
    position = {id(p): i for i, (_, p) in enumerate(model.named_parameters())}
    calls, hooks = [], []

    def record(module, _):
        calls.append(position[id(next(module.parameters(recurse=False)))])

    for name, module in model.named_modules():
        leaf = next(module.children(), None) is None or name.endswith("experts")
        owner = next(module.parameters(recurse=False), None) is not None
        if leaf and owner and not name.endswith("relative_attention_bias"):
            hooks.append(module.register_forward_pre_hook(record))
    dropout = torch.nn.functional.dropout

    def recording_dropout(input, p=0.5, training=True, inplace=False):
        if input.dim() < 4 and p > 0 and training:
            calls.append(f"dropout {p}")
        return dropout(input, p, training, inplace)

    torch.nn.functional.dropout = recording_dropout
    ids = torch.arange(10).view(2, 5) + 3
    model.train()(input_ids=ids, labels=ids)
    torch.nn.functional.dropout = dropout
    for hook in hooks:
        hook.remove()
    return calls


def describe(model_type, keys):
    config = AutoConfig.for_model(model_type, **keys)
    config._experts_implementation = "eager"  # The grouped kernel refuses widths this small.
    model = CLASSES.get(model_type, AutoModelForCausalLM).from_config(config).float()
    shapes = {name: list(parameter.shape) for name, parameter in model.named_parameters()}
    return shapes, forward_calls(model)


def main():
    entries = []
    for name, (model_type, keys) in MODELS.items():
        shapes, calls = describe(model_type, keys)
        lines = ",\n".join(f'   {json.dumps(k)}: {v}' for k, v in shapes.items())
        config = json.dumps(dict(model_type=model_type, **keys))
        entries.append(
            f' {json.dumps(name)}: {{\n  "config": {config},\n  "parameters": {{\n{lines}\n  }},\n'
            f'  "calls": {json.dumps(calls)}\n }}'
        )
    with open("transformers-5.17.json", "w") as file:
        file.write('{\n"source": "transformers %s, torch %s",\n"models": {\n' % (transformers.__version__, torch.__version__.split("+")[0]))
        file.write(",\n".join(entries) + "\n}\n}\n")


main()
