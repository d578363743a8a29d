# SPDX-License-Identifier: Apache-2.0
# needs: torchtitan==0.3.0
# rehearse: --gpus-per-node 8
#
# A layer has 218.1 M parameters, each end 525.3 M. 12 bytes of each lie on the GPUs that share them before the backward pass,
# then 16. Of 8192 tokens a layer keeps its input, attention's result and at least one product of the size of the input (192
# MiB), at most half of its products (512 MiB). An end is gathered in bf16 (0.98 GiB), and its gradient is reduced in fp32 (2.9
# at most); another layer is gathered and recomputed meanwhile (2.5 at most); of 8192 x 128256 logits 14 bytes are 13.7 GiB, of
# an eighth 1.7. fsdp: 8.03 G / 8, 32 layers. tp: 2.80 G / 8, 8 layers, all else halved. pp: 1.40 G / 4, 4 layers for one or two
# micro-batches. 8b-tp: 8.03 G / 8, 32 layers, all else halved. 8b-pp: 4.02 G / 4, 16 layers for one or two micro-batches.
# case: fsdp
# rehearse: --ranks 0 -- --config llama3_8b
# want: verdict=pass allocated_gib=18..41
# case: tp
# rehearse: --ranks 0 -- --config llama3_middle --parallelism.tensor_parallel_degree=2
# want: verdict=pass allocated_gib=5.1..11.5
# case: pp
# rehearse: --ranks 0,7 -- --config llama3_middle --parallelism.pipeline_parallel_degree=2
# rehearse: --parallelism.pipeline_parallel_schedule=1F1B --training.local_batch_size=2
# want: verdict=pass allocated_gib=4.6..28
# case: 8b-tp
# rehearse: --ranks 0 -- --config llama3_8b --parallelism.tensor_parallel_degree=2
# want: verdict=pass allocated_gib=14.7..27
# case: 8b-pp
# rehearse: --ranks 0,7 -- --config llama3_8b --parallelism.pipeline_parallel_degree=2
# rehearse: --parallelism.pipeline_parallel_schedule=1F1B --training.local_batch_size=2
# want: verdict=pass allocated_gib=14.2..51
"""torchtitan's own trainer, as `torchrun -m torchtitan.train` starts it, with a tokenizer and texts made here."""
import json
import os
import sys
import tempfile

from tokenizers import Tokenizer, models, pre_tokenizers
from torchtitan import train
from torchtitan.models.llama3 import config_registry


def middle():
    """A fourth of the layers of Llama 3 8B."""
    config = config_registry.llama3_8b()
    config.model_spec.model.layers = config.model_spec.model.layers[:8]
    return config


config_registry.llama3_middle = middle
folder = tempfile.mkdtemp()
words = ["w%d" % i for i in range(2000)]
tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(["<s>", "</s>", "?"] + words)}, unk_token="?"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer.save(os.path.join(folder, "tokenizer.json"))
with open(os.path.join(folder, "tokenizer_config.json"), "w") as out:
    json.dump({"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": True, "add_eos_token": True}, out)
texts = os.path.join(folder, "texts")
os.mkdir(texts)
with open(os.path.join(texts, "train.json"), "w") as out:
    for i in range(4000):
        out.write(json.dumps({"text": " ".join(words[(i * 7 + k) % 2000] for k in range(1500))}) + "\n")

sys.argv = [sys.argv[0], "--module", "llama3", *sys.argv[1:], "--hf_assets_path=" + folder, "--dump_folder=" + folder,
            "--dataloader.dataset=c4_test", "--dataloader.dataset_path=" + texts, "--training.steps=10",
            "--training.disable_cuda_graphs", "--metrics.log_freq=1"]
train.main()
