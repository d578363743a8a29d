#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the parameters of models as the transformers library builds them from their config.json.

    python make_models.py > ../data/models.jsonl

One line a model: its name, its parameters, the library's version, and the config. The numbers of a config are
those of its repository; what it does not say is left to the class. Nothing is downloaded: models are built on
the meta device. Models whose code is not in the library have the count that is known of their repository, which was not looked up again.
"""
import json
import sys

import torch
import transformers

CAUSAL = transformers.AutoModelForCausalLM


def llama(layers, hidden, ffn, heads, kv, vocab, length, **more):
    return dict(num_hidden_layers=layers, hidden_size=hidden, intermediate_size=ffn, num_attention_heads=heads,
                num_key_value_heads=kv, vocab_size=vocab, max_position_embeddings=length, **more)


def gpt2(layers, hidden, heads):
    return dict(n_layer=layers, n_embd=hidden, n_head=heads, vocab_size=50257, n_positions=1024)


def neox(layers, hidden, heads, vocab=50304, **more):
    return dict(num_hidden_layers=layers, hidden_size=hidden, intermediate_size=4 * hidden, num_attention_heads=heads,
                vocab_size=vocab, max_position_embeddings=2048, tie_word_embeddings=False, **more)


def opt(layers, hidden, heads):
    return dict(num_hidden_layers=layers, hidden_size=hidden, ffn_dim=4 * hidden, num_attention_heads=heads,
                vocab_size=50272, max_position_embeddings=2048, word_embed_proj_dim=hidden, do_layer_norm_before=True)


def bloom(layers, hidden, heads):
    return dict(n_layer=layers, hidden_size=hidden, n_head=heads, vocab_size=250880)


def bert(layers, hidden, heads, vocab, length, **more):
    return dict(num_hidden_layers=layers, hidden_size=hidden, intermediate_size=4 * hidden, num_attention_heads=heads,
                vocab_size=vocab, max_position_embeddings=length, **more)


def t5(layers, hidden, ffn, heads, d_kv=64, **more):
    return dict(num_layers=layers, d_model=hidden, d_ff=ffn, num_heads=heads, d_kv=d_kv, vocab_size=32128,
                relative_attention_num_buckets=32, **more)


def vit(layers, hidden, heads):
    return dict(num_hidden_layers=layers, hidden_size=hidden, intermediate_size=4 * hidden, num_attention_heads=heads,
                image_size=224, patch_size=16, num_labels=1000)


FLAN = dict(feed_forward_proj="gated-gelu", tie_word_embeddings=False)
TIED = dict(tie_word_embeddings=True)
UNTIED = dict(tie_word_embeddings=False)
ROPE = dict(rope_theta=10000, rms_norm_eps=1e-06)


def latent(layers, hidden, ffn, heads, vocab, length, experts, each, width, shared, dense, rank, **more):
    return llama(layers, hidden, ffn, heads, heads, vocab, length, n_routed_experts=experts, num_experts_per_tok=each,
                 moe_intermediate_size=width, n_shared_experts=shared, first_k_dense_replace=dense, q_lora_rank=rank,
                 kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128, **UNTIED, **more)


def nemotron_h(hidden, ffn, heads, kv, pattern, state_heads, head, state, **more):
    return dict(hidden_size=hidden, intermediate_size=ffn, num_attention_heads=heads, num_key_value_heads=kv, head_dim=128,
                hybrid_override_pattern=pattern, mamba_num_heads=state_heads, mamba_head_dim=head, ssm_state_size=state, n_groups=8,
                conv_kernel=4, chunk_size=128, vocab_size=131072, max_position_embeddings=8192, layer_norm_epsilon=1e-05, **more)


def granite_h(hidden, ffn, heads, kv, shared, state_heads, experts, each):
    types = ["attention" if i % 10 == 5 else "mamba" for i in range(40)]
    return llama(40, hidden, ffn, heads, kv, 100352, 131072, shared_intermediate_size=shared, num_local_experts=experts,
                 num_experts_per_tok=each, layer_types=types, mamba_n_heads=state_heads, mamba_d_head=64, mamba_d_state=128,
                 mamba_n_groups=1, mamba_d_conv=4, mamba_expand=2, mamba_chunk_size=256, position_embedding_type="nope", **TIED)


def jamba(layers, hidden, ffn, heads):
    return llama(layers, hidden, ffn, heads, 8, 65536, 262144, num_experts=16, num_experts_per_tok=2, expert_layer_period=2,
                 expert_layer_offset=1, attn_layer_period=8, attn_layer_offset=4, mamba_d_state=16, mamba_d_conv=4, mamba_expand=2,
                 mamba_dt_rank=hidden // 16, **UNTIED)


def lfm2(hidden, ffn, heads):
    return llama(16, hidden, ffn, heads, 8, 65536, 128000, full_attn_idxs=[2, 5, 8, 10, 12, 14], conv_L_cache=3, conv_bias=False, block_ff_dim=ffn,
                 block_multiple_of=256, block_ffn_dim_multiplier=1.0, block_auto_adjust_ff_dim=True, norm_eps=1e-05, rope_theta=1000000, **TIED)


# name: (class, model_type, config)
MODELS = {
    "mixtral-8x7b": ("MixtralForCausalLM", "mixtral", llama(32, 4096, 14336, 32, 8, 32000, 32768, num_local_experts=8, num_experts_per_tok=2, rope_theta=1000000, rms_norm_eps=1e-05)),
    "mixtral-8x22b": ("MixtralForCausalLM", "mixtral", llama(56, 6144, 16384, 48, 8, 32768, 65536, num_local_experts=8, num_experts_per_tok=2, rope_theta=1000000, rms_norm_eps=1e-05)),
    "qwen1.5-moe": ("Qwen2MoeForCausalLM", "qwen2_moe", llama(24, 2048, 5632, 16, 16, 151936, 8192, num_experts=60, num_experts_per_tok=4, moe_intermediate_size=1408, shared_expert_intermediate_size=5632, rope_theta=1000000, rms_norm_eps=1e-06)),
    "qwen3-30b-a3b": ("Qwen3MoeForCausalLM", "qwen3_moe", llama(48, 2048, 6144, 32, 4, 151936, 40960, head_dim=128, num_experts=128, num_experts_per_tok=8, moe_intermediate_size=768, rope_theta=1000000, rms_norm_eps=1e-06)),
    "qwen3-235b-a22b": ("Qwen3MoeForCausalLM", "qwen3_moe", llama(94, 4096, 12288, 64, 4, 151936, 40960, head_dim=128, num_experts=128, num_experts_per_tok=8, moe_intermediate_size=1536, rope_theta=1000000, rms_norm_eps=1e-06)),
    "deepseek-v2-lite": ("DeepseekV2ForCausalLM", "deepseek_v2", latent(27, 2048, 10944, 16, 102400, 163840, 64, 6, 1408, 2, 1, None, **ROPE)),
    "deepseek-v2": ("DeepseekV2ForCausalLM", "deepseek_v2", latent(60, 5120, 12288, 128, 102400, 163840, 160, 6, 1536, 2, 1, 1536, **ROPE)),
    "deepseek-v3": ("DeepseekV3ForCausalLM", "deepseek_v3", latent(61, 7168, 18432, 128, 129280, 163840, 256, 8, 2048, 1, 3, 1536, **ROPE)),
    "moonlight-16b-a3b": ("DeepseekV3ForCausalLM", "deepseek_v3", latent(27, 2048, 11264, 16, 163840, 8192, 64, 6, 1408, 2, 1, None, rope_theta=50000, rms_norm_eps=1e-05)),
    "kimi-k2": ("DeepseekV3ForCausalLM", "deepseek_v3", latent(61, 7168, 18432, 64, 163840, 131072, 384, 8, 2048, 1, 1, 1536, rope_theta=50000, rms_norm_eps=1e-06)),
    "glm-4.5": ("Glm4MoeForCausalLM", "glm4_moe", llama(92, 5120, 12288, 96, 8, 151552, 131072, head_dim=128, n_routed_experts=160, num_experts_per_tok=8, moe_intermediate_size=1536, n_shared_experts=1, first_k_dense_replace=3, use_qk_norm=True, attention_bias=True, rope_theta=1000000, rms_norm_eps=1e-05)),
    "glm-4.5-air": ("Glm4MoeForCausalLM", "glm4_moe", llama(46, 4096, 10944, 96, 8, 151552, 131072, head_dim=128, n_routed_experts=128, num_experts_per_tok=8, moe_intermediate_size=1408, n_shared_experts=1, first_k_dense_replace=1, use_qk_norm=False, attention_bias=True, rope_theta=1000000, rms_norm_eps=1e-05)),
    "olmoe-1b-7b": ("OlmoeForCausalLM", "olmoe", llama(16, 2048, 1024, 16, 16, 50304, 4096, num_experts=64, num_experts_per_tok=8, rope_theta=10000, rms_norm_eps=1e-05)),
    "dbrx": ("DbrxForCausalLM", "dbrx", dict(d_model=6144, n_heads=48, n_layers=40, max_seq_len=32768, vocab_size=100352, **UNTIED,
             attn_config=dict(kv_n_heads=8, clip_qkv=8, rope_theta=500000),
             ffn_config=dict(ffn_hidden_size=10752, moe_num_experts=16, moe_top_k=4))),
    "nemotron-h-8b": ("NemotronHForCausalLM", "nemotron_h", nemotron_h(4096, 21504, 32, 8, "M-M-M-M*" + "-M-M-M-M-M*" * 3 + "-M-M-M-M-M-", 128, 64, 128)),
    "nemotron-h-47b": ("NemotronHForCausalLM", "nemotron_h", nemotron_h(8192, 30720, 64, 8, "M-M-M-M-M-M-M-M-M*-M-M-M-M-M-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-M-M---MM---M-M*-M-M-M-M-M-", 256, 64, 256)),
    "nemotron-h-56b": ("NemotronHForCausalLM", "nemotron_h", nemotron_h(8192, 32768, 64, 8, "M-M-M-M*" + "-M-M-M-M-M*" * 9 + "-M-M-M-M-M-", 256, 64, 256)),
    "nemotron-nano-9b-v2": ("NemotronHForCausalLM", "nemotron_h", nemotron_h(4480, 15680, 40, 8, "M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-", 128, 80, 128)),
    "nemotron-nano-12b-v2": ("NemotronHForCausalLM", "nemotron_h", nemotron_h(5120, 20480, 40, 8, "M-M-M-M*" + "-M-M-M-M*" * 5 + "-M-M-M-M-", 128, 80, 128)),
    "nemotron-3-nano-30b-a3b": ("NemotronHForCausalLM", "nemotron_h", nemotron_h(2688, 1856, 32, 2, "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME", 64, 64, 128,
                                n_routed_experts=128, num_experts_per_tok=6, moe_intermediate_size=1856, moe_shared_expert_intermediate_size=3712, n_shared_experts=1)),
    "qwen3-next-80b-a3b": ("Qwen3NextForCausalLM", "qwen3_next", llama(48, 2048, 5120, 16, 2, 151936, 262144, head_dim=256, num_experts=512, num_experts_per_tok=10,
                           moe_intermediate_size=512, shared_expert_intermediate_size=512, full_attention_interval=4, linear_key_head_dim=128, linear_value_head_dim=128,
                           linear_num_key_heads=16, linear_num_value_heads=32, linear_conv_kernel_dim=4, partial_rotary_factor=0.25, rope_theta=10000000, rms_norm_eps=1e-06)),
    "jamba-1.5-mini": ("JambaForCausalLM", "jamba", jamba(32, 4096, 14336, 32)),
    "jamba-1.5-large": ("JambaForCausalLM", "jamba", jamba(72, 8192, 24576, 64)),
    "bamba-9b": ("BambaForCausalLM", "bamba", llama(32, 4096, 14336, 32, 8, 128256, 262144, attn_layer_indices=[9, 18, 27], mamba_n_heads=128, mamba_d_head=64,
                 mamba_d_state=128, mamba_n_groups=1, mamba_d_conv=4, mamba_chunk_size=256, **UNTIED)),
    "granite-4.0-h-micro": ("GraniteMoeHybridForCausalLM", "granitemoehybrid", granite_h(2048, 8192, 32, 8, 8192, 64, 0, 0)),
    "granite-4.0-h-tiny": ("GraniteMoeHybridForCausalLM", "granitemoehybrid", granite_h(1536, 512, 12, 4, 1024, 48, 64, 6)),
    "granite-4.0-h-small": ("GraniteMoeHybridForCausalLM", "granitemoehybrid", granite_h(4096, 768, 32, 8, 1536, 128, 72, 10)),
    "hunyuan-7b": ("HunYuanDenseV1ForCausalLM", "hunyuan_v1_dense", llama(32, 4096, 14336, 32, 8, 128167, 32768, head_dim=128, rope_theta=10000, rms_norm_eps=1e-05, **TIED)),
    "hunyuan-a13b": ("HunYuanMoEV1ForCausalLM", "hunyuan_v1_moe", llama(32, 4096, 3072, 32, 8, 128167, 32768, head_dim=128, num_experts=64, moe_topk=[8] * 32,
                     num_shared_expert=[1] * 32, rope_theta=10000, rms_norm_eps=1e-05, **TIED)),
    "apertus-8b": ("ApertusForCausalLM", "apertus", llama(32, 4096, 21504, 32, 8, 131072, 65536, hidden_act="xielu", rms_norm_eps=1e-05, **UNTIED)),
    "apertus-70b": ("ApertusForCausalLM", "apertus", llama(80, 8192, 43008, 64, 8, 131072, 65536, hidden_act="xielu", rms_norm_eps=1e-05, **UNTIED)),
    "ernie-4.5-0.3b": ("Ernie4_5ForCausalLM", "ernie4_5", llama(18, 1024, 3072, 16, 2, 103424, 131072, head_dim=128, use_bias=False, rope_theta=500000, rms_norm_eps=1e-05, **TIED)),
    "ernie-4.5-21b-a3b": ("Ernie4_5_MoeForCausalLM", "ernie4_5_moe", llama(28, 2560, 12288, 20, 4, 103424, 131072, use_bias=False, moe_num_experts=64, moe_k=6,
                          moe_intermediate_size=1536, moe_num_shared_experts=2, moe_layer_start_index=1, rope_theta=500000, rms_norm_eps=1e-05, **TIED)),
    "granite3-1b-a400m": ("GraniteMoeForCausalLM", "granitemoe", llama(24, 1024, 512, 16, 8, 49155, 131072, num_local_experts=32, num_experts_per_tok=8, rms_norm_eps=1e-06, **TIED)),
    "granite3-3b-a800m": ("GraniteMoeForCausalLM", "granitemoe", llama(32, 1536, 512, 24, 8, 49155, 131072, num_local_experts=40, num_experts_per_tok=8, rms_norm_eps=1e-06, **TIED)),
    "phi3.5-moe": ("PhimoeForCausalLM", "phimoe", llama(32, 4096, 6400, 32, 8, 32064, 131072, num_local_experts=16, num_experts_per_tok=2, attention_bias=True, lm_head_bias=True,
                   rope_theta=10000, rms_norm_eps=1e-05, **UNTIED)),
    "lfm2-350m": ("Lfm2ForCausalLM", "lfm2", lfm2(1024, 6656, 16)),
    "lfm2-700m": ("Lfm2ForCausalLM", "lfm2", lfm2(1536, 10240, 24)),
    "lfm2-1.2b": ("Lfm2ForCausalLM", "lfm2", lfm2(2048, 12288, 32)),
    "gpt2": ("GPT2LMHeadModel", "gpt2", gpt2(12, 768, 12)),
    "gpt2-medium": ("GPT2LMHeadModel", "gpt2", gpt2(24, 1024, 16)),
    "gpt2-large": ("GPT2LMHeadModel", "gpt2", gpt2(36, 1280, 20)),
    "gpt2-xl": ("GPT2LMHeadModel", "gpt2", gpt2(48, 1600, 25)),
    "gpt-j-6b": ("GPTJForCausalLM", "gptj",
                 dict(n_layer=28, n_embd=4096, n_head=16, rotary_dim=64, vocab_size=50400, n_positions=2048, **UNTIED)),
    "gpt-neox-20b": ("GPTNeoXForCausalLM", "gpt_neox", neox(44, 6144, 64, 50432)),
    "pythia-70m": ("GPTNeoXForCausalLM", "gpt_neox", neox(6, 512, 8)),
    "pythia-160m": ("GPTNeoXForCausalLM", "gpt_neox", neox(12, 768, 12)),
    "pythia-410m": ("GPTNeoXForCausalLM", "gpt_neox", neox(24, 1024, 16)),
    "pythia-1b": ("GPTNeoXForCausalLM", "gpt_neox", neox(16, 2048, 8)),
    "pythia-1.4b": ("GPTNeoXForCausalLM", "gpt_neox", neox(24, 2048, 16)),
    "pythia-2.8b": ("GPTNeoXForCausalLM", "gpt_neox", neox(32, 2560, 32)),
    "pythia-6.9b": ("GPTNeoXForCausalLM", "gpt_neox", neox(32, 4096, 32, 50432)),
    "pythia-12b": ("GPTNeoXForCausalLM", "gpt_neox", neox(36, 5120, 40, 50688)),
    "opt-125m": ("OPTForCausalLM", "opt", opt(12, 768, 12)),
    "opt-1.3b": ("OPTForCausalLM", "opt", opt(24, 2048, 32)),
    "opt-2.7b": ("OPTForCausalLM", "opt", opt(32, 2560, 32)),
    "opt-6.7b": ("OPTForCausalLM", "opt", opt(32, 4096, 32)),
    "opt-13b": ("OPTForCausalLM", "opt", opt(40, 5120, 40)),
    "opt-30b": ("OPTForCausalLM", "opt", opt(48, 7168, 56)),
    "opt-66b": ("OPTForCausalLM", "opt", opt(64, 9216, 72)),
    "bloom-560m": ("BloomForCausalLM", "bloom", bloom(24, 1024, 16)),
    "bloom-1b7": ("BloomForCausalLM", "bloom", bloom(24, 2048, 16)),
    "bloom-3b": ("BloomForCausalLM", "bloom", bloom(30, 2560, 32)),
    "bloom-7b1": ("BloomForCausalLM", "bloom", bloom(30, 4096, 32)),
    "bloom-176b": ("BloomForCausalLM", "bloom", bloom(70, 14336, 112)),
    "falcon-7b": ("FalconForCausalLM", "falcon",
                  dict(num_hidden_layers=32, hidden_size=4544, num_attention_heads=71, vocab_size=65024, multi_query=True,
                       parallel_attn=True, bias=False, alibi=False, new_decoder_architecture=False)),
    "falcon-rw-1b": ("FalconForCausalLM", "falcon",
                     dict(num_hidden_layers=24, hidden_size=2048, num_attention_heads=32, vocab_size=50304,
                          multi_query=False, parallel_attn=False, bias=True, alibi=True, new_decoder_architecture=False)),
    "falcon2-11b": ("FalconForCausalLM", "falcon",
                    dict(num_hidden_layers=60, hidden_size=4096, num_attention_heads=32, num_kv_heads=8,
                         ffn_hidden_size=16384, vocab_size=65024, bias=False, alibi=False, num_ln_in_parallel_attn=1,
                         new_decoder_architecture=True, **UNTIED)),
    "falcon-40b": ("FalconForCausalLM", "falcon",
                   dict(num_hidden_layers=60, hidden_size=8192, num_attention_heads=128, num_kv_heads=8, vocab_size=65024,
                        bias=False, alibi=False, new_decoder_architecture=True)),
    "falcon-180b": ("FalconForCausalLM", "falcon",
                    dict(num_hidden_layers=80, hidden_size=14848, num_attention_heads=232, num_kv_heads=8,
                         vocab_size=65024, bias=False, alibi=False, new_decoder_architecture=True)),
    "falcon3-1b": ("LlamaForCausalLM", "llama", llama(18, 2048, 8192, 8, 4, 131072, 4096, head_dim=256, rope_theta=1000042, rms_norm_eps=1e-06)),
    "falcon3-7b": ("LlamaForCausalLM", "llama", llama(28, 3072, 23040, 12, 4, 131072, 32768, head_dim=256, rope_theta=1000042, rms_norm_eps=1e-06)),
    "falcon3-10b": ("LlamaForCausalLM", "llama", llama(40, 3072, 23040, 12, 4, 131072, 32768, head_dim=256, rope_theta=1000042, rms_norm_eps=1e-06)),
    "mpt-7b": ("MptForCausalLM", "mpt", dict(n_layers=32, d_model=4096, n_heads=32, vocab_size=50432, max_seq_len=2048)),
    "mpt-30b": ("MptForCausalLM", "mpt", dict(n_layers=48, d_model=7168, n_heads=64, vocab_size=50432, max_seq_len=8192)),
    "gemma-2b": ("GemmaForCausalLM", "gemma", llama(18, 2048, 16384, 8, 1, 256000, 8192, head_dim=256)),
    "gemma-7b": ("GemmaForCausalLM", "gemma", llama(28, 3072, 24576, 16, 16, 256000, 8192, head_dim=256)),
    "gemma2-2b": ("Gemma2ForCausalLM", "gemma2", llama(26, 2304, 9216, 8, 4, 256000, 8192, head_dim=256, sliding_window=4096)),
    "gemma2-9b": ("Gemma2ForCausalLM", "gemma2", llama(42, 3584, 14336, 16, 8, 256000, 8192, head_dim=256, sliding_window=4096)),
    "gemma2-27b": ("Gemma2ForCausalLM", "gemma2", llama(46, 4608, 36864, 32, 16, 256000, 8192, head_dim=128, sliding_window=4096)),
    "gemma3-270m": ("Gemma3ForCausalLM", "gemma3_text", llama(18, 640, 2048, 4, 1, 262144, 32768, head_dim=256, sliding_window=512)),
    "gemma3-1b": ("Gemma3ForCausalLM", "gemma3_text", llama(26, 1152, 6912, 4, 1, 262144, 32768, head_dim=256, sliding_window=512)),
    "gemma3-4b": ("Gemma3ForCausalLM", "gemma3_text", llama(34, 2560, 10240, 8, 4, 262208, 131072, head_dim=256, sliding_window=1024)),
    "gemma3-12b": ("Gemma3ForCausalLM", "gemma3_text", llama(48, 3840, 15360, 16, 8, 262208, 131072, head_dim=256, sliding_window=1024)),
    "gemma3-27b": ("Gemma3ForCausalLM", "gemma3_text", llama(62, 5376, 21504, 32, 16, 262208, 131072, head_dim=128, sliding_window=1024)),
    "phi-1.5": ("PhiForCausalLM", "phi", llama(24, 2048, 8192, 32, 32, 51200, 2048, partial_rotary_factor=0.5)),
    "phi-2": ("PhiForCausalLM", "phi", llama(32, 2560, 10240, 32, 32, 51200, 2048, partial_rotary_factor=0.4)),
    "phi3-mini": ("Phi3ForCausalLM", "phi3", llama(32, 3072, 8192, 32, 32, 32064, 4096, pad_token_id=32000)),
    "phi3-medium": ("Phi3ForCausalLM", "phi3", llama(40, 5120, 17920, 40, 10, 32064, 4096, pad_token_id=32000)),
    "phi4": ("Phi3ForCausalLM", "phi3", llama(40, 5120, 17920, 40, 10, 100352, 16384, pad_token_id=32000)),
    "phi4-mini": ("Phi3ForCausalLM", "phi3", llama(32, 3072, 8192, 24, 8, 200064, 131072, partial_rotary_factor=0.75, **TIED)),
    "olmo-1b": ("OlmoForCausalLM", "olmo", llama(16, 2048, 8192, 16, 16, 50304, 2048, **TIED)),
    "olmo-7b": ("OlmoForCausalLM", "olmo", llama(32, 4096, 11008, 32, 32, 50304, 2048)),
    "olmo2-1b": ("Olmo2ForCausalLM", "olmo2", llama(16, 2048, 8192, 16, 16, 100352, 4096)),
    "olmo2-7b": ("Olmo2ForCausalLM", "olmo2", llama(32, 4096, 11008, 32, 32, 100352, 4096)),
    "olmo2-13b": ("Olmo2ForCausalLM", "olmo2", llama(40, 5120, 13824, 40, 40, 100352, 4096)),
    "olmo2-32b": ("Olmo2ForCausalLM", "olmo2", llama(64, 5120, 27648, 40, 8, 100352, 4096)),
    "olmo3-7b": ("Olmo3ForCausalLM", "olmo3", llama(32, 4096, 11008, 32, 32, 100278, 65536, sliding_window=4096)),
    "olmo3-32b": ("Olmo3ForCausalLM", "olmo3", llama(64, 5120, 27648, 40, 8, 100278, 65536, sliding_window=4096)),
    "smollm2-135m": ("LlamaForCausalLM", "llama", llama(30, 576, 1536, 9, 3, 49152, 8192, **TIED, rope_theta=100000, rms_norm_eps=1e-05)),
    "smollm2-360m": ("LlamaForCausalLM", "llama", llama(32, 960, 2560, 15, 5, 49152, 8192, **TIED, rope_theta=100000, rms_norm_eps=1e-05)),
    "smollm2-1.7b": ("LlamaForCausalLM", "llama", llama(24, 2048, 8192, 32, 32, 49152, 8192, **TIED, rope_theta=130000, rms_norm_eps=1e-05)),
    "smollm3-3b": ("SmolLM3ForCausalLM", "smollm3", llama(36, 2048, 11008, 16, 4, 128256, 65536)),
    "granite3-2b": ("GraniteForCausalLM", "granite", llama(40, 2048, 8192, 32, 8, 49155, 131072, **TIED)),
    "granite3-8b": ("GraniteForCausalLM", "granite", llama(40, 4096, 12800, 32, 8, 49155, 131072, **TIED)),
    "mistral-7b-v0.3": ("MistralForCausalLM", "mistral", llama(32, 4096, 14336, 32, 8, 32768, 32768, sliding_window=None, rope_theta=1000000, rms_norm_eps=1e-05)),
    "mistral-nemo-12b": ("MistralForCausalLM", "mistral", llama(40, 5120, 14336, 32, 8, 131072, 131072, head_dim=128, sliding_window=None, rope_theta=1000000, rms_norm_eps=1e-05)),
    "mistral-small-22b": ("MistralForCausalLM", "mistral", llama(56, 6144, 16384, 48, 8, 32768, 32768, head_dim=128, sliding_window=None, rope_theta=1000000, rms_norm_eps=1e-05)),
    "mistral-small-24b": ("MistralForCausalLM", "mistral", llama(40, 5120, 32768, 32, 8, 131072, 32768, head_dim=128, sliding_window=None, rope_theta=100000000, rms_norm_eps=1e-05)),
    "mistral-large-123b": ("MistralForCausalLM", "mistral", llama(88, 12288, 28672, 96, 8, 32768, 131072, head_dim=128, sliding_window=None, rope_theta=1000000, rms_norm_eps=1e-05)),
    "ministral-8b": ("MistralForCausalLM", "mistral", llama(36, 4096, 12288, 32, 8, 131072, 32768, head_dim=128, sliding_window=32768, rope_theta=100000000, rms_norm_eps=1e-05)),
    "command-r": ("CohereForCausalLM", "cohere", llama(40, 8192, 22528, 64, 64, 256000, 131072)),
    "command-r-08-2024": ("CohereForCausalLM", "cohere", llama(40, 8192, 24576, 64, 8, 256000, 131072)),
    "command-r-plus": ("CohereForCausalLM", "cohere", llama(64, 12288, 33792, 96, 8, 256000, 131072, use_qk_norm=True)),
    "command-r7b": ("Cohere2ForCausalLM", "cohere2", llama(32, 4096, 14336, 32, 8, 256000, 8192, sliding_window=4096)),
    "starcoder2-3b": ("Starcoder2ForCausalLM", "starcoder2", llama(30, 3072, 12288, 24, 2, 49152, 16384, sliding_window=4096)),
    "starcoder2-7b": ("Starcoder2ForCausalLM", "starcoder2", llama(32, 4608, 18432, 36, 4, 49152, 16384, sliding_window=4096)),
    "starcoder2-15b": ("Starcoder2ForCausalLM", "starcoder2", llama(40, 6144, 24576, 48, 4, 49152, 16384, sliding_window=4096, **UNTIED)),
    "starcoder-15b": ("GPTBigCodeForCausalLM", "gpt_bigcode",
                      dict(n_layer=40, n_embd=6144, n_head=48, n_inner=24576, vocab_size=49152, n_positions=8192, multi_query=True)),
    "minitron-4b": ("NemotronForCausalLM", "nemotron", llama(32, 3072, 9216, 24, 8, 256000, 4096, head_dim=128, partial_rotary_factor=0.5)),
    "minitron-8b": ("NemotronForCausalLM", "nemotron", llama(32, 4096, 16384, 48, 8, 256000, 4096, head_dim=128, partial_rotary_factor=0.5)),
    "stablelm-3b": ("StableLmForCausalLM", "stablelm", llama(32, 2560, 6912, 32, 32, 50304, 4096, partial_rotary_factor=0.25)),
    "stablelm2-1.6b": ("StableLmForCausalLM", "stablelm", llama(24, 2048, 5632, 32, 32, 100352, 4096, use_qkv_bias=True)),
    "stablelm2-12b": ("StableLmForCausalLM", "stablelm", llama(40, 5120, 13824, 32, 8, 100352, 4096, qk_layernorm=True, use_parallel_residual=True)),
    "yi-6b": ("LlamaForCausalLM", "llama", llama(32, 4096, 11008, 32, 4, 64000, 4096, rope_theta=5000000, rms_norm_eps=1e-05)),
    "yi-9b": ("LlamaForCausalLM", "llama", llama(48, 4096, 11008, 32, 4, 64000, 4096, rope_theta=10000, rms_norm_eps=1e-06)),
    "yi-34b": ("LlamaForCausalLM", "llama", llama(60, 7168, 20480, 56, 8, 64000, 4096, rope_theta=5000000, rms_norm_eps=1e-05)),
    "deepseek-llm-7b": ("LlamaForCausalLM", "llama", llama(30, 4096, 11008, 32, 32, 102400, 4096, rope_theta=10000, rms_norm_eps=1e-06)),
    "deepseek-llm-67b": ("LlamaForCausalLM", "llama", llama(95, 8192, 22016, 64, 8, 102400, 4096, rope_theta=10000, rms_norm_eps=1e-06)),
    "deepseek-coder-1.3b": ("LlamaForCausalLM", "llama", llama(24, 2048, 5504, 16, 16, 32256, 16384, rope_theta=100000, rms_norm_eps=1e-06, rope_scaling=dict(type="linear", factor=4.0))),
    "deepseek-coder-6.7b": ("LlamaForCausalLM", "llama", llama(32, 4096, 11008, 32, 32, 32256, 16384, rope_theta=100000, rms_norm_eps=1e-06, rope_scaling=dict(type="linear", factor=4.0))),
    "deepseek-coder-33b": ("LlamaForCausalLM", "llama", llama(62, 7168, 19200, 56, 8, 32256, 16384, rope_theta=100000, rms_norm_eps=1e-06, rope_scaling=dict(type="linear", factor=4.0))),
    "glm4-9b": ("GlmForCausalLM", "glm", llama(40, 4096, 13696, 32, 2, 151552, 131072, head_dim=128, attention_bias=True)),
    "glm4-0414-9b": ("Glm4ForCausalLM", "glm4", llama(40, 4096, 13696, 32, 2, 151552, 32768, head_dim=128, attention_bias=True)),
    "glm4-0414-32b": ("Glm4ForCausalLM", "glm4", llama(61, 6144, 23040, 48, 2, 151552, 32768, head_dim=128, attention_bias=False)),
    "exaone4-1.2b": ("Exaone4ForCausalLM", "exaone4", llama(30, 2048, 4096, 32, 8, 102400, 65536, head_dim=64, sliding_window=4096, **TIED)),
    "exaone4-32b": ("Exaone4ForCausalLM", "exaone4", llama(64, 5120, 27392, 40, 8, 102400, 131072, head_dim=128, sliding_window=4096)),
    "seed-oss-36b": ("SeedOssForCausalLM", "seed_oss",
                     llama(64, 5120, 27648, 80, 8, 155136, 524288, head_dim=128, attention_bias=True, attention_out_bias=False, mlp_bias=False, rope_theta=10000000, rms_norm_eps=1e-06)),
    "qwen1.5-0.5b": ("Qwen2ForCausalLM", "qwen2", llama(24, 1024, 2816, 16, 16, 151936, 32768, **TIED, rope_theta=1000000, rms_norm_eps=1e-06)),
    "qwen1.5-1.8b": ("Qwen2ForCausalLM", "qwen2", llama(24, 2048, 5504, 16, 16, 151936, 32768, rope_theta=1000000, rms_norm_eps=1e-06)),
    "qwen1.5-4b": ("Qwen2ForCausalLM", "qwen2", llama(40, 2560, 6912, 20, 20, 151936, 32768, rope_theta=1000000, rms_norm_eps=1e-06)),
    "qwen1.5-7b": ("Qwen2ForCausalLM", "qwen2", llama(32, 4096, 11008, 32, 32, 151936, 32768, rope_theta=1000000, rms_norm_eps=1e-06)),
    "qwen1.5-14b": ("Qwen2ForCausalLM", "qwen2", llama(40, 5120, 13696, 40, 40, 152064, 32768, rope_theta=1000000, rms_norm_eps=1e-06)),
    "qwen1.5-32b": ("Qwen2ForCausalLM", "qwen2", llama(64, 5120, 27392, 40, 8, 152064, 32768, rope_theta=1000000, rms_norm_eps=1e-06)),
    "qwen1.5-72b": ("Qwen2ForCausalLM", "qwen2", llama(80, 8192, 24576, 64, 64, 152064, 32768, rope_theta=1000000, rms_norm_eps=1e-06)),
    "qwen1.5-110b": ("Qwen2ForCausalLM", "qwen2", llama(80, 8192, 49152, 64, 8, 152064, 32768, rope_theta=1000000, rms_norm_eps=1e-06)),
    "deepseek-r1-distill-qwen-1.5b": ("Qwen2ForCausalLM", "qwen2", llama(28, 1536, 8960, 12, 2, 151936, 131072, use_sliding_window=False, rope_theta=10000, rms_norm_eps=1e-06)),
    "codellama-7b": ("LlamaForCausalLM", "llama", llama(32, 4096, 11008, 32, 32, 32016, 16384, rope_theta=1000000, rms_norm_eps=1e-05)),
    "codellama-13b": ("LlamaForCausalLM", "llama", llama(40, 5120, 13824, 40, 40, 32016, 16384, rope_theta=1000000, rms_norm_eps=1e-05)),
    "codellama-34b": ("LlamaForCausalLM", "llama", llama(48, 8192, 22016, 64, 8, 32000, 16384, rope_theta=1000000, rms_norm_eps=1e-05)),
    "bert-base": ("BertForMaskedLM", "bert", bert(12, 768, 12, 30522, 512)),
    "bert-large": ("BertForMaskedLM", "bert", bert(24, 1024, 16, 30522, 512)),
    "roberta-base": ("RobertaForMaskedLM", "roberta", bert(12, 768, 12, 50265, 514, type_vocab_size=1)),
    "roberta-large": ("RobertaForMaskedLM", "roberta", bert(24, 1024, 16, 50265, 514, type_vocab_size=1)),
    "xlm-roberta-base": ("XLMRobertaForMaskedLM", "xlm-roberta", bert(12, 768, 12, 250002, 514, type_vocab_size=1)),
    "modernbert-base": ("ModernBertForMaskedLM", "modernbert",
                        dict(num_hidden_layers=22, hidden_size=768, intermediate_size=1152, num_attention_heads=12, vocab_size=50368, max_position_embeddings=8192)),
    "modernbert-large": ("ModernBertForMaskedLM", "modernbert",
                         dict(num_hidden_layers=28, hidden_size=1024, intermediate_size=2624, num_attention_heads=16, vocab_size=50368, max_position_embeddings=8192)),
    "t5-small": ("T5ForConditionalGeneration", "t5", t5(6, 512, 2048, 8)),
    "t5-base": ("T5ForConditionalGeneration", "t5", t5(12, 768, 3072, 12)),
    "t5-large": ("T5ForConditionalGeneration", "t5", t5(24, 1024, 4096, 16)),
    "t5-3b": ("T5ForConditionalGeneration", "t5", t5(24, 1024, 16384, 32, 128)),
    "t5-11b": ("T5ForConditionalGeneration", "t5", t5(24, 1024, 65536, 128, 128)),
    "vit-base": ("ViTForImageClassification", "vit", vit(12, 768, 12)),
    "vit-large": ("ViTForImageClassification", "vit", vit(24, 1024, 16)),
}


# From the repository: code next to its model; T5 1.1, whose head the library ties since 5.0.
PUBLISHED = {
    "flan-t5-small": (76961152, "T5ForConditionalGeneration", "t5", t5(8, 512, 1024, 6, **FLAN)),
    "flan-t5-base": (247577856, "T5ForConditionalGeneration", "t5", t5(12, 768, 2048, 12, **FLAN)),
    "flan-t5-large": (783150080, "T5ForConditionalGeneration", "t5", t5(24, 1024, 2816, 16, **FLAN)),
    "flan-t5-xl": (2849757184, "T5ForConditionalGeneration", "t5", t5(24, 2048, 5120, 32, **FLAN)),
    "flan-t5-xxl": (11135332352, "T5ForConditionalGeneration", "t5", t5(24, 4096, 10240, 64, **FLAN)),
    "internlm2-1.8b": (1889110016, "InternLM2ForCausalLM", "internlm2", llama(24, 2048, 8192, 16, 8, 92544, 32768, bias=False)),
    "internlm2-7b": (7737708544, "InternLM2ForCausalLM", "internlm2", llama(32, 4096, 14336, 32, 8, 92544, 32768, bias=False)),
    "internlm2-20b": (19861149696, "InternLM2ForCausalLM", "internlm2", llama(48, 6144, 16384, 48, 8, 92544, 32768, bias=False)),
    "internlm3-8b": (8804241408, "InternLM3ForCausalLM", "internlm3", llama(48, 4096, 10240, 32, 2, 128512, 32768, head_dim=128, qkv_bias=False, bias=False, rope_theta=50000000, rms_norm_eps=1e-05, rope_scaling=dict(rope_type="dynamic", factor=6.0))),
    "baichuan2-7b": (7505973248, "BaichuanForCausalLM", "baichuan", dict(num_hidden_layers=32, hidden_size=4096, intermediate_size=11008, num_attention_heads=32, vocab_size=125696, hidden_act="silu", **UNTIED)),
    "baichuan2-13b": (13896668160, "BaichuanForCausalLM", "baichuan", dict(num_hidden_layers=40, hidden_size=5120, intermediate_size=13696, num_attention_heads=40, vocab_size=125696, hidden_act="silu", **UNTIED)),
    "chatglm3-6b": (6243584000, "ChatGLMModel", "chatglm", dict(num_layers=28, hidden_size=4096, ffn_hidden_size=13696, num_attention_heads=32, kv_channels=128, multi_query_attention=True, multi_query_group_num=2, padded_vocab_size=65024, seq_length=8192, add_bias_linear=False, add_qkv_bias=True, **UNTIED)),
    "exaone3.5-2.4b": (2405327360, "ExaoneForCausalLM", "exaone", dict(num_layers=30, hidden_size=2560, intermediate_size=7168, num_attention_heads=32, num_key_value_heads=8, head_dim=80, vocab_size=102400, activation_function="silu", max_position_embeddings=32768, **TIED, rope_theta=1000000, rms_norm_eps=1e-05, rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192))),
    "exaone3.5-7.8b": (7818448896, "ExaoneForCausalLM", "exaone", dict(num_layers=32, hidden_size=4096, intermediate_size=14336, num_attention_heads=32, num_key_value_heads=8, head_dim=128, vocab_size=102400, activation_function="silu", max_position_embeddings=32768, **UNTIED, rope_theta=1000000, rms_norm_eps=1e-05, rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192))),
}


def count(class_name, kind, config):
    built = transformers.AutoConfig.for_model(kind, **config)
    with torch.device("meta"):
        model = getattr(transformers, class_name)(built)
    return sum(p.numel() for p in model.parameters())


def several_parts(name, config):
    """The published models of 4B and more hold their text part inside."""
    if name in ("gemma3-4b", "gemma3-12b", "gemma3-27b"):
        return dict(architectures=["Gemma3ForConditionalGeneration"], model_type="gemma3",
                    text_config=dict(model_type="gemma3_text", **config))
    return None


def line(name, parameters, source, class_name, kind, config):
    print(json.dumps({"name": name, "parameters": parameters, "source": source,
                      "config": several_parts(name, config) or {"architectures": [class_name], "model_type": kind, **config}}, separators=(",", ":")))


def main():
    for name, (class_name, kind, config) in MODELS.items():
        line(name, count(class_name, kind, config), f"transformers {transformers.__version__}", class_name, kind, config)
    for name, (parameters, *rest) in PUBLISHED.items():
        line(name, parameters, "its repository", *rest)


main()
