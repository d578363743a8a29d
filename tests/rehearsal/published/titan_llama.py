# SPDX-License-Identifier: Apache-2.0
# torch: 2.7
# needs: torchtitan==0.1.0 torchdata tiktoken datasets blobfile
# rehearse: --gpu h100-96gb --gpus-per-node 8 --ranks 0
# want: verdict=pass
# case: 8-gpus
# published: reserved_gib=82.4
# case: 128-gpus
# rehearse: --nodes 16
# published: reserved_gib=67.0
# case: 8-gpus-compiled
# rehearse: -- --training.compile
# published: reserved_gib=77.0
# case: 128-gpus-compiled
# rehearse: --nodes 16 -- --training.compile
# published: reserved_gib=62.0
"""Llama 3.1 8B with FSDP2 in torchtitan's benchmarks of December 2024: 8,192 tokens, micro-batch 2, selective recomputation.

The benchmark ran commit 9dec370; torchtitan 0.1.0 is the nearest release on PyPI. AdamW's implementation was foreach then,
and the loss was not compiled with the model."""
import os
import runpy
import sys
import tempfile

import llama_files

folder = tempfile.mkdtemp(prefix="p4d-published-")
texts = os.path.join(folder, "texts")
os.mkdir(texts)
llama_files.write_texts(os.path.join(texts, "train.json"))
sys.argv[1:1] = [
    "--model.name=llama3", "--model.flavor=8B",
    "--model.tokenizer_path=" + llama_files.write_tokenizer(os.path.join(folder, "tokenizer.model")),
    "--training.dataset=c4_test", "--training.dataset_path=" + texts, "--job.dump_folder=" + folder,
    "--training.local_batch_size=2", "--training.seq_len=8192", "--training.steps=10",
    "--activation_checkpoint.mode=selective", "--activation_checkpoint.selective_ac_option=op",
    "--optimizer.implementation=foreach", "--metrics.log_freq=1",
]

from torchtitan.components.loss import cross_entropy_loss  # noqa: E402: reads the options
from torchtitan.protocols.train_spec import get_train_spec  # noqa: E402

get_train_spec("llama3").build_loss_fn = lambda _: cross_entropy_loss
runpy.run_module("torchtitan.train", run_name="__main__")
