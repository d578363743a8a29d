# SPDX-License-Identifier: Apache-2.0
#
# needs: transformers
# case: mixtral-eager
# rehearse: -- mixtral eager
# want: verdict=pass allocated_gib=2.2..2.26 reserved_gib=2.6..2.9
"""Models with experts: experts.py mixtral|qwen3 eager|grouped_mm|batched_mm."""
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
    ids = torch.randint(32000, (2, 1024)).cuda()
    model(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
