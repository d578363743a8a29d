#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Loss and gradients of a small Llama whose products are in FP8, by numpy, for tests/runtime/trainer/test_trainer_fp8.c.

    tests/parity/make_fp8.py > tests/data/fp8_oracle.txt

Nothing of p4d takes part. All is float64 but the operands of the layers' products, which are rounded as the recipes say: to the
nearest number of the format, times the least power of two by which the largest of a block fits. Of each gradient its length and some
sums with signs are written. Weights and text follow from integers, see mixed(): training_mixed() in tests/support/training.h.
"""
import numpy as np

HIDDEN, FFN, HEADS, HEAD_DIM, VOCAB, LENGTH, BATCH, LAYERS = 128, 128, 2, 64, 203, 128, 2, 2
EPSILON, THETA, SUMS = 1e-5, 10000.0, 6
# bits of the fraction, exponent of the least normal number, largest number
E4M3, E5M2 = (3, -6, 448.0), (2, -14, 57344.0)
# of weights rows and depth of a block, depth of other operands' (None: all), format of gradients
RECIPES = {"blockwise": (128, 128, 128, E4M3), "mxfp8": (1, 32, 32, E4M3), "current": (None, None, None, E5M2)}


def mixed(a, b):
    """32 bits of two numbers; b may be an array."""
    with np.errstate(over="ignore"):
        z = np.uint64(a) * np.uint64(0x9E3779B97F4A7C15) + np.asarray(b, dtype=np.uint64) + np.uint64(1)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            z = (z ^ z >> np.uint64(shift)) * np.uint64(factor)
        return (z ^ z >> np.uint64(31)) >> np.uint64(32)


def text():
    tokens = np.zeros((BATCH, LENGTH + 1), dtype=int)
    for s in range(BATCH):
        tokens[s, 0] = mixed(s, 0) % VOCAB
        for i in range(1, LENGTH + 1):
            random = int(mixed(s, i))
            tokens[s, i] = (tokens[s, i - 1] * 7 + 3) % VOCAB if random % 5 else random % VOCAB
    trained = np.array([mixed(s, np.arange(LENGTH) + 7777) % 11 != 0 for s in range(BATCH)])
    return tokens[:, :-1], np.where(trained, tokens[:, 1:], -1)


def shapes():
    """Name, number and shape of the weights, in the order of p4d-train's buffer."""
    yield "embedding", 0, 0, (VOCAB, HIDDEN)
    for layer in range(LAYERS):
        yield "attention_norm", layer, 1, (HIDDEN,)
        yield "qkv", layer, 2, (3 * HEADS * HEAD_DIM, HIDDEN)
        yield "output", layer, 6, (HIDDEN, HEADS * HEAD_DIM)
        yield "ffn_norm", layer, 7, (HIDDEN,)
        yield "gate_up", layer, 8, (2 * FFN, HIDDEN)
        yield "down", layer, 9, (HIDDEN, FFN)
    yield "norm", 0, 10, (HIDDEN,)


def weights():
    made = {}
    for name, layer, kind, shape in shapes():
        values = (mixed(100 * layer + kind, np.arange(np.prod(shape))) >> np.uint64(16)).astype(float) / 32768 - 1
        made[name, layer] = (values / 4 + (len(shape) == 1)).reshape(shape)
    return made


def rounded(x, form):
    fraction, least, most = form
    exponent = np.maximum(np.frexp(x)[1] - 1, least)
    step = np.exp2(exponent - fraction)
    return np.clip(np.rint(x / step) * step, -most, most)


def quantized(x, high, wide, form):
    """x (rows, depth) in blocks of so many rows and columns."""
    rows, depth = x.shape
    high, wide = high or rows, wide or depth
    blocks = x.reshape(rows // high, high, depth // wide, wide)
    largest = np.abs(blocks).max(axis=(1, 3), keepdims=True)
    fraction, exponent = np.frexp(largest / form[2])  # in [0.5, 1): 1 is the first of the next
    scale = np.exp2(np.where(fraction == 0.5, exponent - 1, exponent))
    scale = np.where(largest == 0, 1, scale)
    return (rounded(blocks / scale, form) * scale).reshape(rows, depth)


class Linear:
    def __init__(self, recipe, weight, x):
        self.rows, self.wide, self.block, self.form = RECIPES[recipe]
        self.weight, self.x = weight, x
        one = self.block and 1
        self.y = quantized(x, one, self.block, E4M3) @ quantized(weight, self.rows, self.wide, E4M3).T

    def back(self, dy):
        one = self.block and 1
        dx = quantized(dy, one, self.block, self.form) @ quantized(self.weight.T, self.rows, self.wide, E4M3).T
        dw = quantized(dy.T, one, self.block, self.form) @ quantized(self.x.T, one, self.block, E4M3).T
        return dx, dw


def norm(x, weight):
    rstd = 1 / np.sqrt((x * x).mean(axis=-1, keepdims=True) + EPSILON)
    return x * rstd * weight, rstd


def norm_back(dy, x, weight, rstd):
    n = x * rstd
    g = dy * weight
    return rstd * (g - n * (g * n).mean(axis=-1, keepdims=True)), (dy * n).sum(axis=0)


def turned(x, back):
    """x (batch, length, heads, d), by the angle of its place, or back"""
    half = HEAD_DIM // 2
    angle = np.arange(LENGTH)[:, None] * THETA ** (-np.arange(half) * 2.0 / HEAD_DIM)
    cosine, sine = np.cos(angle)[None, :, None, :], np.sin(angle)[None, :, None, :] * (-1 if back else 1)
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cosine - b * sine, b * cosine + a * sine], axis=-1)


