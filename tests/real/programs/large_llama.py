"""`large_llama.py 8b|405b`: Llama-3.1 of full size; 405b shards its layers over the world with FSDP2."""
import sys
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.initialization import no_init_weights

SIZES = {"8b": dict(hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32),
         "405b": dict(hidden_size=16384, intermediate_size=53248, num_hidden_layers=126, num_attention_heads=128)}
began = time.time()
sharded = sys.argv[1] == "405b"
config = LlamaConfig(**SIZES[sys.argv[1]], num_key_value_heads=8, vocab_size=128256, use_cache=False)
torch.set_default_dtype(torch.bfloat16)
with torch.device("meta" if sharded else "cuda"), no_init_weights():
    net = LlamaForCausalLM(config)
torch.set_default_dtype(torch.float32)
if sharded:
    from torch.distributed.fsdp import fully_shard

    torch.distributed.init_process_group("nccl")
    for layer in net.model.layers:
        fully_shard(layer)
    fully_shard(net)
    net.to_empty(device="cuda")
net.gradient_checkpointing_enable()
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)
for step in range(3):
    tokens = torch.randint(0, 128256, (1, 8192), device="cuda")
    net(input_ids=tokens, labels=tokens).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step + 1} at {time.time() - began:.1f} s", file=sys.stderr, flush=True)
