# SPDX-License-Identifier: Apache-2.0
"""torchtitan's own trainer with the model and recipe that p4d's options on the command line describe: family=llama3 flavor=8B
layers=8 ... make_rehearsed_memory.py runs it under `p4d rehearse`. The tokenizer and the texts are made here."""
import importlib
import json
import os
import sys
import tempfile

from tokenizers import Tokenizer, models, pre_tokenizers
from torchtitan import train

given = dict(word.split("=") for word in sys.argv[1:])
STARTS = {"1B": "llama3_8b", "3B": "llama3_8b", "8B": "llama3_8b", "70B": "llama3_70b", "0.6B": "qwen3_0_6b",
          "1.7B": "qwen3_1_7b", "4B": "qwen3_14b", "14B": "qwen3_14b", "30B-A3B": "qwen3_30b_a3b"}


def number(name, otherwise=1):
    return int(given.get(name, otherwise))


def configured():
    package = importlib.import_module("torchtitan.models." + given["family"])
    registry = importlib.import_module("torchtitan.models.%s.config_registry" % given["family"])
    from torchtitan.components.loss import ChunkedLossWrapper
    from torchtitan.distributed.activation_checkpoint import FullAC, SelectiveAC
    import torchtitan.models.common.attention as attention
    import torchtitan.models.common.config_utils as utils
    for module in (utils, package):  # 0.3 asks for compiled attention
        module.get_attention_config = lambda _: attention.ScaledDotProductAttention.Config()
    name = STARTS["8B" if (given["family"], given["flavor"]) == ("llama3", "8B") else given["flavor"]]
    if given["family"] == "qwen3" and given["flavor"] == "8B":
        name = "qwen3_14b"
    config = getattr(registry, name)()
    config.model_spec = package.model_registry(given["flavor"], attn_backend="sdpa")
    layers = config.model_spec.model.layers
    config.model_spec.model.layers = layers[:number("layers")]
    p, t = config.parallelism, config.training
    p.tensor_parallel_degree, p.pipeline_parallel_degree = number("tp"), number("pp")
    p.expert_parallel_degree = number("ep")
    p.data_parallel_shard_degree = number("shard-degree")
    p.data_parallel_replicate_degree = number("dp") // number("shard-degree")
    p.spmd_backend = "spmd_types"
    t.local_batch_size, t.seq_len, t.disable_cuda_graphs = number("micro-batch"), number("seq-len"), True
    t.global_batch_size = number("micro-batch") * number("micro-batches") * number("dp")
    t.steps = 50
    if number("pp") > 1:
        t.local_batch_size *= number("micro-batches")
        p.pipeline_parallel_microbatch_size = number("micro-batch")
        p.pipeline_parallel_schedule = "1F1B"
        p.pipeline_parallel_first_stage_less_layers = p.pipeline_parallel_last_stage_less_layers = 0
        p.pipeline_parallel_layers_per_stage = number("layers") // number("pp")
    config.compile.enable = False
    config.activation_checkpoint = {"none": None, "selective": SelectiveAC.Config(), "full": FullAC.Config()}[given["recompute"]]
    if not isinstance(config.loss, ChunkedLossWrapper.Config):
        config.loss = ChunkedLossWrapper.Config(loss_fn=config.loss)
    config.loss.loss_fn.global_vocab_size = config.model_spec.model.vocab_size
    if given["chunked-loss"] == "off":
        config.loss = config.loss.loss_fn
    return config


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

importlib.import_module("torchtitan.models.%s.config_registry" % given["family"]).p4d_row = configured
sys.argv = [sys.argv[0], "--module", given["family"], "--config", "p4d_row", "--hf_assets_path=" + folder,
            "--dump_folder=" + folder, "--dataloader.dataset=c4_test", "--dataloader.dataset_path=" + texts,
            "--training.steps=50", "--metrics.log_freq=1"]
train.main()
