# SPDX-License-Identifier: Apache-2.0
"""Python imports this module at its start. It adds what a rehearsal needs to torch, torch.distributed and DeepSpeed
right after the program imports them. No installed file is changed."""
import importlib.abc
import importlib.util
import os
import sys


def _after_torch(module):
    from p4d_rehearsal import files, launchers, phases, saving, seeds, values
    launchers.doubt_spawned()
    seeds.after_torch(module)
    phases.install()
    saving.after_torch(module)
    if os.environ.get("P4D_REHEARSAL_FILES"):
        phases.at_end.append(files.write)
    if os.environ.get("P4D_REHEARSAL_VALUES", "1") != "0":
        values.install()


def _after_distributed(module):
    from p4d_rehearsal import groups
    groups.install(module)


def _after_triton(module):
    """The tensors that a Triton kernel gets are no longer known, because the kernel may write to them."""
    if os.environ.get("P4D_REHEARSAL_VALUES", "1") == "0":
        return
    run = module.JITFunction.run

    def outer(self, *arguments, **named):
        from p4d_rehearsal import values
        values.forget((arguments, named))
        return run(self, *arguments, **named)

    module.JITFunction.run = outer


class _Finder(importlib.abc.MetaPathFinder):
    """Runs a function after the first import of a module. A mere check whether the module exists is no import."""

    def __init__(self, after):
        self.after = after
        self.finding = set()

    def find_spec(self, name, path, target=None):
        if name not in self.after or name in self.finding:
            return None
        self.finding.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.finding.discard(name)
        if not spec or not spec.loader:
            return None
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            then = self.after.pop(name, None)
            if then:
                then(module)

        spec.loader.exec_module = exec_module
        return spec


def _run_hidden():
    """Runs the sitecustomize of the system or of the virtual environment, which this one hides."""
    here = os.path.dirname(os.path.abspath(__file__))
    for place in sys.path:
        path = os.path.join(place or ".", "sitecustomize.py")
        if os.path.abspath(place or ".") != here and os.path.isfile(path):
            spec = importlib.util.spec_from_file_location("sitecustomize", path)
            spec.loader.exec_module(importlib.util.module_from_spec(spec))
            return


if os.environ.get("P4D_REHEARSAL_REPORT"):
    from p4d_rehearsal import autotune, checks, compiled, engines, launchers, saving, seeds, smi, stages
    autotune.keep_apart()
    seeds.install()
    smi.install()
    sys.meta_path.insert(0, _Finder({"torch": _after_torch, "torch.distributed.distributed_c10d": _after_distributed,
                                     "triton.runtime.jit": _after_triton, **autotune.AFTER, **checks.AFTER, **compiled.AFTER,
                                     **launchers.AFTER, **saving.AFTER, **seeds.AFTER, **stages.AFTER,
                                     **engines.AFTER}))
if os.environ.get("P4D_REHEARSAL_FILES"):
    from p4d_rehearsal import files
    files.install()
_run_hidden()
