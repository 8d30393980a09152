"""DeepEP's HybridEPBuffer: the exchange of tokens among experts, without the exchange.

It takes from PyTorch's allocator what the real one takes, in its order, and divides tokens evenly among experts. The
buffers that it registers with NVLink and the network are not PyTorch's. Source: deepseek-ai/DeepEP, branch hybrid-ep,
94a9f8f: deep_ep/hybrid_ep_buffer.py; csrc/hybrid_ep/hybrid_ep.cu (dispatch_with_permute, combine_with_unpermute);
csrc/hybrid_ep/executor/executor.cu (allgather_routing_map, metadata_preprocess_core).
"""
import dataclasses

import torch

NODE = 8  # Ranks that NVLink connects
CHUNK = 64  # Tokens of a chunk of the preparation (NUM_OF_TOKENS_PER_CHUNK_PREPROCESSING_API)
MAP_ROWS = 16  # Rows of the maps of a node come in multiples of this.


def _rounded(number, multiple):
    return -(-number // multiple) * multiple if multiple else number


def _empty(*shape, dtype):
    return torch.empty(shape, dtype=dtype, device="cuda")


@dataclasses.dataclass
class Handle:
    """What dispatch leaves for combine and for both backward passes. `maps`: tensors that nothing reads here."""

    maps: list
    tokens: int
    experts: int


class HybridEPBuffer:
    """The part of the real class that Megatron-Core calls. `experts_per_token`: the routing map's values, which say
    it, are unknown; so whoever makes the model sets it."""

    experts_per_token = 1

    def __init__(self, group, hidden_dim, max_num_of_tokens_per_rank, num_local_experts, **_):
        self._group = group
        self._ranks = group.size()
        self._nodes = -(-self._ranks // NODE)
        self._local = num_local_experts

    def dispatch_with_permute(self, *, hidden, routing_map=None, probs=None, scaling_factor=None,
                              num_of_experts_per_rank=None, num_permuted_tokens=None, pad_multiple=None, handle=None,
                              non_blocking=False):
        """The rows that this rank's experts receive, their probabilities, no scales, rows of each expert, a handle."""
        counts = None
        if handle is None:
            handle, counts = self._prepare(hidden, routing_map, num_permuted_tokens, pad_multiple, non_blocking)
        if num_permuted_tokens is None:
            num_permuted_tokens = int(counts.sum())
        rows = _empty(int(num_permuted_tokens), hidden.shape[-1], dtype=hidden.dtype)
        weights = None if probs is None else _empty(int(num_permuted_tokens), dtype=torch.float32)
        return rows, weights, None, counts, handle

    def combine_with_unpermute(self, *, hidden, probs=None, handle=None, pad_multiple=None):
        """The sum of each token's rows, and its probabilities if `probs` has them."""
        tokens = _empty(handle.tokens, hidden.shape[-1], dtype=hidden.dtype)
        weights = None if probs is None else _empty(handle.tokens, handle.experts, dtype=torch.float32)
        return tokens, weights

    def _prepare(self, hidden, routing_map, rows, pad_multiple, non_blocking):
        """The handle, and the rows of each expert; these are on the host unless `non_blocking`."""
        tokens, experts = hidden.shape[0], routing_map.shape[-1]
        gathered = tokens * self._ranks
        whole = _empty(gathered, experts, dtype=torch.bool)
        torch.distributed.all_gather_into_tensor(whole, routing_map, self._group)
        maps = [
            _empty(tokens * self._nodes, self._ranks // self._nodes, dtype=torch.int32),
            _empty(_rounded(tokens, MAP_ROWS), self._nodes, dtype=torch.bool),
            _empty(tokens, self._nodes - 1, dtype=torch.bool),
            self._count(1, torch.int32, non_blocking),
            _empty(gathered, self._local, dtype=torch.bool),
            _empty(1, dtype=torch.int32),
            _empty(-(-tokens // CHUNK) * self._ranks, dtype=torch.int32),
            _empty(gathered, self._local, dtype=torch.int32),
            _empty(self._local, dtype=torch.int32),
        ]
        counts = self._count(self._local, torch.int64, non_blocking)
        if not non_blocking:
            self._fill(counts, gathered * self.experts_per_token, experts, pad_multiple)
            torch.cuda.current_stream().synchronize()
        return Handle(maps, tokens, experts), counts

    def _count(self, size, dtype, non_blocking):
        return _empty(size, dtype=dtype) if non_blocking else torch.empty(size, dtype=dtype, pin_memory=True)

    def _fill(self, counts, rows, experts, pad_multiple):
        """Divides rows among experts; the first ones get the remainder."""
        first = self._group.rank() * self._local
        for i in range(self._local):
            counts[i] = _rounded(rows // experts + (first + i < rows % experts), pad_multiple)
