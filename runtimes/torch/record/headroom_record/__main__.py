"""python -m headroom_record SOURCE -o FILE: writes the recording of a model."""

import argparse
import gc
import json
import sys
import time


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="headroom_record", description=__doc__)
    parser.add_argument("source", help="config.json, a model folder, or file.py:make_model")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--parameters", choices=("bf16", "fp32", "fp16"))
    parser.add_argument("--autocast", choices=("bf16", "fp16"))
    parser.add_argument("--attention", choices=("sdpa", "eager"), default="sdpa")
    parser.add_argument("--modes", help="several of these at once, such as bf16,fp32/bf16 "
                                        "(parameters/autocast/attention)")
    parser.add_argument("--qlora", action="store_true", help="also with quantised linear layers")
    parser.add_argument("--liger", action="store_true", help="also with Liger's kernels")
    parser.add_argument("--points", help="sizes at which the model runs, such as 2x512,3x320")
    parser.add_argument("--masks", choices=("skipped", "made"), default="skipped",
                        help="made: a mask of ones that a model makes for itself is not left out, as with padding")
    parser.add_argument("--images", help="images of every sequence, COUNTxHEIGHTxWIDTH in pixels, such as 2x1024x1024")
    parser.add_argument("--micro-batches", help="with --images: micro-batches that are recorded one by one where the "
                                                "code depends on the number of images, such as 1,2,4")
    parser.add_argument("--freeze", help="modules that are not trained, such as model.visual, with commas between")
    parser.add_argument("--task", choices=("causal-lm", "seq2seq-lm", "masked-lm", "image-text", "speech-seq2seq",
                                           "sequence-classification", "token-classification"))
    return parser.parse_args()


def main() -> int:
    arguments = _arguments()
    gc.disable()
    from .frozen import NoModule
    from .image_text import Images, NoImages
    from .liger import NoKernels
    from .modes import usual_modes
    from .recording import MICRO_BATCHES, Mode, Refused, record

    start = time.time()
    points = [tuple(int(one) for one in point.split("x")) for point in arguments.points.split(",")] \
        if arguments.points else None
    modes = arguments.modes
    if modes is None and arguments.parameters is None and arguments.autocast is None:
        modes = ",".join(usual_modes(arguments.attention, arguments.qlora, arguments.liger))
    elif modes is None:
        modes = "/".join((arguments.parameters or "bf16", arguments.autocast or "", arguments.attention))
    try:
        text = record(arguments.source, [Mode(mode) for mode in modes.split(",")], points, arguments.task,
                      arguments.masks == "made",
                      images=Images(arguments.images) if arguments.images else None,
                      micro_batches=sorted({int(one) for one in arguments.micro_batches.split(",")})
                      if arguments.micro_batches else MICRO_BATCHES,
                      freeze=arguments.freeze.split(",") if arguments.freeze else ())
    except (Refused, NoImages, NoKernels, NoModule) as error:
        print(f"headroom: {error}", file=sys.stderr)
        return 1
    with open(arguments.output, "w", encoding="utf-8") as file:
        file.write(text)
    print(f"recorded in {time.time() - start:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
