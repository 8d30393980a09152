"""Runs functions of ours right after the user's program has imported certain modules."""

import importlib.util
import sys
from typing import Callable, Dict, List, Optional

Hook = Callable[[object], None]


class _AfterImport:
    """A finder that finds nothing itself: it lets the others find, and adds a call to the end of the module's code."""

    def __init__(self, hooks: Dict[str, List[Hook]], failed: Callable[[str, BaseException], None]):
        self._hooks = hooks
        self._failed = failed
        self._busy = set()

    def find_spec(self, name: str, path=None, target=None):
        """The spec that the other finders make, with the hook behind its `exec_module`."""
        if name not in self._hooks or name in self._busy:
            return None
        self._busy.add(name)
        try:
            spec = self._from_others(name, path, target)
        finally:
            self._busy.discard(name)
        loader = getattr(spec, "loader", None)
        if loader is not None and hasattr(loader, "exec_module"):
            self._extend(name, loader)
        return spec

    def _from_others(self, name: str, path, target):
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                return spec
        return None

    def _extend(self, name: str, loader) -> None:
        execute = loader.exec_module

        def exec_module(module):
            execute(module)
            self.run(name, module)

        try:
            loader.exec_module = exec_module
        except AttributeError as error:  # A loader that is a class (frozen, built in) is left as it is.
            self._failed(f"import of {name}", error)

    def run(self, name: str, module) -> None:
        """Calls the hooks of `name`, once; what they raise is reported and goes no further."""
        for hook in self._hooks.pop(name, []):
            try:
                hook(module)
            except Exception as error:
                self._failed(f"import of {name}", error)


def install(hooks: Dict[str, List[Hook]], failed: Callable[[str, BaseException], None]) -> None:
    """Watches the imports of the modules that `hooks` names; those already imported are served at once."""
    finder = _AfterImport(dict(hooks), failed)
    sys.meta_path.insert(0, finder)
    for name in list(hooks):
        module = sys.modules.get(name)
        if module is not None and getattr(getattr(module, "__spec__", None), "_initializing", False) is False:
            finder.run(name, module)
