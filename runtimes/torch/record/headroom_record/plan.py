"""The sizes at which a model runs."""

from typing import Any, List, Optional, Sequence, Tuple

POINTS = ((3, 448), (2, 192), (3, 320), (5, 256), (2, 512))
ODD = ((3, 333), (2, 509), (2, 187), (5, 251), (3, 443))
ALONE = ((1, 320), (1, 512), (1, 192), (1, 448))
ALONE_ODD = ((1, 333), (1, 509), (1, 187), (1, 443))
MULTIPLE = 64


class Plan:
    """The sizes at which a model runs: its code depends on the sequence, and on whether there is one alone."""

    def __init__(self, config: Any, points: Optional[Sequence[Tuple[int, int]]], brief: bool = False,
                 shortest: int = 0, micro_batches: Sequence[int] = ()):
        """`brief`: fewer sizes, for further configurations of a family, whose recordings check each other. `shortest`:
        the tokens that every sequence needs for its images; `micro_batches` are those that are recorded one by one
        where the code depends on the number of images."""
        text = config.get_text_config() if hasattr(config, "get_text_config") else config
        most = getattr(text, "max_position_embeddings", None) or getattr(text, "max_target_positions", None)
        self.given = list(points) if points else None
        self.window = _window_of(text)
        self.shortest, self.micro_batches = shortest, micro_batches
        self._base = -(-shortest // MULTIPLE) * MULTIPLE
        largest = self._base + max(s for _, s in POINTS)
        limit = most if isinstance(most, int) and most <= largest else None
        self.always_above = shortest > 0 and self.window is not None and self.window < self._base + MULTIPLE
        if self.window is not None and self.window <= largest and not self.always_above:
            limit = min(limit or self.window, self.window)
        # Below the greatest sequence: at that one, slices of a model's tables become something else.
        self._limit = limit
        counts = (4, 3, 2, 2) if brief else (None,) * 4
        self.several, self.odd, self.alone, self.alone_odd = (
            sizes[:count] for sizes, count in zip((POINTS, ODD, ALONE, ALONE_ODD), counts))
        self.only_alone = False  # One sequence is all that is recorded.
        self.of_any = False  # The images stand for others, of another number.
        self.factor = 1  # Longer sequences, for loops over parts of them.

    def below(self, batches: Sequence[Tuple[int, int]]) -> List[Tuple[int, int]]:
        return [(b, self._scaled(s)) for b, s in batches]

    def _scaled(self, sequence: int) -> int:
        sequence = sequence * self.factor + (sequence % 2 and 1 - self.factor % 2)
        if self._limit is None:
            return self._base + sequence
        smaller = sequence * 7 * (self._limit - self._base) // (8 * 512)
        return self._base + (max(8, smaller // 8 * 8) if sequence % 8 == 0 else smaller // 2 * 2 + 1)

    def above(self, batches: Sequence[Tuple[int, int]]) -> List[Tuple[int, int]]:
        return [(b, max(self.window, self._base) + s) for b, s in batches]


def _window_of(config: Any) -> Optional[int]:
    """The sequence from which attention over a window needs a mask."""
    for name in ("sliding_window", "attention_chunk_size", "attention_window_size", "window_size"):
        value = getattr(config, name, None)
        if isinstance(value, int) and not isinstance(value, bool) and 1 < value <= 8192:
            return value
    return None
