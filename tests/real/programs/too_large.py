"""A batch that does not fit 24 GB, which the program does not expect."""
import torch
from small_llama import Tokens, model

net = model(torch.float32)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
for batch in torch.utils.data.DataLoader(Tokens(), batch_size=24):
    net(**{name: tensor.cuda() for name, tensor in batch.items()}).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
