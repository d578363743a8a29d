# SPDX-License-Identifier: Apache-2.0
"""Follows a training through its phases and writes the memory of the caching allocator in each.

P4D_REHEARSAL_PHASES gets one line of JSON per phase: {"phase": "backward", "step": 1, "allocated": bytes, "reserved":
bytes, "parameters": bytes, ...} `allocated` and `reserved` are peaks within the phase. A phase that repeats within a
step has another line. After P4D_REHEARSAL_STEPS optimizer steps the process ends, before the next forward pass of the
training. If P4D_REHEARSAL_UNTIL has "eval" or "save", the program first continues until it has evaluated or saved
(saving.py), for at most PATIENCE steps."""
import atexit
import ctypes
import json
import os
import sys
import weakref

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.weak import WeakIdKeyDictionary

from p4d_rehearsal import subclasses
from p4d_rehearsal.account import Account
from p4d_rehearsal.work import Work

PATIENCE = 50
MEMORY = ("memory", "alloc", "oom", "batch size")  # words of an exception's text that may be about memory
TRAINING = ("forward", "backward", "update", "between")

_steps = int(os.environ.get("P4D_REHEARSAL_STEPS", "0"))
# p4d_report_count of the stand-ins
COUNTS = {"flops": 2, "collective_bytes": 5, "products": 1, "flops_8": 8, "flops_tf32": 9, "flops_32": 10, "depth": 11, "product_bytes": 12}
at_end = []  # functions that write other results before the process ends early
current = None  # the _Phases of this process


