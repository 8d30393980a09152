"""apex's products that add weight gradients to the buffer of gradients: they take nothing from PyTorch's allocator.

Source: NVIDIA/apex csrc/megatron/fused_weight_gradient_dense.cpp.
"""


def wgrad_gemm_accum_fp32(inputs, gradient, weight_gradient):
    """Adds to `weight_gradient`, which is in fp32."""


def wgrad_gemm_accum_fp16(inputs, gradient, weight_gradient):
    """Adds to `weight_gradient`, which is in 16 bits."""
