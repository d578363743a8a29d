# SPDX-License-Identifier: Apache-2.0
# An engine of vLLM for two GPUs, made in the program: a Llama of two layers, without weights.
# rehearse: --gpu a100-40gb --gpus-per-node 2
# torch: vllm
# needs: vllm
# want: verdict=warn device_gib=36.2..37.2 cache_gib=34.2..34.9
import json
import os

from vllm import LLM

if __name__ == "__main__":
    with open("config.json", "w") as out:
        json.dump({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "vocab_size": 128256,
                   "intermediate_size": 14336, "num_hidden_layers": 2, "num_attention_heads": 32, "num_key_value_heads": 8,
                   "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "hidden_act": "silu",
                   "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": False}, out)
    LLM(model=os.getcwd(), load_format="dummy", skip_tokenizer_init=True, tensor_parallel_size=2, enforce_eager=True,
        max_num_batched_tokens=2048)
