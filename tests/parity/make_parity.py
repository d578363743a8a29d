#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/parity: a tiny model of each architecture that p4d-train has, as transformers stores it, and what it computes.

    make_parity.py [--lora | --steps] DIRECTORY [NAME ...]

NAME/config.json and model.safetensors (bf16) are the model; truth/model.safetensors has, under the name of each weight, the gradient
of the mean loss, and "loss", "tokens" and "labels"; truth/logits.npy those of the first sequence, which is `text` in the characters of
released/tokenizer.json; truth/steps.npy has the losses of STEPS steps with AdamW. Labels of -1 are not trained on. lora/model.safetensors are adapters of all linear layers beside it, as PEFT names them, lora/truth what those
change: gradients, loss, logits and steps. Everything is computed in float64, with RoPE's angles, too (transformers 5.23, peft 0.21, torch 2.15).
With --lora only what is in lora/ is written, with --steps only steps.npy; with names only these models.

Numbers are drawn again until no tensor of the gradient is off by more than WELL when transformers computes it in float32 with half an
ulp of noise behind each module: in some models, of Gemma 2 most, sums nearly cancel, and what float32 rounds is then more than 2e-6 of
a tensor, whoever computes it.
"""
import copy
import itertools
import os
import sys

import make_released
import numpy
import peft
import safetensors.torch
import torch
import transformers

VOCAB, BATCH, LENGTH = 40, 2, 24
RANK, ALPHA = 3, 6
STEPS, RATE = 20, 1e-3 # the rate grows to RATE: at once AdamW's first steps are as long as the others, whatever rounding says of their sign
WELL, DRAWS = 2.3e-6, 12 # of noise that is somewhat more than rounding; test_parity allows 2e-6
SIZES = {"vocab_size": VOCAB, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 64, "bos_token_id": None, "eos_token_id": None,
         "pad_token_id": None}
LLAMA31 = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
           "original_max_position_embeddings": 16}
MODELS = {
    "llama": ("Llama", {"rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False}),
    "llama-tied": ("Llama", {"rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": True}),
    "llama31": ("Llama", {"rms_norm_eps": 1e-5, "rope_parameters": LLAMA31, "tie_word_embeddings": True}),
    "qwen2": ("Qwen2", {"rms_norm_eps": 1e-6, "rope_theta": 1e6, "tie_word_embeddings": True}),
    "qwen3": ("Qwen3", {"rms_norm_eps": 1e-6, "rope_theta": 1e5, "tie_word_embeddings": False}),
    "mistral": ("Mistral", {"rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False, "sliding_window": None}),
    "mistral-window": ("Mistral", {"rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False, "sliding_window": 7}),
    "gemma": ("Gemma", {"rms_norm_eps": 1e-6, "rope_theta": 10000.0, "hidden_activation": "gelu_pytorch_tanh"}),
    "gemma2": ("Gemma2", {"rms_norm_eps": 1e-6, "rope_theta": 10000.0, "sliding_window": 7,
                          "query_pre_attn_scalar": 8}),
    "gpt2": ("GPT2", {}),
    "llama-bias": ("Llama", {"rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False, "attention_bias": True,
                             "mlp_bias": True}),
    "smollm3": ("SmolLM3", {"rms_norm_eps": 1e-6, "rope_theta": 50000.0, "tie_word_embeddings": True, "num_hidden_layers": 4,
                            "mlp_bias": True}),
    "granite": ("Granite", {"rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": True, "attention_bias": True,
                            "embedding_multiplier": 6.0, "residual_multiplier": 0.22, "attention_multiplier": 0.25,
                            "logits_scaling": 3.0}),
    "olmo2": ("Olmo2", {"rms_norm_eps": 1e-6, "rope_theta": 50000.0, "tie_word_embeddings": False}),
    "gemma3": ("Gemma3", {"rms_norm_eps": 1e-6, "num_hidden_layers": 6, "sliding_window": 7, "query_pre_attn_scalar": 12,
                          "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
                                              "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}}),
    "phi3": ("Phi3", {"rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False, "sliding_window": 7}),
}
# has other names for most
GPT2 = {"vocab_size": VOCAB, "n_positions": 64, "n_embd": 16, "n_layer": 2, "n_head": 4, "resid_pdrop": 0.0, "embd_pdrop": 0.0,
        "attn_pdrop": 0.0, "bos_token_id": None, "eos_token_id": None}


def randomize(model):
    """What scales begins at 1, or where the class adds 1, at 0."""
    added = type(model).__name__.startswith("Gemma")
    with torch.no_grad():
        for name, p in model.named_parameters():
            scales = p.dim() == 1 and name.endswith("weight") and not added
            p.copy_(torch.randn_like(p) * (0.4 if added and "q_proj" in name else 0.2) + scales) # scores that a cap changes
            if "Gemma3" in type(model).__name__ and "post_" in name:
                p.sub_(0.9) # six layers of blocks as large as the residual stream magnify what is rounded


def exact_angles(model):
    """Cosines and sines in float64, which the library computes in float32 whatever the model's type; maybe of several kinds of layers."""
    rotary = getattr(model.model, "rotary_emb", None) if hasattr(model, "model") else None
    if rotary is None:
        return

    def forward(_x, position_ids, layer_type=None, **_kwargs):
        kind = f"{layer_type}_" if layer_type else ""
        angle = position_ids[..., None].double() * getattr(rotary, kind + "inv_freq").double()
        angle = torch.cat((angle, angle), dim=-1)
        scaling = getattr(rotary, kind + "attention_scaling")
        return angle.cos() * scaling, angle.sin() * scaling

    rotary.forward = forward


