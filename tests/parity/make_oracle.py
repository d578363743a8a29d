#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Loss and gradients of a tiny Llama in float64 by JAX, for tests/runtime/device/test_device_llama.c.

    pip install jax && tests/parity/make_oracle.py > tests/data/llama_oracle.txt

Nothing of p4d takes part: plain attention over the whole sequence, gradients by jax.grad. Weights and tokens
are not stored but follow from integers, see mixed(); llama_weight() in tests/support/llama.c is the same.
"""
import jax

jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

LAYERS, HIDDEN, FFN, HEADS, KV_HEADS, HEAD_DIM, VOCAB = 2, 16, 40, 4, 2, 4, 48
BATCH, LENGTH, EPSILON, THETA = 2, 24, 1e-5, 10000.0


def mixed(tensor, i):
    """32 well mixed bits of two numbers."""
    x = (tensor * 0x9E3779B9 + i * 0x85EBCA6B + 1) & 0xFFFFFFFF
    for multiplier in (0x7FEB352D, 0x846CA68B):
        x ^= x >> 16
        x = x * multiplier & 0xFFFFFFFF
    return x ^ x >> 16


def weight(tensor, i, norm):
    """A multiple of 2^-16 in [-0.5, 0.5); of a norm 1 + a quarter of it."""
    value = ((mixed(tensor, i) >> 16) - 32768) / 65536
    return 1 + value / 4 if norm else value


def shapes():
    """Names and shapes in the order of the tensors' numbers; norms have one dimension."""
    columns = (HEADS + 2 * KV_HEADS) * HEAD_DIM
    yield "embedding", (VOCAB, HIDDEN)
    for layer in range(LAYERS):
        yield f"{layer}.input_norm", (HIDDEN,)
        yield f"{layer}.qkv", (columns, HIDDEN)
        yield f"{layer}.output", (HIDDEN, HEADS * HEAD_DIM)
        yield f"{layer}.middle_norm", (HIDDEN,)
        yield f"{layer}.gate_up", (2 * FFN, HIDDEN)
        yield f"{layer}.down", (HIDDEN, FFN)
    yield "norm", (HIDDEN,)
    yield "head", (VOCAB, HIDDEN)


def weights():
    made = {}
    for tensor, (name, shape) in enumerate(shapes()):
        values = [weight(tensor, i, len(shape) == 1) for i in range(int(np.prod(shape)))]
        made[name] = jnp.array(values, dtype=jnp.float64).reshape(shape)
    return made


def text():
    """Each label is the next token; every seventh, and the last of a sequence, is not trained on."""
    tokens = [[mixed(1000 + b, i) % VOCAB for i in range(LENGTH)] for b in range(BATCH)]
    labels = [[t[i + 1] if i + 1 < LENGTH and i % 7 != 3 else -1 for i in range(LENGTH)] for t in tokens]
    return np.array(tokens), np.array(labels)


def norm(x, scale):
    return x / jnp.sqrt(jnp.mean(x * x, axis=-1, keepdims=True) + EPSILON) * scale


def rotated(x):
    """x (batch, length, heads, d)"""
    half = HEAD_DIM // 2
    angle = np.arange(LENGTH)[:, None] * THETA ** (-np.arange(half) / half)
    cosine, sine = np.cos(angle)[None, :, None, :], np.sin(angle)[None, :, None, :]
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cosine - b * sine, b * cosine + a * sine], axis=-1)


def attention(x, qkv):
    projected = (x @ qkv.T).reshape(BATCH, LENGTH, HEADS + 2 * KV_HEADS, HEAD_DIM)
    q, k, v = jnp.split(projected, [HEADS, HEADS + KV_HEADS], axis=2)
    group = HEADS // KV_HEADS
    k, v = jnp.repeat(rotated(k), group, axis=2), jnp.repeat(v, group, axis=2)
    scores = jnp.einsum("bihd,bjhd->bhij", rotated(q), k) / np.sqrt(HEAD_DIM)
    scores = jnp.where(np.tril(np.ones((LENGTH, LENGTH), bool)), scores, -jnp.inf)
    out = jnp.einsum("bhij,bjhd->bihd", jax.nn.softmax(scores, axis=-1), v)
    return out.reshape(BATCH, LENGTH, HEADS * HEAD_DIM)


def loss(w, tokens, labels):
    x = w["embedding"][tokens]
    for layer in range(LAYERS):
        of = lambda name: w[f"{layer}.{name}"]  # noqa: E731
        x = x + attention(norm(x, of("input_norm")), of("qkv")) @ of("output").T
        gate, up = jnp.split(norm(x, of("middle_norm")) @ of("gate_up").T, 2, axis=-1)
        x = x + (jax.nn.silu(gate) * up) @ of("down").T
    logits = norm(x, w["norm"]) @ w["head"].T
    target = jnp.take_along_axis(logits, np.maximum(labels, 0)[..., None], axis=-1)[..., 0]
    each = jax.nn.logsumexp(logits, axis=-1) - target
    return jnp.sum(jnp.where(labels >= 0, each, 0)) / np.sum(labels >= 0)


def main():
    tokens, labels = text()
    value, gradients = jax.value_and_grad(loss)(weights(), tokens, labels)
    print("# Made by tests/parity/make_oracle.py. Gradients of the mean loss, row by row.")
    print(f"loss {float(value):.12e}")
    for name, shape in shapes():
        numbers = [f"{x:.8e}" for x in np.asarray(gradients[name]).ravel()]
        print("tensor", name, len(numbers))
        for i in range(0, len(numbers), 8):
            print(" ".join(numbers[i : i + 8]))


main()
