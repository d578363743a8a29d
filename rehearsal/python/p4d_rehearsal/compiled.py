# SPDX-License-Identifier: Apache-2.0
"""torch.compile with the mode that follows values, in releases of PyTorch (2.4, 2.7) that do not let a mode ignore it.

They turn every mode off while they compile, and call the compiled function with the mode on. Its guards compare the
dispatch keys of tensors, so they would never match: PyTorch would compile the function for each call, and give up
after eight."""
from contextlib import ExitStack


def allow_higher(kind):
    """These releases do not ask a mode whether it supports operators whose arguments are functions, such as those of a
    compiled checkpoint. Each operator has a table of the modes that it knows."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    operators = torch._ops.HigherOrderOperator
    dispatch = operators.dispatch
    if hasattr(TorchDispatchMode, "supports_higher_order_operators"):
        return

    def dispatch_with_mode(self, /, *arguments, **named):
        table = self.python_key_table if hasattr(self, "python_key_table") else self.python_key_mode_table
        table.setdefault(kind, lambda mode, *rest, **others: mode.run_higher(self, rest, others))
        return dispatch(self, *arguments, **named)

    operators.dispatch = dispatch_with_mode


def of_guards(module):
    from p4d_rehearsal import values  # needs torch
    from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode
    if hasattr(TorchDispatchMode, "ignore_compile_internals"):
        return
    make = module.CheckFunctionManager.__init__

    def make_with_mode(self, *arguments, **named):
        with ExitStack() as modes:
            if not _get_current_dispatch_mode():
                for mode in values.entered:
                    modes.enter_context(mode)
            make(self, *arguments, **named)

    module.CheckFunctionManager.__init__ = make_with_mode


AFTER = {"torch._dynamo.guards": of_guards}
