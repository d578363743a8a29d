# SPDX-License-Identifier: Apache-2.0
"""transformers' Trainer with the model and recipe that p4d's options on the command line describe: model-type=llama layers=8 ...
make_rehearsed_memory.py runs it under `p4d rehearse`. Weights are random, texts have random lengths with padding=longest."""
import json
import os
import random
import sys
import tempfile

import torch
import transformers

try:
    from transformers.initialization import no_init_weights
except ImportError:  # before release 5
    from transformers.modeling_utils import no_init_weights

given = dict(word.split("=") for word in sys.argv[1:])


def number(name, otherwise=0):
    return int(given.get(name, otherwise))


class Texts(torch.utils.data.Dataset):
    """Token ids; of 7 texts in turn with padding=longest, one has the full length."""

    def __init__(self):
        choose = random.Random(7)
        full = number("seq-len")
        self.lengths = [full] * 512
        if given["padding"] == "longest":
            self.lengths = [full if i % 7 == 4 else choose.randrange(full // 8, full) for i in range(512)]

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, index):
        ids = torch.full((self.lengths[index],), 5 + index)
        return {"input_ids": ids, "labels": ids}


def collated(texts):
    """Rows as a DataCollator pads them: a mask if lengths may differ."""
    longest = max(len(text["input_ids"]) for text in texts)
    rows = {"input_ids": torch.zeros(len(texts), longest, dtype=torch.long),
            "labels": torch.full((len(texts), longest), -100)}
    mask = torch.zeros(len(texts), longest, dtype=torch.long)
    for row, text in enumerate(texts):
        here = len(text["input_ids"])
        rows["input_ids"][row, :here], rows["labels"][row, :here], mask[row, :here] = text["input_ids"], text["labels"], 1
    return {**rows, "attention_mask": mask} if given["packing"] == "off" else rows


def configured():
    kind = given["model-type"]
    d = dict(hidden_size=number("hidden"), num_hidden_layers=number("layers"), num_attention_heads=number("heads"),
             intermediate_size=number("ffn"), vocab_size=number("vocab"), tie_word_embeddings=given["tied"] == "on",
             num_key_value_heads=number("kv-heads"), head_dim=number("head-dim"),
             max_position_embeddings=max(number("seq-len"), 2048), pad_token_id=0, bos_token_id=1, eos_token_id=2)
    if kind == "gpt2":
        d = dict(n_embd=number("hidden"), n_layer=number("layers"), n_head=number("heads"), n_inner=number("ffn"),
                 vocab_size=number("vocab"), n_positions=max(number("seq-len"), 2048))
    if kind == "gpt_neox":
        for name in ("num_key_value_heads", "head_dim"):
            d.pop(name)
    if kind in ("qwen2", "phi3"):
        d.pop("head_dim")
    if kind == "mistral":
        d["sliding_window"] = None
    if kind == "mixtral":
        d.update(num_local_experts=number("experts"), num_experts_per_tok=number("experts-per-token"), sliding_window=None)
    if kind == "qwen3_moe":
        d.update(num_experts=number("experts"), num_experts_per_tok=number("experts-per-token"),
                 moe_intermediate_size=number("expert-ffn"))
    if kind == "olmoe":
        d.pop("head_dim")
        d.update(num_experts=number("experts"), num_experts_per_tok=number("experts-per-token"))
    config = transformers.AutoConfig.for_model(kind, **d)
    config.use_cache = False
    config._attn_implementation = given["attention"]
    return config


BEFORE_5 = int(transformers.__version__.split(".")[0]) < 5


def dtype():
    return torch.float32 if given["param-dtype"] == "fp32" else torch.bfloat16


def in_dtype():
    """The argument that says it."""
    return {"torch_dtype" if BEFORE_5 else "dtype": dtype()}


def saved():
    """A folder with the configuration and a checkpoint whose tensors are a hole in the file."""
    config = configured()
    config.dtype = torch.bfloat16
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    folder = tempfile.mkdtemp()
    model.config.save_pretrained(folder)
    tensors, end = {}, 0
    for name, tensor in model.named_parameters():
        tensors[name] = {"dtype": "BF16", "shape": list(tensor.shape), "data_offsets": [end, end + 2 * tensor.numel()]}
        end += 2 * tensor.numel()
    header = json.dumps({**tensors, "__metadata__": {"format": "pt"}}).encode()
    with open(os.path.join(folder, "model.safetensors"), "wb") as out:
        out.write(len(header).to_bytes(8, "little") + header)
        out.truncate(8 + len(header) + end)
    return folder


def made():
    """The model, on the host if it is sharded from there."""
    if given["finetune"] == "qlora":
        four_bit = transformers.BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=torch.bfloat16)
        folder = saved()
        return transformers.AutoModelForCausalLM.from_pretrained(
            folder, quantization_config=four_bit, device_map={"": 0}, dtype=torch.bfloat16,
            attn_implementation=given["attention"])
    if given.get("load") == "file":
        return transformers.AutoModelForCausalLM.from_pretrained(weights, attn_implementation=given["attention"],
                                                                 use_cache=False, **in_dtype())
    where = "cuda" if given["framework"] == "ddp" else "cpu"
    with no_init_weights(), torch.device(where):
        model = transformers.AutoModelForCausalLM.from_config(configured(), **in_dtype())
    model.tie_weights()  # which belongs to what no_init_weights leaves out
    return model


