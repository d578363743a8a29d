# SPDX-License-Identifier: Apache-2.0
"""Starts a recipe of torchtune with one of its own configurations, on a checkpoint of zeros."""
import importlib
import importlib.util
import os
import runpy
import sys
import tempfile

import llama_files


class Zeros:
    """Stands for a checkpoint of the model that BUILDER (torchtune.models.llama3_1.lora_llama3_1_8b, ...) makes."""

    def __init__(self, builder, **_):
        module, _, self.kind = builder.rpartition(".")
        self.models = importlib.import_module(module)
        self.kind = self.kind.removeprefix("lora_").removeprefix("qlora_")

    def load_checkpoint(self, **_):
        import torch
        with torch.device("meta"):
            model = getattr(self.models, self.kind)()
        zero = torch.zeros((), dtype=torch.bfloat16)
        return {"model": {name: zero.expand(value.shape) for name, value in model.state_dict().items()}}

    def save_checkpoint(self, *_, **__):
        pass


def start(recipe, name, length, *others):
    """RECIPE with the configuration NAME on texts packed to LENGTH; OTHERS: NAME=VALUE."""
    import omegaconf
    recipes = importlib.util.find_spec("recipes").submodule_search_locations[0]
    config = os.path.join(recipes, "configs", name + ".yaml")
    folder = tempfile.mkdtemp(prefix="p4d-published-")
    settings = {
        "tokenizer.path": llama_files.write_tokenizer(os.path.join(folder, "tokenizer.model")),
        "tokenizer.max_seq_len": length,
        "checkpointer._component_": "torchtune_runs.Zeros",
        "checkpointer.builder": omegaconf.OmegaConf.load(config).model._component_,
        "output_dir": folder,
        "dataset._component_": "torchtune.datasets.text_completion_dataset",
        "dataset.source": "json",
        "dataset.data_files": llama_files.write_texts(os.path.join(folder, "texts.json")),
        "dataset.packed": True,
        "batch_size": 2,
        "gradient_accumulation_steps": 1,
        "max_steps_per_epoch": 4,
    }
    recipe = os.path.join(recipes, recipe + ".py")
    sys.argv = [recipe, "--config", config, *("%s=%s" % setting for setting in settings.items()), *others]
    runpy.run_path(recipe, run_name="__main__")