def exact_frequencies(model, config):
    """inv_freq is stored in float32; the plain ones and those divided by a factor are computed again."""
    rotary = getattr(getattr(model, "model", None), "rotary_emb", None)
    parameters = getattr(config, "rope_parameters", None) or {}
    kinds = {f"{kind}_": own for kind, own in parameters.items() if isinstance(own, dict)} or {"": parameters}
    for kind, own in kinds.items() if rotary is not None else ():
        if own.get("rope_type", "default") in ("default", "linear"):
            d = config.head_dim
            setattr(rotary, kind + "inv_freq", own["rope_theta"] ** (-torch.arange(0, d, 2).double() / d) / own.get("factor", 1))


def gradients(model, tokens, labels, names):
    """Of the mean loss: those of the parameters with these names, stored by what they are names of; and logits and loss."""
    logits = model(tokens).logits
    loss = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCAB), labels.reshape(-1), ignore_index=-1)
    parameters = dict(model.named_parameters())
    return dict(zip(names.values(), torch.autograd.grad(loss, [parameters[own] for own in names]))), logits, loss


def round_again(_module, _inputs, output):
    """As if what a module returns had been summed in another order."""
    return output * (1 + torch.randn_like(output) * 2**-24) if isinstance(output, torch.Tensor) else output


def off_in_float32(model, single, tokens, labels, names):
    """The worst tensor's error, of DRAWS times that it is computed."""
    truth, _, _ = gradients(model, tokens, labels, names)
    hooks = [module.register_forward_hook(round_again) for module in single.modules() if not list(module.children())]
    ways = [gradients(single, tokens, labels, names)[0] for _ in range(DRAWS)]
    for hook in hooks:
        hook.remove()
    return max(((way[name] - truth[name]).norm() / truth[name].norm()).item() for way in ways for name in truth)


def compute(model, tokens, labels, names, to):
    """Gradients of what is stored, loss and logits, into the folder `to`."""
    truth, logits, loss = gradients(model, tokens, labels, names)
    truth = {name: gradient.float() for name, gradient in truth.items()}
    truth.update(loss=loss.detach().float().reshape(1), tokens=tokens.float(), labels=labels.float())
    os.makedirs(to, exist_ok=True)
    safetensors.torch.save_file(truth, os.path.join(to, "model.safetensors"))
    numpy.save(os.path.join(to, "logits.npy"), logits[0].detach().float().numpy())
    return loss.item()


def steps(model, tokens, labels):
    """Losses of STEPS steps of AdamW, as p4d-train's default is."""
    model = copy.deepcopy(model)
    parameters = [p for p in model.parameters() if p.requires_grad]
    groups = [{"params": [p for p in parameters if p.dim() > 1], "weight_decay": 0.1},
              {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.95), eps=1e-8)
    losses = []
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = RATE * (step + 1) / STEPS
        loss = torch.nn.functional.cross_entropy(model(tokens).logits.reshape(-1, VOCAB), labels.reshape(-1), ignore_index=-1)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        losses.append(loss.item())
    return numpy.array(losses)


def write_steps(model, single, tokens, labels, to):
    truth = steps(model, tokens, labels)
    numpy.save(os.path.join(to, "steps.npy"), truth)
    return abs(steps(single, tokens, labels) / truth - 1).max()


def with_adapters(model):
    """Adds adapters of all linear layers but the head; with the names under which they are stored, by those of parameters."""
    model = peft.get_peft_model(model, peft.LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules="all-linear", task_type="CAUSAL_LM",
                                                       fan_in_fan_out=type(model).__name__.startswith("GPT2")))
    return model, {name: name.replace(".default", "") for name, _ in model.named_parameters() if ".lora_" in name}


