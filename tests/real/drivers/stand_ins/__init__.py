"""Modules in place of what runs on a real GPU only; each has the tensors of the real one, and computes nothing.

`packages` and `flash_attention` are folders for Python's search path, with modules under the names of the real ones.
"""