class _Phases:
    def __init__(self, path):
        self.path = path
        self.phase = "load"
        self.step = 1
        self.updated = False  # an optimizer has run since the last forward pass
        self.passes = 0  # backward passes since then
        self.has_optimizer = False  # the program has made one, and will step it
        self.versions = WeakIdKeyDictionary()  # of parameters, while there is no optimizer
        self.wanted = set(os.environ.get("P4D_REHEARSAL_UNTIL", "").split(",")) & {"eval", "save"}
        self.saves = 0  # nested calls of functions that save
        self.most = 0  # peak of reserved memory in all phases
        self.models = weakref.WeakSet()
        self.optimizers = weakref.WeakSet()
        self.fraction = 0  # of the GPU's memory, to which the program limits PyTorch; 0: no limit
        self.held = None  # kinds() at the end of the last optimizer; zero_grad() runs before the phase ends
        self.counts = dict.fromkeys(COUNTS, 0)  # until this phase began
        self.peaks = {}  # peaks of the program's own period, by member of the allocator's statistics
        self.account = Account(self)
        self.work = Work()

    def enter(self, phase):
        if phase == self.phase:
            return
        self.leave()
        self.phase = phase
        self.account.enter_phase(phase, self.step)

    def leave(self):
        """Writes the peaks of the phase that ends."""
        if not self.phase or not torch.cuda.is_initialized():
            return
        stats = _plain_stats(torch.cuda.current_device())
        self.remember(stats)
        row = {"phase": self.phase, "step": self.step,
               "allocated": stats["allocated_bytes"]["all"]["peak"], "reserved": stats["reserved_bytes"]["all"]["peak"]}
        row.update(self.held or self.kinds())
        counts = {name: _count(number) for name, number in COUNTS.items()}
        row.update((name, counts[name] - self.counts[name]) for name in COUNTS)
        self.counts = counts
        row.update(self.work.rows())
        self.held = None
        self.account.leave_phase()
        torch._C._cuda_resetPeakMemoryStats(torch.cuda.current_device())
        if _steps and self.step > _steps and self.phase in TRAINING and row["reserved"] <= self.most:
            return  # steps to wait for the wanted phases
        self.most = max(self.most, row["reserved"])
        self.write(row)

    def write(self, row):
        with open(self.path, "a") as out:
            out.write(json.dumps(row) + "\n")

    def remember(self, stats):
        """Keeps peaks that a new phase would hide from the program."""
        for name, kinds in stats.items():
            if isinstance(kinds, dict) and "all" in kinds:
                self.peaks[name] = max(self.peaks.get(name, 0), kinds["all"]["peak"])

    def kinds(self):
        """Bytes on the device by kind of tensor, at the end of the phase."""
        seen = set()
        # Megatron-Core's DistributedDataParallel has a list instead of the method buffers().
        parameters = [p for m in self.models for p in torch.nn.Module.parameters(m)]
        parameters += [p for o in self.optimizers for g in o.param_groups for p in g["params"]]
        held = {"parameters": parameters, "gradients": [p.grad for p in parameters],
                "optimizer": [s for o in self.optimizers for state in o.state.values()
                              for s in (state.values() if isinstance(state, dict) else [])],
                "buffers": [b for m in self.models for b in torch.nn.Module.buffers(m)]}
        self.account.drain()
        bytes_ = {}
        for kind, tensors in held.items():
            storages = _storages(tensors, seen)
            self.account.classify(kind, storages)
            bytes_[kind] = sum(s.nbytes() for s in storages)
        return bytes_

    def called(self, module):
        """The program calls a model, or a loss."""
        trains, evaluates = _use_of(module)
        if evaluates:
            self.end_if_done()
            self.models.add(module)
            self.wanted.discard("eval")
            self.enter("evaluation")
        elif trains:
            self.models.add(module)
            self.look_for_own_update(module)
            if self.updated:
                self.next_step()
            self.enter("forward")
        elif trains is None:
            return  # the module has no parameters
        elif self.phase in ("load", ""):
            self.models.add(module)  # a frozen model, such as a reference
            self.enter("forward")

    def end_if_done(self):
        """Ends the process after the requested steps, if nothing else is wanted."""
        is_late = _steps and self.step >= _steps and self.updated
        if is_late and (not self.wanted or self.step >= _steps + PATIENCE):
            self.leave()
            self.phase = ""
            end(0)

    def next_step(self):
        self.end_if_done()
        self.leave()
        self.phase = ""
        self.updated = False
        self.passes = 0
        self.step += 1
        self.account.new_step()

    def backward_began(self, *_, **__):
        self.enter("backward")
        self.passes += 1
        if not self.optimizers and self.passes & (self.passes - 1) == 0:
            self.write({"passes_without_optimizer": self.passes})  # is read if the program does not end in time

    def grad_began(self, *_, create_graph=False, **__):
        """torch.autograd.grad: a backward pass, unless the loss depends on its result."""
        if self.phase == "forward" and not create_graph:
            self.backward_began()

    def optimizer_made(self, *_, **__):
        self.has_optimizer = True

    def update_began(self, optimizer):
        self.optimizers.add(optimizer)
        self.versions.clear()
        self.enter("update")

    def update_ended(self):
        self.held = self.kinds()
        self.updated = True

    def look_for_own_update(self, module):
        """A program without an optimizer may update the parameters itself. PyTorch counts how often a tensor was
        changed in place. If most parameters have changed since the last pass, this ends a step. With an optimizer, such
        changes have another meaning: a target network is a copy."""
        if self.has_optimizer or self.optimizers:
            return
        parameters = [p for p in module.parameters() if p.requires_grad and not p.is_inference()]
        changed = sum(self.versions.get(p, p._version) != p._version for p in parameters)
        if self.passes and 2 * changed > len(parameters):
            self.enter("update")
            self.update_ended()
        for p in parameters:
            self.versions[p] = p._version

    def limited(self, fraction, *_, **__):
        self.fraction = fraction

    def save_began(self):
        """Files and gathered tensors during the program's start do not count as saving."""
        self.end_if_done()
        self.saves += 1
        if self.saves == 1 and self.phase != "load":
            self.enter("save")

    def save_ended(self):
        self.saves -= 1
        if not self.saves and self.phase == "save":
            self.enter("between")

    def saved(self):
        """A file was written. (A gathered state dict may not have been written yet.)"""
        if self.phase == "save":
            self.wanted.discard("save")

    def is_late(self):
        """Whether all steps are done, and the program only continues for evaluation or saving."""
        return _steps and self.step >= _steps

    def finish(self):
        raised = _raised(self.fraction)
        if raised:
            self.write(raised)
        self.leave()
        self.phase = ""
        if torch.cuda.is_initialized():
            self.write({"caught": _plain_stats(torch.cuda.current_device()).get("num_ooms", 0)})
        if self.wanted:
            self.write({"unseen": sorted(self.wanted)})
        self.account.write(self.path)


def updates():
    """Number of steps that have had an optimizer, and number of requested steps."""
    return (current.step - (not current.updated), _steps) if current else (0, 0)


