# SPDX-License-Identifier: Apache-2.0
#
# needs: transformers
#
# Parameters: 65.5 M of words, 6.3 M of attention, and experts: Mixtral 2 x 8 x 3 x 1024 x 2816 = 138.4 M, Qwen3 2 x 32 x 3 x
# 1024 x 768 = 151.0 M. Most is held when the loss's backward pass begins: 6 bytes of each (weights, two states) = 1.18 or 1.25
# GiB; of 2048 x 32000 logits 2 + 4 + 4 + 4 bytes = 0.85 GiB; of a row for each token and expert (4096, 8192) the activations,
# 0.22 or 0.19. batched_mm copies an expert's weights for every row: 64 tokens, of Mixtral 128 rows x 17.3 MB x 2 layers = 4.13
# GiB, of Qwen3 256 x 4.7 MB x 2 = 2.25; and for the gradients of the larger copy two times 1.38 or 0.75 GiB.
# case: mixtral-eager
# rehearse: -- mixtral eager 1024
# want: verdict=pass allocated_gib=2.15..2.35 phase=backward
# case: mixtral-grouped
# rehearse: -- mixtral grouped_mm 1024
# want: verdict=pass allocated_gib=2.15..2.35 phase=backward
# case: mixtral-batched
# rehearse: -- mixtral batched_mm 32
# want: verdict=pass allocated_gib=5.3..8.1 phase=backward
# case: qwen3-eager
# rehearse: -- qwen3 eager 1024
# want: verdict=pass allocated_gib=2.2..2.4 phase=backward
# case: qwen3-grouped
# rehearse: -- qwen3 grouped_mm 1024
# want: verdict=pass allocated_gib=2.2..2.4 phase=backward
# case: qwen3-batched
# rehearse: -- qwen3 batched_mm 32
# want: verdict=pass allocated_gib=3.5..5 phase=backward
"""Models with experts: experts.py mixtral|qwen3 eager|grouped_mm|batched_mm LENGTH."""
import sys

import torch
import transformers

import models

small = {**models.SMALL, "num_hidden_layers": 2}
configs = {
    "mixtral": transformers.MixtralConfig(**small, num_local_experts=8, num_experts_per_tok=2),
    "qwen3": transformers.Qwen3MoeConfig(**small, num_experts=32, num_experts_per_tok=4, moe_intermediate_size=768,
                                         decoder_sparse_step=1),
}
model = models.make(configs[sys.argv[1]], dtype=torch.bfloat16, experts_implementation=sys.argv[2]).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
for step in range(10):
    ids = torch.randint(32000, (2, int(sys.argv[3]))).cuda()
    model(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
