"""apex's fused softmax of scaled scores under a mask: the backward pass writes over the gradient of the output.

Source: NVIDIA/apex csrc/megatron/scaled_masked_softmax*.
"""
import torch


def forward(scores, *_):
    return torch.empty_like(scores)


def backward(gradient, probabilities, scale):
    return gradient.contiguous()


def get_batch_per_block(queries, keys, sequences, heads):
    """Rows of one block of threads: 128 threads are four warps, of which one or two rows each take one."""
    return 4 if keys <= 128 else 1
