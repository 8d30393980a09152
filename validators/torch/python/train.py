"""Trains the model of a training case: `python train.py CASE.json` (headroom_torch/training.py has the options)."""
from headroom_torch.training import main

main()
