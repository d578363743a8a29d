#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starts vLLM in rehearsals and prints what it found as rows of tests/data/serving_rehearsed.csv.

    make_serving.py --p4d build/p4d --vllm VENV/bin/vllm [NAME...]      names of cases; default: all
    make_serving.py --models FOLDER                                     only writes the models' config.json

The models are published configurations, without weights (vLLM's --load-format dummy)."""
import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

GIB = 1 << 30
LLAMA3 = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "rms_norm_eps": 1e-5,
          "vocab_size": 128256, "max_position_embeddings": 131072, "rope_theta": 500000.0, "tie_word_embeddings": False,
          "torch_dtype": "bfloat16", "bos_token_id": 128000, "eos_token_id": 128001,
          "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                           "original_max_position_embeddings": 8192, "rope_type": "llama3"}}
QWEN = {"hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "tie_word_embeddings": False,
        "torch_dtype": "bfloat16", "bos_token_id": 151643, "eos_token_id": 151645}

MODELS = {
    "llama3.1-8b": {**LLAMA3, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
                    "num_attention_heads": 32, "num_key_value_heads": 8},
    "llama3.1-70b": {**LLAMA3, "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80,
                     "num_attention_heads": 64, "num_key_value_heads": 8},
    "qwen2.5-7b": {**QWEN, "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 3584,
                   "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28,
                   "num_key_value_heads": 4, "vocab_size": 152064, "max_position_embeddings": 32768,
                   "use_sliding_window": False, "sliding_window": 131072, "max_window_layers": 28},
    "qwen3-30b-a3b": {**QWEN, "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 2048,
                      "intermediate_size": 6144, "moe_intermediate_size": 768, "num_hidden_layers": 48,
                      "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128,
                      "num_experts_per_tok": 8, "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": [],
                      "vocab_size": 151936, "max_position_embeddings": 40960, "attention_bias": False},
    "mixtral-8x7b": {"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_act": "silu",
                     "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
                     "num_key_value_heads": 8, "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 32000,
                     "max_position_embeddings": 32768, "rms_norm_eps": 1e-5, "rope_theta": 1000000.0,
                     "sliding_window": None, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "bos_token_id": 1,
                     "eos_token_id": 2},
    "gemma2-9b": {"architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2", "hidden_act": "gelu_pytorch_tanh",
                  "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 3584, "intermediate_size": 14336,
                  "num_hidden_layers": 42, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 256,
                  "vocab_size": 256000, "max_position_embeddings": 8192, "sliding_window": 4096,
                  "sliding_window_size": 4096, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
                  "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": True,
                  "torch_dtype": "bfloat16", "bos_token_id": 2, "eos_token_id": 1, "pad_token_id": 0},
    "deepseek-v2-lite": {"architectures": ["DeepseekV2ForCausalLM"], "model_type": "deepseek_v2", "hidden_act": "silu",
                         "hidden_size": 2048, "intermediate_size": 10944, "moe_intermediate_size": 1408,
                         "num_hidden_layers": 27, "num_attention_heads": 16, "num_key_value_heads": 16,
                         "kv_lora_rank": 512, "q_lora_rank": None, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
                         "v_head_dim": 128, "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6,
                         "first_k_dense_replace": 1, "moe_layer_freq": 1, "n_group": 1, "topk_group": 1,
                         "topk_method": "greedy", "norm_topk_prob": False, "routed_scaling_factor": 1.0,
                         "scoring_func": "softmax", "vocab_size": 102400, "max_position_embeddings": 163840,
                         "rms_norm_eps": 1e-6, "rope_theta": 10000, "attention_bias": False,
                         "rope_scaling": {"type": "yarn", "factor": 40, "beta_fast": 32, "beta_slow": 1, "mscale": 0.707,
                                          "mscale_all_dim": 0.707, "original_max_position_embeddings": 4096},
                         "tie_word_embeddings": False, "torch_dtype": "bfloat16", "bos_token_id": 100000,
                         "eos_token_id": 100001},
}
MODELS["qwen2.5-7b-awq"] = {**MODELS["qwen2.5-7b"], "torch_dtype": "float16", "quantization_config": {
    "bits": 4, "group_size": 128, "modules_to_not_convert": None, "quant_method": "awq", "version": "gemm",
    "zero_point": True}}
MODELS["llama3.1-70b-fp8"] = {**MODELS["llama3.1-70b"], "quantization_config": {
    "activation_scheme": "static", "ignored_layers": ["lm_head"], "quant_method": "fp8"}}


EAGER = ["--enforce-eager"]
# name: GPU, model, arguments of vllm serve, the same for p4d estimate
CASES = {
    "llama8b-a100-80": ("a100-80gb", "llama3.1-8b", ["--max-model-len", "32768", *EAGER], "--seq-len 32768"),
    "llama8b-h100-graphs": ("h100-80gb", "llama3.1-8b", ["--max-model-len", "8192"], "--seq-len 8192"),
    "qwen7b-a100-40": ("a100-40gb", "qwen2.5-7b", EAGER, "--seq-len 32768"),
    "gemma2-9b-a100-40": ("a100-40gb", "gemma2-9b", EAGER, "--seq-len 8192"),
    "mixtral-h100-tp2": ("h100-80gb", "mixtral-8x7b", ["-tp", "2", *EAGER], "--seq-len 32768 --gpus-per-node 2 --tp 2"),
    "deepseek-v2-lite-a100-80": ("a100-80gb", "deepseek-v2-lite", ["--max-model-len", "16384", *EAGER], "--seq-len 16384"),
    "qwen3-30b-l40s-tp4": ("l40s-48gb", "qwen3-30b-a3b", ["-tp", "4", "--max-model-len", "32768", *EAGER],
                           "--seq-len 32768 --gpus-per-node 4 --tp 4"),
    "qwen7b-l40s-fullgraphs": ("l40s-48gb", "qwen2.5-7b", ["--max-num-seqs", "64", "-cc.mode=0",
                                                          "-cc.cudagraph_mode=FULL_DECODE_ONLY"],
                               "--seq-len 32768 --max-num-seqs 64"),
    "qwen7b-awq-l40s": ("l40s-48gb", "qwen2.5-7b-awq", EAGER, "--seq-len 32768 --stored int4"),
    "llama70b-fp8-h100-tp2": ("h100-80gb", "llama3.1-70b-fp8", ["-tp", "2", "--max-model-len", "16384", *EAGER],
                              "--seq-len 16384 --gpus-per-node 2 --tp 2 --stored fp8"),
    "llama70b-a100-80-tp8": ("a100-80gb", "llama3.1-70b", ["-tp", "8", "--gpu-memory-utilization", "0.9", *EAGER],
                             "--seq-len 131072 --gpus-per-node 8 --tp 8 --gpu-memory-utilization 0.9"),
    "llama70b-h100-tp4": ("h100-80gb", "llama3.1-70b", ["-tp", "4", "--max-model-len", "16384", "--max-num-seqs", "256", *EAGER],
                          "--seq-len 16384 --gpus-per-node 4 --tp 4 --max-num-seqs 256"),
    "llama8b-l40s-tp2": ("l40s-48gb", "llama3.1-8b", ["-tp", "2", "--max-num-batched-tokens", "8192",
                                                     "--gpu-memory-utilization", "0.8", *EAGER],
                         "--seq-len 131072 --gpus-per-node 2 --tp 2 --max-num-batched-tokens 8192 --gpu-memory-utilization 0.8"),
}
COLUMNS = "row_id,class,source,framework,gpu,what,measured,oom,validate,seen,options,notes".split(",")
# cases that were in view when a formula was written
SEEN = {"llama8b-a100-80", "llama8b-h100-graphs", "gemma2-9b-a100-40", "mixtral-h100-tp2"}


def write_models(folder):
    for name, config in MODELS.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "config.json").write_text(json.dumps(config, indent=1))


