"""The compiled part of flash-attn, of which Transformer Engine imports one name."""
varlen_bwd = None
