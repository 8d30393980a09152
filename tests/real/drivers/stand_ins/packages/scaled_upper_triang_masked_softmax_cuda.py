"""apex's fused softmax of scaled scores under a causal mask: the backward pass writes over the gradient of the output.

Source: NVIDIA/apex csrc/megatron/scaled_upper_triang_masked_softmax*.
"""
import torch


def forward(scores, *_):
    return torch.empty_like(scores)


def backward(gradient, probabilities, scale):
    return gradient.contiguous()
