"""torch.compile over the whole model."""
import torch
from small_llama import Tokens, model

net = model()
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)
compiled = torch.compile(net)
for batch in torch.utils.data.DataLoader(Tokens(), batch_size=2):
    compiled(**{name: tensor.cuda() for name, tensor in batch.items()}).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
