# SPDX-License-Identifier: Apache-2.0
"""A tokenizer with as many tokens as Llama 3's, and texts for it."""
import base64
import itertools
import json
import random

TOKENS = 128000
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def write_tokenizer(path):
    """In the format of tiktoken: all words of one and two bytes, and some of three."""
    words = itertools.chain.from_iterable(itertools.product(range(256), repeat=size) for size in (1, 2, 3))
    with open(path, "w") as out:
        for rank, word in enumerate(itertools.islice(words, TOKENS)):
            out.write("%s %d\n" % (base64.b64encode(bytes(word)).decode(), rank))
    return path


def write_texts(path, count=200):
    choose = random.Random(5)
    with open(path, "w") as out:
        for _ in range(count):
            words = ("".join(choose.choice(LETTERS) for _ in range(choose.randrange(2, 9))) for _ in range(1500))
            out.write(json.dumps({"text": " ".join(words)}) + "\n")
    return path
