"""Records what the Python code of one model asks of PyTorch (docs/recordings.md)."""

import os

# Functions of torch.jit.script run as the Python that they are: the JIT runs other operators from call to call.
os.environ.setdefault("PYTORCH_JIT", "0")
