# SPDX-License-Identifier: Apache-2.0
"""Finds out what fills the caching allocator: for every block, which module allocated it and what kind of tensor it
holds.

PyTorch records each block that its allocator allocates and frees (torch.cuda.memory's history, without stacks).
Before each operator the dispatch mode notes which module runs (note), so a block has an owner. Its kind follows from
the tensors at the end of a phase (classify), or from the operator (after). When the process ends, this is written as
two rows: {"largest": [...]}, the memory at the peak of allocated memory, and {"timeline": {...}}."""
import bisect
import inspect
import json
import re
import threading
import time
import weakref

import torch

from p4d_rehearsal.sizes import WHOLE
from p4d_rehearsal.timeline import KINDS, Block, Timeline

ROWS = 60  # number of largest entries
HISTORY = 1 << 20  # entries that PyTorch keeps
DRAIN = 50000  # number of operators after which the history is read
FOLD = 400000  # number of events after which the timeline is summed up
WRAPPERS = re.compile(r"\b(module|_fsdp_wrapped_module|_orig_mod|_checkpoint_wrapped_module)\.")

_node = getattr(torch._C, "_current_autograd_node", lambda: None)
_sequence = torch._C._autograd._get_sequence_nr if hasattr(torch._C._autograd, "_get_sequence_nr") else lambda: 0
_local = threading.local()


def _options(function):
    names = set(inspect.signature(function).parameters)
    inner = getattr(torch.cuda.memory, function.__name__ + "_impl", None)  # called by a wrapper with *args
    return names | (set(inspect.signature(inner).parameters) if inner else set())


