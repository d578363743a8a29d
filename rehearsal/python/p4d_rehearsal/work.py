# SPDX-License-Identifier: Apache-2.0
"""Counts time-consuming work in a phase that the stand-ins cannot see: the FLOPs of attention, convolutions and grouped
matmuls, the bytes that other kernels read and write, and the data sent to which ranks.

The stand-ins count matmuls and kernels. `foreign` is the number of kernels that no PyTorch operator launched, such as
Triton's; their time is unknown."""
import ctypes
import os

import torch

from p4d_rehearsal import subclasses

aten = torch.ops.aten
LAUNCHES, PRODUCTS = 0, 1  # p4d_report_count of the stand-ins

# PyTorch's own matmul kernels, with 16-bit or 8-bit elements.
GROUPED = {"_grouped_mm": "grouped", "_scaled_grouped_mm": "grouped_8"}
# Operators that the stand-ins count, including the bytes of their operands.
PRODUCTS_OF = {"mm", "addmm", "bmm", "baddbmm", "addmv", "mv", "dot", "_scaled_mm", "linear",
               "addbmm", "_addmm_activation", "linear_backward", "matmul", "_int_mm"}
# Operators that write nothing, or do not wait for memory.
NOTHING = {"empty", "empty_strided", "empty_like", "new_empty", "new_empty_strided", "record_stream", "detach", "alias",
           "_local_scalar_dense", "set_", "resize_"}
# Operators that read as much as they write, from a larger argument.
PARTS = {"embedding", "index", "index_select", "gather", "take", "take_along_dim", "slice_copy", "select_copy", "narrow_copy",
         "split_copy", "split_with_sizes_copy", "topk", "nonzero", "masked_select"}
# Operators that do not read the memory that they overwrite.
OVERWRITE = {"copy_", "zero_", "fill_", "normal_", "uniform_", "_foreach_zero_", "_foreach_copy_", "random_", "exponential_",
             "bernoulli_", "split_with_sizes_copy", "chunk_cat"}
EXCHANGES = {"alltoall_base_", "alltoall_", "all_to_all_single"}
TRANSFERS = {"send", "recv_", "recv_any_source_"}
SUMS = ("attention_forward", "attention_backward", "cudnn_forward", "cudnn_backward", "convolutions", "grouped", "grouped_8", "grouped_bytes", "moved", "lifted")
CALLS, GATHERED, EXCHANGED, TRANSFERRED = range(4)  # columns of a row of communication


def _bytes(tensor):
    """Bytes that a kernel moves; of an expanded tensor, only the stored elements."""
    return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())


def _flat(value):
    if isinstance(value, torch.Tensor):
        return subclasses.stored(value)
    if isinstance(value, (list, tuple)):
        return [t for inner in value for t in _flat(inner)]
    return []


def _on_gpu(value):
    return [t for t in _flat(value) if t.is_cuda and type(t) in (torch.Tensor, torch.nn.Parameter)]


def _ranks_of(group):
    """The ranks of a process group, or of a group's name; None: unknown."""
    distributed = torch.distributed
    try:
        if isinstance(group, str):
            group = distributed.distributed_c10d._resolve_process_group(group)
        elif isinstance(group, torch.ScriptObject):
            group = distributed.ProcessGroup.unbox(group)
        return distributed.get_process_group_ranks(group)
    except (RuntimeError, ValueError, KeyError, TypeError, AttributeError):
        return None


