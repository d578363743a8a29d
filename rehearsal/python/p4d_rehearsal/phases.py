# SPDX-License-Identifier: Apache-2.0
"""Follows a training through its phases and writes what the caching allocator held in each.

One line of JSON per phase goes to P4D_REHEARSAL_PHASES:
{"phase": "backward", "step": 1, "allocated": bytes, "reserved": bytes, "parameters": bytes, ...}
`allocated` and `reserved` are peaks within the phase. After P4D_REHEARSAL_STEPS optimizer steps the process ends."""
import atexit
import ctypes
import json
import os
import sys
import weakref

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

_steps = int(os.environ.get("P4D_REHEARSAL_STEPS", "0"))
at_end = []  # what else is written before the process ends early


class _Phases:
    def __init__(self, path):
        self.path = path
        self.phase = "load"
        self.step = 1
        self.updated = False  # an optimizer has run since the last forward pass
        self.models = weakref.WeakSet()
        self.optimizers = weakref.WeakSet()
        self.held = None  # kinds() when the last optimizer ended: zero_grad() comes before the phase does
        self.peaks = {}  # of the program's own period, by member of the allocator's statistics

    def enter(self, phase):
        if phase == self.phase:
            return
        self.leave()
        self.phase = phase

    def leave(self):
        """Writes the peaks of the phase that ends."""
        if not self.phase or not torch.cuda.is_initialized():
            return
        stats = _plain_stats(torch.cuda.current_device())
        self.remember(stats)
        row = {"phase": self.phase, "step": self.step,
               "allocated": stats["allocated_bytes"]["all"]["peak"], "reserved": stats["reserved_bytes"]["all"]["peak"]}
        row.update(self.held or self.kinds())
        self.held = None
        with open(self.path, "a") as out:
            out.write(json.dumps(row) + "\n")
        torch._C._cuda_resetPeakMemoryStats(torch.cuda.current_device())

    def remember(self, stats):
        """Keeps peaks that a new phase would hide from the program."""
        for name, kinds in stats.items():
            if isinstance(kinds, dict) and "all" in kinds:
                self.peaks[name] = max(self.peaks.get(name, 0), kinds["all"]["peak"])

    def kinds(self):
        """Bytes on the device by what holds them, at the end of the phase."""
        seen = set()
        parameters = [p for m in self.models for p in m.parameters()]
        parameters += [p for o in self.optimizers for g in o.param_groups for p in g["params"]]
        return {"parameters": _bytes(parameters, seen), "gradients": _bytes([p.grad for p in parameters], seen),
                "optimizer": _bytes([s for o in self.optimizers for state in o.state.values()
                                     for s in (state.values() if isinstance(state, dict) else [])], seen)}

    def forward_began(self, module, arguments):
        self.forward_hook.remove()
        self.models.add(module)
        if self.updated:
            if _steps and self.step >= _steps:
                self.leave()
                end(0)
            self.leave()
            self.phase = ""
            self.updated = False
            self.step += 1
        self.enter("forward" if module.training else "evaluation")

    def await_forward(self):
        self.forward_hook = torch.nn.modules.module.register_module_forward_pre_hook(self.forward_began)

    def backward_began(self):
        self.enter("backward")

    def update_began(self, optimizer):
        self.optimizers.add(optimizer)
        self.enter("update")

    def update_ended(self):
        self.held = self.kinds()
        if not self.updated:
            self.updated = True
            self.await_forward()


def _bytes(tensors, seen):
    total = 0
    for t in tensors:
        t = getattr(t, "_local_tensor", t)
        if not isinstance(t, torch.Tensor) or not t.is_cuda:
            continue
        storage = t.untyped_storage()
        if storage.data_ptr() not in seen:
            seen.add(storage.data_ptr())
            total += storage.nbytes()
    return total


def end(status):
    """Ends the process at once, as a program that finished: nothing that it would do after training happens."""
    for write in at_end:
        write()
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.CDLL(None).p4d_report_write()
    os._exit(status)


def _wrap(owner, name, before, after=None):
    inner = getattr(owner, name)

    def outer(*arguments, **named):
        before()
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
    """The program reads the peaks of its own period, not of our phases."""
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


def install():
    path = os.environ.get("P4D_REHEARSAL_PHASES")
    if not path:
        return
    phases = _Phases(path)
    _keep_peaks(phases)
    phases.await_forward()
    _wrap(torch.autograd, "backward", phases.backward_began)
    _wrap(torch, "save", lambda: phases.enter("save"))
    register_optimizer_step_pre_hook(lambda o, *rest: phases.update_began(o))
    register_optimizer_step_post_hook(lambda o, *rest: phases.update_ended())
    atexit.register(phases.leave)