class Account:
    def __init__(self, phases):
        self.phases = phases
        self.live = {}  # address -> block
        self.timeline = Timeline()
        self.owners = []  # of each operator since the history was last read
        self.first = 0  # number of the first of them
        self.times = []  # numbers of operators, if blocks cannot carry a number
        self.marks = []  # (operator, address, kind)
        self.names = weakref.WeakKeyDictionary()  # module -> name
        self.passes = ([], [])  # sequence numbers of autograd, and the module that runs from each of them on
        self.vocabulary = 0
        self.copies = {}  # host storages that were copied from the device -> bytes
        self.copied_peak = 0
        self.records = False
        set_metadata = getattr(torch.cuda.memory, "_set_memory_metadata", None)
        self.set_metadata = torch._C._cuda_setMemoryMetadata if set_metadata and hasattr(
            torch._C, "_cuda_setMemoryMetadata") else None
        torch.cuda._lazy_call(self.record)

    # The history

    def record(self):
        record = torch.cuda.memory._record_memory_history
        clear = {"clear_history": True} if "clear_history" in _options(record) else {}
        try:
            if not clear:
                record(None)  # releases without that option clear the history when recording ends
            record("all", context=None, max_entries=HISTORY, **clear)
            self.records = True
        except (RuntimeError, TypeError):
            pass  # an allocator without a history

    def drain(self):
        """Reads the history."""
        owners, first, times, marks = self.owners, self.first, self.times, self.marks
        self.owners, self.times, self.marks = [], [], []
        self.first = first + len(owners)
        if not self.records:
            return
        trace = torch.cuda.memory._snapshot()["device_traces"][torch.cuda.current_device()]
        self.record()  # starts anew
        marks.sort(key=lambda m: m[0])
        marks.reverse()
        take = {"alloc": self.came, "free_completed": self.went}
        for entry in trace:
            number = self.number_of(entry, first, times)
            while marks and marks[-1][0] < number:
                self.mark(*marks.pop()[1:])
            action = entry["action"]
            if action in take:
                owner = owners[number - first] if 0 <= number - first < len(owners) else None
                take[action](entry["addr"], entry["size"], owner)
            elif action in ("segment_alloc", "segment_map"):
                self.timeline.events.append(entry["size"])
            elif action in ("segment_free", "segment_unmap"):
                self.timeline.events.append(-entry["size"])
        while marks:
            self.mark(*marks.pop()[1:])
        if len(self.timeline.events) > 2 * FOLD:
            self.timeline.fold()

    @staticmethod
    def number_of(entry, first, times):
        """The operator that ran when the entry was recorded."""
        if times:
            return first + bisect.bisect_right(times, entry["time_us"]) - 1
        text = entry.get("user_metadata")
        return int(text) if text and text.isdigit() else -1

    def came(self, address, bytes_, owner):
        phase = self.phases.phase
        kind = "activations" if owner is not None and phase not in ("load", "update", "between") else "other"
        block = Block((bytes_ + 511) // 512 * 512, kind, owner, self.phases.step)
        self.live[address] = block
        self.timeline.events.append(block)

    def went(self, address, bytes_, owner):
        block = self.live.pop(address, None)
        if block:
            self.timeline.events.append(block)

    def mark(self, address, kind):
        block = self.live.get(address)
        if block and block.kind in ("activations", "other"):
            block.kind = kind

    # What runs

    def enter_phase(self, name, step):
        self.timeline.events.append((name, step))
        if len(self.timeline.events) > FOLD:
            self.timeline.fold()

    def leave_phase(self):
        self.drain()
        for block in self.live.values():  # an activation does not outlive its step
            if block.kind in ("activations", "logits") and block.step < self.phases.step:
                block.kind = "other"

    def entered(self, module):
        """A module's forward pass begins. True: the program calls it, not another module or a backward pass."""
        stack = _local.__dict__.setdefault("stack", [])
        if not stack and module not in self.names:
            self.name_modules(module)
        name = self.names.get(module) or type(module).__name__
        stack.append(name)
        self.passed(name)
        if len(stack) == 1:
            self.note()
        return len(stack) == 1 and _node() is None and threading.current_thread() is threading.main_thread()

    def left(self):
        stack = _local.__dict__.get("stack")
        if stack:
            stack.pop()
        self.passed(stack[-1] if stack else None)

    def passed(self, name):
        if torch.is_grad_enabled() and threading.current_thread() is threading.main_thread():
            self.passes[0].append(_sequence())
            self.passes[1].append(name)

    def new_step(self):
        self.passes = ([], [])

    def name_modules(self, root):
        for name, module in root.named_modules():
            self.names[module] = WRAPPERS.sub("", name + ".")[:-1] or type(module).__name__
            if isinstance(module, torch.nn.Embedding):
                self.vocabulary = max(self.vocabulary, module.num_embeddings)

    def owner(self):
        """The innermost module that runs; in a backward pass, the module that this pass belongs to."""
        stack = _local.__dict__.get("stack")
        if stack:
            return stack[-1]
        node = _node()
        if node is None or not self.passes[0]:
            return None
        number = node._sequence_nr()
        if number > self.passes[0][-1]:
            return None
        at = bisect.bisect_right(self.passes[0], number) - 1
        return self.passes[1][at] if at >= 0 else None

    def note(self):
        """An operator begins."""
        if not self.records:
            return
        if self.set_metadata:
            self.set_metadata(str(self.first + len(self.owners)))
        else:
            self.times.append(time.time_ns() // 1000)
        self.owners.append(self.owner())
        if len(self.owners) >= DRAIN and torch.cuda.is_initialized():
            self.drain()

    def after(self, function, arguments, result):
        """An operator ended: the kind of its result, if the operator determines it."""
        if function.namespace in ("c10d", "_c10d_functional", "fsdp"):
            self.mark_all((arguments, result), "communication")
            return
        for tensor in result if isinstance(result, (tuple, list)) else (result,):
            if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided or tensor.is_nested:
                continue  # sparse and nested tensors have no storage of their own
            if tensor.device.type == "cpu":
                self.copied(tensor, arguments)
            elif tensor.is_cuda and tensor.dim() > 1 and tensor.shape[-1] == self.vocabulary and tensor.is_floating_point():
                self.mark_all((tensor,), "logits")

    def mark_all(self, tree, kind):
        number = self.first + len(self.owners) - 1
        for tensor in torch.utils._pytree.tree_flatten(tree)[0]:
            if type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.is_cuda and tensor.layout is torch.strided:
                self.marks.append((number, tensor.untyped_storage().data_ptr(), kind))

    def copied(self, tensor, arguments):
        """Copies of more than 1 MiB (except integers) do not touch the host's memory, so it is counted here."""
        bytes_ = tensor.untyped_storage().nbytes()
        if bytes_ <= 1 << 20 or tensor.dtype in WHOLE or not any(isinstance(a, torch.Tensor) and a.is_cuda for a in arguments):
            return
        if tensor.is_pinned():
            return
        key = torch.multiprocessing.reductions.StorageWeakRef(tensor.untyped_storage())
        self.copies = {k: b for k, b in self.copies.items() if not k.expired()}
        self.copies[key] = bytes_
        self.copied_peak = max(self.copied_peak, sum(self.copies.values()))

    def classify(self, kind, storages):
        """The kinds of these tensors, found at the end of a phase."""
        for storage in storages:
            block = self.live.get(storage.data_ptr())
            if block:
                block.kind = kind

    # The answer

    def rows(self):
        self.drain()
        self.timeline.fold()
        line = self.timeline
        sums = {}
        for block in line.peak:
            named = block.kind in ("activations", "logits", "communication", "other")
            owner = re.sub(r"\b\d+\b", "*", block.owner) if named and block.owner else None
            row = sums.setdefault((block.kind, owner), [0, 0])
            row[0] += block.bytes
            row[1] += 1
        largest = [{"kind": kind, "module": owner, "bytes": b, "blocks": n}
                   for (kind, owner), (b, n) in sorted(sums.items(), key=lambda s: -s[1][0])]
        yield {"largest": largest[:ROWS], "allocated": max(line.peak_bytes, 0), "left_out": sum(
            row["bytes"] for row in largest[ROWS:])}
        yield {"host_copies": self.copied_peak}
        yield {"timeline": {"kinds": KINDS, "events": line.count, "points": line.points, "phases": line.few_phases(),
                            "peak": line.peak_at}}

    def write(self, path):
        with open(path, "a") as out:
            for row in self.rows():
                out.write(json.dumps(row) + "\n")
