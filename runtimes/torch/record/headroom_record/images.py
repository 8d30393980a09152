"""Batches with images: what the model's own image processor makes of them, and the text that has their places."""

import inspect
import json
import os
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch

from .host_values import HostValues, WithHostValues
from .image_text import Images, NoImages, kinds, shortest

_PREPROCESSOR = "preprocessor_config.json"
_TEXT = 0  # The token of text; which one it is changes no size.
_KINDS = ("mm_token_type_ids", "token_type_ids")  # What a model calls the kinds of tokens: 0 text, 1 image.


def _image_processor(config: Any, folder: str) -> Any:
    """The image processor beside the configuration, or that of its type with the sizes of its vision tower. Only the
    classes of transformers itself run."""
    file = os.path.join(folder, _PREPROCESSOR)
    if os.path.exists(file):
        with open(file, encoding="utf-8") as opened:
            fields = json.load(opened)
        kind = _class_of(config.model_type, str(fields.get("image_processor_type", "")))
        return _made(kind.from_dict, fields)
    kind = _class_of(config.model_type, "")
    return _made(kind, **_sizes(kind, config, getattr(config, "vision_config", None) or config))


def _made(make: Callable[..., Any], *fields: Any, **more: Any) -> Any:
    try:
        return make(*fields, **more)
    except ImportError as error:  # Of a package that transformers found missing.
        raise NoImages(str(error)) from None


def _class_of(model_type: str, name: str) -> Any:
    """The class with this name in a file, or that of the type; the one that needs no torchvision where there is none."""
    from transformers.models.auto import image_processing_auto as auto
    from transformers.utils import is_torchvision_available

    name = name.removesuffix("Fast")
    mapped = auto.IMAGE_PROCESSOR_MAPPING_NAMES
    names = next((one for one in mapped.values() if isinstance(one, dict) and name in one.values()),
                 mapped.get(model_type))
    if not isinstance(names, dict):
        raise NoImages(f"transformers has no image processor for model_type {model_type!r}")
    for backend in ("torchvision", "pil") if is_torchvision_available() else ("pil",):
        found = auto.get_image_processor_class_from_name(names[backend]) if names.get(backend) else None
        if found is not None:
            return found
    raise NoImages(f"the image processor of model_type {model_type!r} needs torchvision")


def _sizes(kind: Any, config: Any, vision: Any) -> Dict[str, Any]:
    """What the files of published models say of their processors, as it follows from the vision tower."""
    found: Dict[str, Any] = {}
    patch = getattr(vision, "patch_size", None)
    usual = getattr(kind, "patch_size", None)
    if isinstance(patch, int) and usual is not None:
        merge = getattr(config, "spatial_merge_size", 1)  # Mistral 3: PixtralProcessor multiplies the patch by it.
        found["patch_size"] = {"height": patch * merge, "width": patch * merge} if isinstance(usual, dict) else patch
    for name, key in (("merge_size", "spatial_merge_size"), ("temporal_patch_size", "temporal_patch_size")):
        if getattr(kind, name, None) is not None and isinstance(getattr(vision, key, None), int):
            found[name] = getattr(vision, key)
    side, size = getattr(vision, "image_size", None), getattr(kind, "size", None)
    if not isinstance(side, int) or not isinstance(size, dict):
        return found
    if "longest_edge" in size and "shortest_edge" not in size:
        found["size"] = {"longest_edge": side}
    elif "merge_size" not in found:
        found["size"] = {"shortest_edge": side} if "shortest_edge" in size else {"height": side, "width": side}
        if getattr(kind, "crop_size", None) is not None:
            found["crop_size"] = {"height": side, "width": side}
    return found


def _shapes(made: Dict[str, torch.Tensor]) -> Dict[str, Any]:
    return {name: value.shape for name, value in made.items()}


