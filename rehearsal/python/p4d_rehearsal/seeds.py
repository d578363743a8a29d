# SPDX-License-Identifier: Apache-2.0
"""A program that sets no seed uses other data, and another order of data, in each run. In rehearsals it uses the
same, so that two rehearsals have the same figures."""
import random

SEED = 38


def after_torch(torch):
    torch.default_generator.manual_seed(SEED)


AFTER = {"numpy.random": lambda module: module.seed(SEED)}


def install():
    random.seed(SEED)
