"""The images of a sequence, and their places among its tokens."""

import re
from typing import List, Sequence

_MOST_SIDE = 1 << 14  # Pixels.


class NoImages(Exception):
    """The model takes no images, or not in a way that is known here."""


class Images:
    """So many images of one size in every sequence."""

    def __init__(self, text: str):
        match = re.fullmatch(r"([1-9]\d{0,3})x([1-9]\d{0,4})x([1-9]\d{0,4})", text)
        if match is None or max(int(match[2]), int(match[3])) > _MOST_SIDE:
            raise NoImages(f"--images {text}: expected COUNTxHEIGHTxWIDTH, such as 2x1024x1024 for two images in "
                           f"every sequence, with sides of at most {_MOST_SIDE} pixels")
        self.text = text
        self.count, self.height, self.width = (int(one) for one in match.groups())

    def one(self) -> "Images":
        return Images(f"1x{self.height}x{self.width}")

    def tokens_of_each(self, rows: Sequence[int]) -> List[int]:
        """The tokens of each image of one sequence; `rows`: of each tensor of features that the model made of them."""
        if len(rows) == self.count:
            return list(rows)
        if sum(rows) % self.count:
            raise NoImages(f"the model makes {sum(rows)} features of {self.count} images: their places in the text are "
                           "not known")
        return [sum(rows) // self.count] * self.count


def shortest(tokens: Sequence[int]) -> int:
    """The tokens of the shortest sequence: the images, and text before, between and after them."""
    return sum(tokens) + len(tokens) + 1


def kinds(tokens: Sequence[int], sequence: int) -> List[int]:
    """For each token of a sequence 1 if it belongs to an image. Each image has one token of text before it, and the
    rest of the text is behind them."""
    if sequence < shortest(tokens):
        raise NoImages(f"a sequence of {sequence} tokens has no room for the {sum(tokens)} of its images and "
                       f"{len(tokens) + 1} of text")
    found: List[int] = []
    for each in tokens:
        found += [0] + [1] * each
    return found + [0] * (sequence - len(found))
