# SPDX-License-Identifier: Apache-2.0
"""Models of several parts, whose classes had losses of their own, for make_transformers_memory.py: the text part as
published, and as little as possible of the others. The release that is installed decides which loss runs."""

SHAPE = ("hidden", "ffn", "heads", "kv-heads", "head-dim", "vocab", "tied", "layers")
CLASSES = {"gemma3": "Gemma3ForConditionalGeneration", "paligemma": "PaliGemmaForConditionalGeneration",
           "qwen2_vl": "Qwen2VLForConditionalGeneration", "llava": "LlavaForConditionalGeneration",
           "llama4": "Llama4ForConditionalGeneration"}
MODELS = {"gemma3": [(2560, 10240, 8, 4, 256, 262208, "on", 34), (3840, 15360, 16, 8, 256, 262208, "on", 48)],
          "paligemma": [(2048, 16384, 8, 1, 256, 257216, "on", 18)],
          "qwen2_vl": [(3584, 18944, 28, 4, 128, 152064, "off", 28), (1536, 8960, 12, 2, 128, 151936, "on", 28)],
          "llava": [(4096, 11008, 32, 32, 128, 32064, "off", 32)]}
AS_P4D = {"gemma3": ("gemma3", "", ""), "paligemma": ("gemma", "", ""), "qwen2_vl": ("llama", "qkv", ""), "llava": ("llama", "", "")}
OPTIONS = ["judged-part", "transformers"]


def drawn(r, c):
    """A configuration whose end takes most, with the columns that tell p4d which class of which release it is."""
    import transformers
    length, rows = r.choice(((2048, 1), (2048, 4), (4096, 1), (4096, 2), (8192, 1)))
    return {**c, "seq-len": length, "micro-batch": rows, "packing": "off", "layers": r.choice((1, 2, 2)),
            "finetune": "full", "lora-rank": 0, "lora-targets": "none", "adapter-dtype": "none", "attention": "sdpa", "offload": "none",
            "recompute": "full",
            "judged-part": "the text part of " + CLASSES[c["model-type"]],
            "transformers": ".".join(transformers.__version__.split(".")[:2])}


def configured(kind, text):
    import transformers
    small = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=28, patch_size=14)
    if kind == "qwen2_vl":
        return transformers.AutoConfig.for_model(kind, **text, image_token_id=1, video_token_id=2, vision_start_token_id=3, rope_scaling={"type": "mrope", "mrope_section": [16, 24, 24]},
                                                 vision_config=dict(depth=1, embed_dim=16, num_heads=2, hidden_size=text["hidden_size"]))
    of_text = {"gemma3": "gemma3_text", "paligemma": "gemma", "llava": "llama"}[kind]
    vision = dict(small, model_type="clip_vision_model" if kind == "llava" else "siglip_vision_model")
    if kind == "paligemma":
        vision["projection_dim"] = text["hidden_size"]
    config = transformers.AutoConfig.for_model(kind, text_config=dict(text, model_type=of_text), vision_config=vision,
                                               tie_word_embeddings=text["tie_word_embeddings"])
    return config

