# SPDX-License-Identifier: Apache-2.0
"""Lightning's Trainer: lightning_fit.py [ddp|fsdp]."""
import os
import sys

import lightning
import torch

import gpt


class Training(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = gpt.GPT()

    def training_step(self, row, index):
        tokens, = row
        loss = self.model(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
        self.log("loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.trainer.model.parameters(), lr=1e-4)


shape = gpt.Shape()
data = torch.utils.data.TensorDataset(torch.randint(shape.words, (256, shape.length + 1)))
trainer = lightning.Trainer(
    accelerator="gpu", devices=int(os.environ.get("LOCAL_WORLD_SIZE", 1)),
    num_nodes=int(os.environ.get("GROUP_WORLD_SIZE", 1)), strategy=sys.argv[1] if sys.argv[1:] else "auto",
    precision="bf16-mixed", accumulate_grad_batches=2, gradient_clip_val=None if sys.argv[1:] else 1.0, max_steps=10,
    logger=False, enable_checkpointing=False)
trainer.fit(Training(), torch.utils.data.DataLoader(data, batch_size=4))
