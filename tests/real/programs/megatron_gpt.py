"""Megatron-Core's own modules (the local spec): a GPT of eight layers, tensor and pipeline parallelism by argument.

    python megatron_gpt.py TENSOR PIPELINE
"""
import os
import sys
from functools import partial

import torch
from megatron.core import parallel_state, tensor_parallel
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.pipeline_parallel import get_forward_backward_func
from megatron.core.transformer import TransformerConfig
from megatron.core.transformer.module import Float16Module

SEQUENCE, VOCABULARY, MICRO_BATCHES = 1024, 32000, 4
tensor, pipeline = int(sys.argv[1]), int(sys.argv[2])

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
torch.distributed.init_process_group("nccl")
parallel_state.initialize_model_parallel(tensor, pipeline)
tensor_parallel.model_parallel_cuda_manual_seed(1)
config = TransformerConfig(
    num_layers=8, hidden_size=2048, ffn_hidden_size=8192, num_attention_heads=16, bf16=True, params_dtype=torch.bfloat16,
    pipeline_dtype=torch.bfloat16, tensor_model_parallel_size=tensor, pipeline_model_parallel_size=pipeline,
    gradient_accumulation_fusion=False, masked_softmax_fusion=False,
    persist_layer_norm=False, bias_activation_fusion=True, bias_dropout_fusion=True)
model = GPTModel(config, get_gpt_layer_local_spec(normalization="LayerNorm"), VOCABULARY, SEQUENCE,
                 pre_process=parallel_state.is_pipeline_first_stage(),
                 post_process=parallel_state.is_pipeline_last_stage(),
                 share_embeddings_and_output_weights=False, position_embedding_type="rope").cuda()
model = DistributedDataParallel(
    config, DistributedDataParallelConfig(grad_reduce_in_fp32=True, use_distributed_optimizer=True),
    Float16Module(config, model))
optimizer = get_megatron_optimizer(OptimizerConfig(lr=1e-4, bf16=True, params_dtype=torch.bfloat16, clip_grad=1.0,
                                                   use_distributed_optimizer=True), [model])
config.finalize_model_grads_func = finalize_model_grads
config.grad_scale_func = optimizer.scale_loss


def loss_of(output):
    loss = output.float().mean()
    return loss, {"loss": loss.detach()}


def forward_step(_, part):
    tokens = torch.randint(0, VOCABULARY, (1, SEQUENCE), device="cuda")
    positions = torch.arange(SEQUENCE, device="cuda")[None]
    mask = torch.ones(1, 1, SEQUENCE, SEQUENCE, dtype=torch.bool, device="cuda").triu(1)
    return part(tokens, positions, mask, labels=tokens), partial(loss_of)


run = get_forward_backward_func()
for _ in range(10):
    model.zero_grad_buffer()
    optimizer.zero_grad()
    run(forward_step_func=forward_step, data_iterator=None, model=[model], num_microbatches=MICRO_BATCHES,
        seq_length=SEQUENCE, micro_batch_size=1, forward_only=False)
    optimizer.step()
