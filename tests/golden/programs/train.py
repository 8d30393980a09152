"""Programs of a few steps, to be recorded: `headroom dryrun --record FILE -- python train.py CASE`."""
import sys

import torch


def model(width, blocks):
    layers = [torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width))
              for _ in range(blocks)]
    return torch.nn.Sequential(*layers).cuda()


def train(net, rows, steps=3, empty=False, side=None):
    optimizer = torch.optim.AdamW(net.parameters())
    width = next(net.parameters()).shape[1]
    for step in range(steps):
        batch = torch.randn(rows + 96 * step, width, device="cuda")  # Sizes that differ leave gaps.
        if side:
            with torch.cuda.stream(side):
                copy = batch.clone()
                batch.record_stream(side)
            del copy
        loss = net(batch).square().mean()
        del batch
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if empty:
            torch.cuda.empty_cache()


CASES = {
    "blocks": lambda: train(model(512, 4), 1000),
    "emptied": lambda: train(model(512, 2), 3000, empty=True),
    "streams": lambda: train(model(256, 2), 2000, side=torch.cuda.Stream()),
    "tight": lambda: train(model(1024, 4), 4000, steps=4),
}
CASES[sys.argv[1]]()