class ImageBatches:
    """Batches of a model with images, made of black pixels on the host and then moved to the device."""

    def __init__(self, images: Images, model: Any, config: Any, folder: str, values: HostValues,
                 tokens: Optional[List[int]] = None):
        """`tokens`: the places of each image in the text, if they are known; otherwise the model says them."""
        try:
            from PIL import Image
        except ImportError:
            raise NoImages("the Python has no Pillow, which makes the pictures: pip install pillow") from None

        if config is None:
            raise NoImages("a function makes its own batches: its file has make_batch, and no --images is given")
        self._images = images
        self._values = values
        self._takes = set(inspect.signature(model.forward).parameters)
        self._kinds = [one for one in _KINDS if one in self._takes]
        self._place = next((value for value in (getattr(config, name, None) for name in
                                                ("image_token_id", "image_token_index")) if isinstance(value, int)), None)
        if self._place is None:
            raise NoImages(f"the configuration of {config.model_type!r} has no image_token_id: images are not recorded "
                           "where they have no places in the text")
        self._picture = Image.new("RGB", (images.width, images.height))
        self._processor = _image_processor(config, folder)
        self._known: Dict[int, Dict[str, torch.Tensor]] = {}
        self.tokens = self._tokens_of_each(model) if tokens is None else tokens

    @property
    def shortest(self) -> int:
        """The tokens of the shortest sequence."""
        return shortest(self.tokens)

    def words(self, of_any: bool) -> Dict[str, Any]:
        """The keys of a variant that tell its images: these, or one or several of any size."""
        if not of_any:
            return {"images": self._images.text}
        width, height = self._images.width, self._images.height
        for other in ((max(1, width // 2), 3 * height), (3 * width, height)):
            if _shapes(self._made([[self._picture.resize(other)] * self._images.count])) != _shapes(self.pixels(1)):
                raise NoImages("the image processor makes other sizes of other images")
        if len(set(self.tokens)) != 1:
            raise NoImages("equal images have unlike numbers of tokens")
        return {"images": "one" if self._images.count == 1 else "several", "image_tokens": self.tokens[0]}

    def pixels(self, micro_batch: int) -> Dict[str, torch.Tensor]:
        """What the image processor makes for so many sequences, on the host."""
        if micro_batch not in self._known:
            self._known[micro_batch] = self._made([[self._picture] * self._images.count for _ in range(micro_batch)])
        return self._known[micro_batch]

    def _made(self, pictures: List[List[Any]]) -> Dict[str, torch.Tensor]:
        made = self._processor(images=pictures, return_tensors="pt")
        return {name: value for name, value in made.items() if name in self._takes and isinstance(value, torch.Tensor)}

    def _tokens_of_each(self, model: Any) -> List[int]:
        """The places of each image in the text: as many as the model makes features."""
        function = getattr(model, "get_image_features", None)
        if function is None:
            raise NoImages(f"{type(model).__name__} has no get_image_features: images are not recorded where they have "
                           "no places in the text")
        pixels = {name: self._moved(value) for name, value in self.pixels(1).items()}
        with torch.no_grad(), WithHostValues(self._values):
            features = function(**pixels)
        features = getattr(features, "pooler_output", features)
        parts = list(features) if isinstance(features, (list, tuple)) else [features]
        return self._images.tokens_of_each([one.numel() // one.shape[-1] for one in parts])

    def _moved(self, value: torch.Tensor) -> torch.Tensor:
        there = value.to("cuda")
        return there if value.dtype.is_floating_point else self._values.tell(there, value.clone())

    def text(self, micro_batch: int, sequence: int) -> Tuple[torch.Tensor, torch.Tensor]:
        """The tokens of all sequences and their kinds, on the host."""
        kind = torch.tensor(kinds(self.tokens, sequence), dtype=torch.long).repeat(micro_batch, 1)
        return torch.where(kind == 1, self._place, _TEXT), kind

    def batch(self, micro_batch: int, sequence: int) -> Dict[str, torch.Tensor]:
        """The keyword arguments of a forward pass in training, on the device."""
        ids, kind = self.text(micro_batch, sequence)
        given = {"input_ids": self._moved(ids)}
        given.update({name: self._moved(kind) for name in self._kinds})
        given.update({name: self._moved(value) for name, value in self.pixels(micro_batch).items()})
        given["labels"] = given["input_ids"]
        return given
