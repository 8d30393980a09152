"""Runs cases one after the other, each in a forked process, so that imports are paid once.

    python serve.py [--watched] DRIVER CASES.jsonl ANSWERS.jsonl

DRIVER is a module of this folder with `run(case)`, which returns what a row has beside its id and case.
A line of CASES is {"id", "case"}; one of ANSWERS is {"id"} and that, or "oom" or "error" with a message.
With --watched nothing is forked: then the dry run's own observer sees the case.
"""
import importlib
import importlib.util
import json
import os
import signal
import sys
import threading
import traceback

import torch

LONGEST = 900  # Seconds of one case.


def import_early(name):
    """Imports, before the first fork, what does not start CUDA, which does not survive a fork: neither torchtitan, nor
    what imports bitsandbytes, nor Transformer Engine where it finds flash-attn."""
    if name == "titan" or importlib.util.find_spec("flash_attn_2_cuda"):
        importlib.import_module("torch.distributed.fsdp")
    elif importlib.util.find_spec("bitsandbytes"):
        importlib.import_module("transformers.modeling_utils")
    else:
        getattr(importlib.import_module(name), "prepare", lambda: None)()


def versions(names):
    """The releases of those packages that are imported."""
    return {name: getattr(sys.modules[name], "__version__", "?") for name in names if name in sys.modules}


def answer(name, line):
    """The driver's answer to a case."""
    driver = importlib.import_module(name)
    try:
        found = driver.run(line["case"])
    except torch.OutOfMemoryError as error:
        found = {"oom": str(error)[:400]}
    except Exception as error:
        found = {"error": f"{type(error).__name__}: {error}"[:600], "where": traceback.format_exc()[-1500:]}
    return {"id": line["id"], "versions": versions(driver.PACKAGES), **found}


def compiled_anew():
    """Whether something was compiled that the caches of Inductor and AOTAutograd did not have."""
    utilities = sys.modules.get("torch._dynamo.utils")
    return bool(utilities and (utilities.counters["inductor"]["fxgraph_cache_miss"]
                               or utilities.counters["aot_autograd"]["autograd_cache_miss"]))


def warm_answer(name, line):
    """The answer of a forked process that finds in caches what it compiles: tensors that live while it compiles are
    not of the case. So a case that compiles something new is run twice."""
    found = answer_in_child(name, line)
    return answer_in_child(name, line) if found.pop("compiled_anew", False) else found


def answer_in_child(name, line):
    """The same, from a forked process, with `compiled_anew`."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        with os.fdopen(write_end, "w", encoding="utf-8") as pipe:
            pipe.write(json.dumps({**answer(name, line), "compiled_anew": compiled_anew()}))
        os._exit(0)
    os.close(write_end)
    timer = threading.Timer(LONGEST, os.kill, (child, signal.SIGKILL))
    timer.start()
    with os.fdopen(read_end, encoding="utf-8") as pipe:
        text = pipe.read()
    timer.cancel()
    _, status = os.waitpid(child, 0)
    return json.loads(text) if text else {"id": line["id"], "error": f"the process ended with status {status}"}


def main():
    watched = sys.argv[1] == "--watched"
    name, cases, answers = sys.argv[-3:]
    import_early(name)
    with open(cases, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    with open(answers, "w", encoding="utf-8") as file:
        for line in lines:
            found = answer(name, line) if watched else warm_answer(name, line)
            print(json.dumps(found, separators=(",", ":")), file=file, flush=True)


main()
