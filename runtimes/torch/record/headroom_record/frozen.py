"""Modules whose parameters are not trained, such as the tower for images."""

from typing import Iterable, List, Sequence, Set


class NoModule(Exception):
    """A name of which no module with parameters has the path."""


def _is_below(name: str, path: str) -> bool:
    """Whether the parameter `name` is one of the module `path`, which may leave out the modules around it."""
    return f".{name}".find(f".{path}.") >= 0


def frozen(names: Sequence[str], paths: Iterable[str]) -> Set[str]:
    """The names of parameters that are not trained."""
    found: Set[str] = set()
    for path in paths:
        below = {name for name in names if _is_below(name, path)}
        if not below:
            raise NoModule(f"--freeze {path}: no module with parameters has this path; expected one of "
                           f"{', '.join(_modules(names))}, or one inside of them")
        found |= below
    return found


def _modules(names: Sequence[str]) -> List[str]:
    """The outer modules: two parts of each path, where it has more than the parameter behind them."""
    return list(dict.fromkeys(".".join(name.split(".")[:-1][:2]) for name in names if "." in name))
