# SPDX-License-Identifier: Apache-2.0
# torch: 2.7
# needs: torchtitan==0.1.0 torchao==0.11.0 tyro tomli tensorboard torchdata tiktoken datasets blobfile
# rehearse: --gpu h100-96gb --gpus-per-node 8 --ranks 0
# case: 8-gpus
# want: verdict=pass
# published: reserved_gib=82.4
# case: 128-gpus
# want: verdict=pass
# rehearse: --nodes 16
# published: reserved_gib=67.0
# case: 8-gpus-compiled
# want: verdict=pass
# rehearse: -- --training.compile
# published: reserved_gib=77.0
# case: 128-gpus-compiled
# want: verdict=pass
# rehearse: --nodes 16 -- --training.compile
# published: reserved_gib=62.0
# case: 8-gpus-float8
# want: verdict=pass
# rehearse: -- --training.compile --model.converters=float8
# published: reserved_gib=76.8
# case: 128-gpus-float8
# want: verdict=pass
# rehearse: --nodes 16 -- --training.compile --model.converters=float8
# published: reserved_gib=61.8
# case: 32k
# want: verdict=pass
# rehearse: -- --training.compile --model.converters=float8 --training.local_batch_size=1 --activation_checkpoint.mode=full --training.seq_len=32768
# published: reserved_gib=83.9
# case: 64k
# want: verdict=pass
# rehearse: -- --training.compile --model.converters=float8 --training.local_batch_size=1 --activation_checkpoint.mode=full --training.seq_len=65536 --parallelism.context_parallel_degree=2
# published: reserved_gib=84.2
# case: 128k
# want: verdict=pass
# rehearse: -- --training.compile --model.converters=float8 --training.local_batch_size=1 --activation_checkpoint.mode=full --training.seq_len=131072 --parallelism.context_parallel_degree=4
# published: reserved_gib=84.0
# case: 256k
# want: verdict=pass
# rehearse: -- --training.compile --model.converters=float8 --training.local_batch_size=1 --activation_checkpoint.mode=full --training.seq_len=262144 --parallelism.context_parallel_degree=8
# published: reserved_gib=84.5
# case: 70b
# want: verdict=pass
# rehearse: --nodes 32 -- --training.compile --model.converters=float8 --training.local_batch_size=16 --activation_checkpoint.mode=full --model.flavor=70B --parallelism.tensor_parallel_degree=8
# published: reserved_gib=71.9
# case: h200-64-gpus
# want: verdict=pass
# rehearse: --gpu h200-141gb --nodes 8 -- newer --training.compile --model.converters=float8 --float8.enable_fsdp_float8_all_gather --float8.precompute_float8_dynamic_scale_for_fsdp --float8.force_recompute_fp8_weight_in_bwd
# published: reserved_gib=46.97
"""Llama 3.1 8B with FSDP2 in torchtitan's benchmarks of December 2024: 8,192 tokens, micro-batch 2, selective recomputation.

The benchmark ran commit 9dec370; torchtitan 0.1.0 is the nearest release on PyPI. AdamW's implementation was foreach then,
and the loss was not compiled with the model. The rows with FP8 do not name torchao's options; these have none, but leave the output layer in bf16, as torchtitan does.
The cases of h200 ("newer") are others' benchmark of June 2025, with the command that they published."""
import os
import runpy
import sys
import tempfile

import llama_files

is_newer = sys.argv[1:2] == ["newer"]
del sys.argv[1:1 + is_newer]
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
    "--metrics.log_freq=1",
    "--float8.filter_fqns=output",
]
if not is_newer:
    sys.argv.insert(1, "--optimizer.implementation=foreach")

from torchtitan.components.loss import cross_entropy_loss  # noqa: E402: reads the options
from torchtitan.protocols.train_spec import get_train_spec  # noqa: E402

if not is_newer:
    get_train_spec("llama3").build_loss_fn = lambda _: cross_entropy_loss
runpy.run_module("torchtitan.train", run_name="__main__")
