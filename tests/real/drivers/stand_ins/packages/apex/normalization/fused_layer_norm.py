"""apex's fused layer norm.

Source: NVIDIA/apex apex/normalization/fused_layer_norm.py, csrc/layer_norm_cuda.cpp and csrc/layer_norm_cuda_kernel.cu.
"""
import torch

PARTS = 16  # Partial sums of a weight's gradient (layer_norm_cuda_kernel.cu, HostLayerNormGradient)


class FusedLayerNormAffineFunction(torch.autograd.Function):
    """Keeps the input, or with `memory_efficient` the output, and the statistics of each row in fp32."""

    @staticmethod
    def forward(ctx, inputs, weight, bias, normalized_shape, eps, memory_efficient=False):
        inputs = inputs.contiguous()
        rows = inputs.numel() // weight.numel()
        output = torch.empty_like(inputs)
        mean = torch.empty(rows, dtype=torch.float32, device=inputs.device)
        deviation = torch.empty_like(mean)
        kept = (output, weight, bias, None, deviation) if memory_efficient else (inputs, weight, bias, mean, deviation)
        ctx.save_for_backward(*kept)
        return output

    @staticmethod
    def backward(ctx, gradient):
        inputs, weight, bias, _, _ = ctx.saved_tensors
        of_inputs = torch.empty_like(inputs)
        parts = [torch.empty(PARTS, weight.numel(), dtype=torch.float32, device=inputs.device) for _ in range(2)]
        of_weight, of_bias = torch.empty_like(weight), torch.empty_like(bias)
        del parts
        return of_inputs, of_weight, of_bias, None, None, None