def _raised(fraction):
    """The exception that ends the program, and whether it (or an exception that caused it) may be about memory;
    None: there is none. fraction: of the GPU's memory that the program allows PyTorch."""
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    name, texts, seen = type(error).__name__, [], set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        texts.append("%s: %s" % (type(error).__name__, error))
        error = error.__cause__ or error.__context__
    if not texts:
        return None
    row = {"raised": name, "out_of_memory": any(word in text.lower() for text in texts for word in MEMORY)}
    if fraction and any("CUDA out of memory" in text for text in texts):
        row["allowed_bytes"] = int(fraction * torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory)
    return row


def _count(number):
    """The stand-ins' counts since the process began."""
    count = ctypes.CDLL(None).p4d_report_count_of
    count.restype = ctypes.c_uint64
    return count(number)


def _use_of(module):
    """Whether a call of the module is a pass of the training or of an evaluation; None: it has no parameters."""
    grads = [p.requires_grad for p in module.parameters()]
    if not grads:
        return None, False
    if not any(grads):
        return False, False
    evaluates = not module.training and not torch.is_grad_enabled()
    return not evaluates, evaluates


def _storages(tensors, seen):
    """The tensors on the device that are not among those seen before."""
    found = []
    for t in (part for tensor in tensors for part in subclasses.parts(tensor)):
        if not t.is_cuda:
            continue
        storage = t.untyped_storage()
        if storage.data_ptr() not in seen:
            seen.add(storage.data_ptr())
            found.append(storage)
    return found


def end(status):
    """Ends the process immediately, like a program that has finished; nothing that it would do after training
    happens."""
    for write in at_end:
        write()
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.CDLL(None).p4d_report_write()
    os._exit(status)


def _wrap(owner, name, before, after=None):
    inner = getattr(owner, name)

    def outer(*arguments, **named):
        before(*arguments, **named)
        try:
            return inner(*arguments, **named)
        finally:
            if after:
                after()

    outer.__wrapped__ = inner
    outer.__name__ = name
    outer.__doc__ = inner.__doc__
    setattr(owner, name, outer)


def _keep_peaks(phases):
    """The program reads the peaks of its own period, not of this module's phases."""
    global _plain_stats
    memory = torch.cuda.memory
    _plain_stats = memory.memory_stats_as_nested_dict
    plain_reset = memory.reset_peak_memory_stats

    def stats(*arguments, **named):
        out = _plain_stats(*arguments, **named)
        for name, peak in phases.peaks.items():
            if name in out and isinstance(out[name], dict) and "all" in out[name]:
                out[name]["all"]["peak"] = max(out[name]["all"]["peak"], peak)
        return out

    def reset(*arguments, **named):
        phases.peaks.clear()
        return plain_reset(*arguments, **named)

    memory.memory_stats_as_nested_dict = stats
    memory.reset_peak_memory_stats = torch.cuda.reset_peak_memory_stats = reset


def _follow_modules(phases):
    traced = torch._guards.TracingContext.try_get

    def compiling():
        """PyTorch 2.4 calls modules with tensors that have no memory, and does not say that it is compiling."""
        return torch.compiler.is_compiling() or traced() is not None

    def entered(module, arguments):
        if not compiling() and phases.account.entered(module):
            phases.called(module)

    def left(module, arguments, result):
        if not compiling():
            phases.account.left()

    torch.nn.modules.module.register_module_forward_pre_hook(entered)
    torch.nn.modules.module.register_module_forward_hook(left, always_call=True)


def install():
    global current
    path = os.environ.get("P4D_REHEARSAL_PHASES")
    if not path:
        return
    current = phases = _Phases(path)
    _keep_peaks(phases)
    _follow_modules(phases)
    _wrap(torch.autograd, "backward", phases.backward_began)
    _wrap(torch.autograd, "grad", phases.grad_began)
    _wrap(torch.cuda.memory, "set_per_process_memory_fraction", phases.limited)
    torch.cuda.set_per_process_memory_fraction = torch.cuda.memory.set_per_process_memory_fraction
    _wrap(torch.optim.Optimizer, "__init__", phases.optimizer_made)
    register_optimizer_step_pre_hook(lambda o, *rest: phases.update_began(o))
    register_optimizer_step_post_hook(lambda o, *rest: phases.update_ended())
    at_end.append(phases.finish)
    atexit.register(phases.finish)
