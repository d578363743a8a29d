# SPDX-License-Identifier: Apache-2.0
"""A program that sets no seed draws other data, and data in another order, in each run. In rehearsals it draws the same, so
that two of them have the same figures."""
import random

SEED = 38


def after_torch(torch):
    torch.default_generator.manual_seed(SEED)


AFTER = {"numpy.random": lambda module: module.seed(SEED)}


def install():
    random.seed(SEED)
