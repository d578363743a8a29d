/* SPDX-License-Identifier: Apache-2.0 */
#include "request/framework.h"

const p4d_framework_other p4d_framework_others[] = {
    {"DeepSpeed", false, {"deepspeed"}},
    {"torchtitan", false, {"torchtitan"}},
    {"torchtune", false, {"torchtune", "tune run"}},
    {"NeMo", false, {"nemo_run", "megatron_gpt_pretraining"}},
    {"Hugging Face Accelerate", false, {"accelerate launch", "accelerate-launch"}},
    {"the Trainer of Hugging Face", false, {"run_clm", "run_sft", "trl sft"}},
    {"LLaMA-Factory", false, {"llamafactory-cli"}},
    {"Axolotl", false, {"axolotl"}},
    {"LLM Foundry", false, {"llmfoundry", "llm-foundry"}},
    {"GPT-NeoX", false, {"gpt-neox", "deepy.py"}},
    {"LitGPT", false, {"litgpt"}},
    {"Nanotron", false, {"nanotron"}},
    {"Colossal-AI", false, {"colossalai"}},
    {"MaxText", false, {"MaxText", "maxtext"}},
    {"vLLM", false, {"vllm"}},
    {"SGLang", false, {"sglang"}},
    {"FSDP", false, {"fsdp", "fully_shard", "FullyShardedDataParallel"}},
    {"a Python program", true, {"torchrun", "torch.distributed", "python ", "python3 "}},
    {0},
};
