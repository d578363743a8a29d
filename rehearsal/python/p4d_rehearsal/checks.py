# SPDX-License-Identifier: Apache-2.0
"""Checks of PyTorch that would end a program because nobody computed a value, or because other ranks are absent."""
import dataclasses
import functools


def _valid(check):
    """A training without faults has valid values. The check runs, since it allocates memory."""
    @functools.wraps(check)
    def check_unknown(self, value):
        from p4d_rehearsal import values  # needs torch, which imports torch.distributions
        return values.Values.assume(value, check(self, value), True)

    return check_unknown


def _constraints(module):
    """torch.distributions checks parameters and samples: a word that a policy draws is one of the vocabulary."""
    for kind in list(vars(module).values()):
        if isinstance(kind, type) and issubclass(kind, module.Constraint) and "check" in vars(kind):
            kind.check = _valid(kind.check)


def _plans(module):
    """torch.distributed.checkpoint checks that the parts of all ranks make whole tensors. Absent ranks plan what this rank
    plans."""
    inner = module._validate_global_plan

    @functools.wraps(inner)
    def validate_nothing(plan, metadata):
        return inner([], dataclasses.replace(metadata, state_dict_metadata={}))

    module._validate_global_plan = validate_nothing


AFTER = {"torch.distributions.constraints": _constraints, "torch.distributed.checkpoint.default_planner": _plans}