class Work:
    def __init__(self):
        self.count = getattr(ctypes.CDLL(None), "p4d_report_count_of", lambda number: 0)
        self.count.restype = ctypes.c_uint64
        self.node = max(int(os.environ.get("LOCAL_WORLD_SIZE", "1") or 1), 1)
        self.groups = {}
        self.clear()

    def clear(self):
        self.sums = dict.fromkeys(SUMS, 0)
        self.wires = {}  # (ranks of a group, of them in this node) -> calls, bytes gathered, exchanged, transferred
        self.inside = 0
        self.before = self.launches()

    def launches(self):
        return self.count(LAUNCHES) + self.count(PRODUCTS)

    def rows(self):
        """The counts since the last call."""
        row = dict(self.sums)
        row["kernels"] = self.launches() - self.before
        row["foreign"] = max(row["kernels"] - self.inside, 0)
        row["wires"] = [list(key) + value for key, value in self.wires.items()]
        self.clear()
        return row

    def operator(self, function, arguments, named, launched, result):
        """Counts an operator that ended. launched: the number of kernels that it launched."""
        self.inside += launched
        name = function.overloadpacket.__name__
        if function.namespace in ("c10d", "_c10d_functional", "_c10d_functional_autograd"):
            self.communicate(name, function, arguments, named)
            return
        declared = function._schema.arguments
        given = [(a, v) for a, v in zip(declared, arguments)] + [(a, named[a.name]) for a in declared if a.name in named]
        values = {a.name: v for a, v in given}
        if "attention" in name and "query" in values and "key" in values:
            self.attention(name, values, result)
        elif name in ("convolution", "convolution_backward", "cudnn_convolution"):
            self.convolution(name, values, result)
        elif name in GROUPED:
            self.group_products(name, *arguments[:2], result)
        elif name not in PRODUCTS_OF and name not in NOTHING:
            self.move(name, function, given, result)

    def attention(self, name, values, result):
        """Two matmuls of queries and keys in the forward pass, and five in the backward pass; causal attention needs
        only half of the scores."""
        query, key, value = values["query"], values["key"], values.get("value", values["key"])
        if not query.is_cuda or query.dim() != 4:
            return
        by_heads = name.startswith("_scaled_dot_product")  # (batch, heads, tokens, head), else (batch, tokens, heads, head)
        tokens, keys = (query.shape[2], key.shape[2]) if by_heads else (query.shape[1], key.shape[1])
        flops = 2 * query.numel() // max(query.shape[-1], 1) * keys * (query.shape[-1] + value.shape[-1])
        if values.get("is_causal") and tokens == keys:
            flops //= 2
        backward = name.endswith("backward")
        for kernel in ("attention", "cudnn") if "cudnn" in name else ("attention",):
            self.sums[f"{kernel}_backward" if backward else f"{kernel}_forward"] += flops * 5 // 2 if backward else flops

    def group_products(self, name, a, b, result):
        """Each element of a meets the columns of one matrix: of b, or of b's part for its group."""
        groups = a.shape[0] if a.dim() == 3 and b.dim() == 2 else 1
        self.sums[GROUPED[name]] += 2 * a.numel() * b.shape[-1] // groups
        self.sums["grouped_bytes"] += _bytes(a) + _bytes(b) + _bytes(result)

    def convolution(self, name, values, result):
        weight = values["weight"]
        if not weight.is_cuda:
            return
        output = values["grad_output"] if name.endswith("backward") else result
        # Each output element is a sum over the inputs of its group and the kernel; in a transposed convolution, with
        # input and output exchanged.
        transposed = values.get("transposed", False)
        positions = values["input"] if transposed and "input" in values else output
        flops = 2 * positions.numel() * (weight.numel() // max(weight.shape[0], 1))
        self.sums["convolutions"] += flops * (sum(values["output_mask"][:2]) if name.endswith("backward") else 1)

    def move(self, name, function, given, result):
        """Bytes of a kernel that only moves data, or of a copy between host and device."""
        written, read = [], []
        for argument, value in given:
            writes = argument.alias_info is not None and argument.alias_info.is_write
            (written if writes else read).extend(_flat(value))
        results = [] if any(r.alias_info is not None for r in function._schema.returns) else _flat(result)
        if not written and not results:
            return  # a view moves nothing
        tensors = written + read + results
        if any(not t.is_cuda for t in tensors if t.dim()) and any(t.is_cuda for t in tensors):
            self.sums["lifted"] += max((_bytes(t) for t in _on_gpu(tensors)), default=0)
            return
        results, written, read = _on_gpu(results), _on_gpu(written), _on_gpu(read)
        out = sum(map(_bytes, results)) + sum(map(_bytes, written)) * (1 if name in OVERWRITE else 2)
        into = sum(map(_bytes, read))
        self.sums["moved"] += out + (min(into, out) if name in PARTS else into)

    def group(self, values):
        """(ranks, of them in this node) of the process group among the arguments."""
        group = values.get("process_group", values.get("group_name"))
        key = group if isinstance(group, str) else id(group)
        if key not in self.groups:
            ranks = _ranks_of(group)
            own = int(os.environ.get("RANK", "0") or 0) // self.node
            self.groups[key] = (len(ranks), sum(rank // self.node == own for rank in ranks), group) if ranks else None
        return self.groups[key]

    def communicate(self, name, function, arguments, named):
        """Bytes of the whole tensor that every rank has afterwards, or had before. An all-reduce is a reduce-scatter
        and an all-gather."""
        values = dict(zip((a.name for a in function._schema.arguments), arguments), **named)
        put = sum(_bytes(t) for n, v in values.items() if "out" in n for t in _on_gpu(v))
        taken = sum(_bytes(t) for n, v in values.items() if "out" not in n for t in _on_gpu(v))
        group = self.group(values) if put or taken else None
        if group is None or group[0] < 2:
            return
        whole = max(put, taken)
        if "functional" in function.namespace and "gather" in name and not put:
            whole *= group[0]  # its argument is one rank's part
        wire = self.wires.setdefault(group[:2], [0, 0, 0, 0])
        wire[CALLS] += 1
        if name in EXCHANGES:
            wire[EXCHANGED] += whole
        elif name in TRANSFERS:
            wire[TRANSFERRED] += whole
        else:
            wire[GATHERED] += whole * (2 if name.replace("_", "").startswith("allreduce") else 1)
