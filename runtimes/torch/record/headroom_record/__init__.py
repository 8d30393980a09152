"""Records what the Python code of one model asks of PyTorch (docs/recordings.md)."""
