"""Accelerate looks for a batch that fits: the first ones run out of memory."""
import torch
from accelerate.utils import find_executable_batch_size


@find_executable_batch_size(starting_batch_size=256)
def train(batch):
    model = torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(8)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        model(torch.randn(batch, 8192, 2048, device="cuda")).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()


train()
