"""cuDNN's attention in Transformer Engine, which needs a handle of cuDNN, that is, a GPU.

The tensors are those of `fused_attn_fwd` and `fused_attn_bwd` in NVIDIA/TransformerEngine 2.11
transformer_engine/pytorch/csrc/extensions/attention.cpp, in their order; the statistics are those of
common/fused_attn/fused_attn_f16_arbitrary_seqlen.cu. What cuDNN's plan needs is not in any source: the forward pass is
taken to need nothing, the backward pass the gradient of the queries and its sums over rows in fp32.
"""
import torch
import transformer_engine_torch

FLOAT_BYTES = 4
PACKED = {"3HD": (3, -3), "H3D": (3, -2), "2HD": (2, -3), "H2D": (2, -2)}  # Tensors in one, and along which dimension


def forward(max_queries, max_keys, is_training, scale, dropout, set_zero, layout, bias_type, mask_type, softmax_type,
            window, query_offsets, key_offsets, query, key, value, dtype, *rest):
    """Stands for `fused_attn_fwd`: the output, the statistics of the softmax, the state of the random numbers."""
    empty = _empty_beside(query)
    output = empty(*query.shape[:-1], value.shape[-1], dtype=dtype)
    random_state = empty(2, dtype=torch.int64)
    workspace = empty(1, dtype=torch.uint8)
    sequences, heads = query_offsets.numel() - 1, query.shape[-2]
    statistics = empty(sequences, heads, max_queries, 1, dtype=torch.float32)
    del workspace
    return [output, statistics, random_state, *_softmax_offset(rest)] if is_training else [output, random_state]


def backward(max_queries, max_keys, scale, dropout, set_zero, layout, bias_type, mask_type, softmax_type, window,
             deterministic, query_offsets, key_offsets, query, key, value, output, gradient, dtype, *rest):
    """Stands for `fused_attn_bwd`: gradients of queries, keys, values, bias and offset of the softmax."""
    empty = _empty_beside(query)
    gradients = _gradients(_name(layout), query.shape, key.shape, value.shape, lambda shape: empty(shape, dtype=dtype))
    sequences, heads, width = query_offsets.numel() - 1, query.shape[-2], query.shape[-1]
    vanilla = transformer_engine_torch.NVTE_Softmax_Type.NVTE_VANILLA_SOFTMAX
    offset = None if softmax_type == vanilla else empty(1, heads, 1, 1, dtype=torch.float32)
    workspace = empty(FLOAT_BYTES * sequences * heads * max_queries * (width + 1), dtype=torch.uint8)
    del workspace
    return [*gradients, None, offset]


def _empty_beside(tensor):
    return lambda *shape, dtype: torch.empty(*shape, dtype=dtype, device=tensor.device)


def _softmax_offset(rest):
    """The offset of the softmax, if there is one: the arguments after `dtype` are two padded offsets, two page tables,
    two quantizers, a bias and it."""
    return [] if rest[7] is None else [rest[7]]


def _name(layout):
    return str(layout).rsplit(".", maxsplit=1)[-1].removeprefix("NVTE_")


def _gradients(layout, query, key, value, empty):
    """Gradients of queries, keys and values: those that are packed in `layout` are parts of one tensor."""
    for ending, (count, dimension) in PACKED.items():
        if layout.endswith(ending):
            shape = list(query if count == 3 else key)
            shape.insert(len(shape) + dimension + 1, count)
            packed = [] if count == 3 else [empty(query)]
            together = empty(shape)
            return packed + [together.select(dimension, i) for i in range(count)]
    return [empty(query), empty(key), empty(value)]


def install():
    transformer_engine_torch.fused_attn_fwd = forward
    transformer_engine_torch.fused_attn_bwd = backward
