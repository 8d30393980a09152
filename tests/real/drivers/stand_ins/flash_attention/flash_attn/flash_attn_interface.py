"""flash-attn's attention of sequences of one length.

Source: Dao-AILab/flash-attention 2.8.3 flash_attn/flash_attn_interface.py and csrc/flash_attn/flash_api.cpp (mha_fwd,
mha_bwd).
"""
import torch
import torch.nn.functional

ROWS = 128  # Multiples of queries in the temporaries of the backward pass
_flash_attn_varlen_forward = _flash_attn_varlen_backward = None  # Sequences of several lengths are not asked for.


def _rounded(number, multiple):
    return -(-number // multiple) * multiple


def _with_dense_heads(*tensors):
    return [tensor if tensor.stride(-1) == 1 else tensor.contiguous() for tensor in tensors]


def _flash_attn_forward(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size_left=-1,
                        window_size_right=-1, softcap=0.0, alibi_slopes=None, return_softmax=False):
    """The output, the logarithms of the sums of each row, no probabilities, and the state of the random numbers."""
    q, k, v = _with_dense_heads(q, k, v)
    sequences, queries, heads, _ = q.shape
    output = torch.empty_like(q)
    sums = torch.empty(sequences, heads, queries, dtype=torch.float32, device=q.device)
    random_state = torch.empty(2, dtype=torch.int64, device=q.device)
    return output, sums, torch.empty(0, dtype=q.dtype, device=q.device), random_state


def _flash_attn_backward(dout, q, k, v, out, softmax_lse, dq, dk, dv, dropout_p=0.0, softmax_scale=None, causal=False,
                         window_size_left=-1, window_size_right=-1, softcap=0.0, alibi_slopes=None,
                         deterministic=False, rng_state=None):
    """The sums of gradient times output. The temporaries are the gradient of the queries in fp32, one for each group
    of blocks if the order of sums is fixed, and gradients of keys and values for each head of the queries."""
    dout, q, k, v, out = _with_dense_heads(dout, q, k, v, out)
    sequences, queries, heads, width = q.shape
    padded, padded_width = _rounded(queries, ROWS), _rounded(width, 32 if width <= 128 else 64)
    dq, dk, dv = [torch.empty_like(of) if given is None else given for given, of in ((dq, q), (dk, k), (dv, v))]
    sums = torch.empty(sequences, heads, padded, dtype=torch.float32, device=q.device)
    shape, make = (sequences, padded, heads, padded_width), torch.empty
    if deterministic:
        processors = torch.cuda.get_device_properties(q.device).multi_processor_count
        shape, make = (-(-processors // (sequences * heads)), *shape), torch.zeros
    of_queries = make(shape, dtype=torch.float32, device=q.device)
    if k.shape[2] != heads:
        of_keys = torch.empty(sequences, k.shape[1], heads, width, dtype=k.dtype, device=k.device)
        of_values = torch.empty_like(of_keys)
        del of_keys, of_values
    del of_queries
    return sums


class FlashAttnFunc(torch.autograd.Function):
    """Attention of queries, keys and values in three tensors; heads are padded to multiples of eight."""

    @staticmethod
    def forward(ctx, q, k, v, dropout_p, deterministic, keeps):
        width = q.size(3)
        q, k, v = [torch.nn.functional.pad(x, [0, 8 - width % 8]) if width % 8 else x for x in (q, k, v)]
        output, sums, _, random_state = _flash_attn_forward(q, k, v, dropout_p)
        if keeps:
            ctx.save_for_backward(q, k, v, output, sums, random_state)
            ctx.deterministic = deterministic
        return output[..., :width]

    @staticmethod
    def backward(ctx, gradient):
        q, k, v, output, sums, _ = ctx.saved_tensors
        dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        _flash_attn_backward(gradient, q, k, v, output, sums, dq, dk, dv, deterministic=ctx.deterministic)
        return dq, dk, dv, None, None, None


def flash_attn_func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0,
                    alibi_slopes=None, deterministic=False, return_attn_probs=False):
    keeps = torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v))
    return FlashAttnFunc.apply(q, k, v, dropout_p, deterministic, keeps)


def flash_attn_varlen_func(*_, **__):
    raise NotImplementedError("the stand-in of flash-attn has no sequences of several lengths")
