"""flash-attn 2.8.3, whose kernels are compiled for a real GPU."""
__version__ = "2.8.3"