def add_adapters(model, path):
    """Adapters with numbers of fp32, which are stored in `path`."""
    model, names = with_adapters(model)
    adapters = {name: p for name, p in model.named_parameters() if name in names}
    with torch.no_grad():
        for p in adapters.values():
            p.data = torch.randn(p.shape) * 0.1
    os.makedirs(path, exist_ok=True)
    safetensors.torch.save_file({names[name]: p.detach().float() for name, p in adapters.items()}, os.path.join(path, "model.safetensors"))
    return model, names


def exact(model):
    """In float64, with its angles."""
    model = copy.deepcopy(model).double()
    exact_frequencies(model, model.config)
    exact_angles(model)
    return model


def make_base(of_library, config, path, seed):
    """A model, stored in `path`: in float64, in float32, and the names of what is stored, by those of parameters."""
    torch.manual_seed(seed)
    model = of_library(config)
    randomize(model)
    model.to(torch.bfloat16).save_pretrained(path)
    if os.path.exists(os.path.join(path, "generation_config.json")):
        os.remove(os.path.join(path, "generation_config.json"))
    model = of_library.from_pretrained(path, dtype=torch.float32, attn_implementation="eager").eval()
    names = {name: name for name in safetensors.torch.load_file(os.path.join(path, "model.safetensors"))}
    return exact(model), model, names


def make_adapters(of_library, path, seed):
    torch.manual_seed(seed)
    model = of_library.from_pretrained(path, dtype=torch.float32, attn_implementation="eager").eval()
    single, names = add_adapters(model, os.path.join(path, "lora"))
    return exact(single), single, names


def stored_base(of_library, path):
    """make_base's, as it is stored."""
    single = of_library.from_pretrained(path, dtype=torch.float32, attn_implementation="eager").eval()
    return exact(single), single


def stored_adapters(of_library, path):
    """make_adapters', as it is stored."""
    model = of_library.from_pretrained(path, dtype=torch.float32, attn_implementation="eager").eval()
    single, names = with_adapters(model)
    stored = safetensors.torch.load_file(os.path.join(path, "lora", "model.safetensors"))
    for name, p in single.named_parameters():
        if name in names:
            p.data = stored[names[name]]
    return exact(single), single


def main(directory, only, part):
    generator = torch.Generator().manual_seed(9)
    tokens = torch.randint(0, VOCAB, (BATCH, LENGTH + 1), generator=generator)
    tokens, labels = tokens[:, :-1], tokens[:, 1:].clone()
    labels[:, 3::7] = -1
    with open(os.path.join(directory, "text"), "w", encoding="utf-8") as file:
        print("".join(make_released.CHARACTERS[i] for i in tokens[0]), file=file)

    def write(what, make, seed, to):
        """Of the first seeds the one with which float32 is near float64."""
        for draw in itertools.count():
            model, single, names = make(seed + 100 * draw)
            off = off_in_float32(model, single, tokens, labels, names)
            if off <= WELL:
                break
            assert draw < 40, f"{what}: off by {off}"
        print(what, compute(model, tokens, labels, names, to), f"draw {draw}, in float32 within {off:.2g}")

    for number, (name, (family, own)) in enumerate(MODELS.items()):
        if only and name not in only:
            continue
        path = os.path.join(directory, name)
        of_library = getattr(transformers, family + ("LMHeadModel" if family == "GPT2" else "ForCausalLM"))
        config = getattr(transformers, family + ("TextConfig" if family == "Gemma3" else "Config"))(**{**(GPT2 if name == "gpt2" else SIZES), **own})
        if part == "":
            write(name, lambda seed: make_base(of_library, config, path, seed), 41 + number, os.path.join(path, "truth"))
        if part != "--lora":
            print(name, "steps, in float32 within",
                  write_steps(*stored_base(of_library, path), tokens, labels, os.path.join(path, "truth")))
        lora = os.path.join(path, "lora", "truth")
        if part != "--steps":
            write(f"{name} with adapters", lambda seed: make_adapters(of_library, path, seed), 71 + number, lora)
        print(name, "steps of adapters, in float32 within", write_steps(*stored_adapters(of_library, path), tokens, labels, lora))


if __name__ == "__main__":
    PARTS = ("--lora", "--steps")
    WORDS = [word for word in sys.argv[1:] if word not in PARTS]
    main(WORDS[0], WORDS[1:], next((part for part in PARTS if part in sys.argv), ""))
