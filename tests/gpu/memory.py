"""What takes memory on this machine's GPU: a process outside PyTorch's allocator, cudaMalloc's addresses, and the
allocations of cuDNN's attention. Parts of kernels.py."""
import json
import os
import subprocess
import sys

import torch
import torch.nn.functional as F

BF16 = torch.bfloat16


OUTSIDE = r"""
import json, os, torch, torch.nn.functional as F
import torch.distributed as dist
from torch.nn.attention import SDPBackend, sdpa_kernel
rows, kept = [], {}
def part(name):
    def run(work):
        try:
            work()
            torch.cuda.synchronize()
            free, total = torch.cuda.mem_get_info()
            rows.append([name, total - free - torch.cuda.memory_reserved()])
        except Exception as error:
            rows.append([name + ": " + str(error)[:100], None])
    return run
def attend(kind, back):
    with sdpa_kernel(getattr(SDPBackend, kind)):
        q = torch.randn(1, 8, 1024, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        out = F.scaled_dot_product_attention(q, q, q, is_causal=True)
        if back: out.sum().backward()
def adam(**how):
    p = torch.nn.Parameter(torch.randn(1024, 1024, device="cuda")); p.grad = p.detach().clone()
    torch.optim.AdamW([p], **how).step()
def streams():
    kept["streams"] = [torch.cuda.Stream() for _ in range(32)]
    for s in kept["streams"]:
        with torch.cuda.stream(s): torch.zeros(1, device="cuda")
def graph():
    g = torch.cuda.CUDAGraph(); b = torch.zeros(64, device="cuda")
    with torch.cuda.graph(g): b.add_(1)
    g.replay(); kept["graph"] = g
def compiled():
    torch.compile(lambda t: F.silu(t) * 2)(torch.randn(1024, 1024, device="cuda"))
def nccl():
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29533")
    dist.init_process_group("nccl", rank=0, world_size=1, device_id=torch.device("cuda:0"))
a = lambda *s, **k: torch.randn(*s, device="cuda", **k)
h = dict(dtype=torch.bfloat16)
part("context")(lambda: torch.cuda.init() or torch.cuda.current_stream().synchronize())
part("first kernel")(lambda: torch.zeros(1, device="cuda"))
part("random numbers")(lambda: a(1024, 1024))
part("bf16 product")(lambda: a(1024, 1024, **h) @ a(1024, 1024, **h))
part("product with bias")(lambda: F.linear(a(1024, 1024, **h), a(1024, 1024, **h), a(1024, **h)))
part("fp32 product")(lambda: a(1024, 1024) @ a(1024, 1024))
for kind in ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "MATH", "CUDNN_ATTENTION"):
    for back in (False, True):
        part(kind + (" backward" if back else " forward"))(lambda: attend(kind, back))
part("cuDNN convolution")(lambda: F.conv2d(a(1, 3, 64, 64), a(8, 3, 3, 3)))
part("AdamW foreach")(adam)
part("AdamW fused")(lambda: adam(fused=True))
part("cuSOLVER")(lambda: torch.linalg.qr(a(512, 512)))
part("32 streams")(streams)
part("graph")(graph)
part("compiled kernel")(compiled)
part("NCCL communicator of one rank")(nccl)
part("NCCL all-reduce")(lambda: dist.all_reduce(a(1024)))
part("NCCL second group")(lambda: dist.all_reduce(a(1024), group=dist.new_group([0])))
part("NCCL third group")(lambda: dist.all_reduce(a(1024), group=dist.new_group([0])))
print(json.dumps(rows))
"""


def outside(bench):
    for setting in ({}, {"CUDA_MODULE_LOADING": "EAGER"}, {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}):
        if setting.get("CUDA_MODULE_LOADING") and bench.late():
            continue
        try:
            ran = subprocess.run([sys.executable, "-c", OUTSIDE], env={**os.environ, **setting}, capture_output=True,
                                 text=True, timeout=120)
        except subprocess.TimeoutExpired:
            continue
        rows = json.loads(ran.stdout.strip().splitlines()[-1]) if ran.returncode == 0 else None
        bench.write("outside", setting=setting, rows=rows, error=None if rows else ran.stderr[-400:])


def attention_events(bench):
    """Every allocation of one call of cuDNN's attention and of its backward, in order."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    for batch, heads, kv_heads, queries, keys, size, value, masked, dropout in (
            (2, 32, 32, 1024, 1024, 64, 64, False, 0), (2, 32, 8, 1024, 1024, 128, 128, False, 0),
            (1, 32, 8, 1000, 1000, 128, 128, False, 0), (3, 12, 12, 100, 100, 64, 64, False, 0),
            (2, 16, 16, 512, 512, 64, 64, True, 0), (2, 16, 16, 512, 512, 64, 64, False, 0.1),
            (1, 16, 16, 2048, 2048, 192, 128, False, 0), (1, 8, 4, 1024, 1024, 256, 256, False, 0),
            (1, 16, 16, 256, 1024, 64, 64, False, 0), (1, 71, 1, 512, 512, 64, 64, False, 0)):
        q, k, v = (torch.randn(batch, length, count, width, device="cuda", dtype=BF16).requires_grad_()
                   for length, count, width in ((queries, heads, size), (keys, kv_heads, size), (keys, kv_heads, value)))
        mask = torch.ones(batch, 1, queries, keys, device="cuda", dtype=torch.bool).tril() if masked else None

        def attend():
            return F.scaled_dot_product_attention(
                q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), attn_mask=mask, dropout_p=dropout,
                is_causal=mask is None and queries == keys, enable_gqa=heads != kv_heads)

        try:
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                gradient = torch.randn_like(attend())
                torch.cuda.memory._record_memory_history(enabled="all", context=None, max_entries=100000)
                out = attend()
                made = torch.autograd.grad(out, (q, k, v), gradient)
                del out, made
                trace = torch.cuda.memory._snapshot()["device_traces"][0]
        except RuntimeError as error:
            bench.write("attention_refused", backend="cudnn", head_dim=size, error=str(error)[:200])
            continue
        finally:
            torch.cuda.memory._record_memory_history(enabled=None)
        bench.write("attention_events", backend="cudnn", shape=[batch, heads, kv_heads, queries, keys, size, value],
                    masked=masked, dropout=dropout,
                    events=[[e["action"], e["size"]] for e in trace if e["action"] in ("alloc", "free_completed")])


def addresses(bench):
    """What cudaMalloc returns for segments of so many MiB; a negative number gives that segment of the list back."""
    runtime = torch.cuda.cudart()
    if not hasattr(runtime, "cudaMalloc"):
        try:
            from cupy.cuda import runtime
        except ImportError:
            return
    malloc = getattr(runtime, "malloc", None) or runtime.cudaMalloc
    free = getattr(runtime, "free", None) or runtime.cudaFree
    for plan in ([2, 2, 20, 2, 20, 32, 64, 2, 512, 2, 20, 22, 1024, 2, 4096, 2, 20, 130, 6, 2],
                 [64] * 10 + [-3, -6, -7] + [64, 128, 32, 32, 2, 256], [1024] * 6 + [-2, -3, -5] + [2048, 512, 512, 1024, 20, 2]):
        live, log = [], []
        for mib in plan:
            if mib > 0:
                live.append(malloc(mib << 20))
                log.append([mib, live[-1]])
            else:
                free(live[-mib - 1])
                live[-mib - 1] = None
                log.append([mib, 0])
        for address in live:
            if address is not None:
                free(address)
        bench.write("addresses", log=log)
