# SPDX-License-Identifier: Apache-2.0
# needs: torchtitan==0.3.0
# rehearse: --gpus-per-node 8
# case: fsdp
# rehearse: --ranks 0 -- --config llama3_8b
# want: verdict=pass
# case: tp
# rehearse: --ranks 0 -- --config llama3_middle --parallelism.tensor_parallel_degree=2
# want: verdict=pass
# case: pp
# rehearse: --ranks 0,7 -- --config llama3_middle --parallelism.pipeline_parallel_degree=2 --parallelism.pipeline_parallel_schedule=1F1B
# want: verdict=pass
# case: 8b-tp
# rehearse: --ranks 0 -- --config llama3_8b --parallelism.tensor_parallel_degree=2
# want: verdict=pass
# case: 8b-pp
# rehearse: --ranks 0,7 -- --config llama3_8b --parallelism.pipeline_parallel_degree=2 --parallelism.pipeline_parallel_schedule=1F1B
# want: verdict=pass
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