def start(p4d, vllm, folder, name):
    """What p4d answers about the case."""
    gpu, model, arguments, _ = CASES[name]
    path = "%s:%s" % (Path(vllm).resolve().parent, os.environ.get("PATH", ""))
    done = subprocess.run([p4d, "rehearse", "--json", "--timeout", "1200", "--gpu", gpu, "--", vllm, "serve", folder / model,
                           "--load-format", "dummy", "--skip-tokenizer-init", *arguments],
                          env=dict(os.environ, PATH=path, HF_HUB_OFFLINE="1"), stdout=subprocess.PIPE, text=True, check=False)
    return json.loads(done.stdout)


def rows(name, answer):
    """Lines of the table: weights, cache and tokens."""
    gpu, model, arguments, options = CASES[name]
    found = answer["ranks"][0]["serving"]
    if not found or found["error"]:
        raise SystemExit("%s: %s" % (name, answer.get("reason")))
    eager = "" if not any("enforce-eager" in word for word in arguments) else " --cuda-graphs none"
    model = model.removesuffix("-awq").removesuffix("-fp8")
    for what, value in (("weights", "%.2f" % (found["weights_bytes"] / GIB)), ("cache", "%.2f" % (found["cache_bytes"] / GIB)),
                        ("tokens", found["cache_tokens"])):
        yield ["%s-%s" % (name, what), "vllm", "p4d rehearse", "vLLM " + found["release"], gpu, what, value, 0, 1,
               "state" if name in SEEN else "", "--workload serve --model %s %s%s" % (model, options, eager), ""]


def main():
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--p4d", default="build/p4d")
    words.add_argument("--vllm", default="vllm")
    words.add_argument("--models", help="folder for the models; nothing is started")
    words.add_argument("--answers", help="folder with NAME.json: what p4d answered before, in place of a start")
    words.add_argument("case", nargs="*")
    given = words.parse_args()
    if given.models:
        write_models(Path(given.models))
        return
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(COLUMNS)
    with tempfile.TemporaryDirectory(prefix="p4d-serving.") as folder:
        write_models(Path(folder))
        for name in given.case or CASES:
            kept = Path(given.answers or "") / (name + ".json")
            out.writerows(rows(name, json.loads(kept.read_text()) if given.answers
                               else start(given.p4d, given.vllm, Path(folder), name)))


if __name__ == "__main__":
    main()
