#!/usr/bin/env python3
"""Measures what the GPU of this machine achieves: kernels, launches, copies, and what a process takes of it.

kernels.py OUT.jsonl [--seconds T] [--only KIND,...]

One line a measurement: `kind`, its shape, `microseconds` of one call (median of batches), and where the kind has
two states `state`: "lone" (short, on a rested GPU) or "step" (for long, at the clocks that the power limit leaves,
as in a training step). Inputs are normal random numbers: zeros would draw less power. The first line describes the
device. The kinds are the functions below; those not yet begun after T seconds are left out.
Needs: PyTorch; nvidia-ml-py for clocks and power.
"""
import argparse
import json
import os
import statistics
import sys
import time

import torch
import torch.nn.functional as F

from memory import addresses, attention_events, outside

BF16 = torch.bfloat16


class Clocks:
    """Clock and power of the GPU, where NVML tells."""

    def __init__(self):
        try:
            import pynvml
            pynvml.nvmlInit()
            self.nvml, self.handle = pynvml, pynvml.nvmlDeviceGetHandleByIndex(0)
        except Exception:
            self.nvml = None

    def read(self):
        if not self.nvml:
            return {}
        return {"sm_mhz": self.nvml.nvmlDeviceGetClockInfo(self.handle, self.nvml.NVML_CLOCK_SM),
                "watts": round(self.nvml.nvmlDeviceGetPowerUsage(self.handle) / 1000)}