def with_adapters(model):
    import peft
    if given["finetune"] == "qlora":
        model = peft.prepare_model_for_kbit_training(
            model, use_gradient_checkpointing=given["recompute"] == "full",
            gradient_checkpointing_kwargs={"use_reentrant": False})
    targets = given["lora-targets"]
    return peft.get_peft_model(model, peft.LoraConfig(
        r=number("lora-rank"), lora_alpha=2 * number("lora-rank"), lora_dropout=0.0, task_type="CAUSAL_LM",
        target_modules=targets if targets == "all-linear" else ["q_proj", "k_proj", "v_proj", "o_proj"]),
        autocast_adapter_dtype=given["adapter-dtype"] == "fp32")


def zero_config():
    zero = {"stage": number("zero-stage"), "overlap_comm": given.get("overlap-dp") == "on", "contiguous_gradients": True,
            "reduce_bucket_size": number("zero-bucket", 500000000)}
    if given["offload"] != "none":
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
    if given["offload"] == "optimizer+params":
        zero["offload_param"] = {"device": "cpu", "pin_memory": True}
    return {"bf16": {"enabled": True}, "zero_optimization": zero, "gradient_clipping": 1.0,
            "zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False,
            "train_micro_batch_size_per_gpu": number("micro-batch"), "gradient_accumulation_steps": number("micro-batches")}


OPTIMIZERS = {"adamw": "adamw_torch_fused", "adamw-8bit": "adamw_bnb_8bit", "paged-adamw-8bit": "paged_adamw_8bit",
              "adafactor": "adafactor", "sgd": "sgd"}


def recipe(folder):
    optim = OPTIMIZERS[given["optimizer"]]
    if given["optimizer"] == "adamw" and given.get("optimizer-foreach") == "on":
        optim = "adamw_torch"
    a = dict(output_dir=folder, max_steps=60, per_device_train_batch_size=number("micro-batch"),
             per_device_eval_batch_size=number("eval-micro-batch"),
             gradient_accumulation_steps=number("micro-batches"), logging_steps=1000, save_strategy="no", report_to=[],
             optim=optim, learning_rate=1e-5, bf16=given["autocast"] == "on", remove_unused_columns=False,
             gradient_checkpointing=given["recompute"] == "full", dataloader_num_workers=0,
             gradient_checkpointing_kwargs={"use_reentrant": False} if given["recompute"] == "full" else None)
    if given["framework"] == "fsdp":
        layer = {"llama": "LlamaDecoderLayer", "qwen2": "Qwen2DecoderLayer", "qwen3": "Qwen3DecoderLayer",
                 "mistral": "MistralDecoderLayer", "gemma2": "Gemma2DecoderLayer", "phi3": "Phi3DecoderLayer",
                 "mixtral": "MixtralDecoderLayer", "qwen3_moe": "Qwen3MoeDecoderLayer", "olmoe": "OlmoeDecoderLayer",
                 "gpt2": "GPT2Block", "gpt_neox": "GPTNeoXLayer"}[given["model-type"]]
        settings = {"version": number("fsdp-version", 2), "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
                    "transformer_layer_cls_to_wrap": [layer], "cpu_ram_efficient_loading": False,
                    "reshard_after_forward": given.get("reshard-after-forward", "on") == "on"}
        if given.get("offload") == "params":
            settings["cpu_offload"] = True
            os.environ.update(ACCELERATE_USE_FSDP="true", FSDP_OFFLOAD_PARAMS="true")  # as accelerate launch does: a gloo group
        if settings["version"] == 1:
            # accelerate 1.15 takes FULL_SHARD where this variable is not set, whatever reshard_after_forward says
            strategy = "FULL_SHARD" if settings["reshard_after_forward"] else "SHARD_GRAD_OP"
            os.environ["FSDP_SHARDING_STRATEGY"] = strategy
            settings.update(reshard_after_forward=strategy,
                            use_orig_params=str(given.get("orig-params", "on") == "on").lower(),
                            backward_prefetch="backward_pre" if given.get("backward-prefetch", "on") == "on" else "no_prefetch")
        if BEFORE_5:  # FSDP 1 alone
            settings.pop("version")
            a["fsdp"] = "%s auto_wrap" % ("full_shard" if settings.pop("reshard_after_forward") == "FULL_SHARD" else "shard_grad_op")
        a.update(fsdp=a.get("fsdp", True), fsdp_config=settings, bf16=True)
    if given["framework"] == "deepspeed":
        a.update(deepspeed=zero_config(), bf16=True)
    return transformers.TrainingArguments(**a)


class Trainer(transformers.Trainer):
    def create_optimizer(self, *rest, **named):
        """DeepSpeed's CPUAdam needs a compiler; its numbers are those of PyTorch's."""
        if given["framework"] == "deepspeed" and given["offload"] != "none" and self.optimizer is None:
            self.optimizer = torch.optim.AdamW([p for p in self.model.parameters() if p.requires_grad], lr=1e-5)
        return super().create_optimizer(*rest, **named)


weights = saved() if given.get("load") == "file" else None
with tempfile.TemporaryDirectory() as folder:
    arguments = recipe(folder)  # before the model: ZeRO-3 shards it while it is made
    model = made()
    if given["finetune"] != "full":
        model = with_adapters(model)
    few = torch.utils.data.Subset(Texts(), range(number("eval-micro-batch") * arguments.world_size))
    trainer = Trainer(model=model, args=arguments, train_dataset=Texts(), eval_dataset=few, data_collator=collated)
    trainer.train()
