"""Which keys of a configuration the code of a model reads."""

import sys
from typing import Any, Dict, List, Set

# Files whose reads say nothing: they look at every key, or keep what they find.
_GENERIC = ("huggingface_hub", "configuration_utils.py", "dataclasses.py", "/copy.py", "transformers/generation/")
_WHOLE = ("to_dict", "to_diff_dict", "__dict__")  # Who reads these may read every key.
# Files that read keys which configurations do not declare.
_CODE = ("modeling_", "masking_utils.py")
# The reader of families knows what the absence of head_dim means; others say nothing of sizes.
_KNOWN = ("head_dim", "quantization_config", "gradient_checkpointing", "is_causal", "use_return_dict", "rope_theta")


class Reads:
    """While it is entered, notes each key that code reads, by the class of the configuration."""

    def __init__(self) -> None:
        self.read: Dict[str, Set[str]] = {}
        self.missing: Dict[str, Set[str]] = {}  # Keys that code asked for and that were not there.

    def __enter__(self) -> "Reads":
        from transformers import PreTrainedConfig

        self._owner = PreTrainedConfig
        self._plain = plain = PreTrainedConfig.__getattribute__
        read, missing = self.read, self.missing

        def get(config: Any, key: str) -> Any:
            if key[:2] != "__" or key in _WHOLE:
                file = sys._getframe(1).f_code.co_filename
                if not any(one in file for one in _GENERIC):
                    name = type(config).attribute_map.get(key, key)
                    read.setdefault(type(config).__name__, set()).add(name)
            return plain(config, key)

        def absent(config: Any, key: str) -> Any:
            if not key.startswith("_") and key not in _KNOWN:
                file = sys._getframe(1).f_code.co_filename
                if any(one in file.rpartition("/")[2] for one in _CODE):
                    missing.setdefault(type(config).__name__, set()).add(key)
            raise AttributeError(f"{type(config).__name__!r} object has no attribute {key!r}")

        PreTrainedConfig.__getattribute__ = get
        PreTrainedConfig.__getattr__ = absent
        return self

    def __exit__(self, *_: Any) -> None:
        self._owner.__getattribute__ = self._plain
        del self._owner.__getattr__

    def reads(self, config: Any, path: str) -> bool:
        """Whether code read the key at `path`, or may have."""
        head, _, rest = path.partition(".")
        name = type(config).__name__
        read = self.read.get(name, set())
        if any(one in read for one in _WHOLE):
            return True
        inner = vars(config).get(head)
        if rest and _is_config(inner):
            return self.reads(inner, rest)
        return head in read

    def absent(self, config: Any, prefix: str = "") -> List[str]:
        """Paths of keys that code asked for and that this configuration does not have."""
        own = vars(config)
        result = [prefix + key for key in sorted(self.missing.get(type(config).__name__, ())) if key not in own]
        for key, value in own.items():
            if _is_config(value):
                result += self.absent(value, f"{prefix}{key}.")
        return result


def _is_config(value: Any) -> bool:
    from transformers import PreTrainedConfig

    return isinstance(value, PreTrainedConfig)