class Bench:
    def __init__(self, path, seconds):
        self.out = open(path, "w", encoding="utf-8")
        self.clocks, self.deadline, self.busy = Clocks(), time.monotonic() + seconds, None

    def write(self, kind, **row):
        self.out.write(json.dumps({"kind": kind, **row}) + "\n")
        self.out.flush()

    def late(self):
        return time.monotonic() > self.deadline

    def time_of(self, work, least, batches=5):
        """Seconds of one call: the median of `batches` batches that take `least` seconds together."""
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        for _ in range(2):
            work()
        torch.cuda.synchronize()
        begin.record()
        for _ in range(3):
            work()
        end.record()
        end.synchronize()
        once = max(begin.elapsed_time(end) / 3e3, 1e-6)
        calls = max(1, min(2000, int(least / batches / once)))
        taken = []
        for _ in range(batches):
            begin.record()
            for _ in range(calls):
                work()
            end.record()
            end.synchronize()
            taken.append(begin.elapsed_time(end) / 1e3 / calls)
        return statistics.median(taken)

    def graph_of(self, work, count):
        """Seconds of one call among `count` in a CUDA graph: what the device takes, the host apart."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            work()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(count):
                work()
        return self.time_of(graph.replay, 0.01) / count

    def heat(self, seconds=2.0):
        """Brings the GPU to the clocks of long work."""
        if self.busy is None:
            self.busy = [torch.randn(8192, 8192, device="cuda", dtype=BF16) for _ in range(2)]
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for _ in range(20):
                self.busy[0] @ self.busy[1]
            torch.cuda.synchronize()


def normal(*shape, dtype=BF16):
    made = torch.empty(shape, device="cuda", dtype=dtype if dtype.is_floating_point and dtype.itemsize > 1 else BF16)
    made.normal_()
    return made if made.dtype == dtype else made.to(dtype)


# --- Products -----------------------------------------------------------------------------------

WEIGHTS = [  # [n, k] of linear layers: Llama 1B, 8B and 70B (whole and a shard of eight), GPT-2 XL, Gemma 1B, 405B/8
    (2048, 2048), (512, 2048), (8192, 2048), (2048, 8192), (128256, 2048), (4096, 4096), (1024, 4096), (6144, 4096),
    (14336, 4096), (28672, 4096), (4096, 14336), (128256, 4096), (1280, 8192), (8192, 1024), (3584, 8192),
    (7168, 8192), (8192, 3584), (8192, 8192), (28672, 8192), (8192, 28672), (4800, 1600), (6400, 1600), (1600, 6400),
    (50257, 1600), (6912, 1152), (1152, 6912), (262144, 1152), (768, 2048), (2048, 768), (2304, 16384),
    (16384, 2048), (13312, 16384), (16384, 6656)]
TOKENS = [512, 1024, 2048, 4096, 8192, 16384]


def product(layout, m, n, k, dtype):
    """A call of F.linear ("tn": rows by weights [n, k]), or of its gradients ("nn" of input, "nt" of weights)."""
    if layout == "tn":
        a, b = normal(m, k, dtype=dtype), normal(n, k, dtype=dtype)
        return lambda: torch.mm(a, b.t())
    if layout == "nn":
        a, b = normal(m, k, dtype=dtype), normal(k, n, dtype=dtype)
        return lambda: torch.mm(a, b)
    a, b = normal(k, m, dtype=dtype), normal(k, n, dtype=dtype)
    return lambda: torch.mm(a.t(), b)


def layouts_of(tokens, n, k):
    return [("tn", tokens, n, k), ("nn", tokens, k, n), ("nt", n, k, tokens)]


def gemm(bench):
    bench.heat(4)
    for n, k in WEIGHTS:
        for tokens in TOKENS:
            if tokens * n > 1.1e9 or bench.late():
                continue
            for layout, *shape in layouts_of(tokens, n, k):
                taken = bench.time_of(product(layout, *shape, BF16), 0.12)
                bench.write("gemm", state="step", dtype="bf16", layout=layout, m=shape[0], n=shape[1], k=shape[2],
                            microseconds=taken * 1e6, **bench.clocks.read())


def gemm_lone(bench):
    for n, k in WEIGHTS:
        for tokens in (512, 2048, 8192):
            if tokens * n > 1.1e9 or bench.late():
                continue
            work = product("tn", tokens, n, k, BF16)
            torch.cuda.synchronize()
            time.sleep(0.06)
            bench.write("gemm", state="lone", dtype="bf16", layout="tn", m=tokens, n=n, k=k,
                        microseconds=bench.time_of(work, 0.004) * 1e6, **bench.clocks.read())


def gemm_types(bench):
    bench.heat()
    for name, dtype, tf32 in (("fp16", torch.float16, False), ("fp32", torch.float32, False), ("tf32", torch.float32, True)):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        for n, k in ((2048, 2048), (8192, 2048), (2048, 8192), (4096, 4096), (14336, 4096), (4096, 14336), (8192, 8192)):
            for tokens in (1024, 2048, 4096, 8192):
                for layout, *shape in layouts_of(tokens, n, k):
                    if bench.late() or (name == "fp32" and layout != "tn" and tokens != 4096):
                        continue
                    taken = bench.time_of(product(layout, *shape, dtype), 0.06, 3)
                    bench.write("gemm", state="step", dtype=name, layout=layout, m=shape[0], n=shape[1], k=shape[2],
                                microseconds=taken * 1e6)
        torch.backends.cuda.matmul.allow_tf32 = False


def gemm_fp8(bench):
    bench.heat()
    one = torch.ones((), device="cuda")
    for n, k in [w for w in WEIGHTS if w[0] % 16 == 0 and w[0] < 60000]:
        for tokens in (1024, 4096, 8192, 16384):
            if bench.late():
                return
            a, b = normal(tokens, k, dtype=torch.float8_e4m3fn), normal(n, k, dtype=torch.float8_e4m3fn)
            rows, columns = torch.ones(tokens, 1, device="cuda"), torch.ones(1, n, device="cuda")
            for recipe, scale_a, scale_b in (("tensor", one, one), ("row", rows, columns)):
                for fast in ((True, False) if recipe == "tensor" else (True,)):
                    def work():
                        torch._scaled_mm(a, b.t(), scale_a, scale_b, out_dtype=BF16, use_fast_accum=fast)
                    bench.write("gemm", state="step", dtype="fp8", scaling=recipe, fast_accumulation=fast, layout="tn",
                                m=tokens, n=n, k=k, microseconds=bench.time_of(work, 0.06, 3) * 1e6)


def grouped(bench):
    bench.heat()
    for experts, n, k in ((128, 1536, 2048), (128, 2048, 768), (8, 28672, 4096), (8, 4096, 14336), (64, 2816, 2048),
                          (64, 2048, 1408), (32, 4096, 7168), (32, 7168, 2048), (16, 1536, 2048), (16, 2048, 768)):
        for rows in (2048, 8192, 16384, 32768, 65536):
            if bench.late() or rows * (n + k) > 3e9:
                continue
            ends = (torch.arange(1, experts + 1, device="cuda") * (rows // experts)).to(torch.int32)
            x, weights, gradient = normal(rows, k), normal(experts, n, k), normal(rows, n)
            for layout, work in (("tn", lambda: torch._grouped_mm(x, weights.transpose(1, 2), offs=ends)),
                                 ("nn", lambda: torch._grouped_mm(gradient, weights, offs=ends)),
                                 ("nt", lambda: torch._grouped_mm(gradient.t(), x, offs=ends))):
                bench.write("grouped", state="step", dtype="bf16", layout=layout, experts=experts, rows=rows, n=n, k=k,
                            microseconds=bench.time_of(work, 0.06, 3) * 1e6)


# --- Attention ----------------------------------------------------------------------------------

def attention(bench):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    kinds = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION,
             "efficient": SDPBackend.EFFICIENT_ATTENTION}
    bench.heat()
    shapes = [(d, h, s, b) for d, h in ((64, 32), (128, 32), (64, 8), (128, 8), (256, 8), (96, 16))
              for s, b in ((512, 8), (1024, 4), (1024, 1), (2048, 1), (2048, 4), (4096, 2), (8192, 1), (16384, 1))]
    for backend, choice in kinds.items():
        for size, heads, length, batch in shapes:
            for causal in (True, False):
                if bench.late() or (not causal and (length not in (1024, 4096) or heads == 8)):
                    continue
                q, k, v = (normal(batch, heads, length, size).requires_grad_() for _ in range(3))
                try:
                    with sdpa_kernel(choice):
                        out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
                        gradient = torch.randn_like(out)

                        def forward():
                            with torch.no_grad():
                                F.scaled_dot_product_attention(q, k, v, is_causal=causal)

                        def backward():
                            torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True)

                        torch.cuda.synchronize()
                        before = torch.cuda.memory_allocated()
                        torch.cuda.reset_peak_memory_stats()
                        forward()
                        workspace = [torch.cuda.max_memory_allocated() - before]
                        torch.cuda.reset_peak_memory_stats()
                        backward()
                        workspace.append(torch.cuda.max_memory_allocated() - before)
                        taken = [bench.time_of(work, 0.05, 3) for work in (forward, backward)]
                except RuntimeError as error:
                    bench.write("attention_refused", backend=backend, head_dim=size, error=str(error)[:200])
                    break
                bench.write("attention", state="step", backend=backend, batch=batch, heads=heads, queries=length,
                            keys=length, head_dim=size, causal=causal, forward_microseconds=taken[0] * 1e6,
                            backward_microseconds=taken[1] * 1e6, forward_peak=workspace[0], backward_peak=workspace[1])


# --- Kernels that move memory -------------------------------------------------------------------

def rows_of(tokens, width):
    """Kernels of one layer on [tokens, width]: name, bytes read and written, call."""
    x, y, wide = normal(tokens, width), normal(tokens, width), normal(tokens, width, dtype=torch.float32)
    weight, size = normal(width), tokens * width
    mean = normal(tokens, 1, dtype=torch.float32)
    out, wide_out = torch.empty_like(x), torch.empty_like(wide)
    leaf = x.detach().requires_grad_()
    silu, gelu = F.silu(leaf), F.gelu(leaf, approximate="tanh")
    norm = F.layer_norm(leaf, (width,), weight, weight)
    rms = F.rms_norm(leaf, (width,), weight)

    def backward(of):
        return lambda: torch.autograd.grad(of, leaf, y, retain_graph=True)

    yield "copy", 4 * size, lambda: out.copy_(x)
    yield "add", 6 * size, lambda: torch.add(x, y, out=out)
    yield "add_", 6 * size, lambda: out.add_(x)
    yield "add_into_new", 6 * size, lambda: x + y
    yield "multiply_by_row", 4 * size, lambda: torch.mul(x, weight, out=out)
    yield "multiply_by_mean", 8 * size, lambda: torch.mul(wide, mean, out=wide_out)
    yield "to_fp32", 6 * size, lambda: wide_out.copy_(x)
    yield "to_bf16", 6 * size, lambda: out.copy_(wide)
    yield "square", 8 * size, lambda: torch.pow(wide, 2, out=wide_out)
    yield "mean_of_rows", 4 * size, lambda: wide.mean(-1, keepdim=True)
    yield "sum_of_rows_bf16", 2 * size, lambda: x.sum(-1, keepdim=True)
    yield "sum_of_columns", 2 * size, lambda: x.sum(0)
    yield "silu", 4 * size, lambda: F.silu(x)
    yield "silu_backward", 6 * size, backward(silu)
    yield "gelu", 4 * size, lambda: F.gelu(x, approximate="tanh")
    yield "gelu_backward", 6 * size, backward(gelu)
    yield "dropout", 5 * size, lambda: torch.native_dropout(x, 0.1, True)
    yield "layer_norm", 4 * size, lambda: F.layer_norm(x, (width,), weight, weight)
    yield "layer_norm_backward", 6 * size, backward(norm)
    yield "rms_norm", 4 * size, lambda: F.rms_norm(x, (width,), weight)
    yield "rms_norm_backward", 6 * size, backward(rms)
    yield "negate", 4 * size, lambda: torch.neg(x, out=out)
    half = width // 2
    yield "rotate_half", 4 * size, lambda: torch.cat((x[:, half:], x[:, :half]), -1, out=out)
    heads = x.view(1, tokens, width // 64, 64).transpose(1, 2)
    yield "transpose_heads", 4 * size, lambda: heads.contiguous()
    order = torch.randperm(tokens, device="cuda")
    yield "take_rows", 4 * size, lambda: torch.index_select(x, 0, order)
    yield "put_rows", 6 * size, lambda: out.index_add_(0, order, x)
    yield "fill", 2 * size, lambda: out.zero_()


def traffic(bench):
    """Kernels bound by memory, alone on buffers that stay in the cache if they fit (the same ones again)."""
    bench.heat(1)
    for tokens, width in ((16, 1024), (128, 1024), (512, 2048), (1024, 2048), (2048, 2048), (2048, 4096), (4096, 4096),
                          (8192, 2048), (8192, 4096), (8192, 14336), (16384, 8192)):
        if bench.late():
            return
        for name, moved, work in rows_of(tokens, width):
            taken = bench.graph_of(work, 20) if "backward" not in name else bench.time_of(work, 0.02, 3)
            bench.write("traffic", name=name, tokens=tokens, width=width, bytes=moved, microseconds=taken * 1e6)
        torch.cuda.empty_cache()


def cold(bench):
    """A copy and an addition that find nothing in the cache: buffers in turn, 1 GiB together."""
    for size in [1 << p for p in range(12, 29, 1)]:
        count = max(2, min(512, (1 << 30) // size))
        if bench.late():
            return
        pairs = [(normal(size // 2), torch.empty(size // 2, device="cuda", dtype=BF16)) for _ in range(count)]
        turn = [0]

        def copy():
            source, target = pairs[turn[0] % count]
            turn[0] += 1
            target.copy_(source)

        taken = bench.graph_of(copy, count)
        bench.write("cold_copy", bytes=2 * size, microseconds=taken * 1e6)
        # A chain: what one kernel writes the next one reads, each time into a new buffer.
        def chain():
            index = turn[0] % (count - 1)
            turn[0] += 1
            torch.mul(pairs[index][1], 0.5, out=pairs[index + 1][1])

        bench.write("chain", bytes=2 * size, microseconds=bench.graph_of(chain, count) * 1e6)
        del pairs


def head(bench):
    """Loss of a language model: [tokens, vocabulary]."""
    bench.heat(1)
    for tokens, vocabulary in ((2048, 128256), (4096, 128256), (2048, 262144), (2048, 32000), (2048, 50257), (8192, 151936)):
        if bench.late():
            return
        size = tokens * vocabulary
        logits = normal(tokens, vocabulary)
        wide = logits.float()
        labels = torch.randint(0, vocabulary, (tokens,), device="cuda")
        leaf = wide.detach().requires_grad_()
        logs = F.log_softmax(leaf, -1)
        loss = F.nll_loss(logs, labels)
        gradient = torch.randn_like(logs)
        cases = {"to_fp32": (6 * size, lambda: logits.float()), "to_bf16": (6 * size, lambda: wide.to(BF16)),
                 "log_softmax": (8 * size, lambda: F.log_softmax(wide, -1)),
                 "log_softmax_backward": (12 * size, lambda: torch.autograd.grad(logs, leaf, gradient, retain_graph=True)),
                 "nll_backward": (4 * size, lambda: torch.autograd.grad(loss, logs, retain_graph=True)),
                 "softmax_bf16": (4 * size, lambda: F.softmax(logits, -1))}
        for name, (moved, work) in cases.items():
            bench.write("head", name=name, tokens=tokens, vocabulary=vocabulary, bytes=moved,
                        microseconds=bench.time_of(work, 0.03, 3) * 1e6)
        del logits, wide, leaf, logs, loss, gradient, cases
        torch.cuda.empty_cache()
    for vocabulary, width in ((128256, 4096), (50257, 1600), (262144, 1152)):
        for tokens in (2048, 8192):
            table = normal(vocabulary, width).requires_grad_()
            ids = torch.randint(0, vocabulary, (tokens,), device="cuda")
            looked = F.embedding(ids, table)
            gradient = torch.randn_like(looked)
            for name, work in (("embedding", lambda: F.embedding(ids, table)),
                               ("embedding_backward", lambda: torch.autograd.grad(looked, table, gradient, retain_graph=True))):
                bench.write("head", name=name, tokens=tokens, vocabulary=vocabulary, width=width,
                            microseconds=bench.time_of(work, 0.03, 3) * 1e6)
            del table, looked, gradient


def optimizer(bench):
    """One step of an optimizer over the weights of some layers of 4096."""
    bench.heat(1)
    shapes = [(4096, 4096), (1024, 4096), (1024, 4096), (4096, 4096), (14336, 4096), (14336, 4096), (4096, 14336), (4096,), (4096,)]
    for dtype, layers in ((BF16, 1), (BF16, 4), (BF16, 12), (torch.float32, 1), (torch.float32, 4)):
        parameters = [torch.nn.Parameter(normal(*s, dtype=dtype)) for _ in range(layers) for s in shapes]
        for p in parameters:
            p.grad = torch.randn_like(p)
        elements = sum(p.numel() for p in parameters)
        kinds = {"adamw_foreach": lambda: torch.optim.AdamW(parameters, foreach=True),
                 "adamw_fused": lambda: torch.optim.AdamW(parameters, fused=True),
                 "adamw_loop": lambda: torch.optim.AdamW(parameters, foreach=False),
                 "sgd_foreach": lambda: torch.optim.SGD(parameters, lr=1e-4),
                 "sgd_momentum": lambda: torch.optim.SGD(parameters, lr=1e-4, momentum=0.9)}
        for name, make in kinds.items():
            if bench.late():
                return
            made = make()
            bench.write("optimizer", name=name, dtype=str(dtype)[6:], elements=elements, tensors=len(parameters),
                        microseconds=bench.time_of(made.step, 0.06, 3) * 1e6)
        bench.write("optimizer", name="clip_norm", dtype=str(dtype)[6:], elements=elements, tensors=len(parameters),
                    microseconds=bench.time_of(lambda: torch.nn.utils.clip_grad_norm_(parameters, 1.0), 0.03, 3) * 1e6)


# --- Launches and copies ------------------------------------------------------------------------

def launch(bench):
    """What the host takes for one call, the device having next to nothing to do."""
    small, weight = normal(16, 64), normal(64, 64)
    leaf = small.detach().requires_grad_()
    calls = {"multiply": lambda: small * 2, "add_": lambda: small.add_(0.0), "linear": lambda: F.linear(small, weight),
             "linear_with_graph": lambda: F.linear(leaf, weight), "silu_with_graph": lambda: F.silu(leaf),
             "layer_norm": lambda: F.layer_norm(small, (64,)), "view": lambda: small.view(64, 16), "to": lambda: small.float()}
    for name, call in calls.items():
        for _ in range(200):
            call()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(3000):
            call()
        handed = time.perf_counter() - begin
        torch.cuda.synchronize()
        bench.write("launch", name=name, host_microseconds=handed / 3000 * 1e6,
                    microseconds=(time.perf_counter() - begin) / 3000 * 1e6)
    bench.write("launch", name="graph", microseconds=bench.graph_of(lambda: small.add_(0.0), 200) * 1e6)


def copies(bench):
    for size in (4096, 65536, 1 << 20, 16 << 20, 256 << 20, 1 << 30):
        device = torch.empty(size, dtype=torch.uint8, device="cuda")
        for pinned in (True, False):
            host = torch.empty(size, dtype=torch.uint8, pin_memory=pinned)
            host.fill_(1)
            for name, work in (("to_device", lambda: device.copy_(host, non_blocking=True)),
                               ("to_host", lambda: host.copy_(device, non_blocking=True))):
                bench.write("host_copy", name=name, pinned=pinned, bytes=size,
                            microseconds=bench.time_of(work, 0.05, 3) * 1e6)
    other, size = torch.cuda.Stream(), 256 << 20
    buffers = [torch.empty(size, dtype=torch.uint8, device="cuda") for _ in range(2)]
    hosts = [torch.empty(size, dtype=torch.uint8, pin_memory=True) for _ in range(2)]

    def both():
        other.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(other):
            hosts[0].copy_(buffers[0], non_blocking=True)
        buffers[1].copy_(hosts[1], non_blocking=True)
        torch.cuda.current_stream().wait_stream(other)

    bench.write("host_copy", name="both_ways", pinned=True, bytes=2 * size, microseconds=bench.time_of(both, 0.1, 3) * 1e6)


def host_adam(bench):
    parameters = [torch.nn.Parameter(torch.randn(16384, 4096)) for _ in range(4)]
    for p in parameters:
        p.grad = torch.randn_like(p)
    made = torch.optim.AdamW(parameters, fused=True)
    made.step()
    begin = time.perf_counter()
    for _ in range(3):
        made.step()
    bench.write("host_adam", elements=sum(p.numel() for p in parameters), threads=torch.get_num_threads(),
                cpus=os.cpu_count(), microseconds=(time.perf_counter() - begin) / 3 * 1e6)


def odd(bench):
    """Products whose rows are no multiple of 16 bytes."""
    bench.heat()
    for n in (32000, 32001, 32002, 32004, 50257, 50258, 50260, 50264, 151665):
        for tokens, k in ((2048, 1600), (4096, 4096)):
            for layout, *shape in layouts_of(tokens, n, k):
                if not bench.late():
                    bench.write("odd", dtype="bf16", layout=layout, m=shape[0], n=shape[1], k=shape[2],
                                microseconds=bench.time_of(product(layout, *shape, BF16), 0.04, 3) * 1e6)


KINDS = [addresses, attention_events, launch, outside, copies, cold, traffic, head, optimizer, attention, grouped, gemm, gemm_fp8, odd,
         gemm_lone, gemm_types, host_adam]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--seconds", type=float, default=400)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    properties = torch.cuda.get_device_properties(0)
    bench = Bench(options.out, options.seconds)
    bench.write("device", name=properties.name, multiprocessors=properties.multi_processor_count,
                capability=[properties.major, properties.minor], total=properties.total_memory,
                mem_get_info=torch.cuda.mem_get_info(), l2=properties.L2_cache_size, torch=torch.__version__,
                cuda=torch.version.cuda, cudnn=torch.backends.cudnn.version(), **bench.clocks.read())
    for kind in KINDS:
        if options.only and kind.__name__ not in options.only.split(","):
            continue
        begin = time.monotonic()
        try:
            kind(bench)
        except Exception as error:  # one kind that fails leaves the others
            bench.write("failed", what=kind.__name__, error=f"{type(error).__name__}: {error}"[:400])
        torch.cuda.empty_cache()
        print(kind.__name__, f"{time.monotonic() - begin:.1f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
