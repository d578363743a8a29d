# SPDX-License-Identifier: Apache-2.0
"""Custom operators whose kernel is a Python function (torch.library.custom_op, Library.impl).

PyTorch switches a dispatch mode off while it handles an operator. Within such a function the mode would see nothing,
and nonzero() would read memory that no kernel wrote. So the mode is switched on again for the function."""
import functools

import torch

CUDA = torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA)


@functools.lru_cache(None)
def is_python(function):
    """Whether the operator's kernel for GPUs is a Python function."""
    schema = function._schema
    name = schema.name.replace("::", "/") + ("." + schema.overload_name if schema.overload_name else "")
    if function.namespace == "aten":
        return False
    has_own = torch._C._dispatch_has_kernel_for_dispatch_key(function.name(), "CUDA")
    return f"{name}/{'CUDA' if has_own else 'CompositeExplicitAutograd'}" in torch.library._impls


def run(mode, function, arguments, named):
    """Calls the kernel itself: a call of the operator would come back to the mode."""
    with mode:
        return function.redispatch(CUDA, *arguments, **named)
