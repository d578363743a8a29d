# SPDX-License-Identifier: Apache-2.0
"""Keeps programs from timing kernels, which do nothing here.

Inductor and Triton would compile every candidate (which takes minutes), measure the same time for each, and choose
any. Here they choose the first one. What they compile is stored in the rehearsal's directory, because their caches
are for a GPU that measured."""
import os

CACHES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")


def keep_apart():
    """Before torch is imported."""
    record = os.environ.get("P4D_REHEARSAL_RECORD")
    for name in CACHES if record else ():
        os.environ[name] = os.path.join(os.path.dirname(record), name.lower())


def of_inductor(module):
    choose = module.AlgorithmSelectorCache.__call__

    def choose_first(self, name, choices, *arguments, **named):
        return choose(self, name, choices[:1], *arguments, **named)

    module.AlgorithmSelectorCache.__call__ = choose_first


def of_triton(module):
    prune = module.Autotuner.prune_configs

    def prune_to_first(self, *arguments, **named):
        return list(prune(self, *arguments, **named))[:1]

    module.Autotuner.prune_configs = prune_to_first


AFTER = {"torch._inductor.select_algorithm": of_inductor, "triton.runtime.autotuner": of_triton}
