"""Batches with images, as the recorder of models makes them (runtimes/torch/record): a case's `images`.

The stand-in computes nothing, so sizes that programs read from it are computed on the host."""
import contextlib
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[3] / "runtimes" / "torch" / "record"))


class Pictures:
    """The batches of a case, and the mode in which its model reads sizes from the device."""

    def __init__(self, model, case):
        from headroom_record.host_values import HostValues, WithHostValues
        from headroom_record.image_text import Images
        from headroom_record.images import ImageBatches

        values = HostValues()
        base = model.get_base_model() if hasattr(model, "get_base_model") else model
        self._batches = ImageBatches(Images(case["images"]), base, base.config, "", values, case["image_tokens"])
        self._batches.pixels(case.get("micro_batch", 1))  # On the host, once.
        self.known = lambda: WithHostValues(values)

    def batch(self, case):
        return self._batches.batch(case.get("micro_batch", 1), case.get("seq", 2048))


class TextAlone:
    """What stands in the place of pictures for other cases."""

    known = staticmethod(contextlib.nullcontext)
