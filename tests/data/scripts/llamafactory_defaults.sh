#!/bin/bash
#SBATCH --gpus-per-node=1
llamafactory-cli train --stage sft --do_train --model_name_or_path mistralai/Mistral-7B-v0.3 --bf16 --quantization_bit 4
