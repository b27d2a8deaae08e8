"""The attention operation alone, beside the reference and torch's scaled_dot_product_attention."""

import subprocess
import sys

import torch
from torch.nn.functional import scaled_dot_product_attention

from ndr.bench.measure import Measure, side_by_side
from ndr.ops import geometric_attention

ROWS, WIDTH = 32768, 32
LENGTHS = (16, 50, 128, 512, 2048)
# The reference keeps several N × N matrices for its gradient: beyond this it is not asked.
REFERENCE_LIMIT = 512

# The high-water mark of a process's own memory; getrusage's would begin with that of whoever started it.
MEMORY = """
import re, torch
from ndr.ops import geometric_attention

def highest():
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])

inputs = [torch.randn(1, 4, {columns}, width, requires_grad=True) for width in (32, 32, 32, 2)]
geometric_attention(*(each[:, :, :64] for each in inputs)).sum().backward()
before = highest()
geometric_attention(*inputs).sum().backward()
print(highest() - before)
"""


def measure_attention(columns: int, rounds: int) -> Measure:
    torch.manual_seed(0)
    shape = (ROWS // columns, 1, columns)
    query, key, value = (torch.randn(*shape, WIDTH, requires_grad=True) for _ in range(3))
    side, grad = torch.randn(*shape, 2, requires_grad=True), torch.randn(*shape, WIDTH)

    def ours(implementation: str) -> None:
        output = geometric_attention(query, key, value, side, implementation=implementation)
        torch.autograd.grad(output, (query, key, value, side), grad)

    def softmax() -> None:
        torch.autograd.grad(scaled_dot_product_attention(query, key, value), (query, key, value), grad)

    calls = {"ours": lambda: ours("auto"), "scaled_dot_product_attention": softmax}
    if columns <= REFERENCE_LIMIT:
        calls["reference"] = lambda: ours("reference")
    times = {name: seconds * 1e3 for name, seconds in side_by_side(calls, rounds, seconds=0.05).items()}
    value_ms = times.pop("ours")
    note = f"forward and backward, {ROWS // columns} sequences, head width {WIDTH}"
    return Measure(f"attention: {columns} columns", value_ms, "ms", times, note)


def measure_memory(columns: int = 8192) -> Measure:
    """In a process of its own, where the highest mark is this operation's."""
    command = [sys.executable, "-c", MEMORY.format(columns=columns)]
    grown = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout) / 1024
    matrices = 4 * columns * columns * 4 / 2**20
    return Measure(
        f"attention memory: {columns} columns",
        max(grown, 0.1),
        "MB",
        {"one matrix of all pairs": matrices},
        "forward and backward above the inputs, 4 heads × 32, batch 1",
    )
