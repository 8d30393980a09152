"""A loop of Accelerate's, as `accelerate launch` starts it on every rank: DDP, or FSDP2 by its options."""
import torch
from accelerate import Accelerator
from small_llama import Tokens, model

accelerator = Accelerator(mixed_precision="bf16")
net = model(torch.float32, "cpu")
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
loader = torch.utils.data.DataLoader(Tokens(512), batch_size=2)
net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
for batch in loader:
    accelerator.backward(net(**batch).loss)
    accelerator.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