def attention(qkv):
    q, k, v = np.split(qkv.reshape(BATCH, LENGTH, 3 * HEADS, HEAD_DIM), 3, axis=2)
    q, k = turned(q, False), turned(k, False)
    score = np.einsum("bihd,bjhd->bhij", q, k) / np.sqrt(HEAD_DIM)
    score = np.where(np.tril(np.ones((LENGTH, LENGTH), dtype=bool)), score, -np.inf)
    p = np.exp(score - score.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    return np.einsum("bhij,bjhd->bihd", p, v).reshape(BATCH * LENGTH, -1), (q, k, v, p)


def attention_back(do, kept):
    q, k, v, p = kept
    do = do.reshape(BATCH, LENGTH, HEADS, HEAD_DIM)
    dp = np.einsum("bihd,bjhd->bhij", do, v)
    ds = p * (dp - (dp * p).sum(axis=-1, keepdims=True)) / np.sqrt(HEAD_DIM)
    dq, dk = turned(np.einsum("bhij,bjhd->bihd", ds, k), True), turned(np.einsum("bhij,bihd->bjhd", ds, q), True)
    dv = np.einsum("bhij,bihd->bjhd", p, do)
    return np.concatenate([dq, dk, dv], axis=2).reshape(BATCH * LENGTH, -1)


def gradients(recipe):
    w, (tokens, labels) = weights(), text()
    g = {key: np.zeros_like(value) for key, value in w.items()}
    x, kept = w["embedding", 0][tokens.reshape(-1)], []
    for layer in range(LAYERS):
        normed, rstd = norm(x, w["attention_norm", layer])
        qkv = Linear(recipe, w["qkv", layer], normed)
        o, inside = attention(qkv.y)
        output = Linear(recipe, w["output", layer], o)
        middle = x + output.y
        normed, middle_rstd = norm(middle, w["ffn_norm", layer])
        gate_up = Linear(recipe, w["gate_up", layer], normed)
        gate, up = gate_up.y[:, :FFN], gate_up.y[:, FFN:]
        sigmoid = 1 / (1 + np.exp(-gate))
        down = Linear(recipe, w["down", layer], gate * sigmoid * up)
        kept.append((x, rstd, qkv, inside, output, middle, middle_rstd, gate_up, gate, up, sigmoid, down))
        x = middle + down.y
    last, rstd = norm(x, w["norm", 0])
    logits = last @ w["embedding", 0].T
    logits -= logits.max(axis=-1, keepdims=True)
    p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    labels = labels.reshape(-1)
    rows, own = np.flatnonzero(labels >= 0), labels[labels >= 0]
    loss = -np.log(p[rows, own]).mean()
    d = np.where((labels >= 0)[:, None], p, 0)
    d[rows, own] -= 1
    d /= BATCH * LENGTH
    g["embedding", 0] += d.T @ last
    dx, g["norm", 0] = norm_back(d @ w["embedding", 0], x, w["norm", 0], rstd)
    for layer in reversed(range(LAYERS)):
        x, rstd, qkv, inside, output, middle, middle_rstd, gate_up, gate, up, sigmoid, down = kept[layer]
        dact, g["down", layer] = down.back(dx)
        dgate = dact * up * sigmoid * (1 + gate * (1 - sigmoid))
        dnormed, g["gate_up", layer] = gate_up.back(np.concatenate([dgate, dact * gate * sigmoid], axis=1))
        dmiddle, g["ffn_norm", layer] = norm_back(dnormed, middle, w["ffn_norm", layer], middle_rstd)
        dx = dx + dmiddle
        do, g["output", layer] = output.back(dx)
        dnormed, g["qkv", layer] = qkv.back(attention_back(do, inside))
        dinput, g["attention_norm", layer] = norm_back(dnormed, x, w["attention_norm", layer], rstd)
        dx = dx + dinput
    np.add.at(g["embedding", 0], tokens.reshape(-1), dx)
    return loss, g


def main():
    print("# numpy", np.__version__, "of tests/parity/make_fp8.py")
    for recipe in RECIPES:
        loss, g = gradients(recipe)
        print(f"recipe {recipe} loss {loss:.12g}")
        for name, layer, kind, shape in shapes():
            flat = g[name, layer].reshape(-1)
            signs = [1.0 - 2 * (mixed(9000 + i, np.arange(flat.size)) & np.uint64(1)).astype(float) for i in range(SUMS)]
            print(f"{layer}.{name}", flat.size, f"{np.sqrt(flat @ flat):.9g}", *(f"{s @ flat:.9g}" for s in signs))


if __name__ == "__main__":
    main()
