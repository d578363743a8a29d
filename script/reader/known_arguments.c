/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every argument that HfArgumentParser accepts in programs of transformers and TRL: the fields of their
 * dataclasses in 17 releases of transformers from 4.30 to 5.24, and in 30 of TRL from 0.7 to 1.16.
 * HfArgumentParser stops at any other argument. So a program with another argument is none of theirs,
 * whatever its name.
 */
#include "reader/evidence.h"

/* Fields of TrainingArguments and Seq2SeqTrainingArguments. */
static const char training[] =
    " accelerator_config activation_checkpointing activation_checkpointing_kwargs adafactor adam_beta1"
    " adam_beta2 adam_epsilon auto_find_batch_size average_tokens_across_devices batch_eval_metrics"
    " bf16 bf16_full_eval data_seed dataloader_drop_last dataloader_in_order"
    " dataloader_multiprocessing_context dataloader_num_workers dataloader_persistent_workers"
    " dataloader_pin_memory dataloader_prefetch_factor ddp_backend ddp_broadcast_buffers"
    " ddp_bucket_cap_mb ddp_find_unused_parameters ddp_static_graph ddp_timeout debug deepspeed"
    " disable_tqdm dispatch_batches do_eval do_predict do_train enable_jit_checkpoint"
    " eval_accumulation_steps eval_delay eval_do_concat_batches eval_on_start eval_steps eval_strategy"
    " eval_use_gather_object evaluation_strategy fp16 fp16_backend fp16_full_eval fp16_opt_level fsdp"
    " fsdp_config fsdp_min_num_params fsdp_transformer_layer_cls_to_wrap full_determinism"
    " generation_config generation_max_length generation_num_beams gradient_accumulation_steps"
    " gradient_checkpointing gradient_checkpointing_kwargs greater_is_better group_by_length"
    " half_precision_backend hub_always_push hub_model_id hub_private_repo hub_revision hub_strategy"
    " hub_token ignore_data_skip include_for_metrics include_inputs_for_metrics"
    " include_num_input_tokens_seen include_tokens_per_second jit_mode_eval label_names"
    " label_smoothing_factor learning_rate length_column_name liger_kernel_config"
    " load_best_model_at_end local_rank log_level log_level_replica log_on_each_node logging_dir"
    " logging_first_step logging_nan_inf_filter logging_steps logging_strategy lr_scheduler_kwargs"
    " lr_scheduler_type max_grad_norm max_steps metric_for_best_model mp_parameters"
    " neftune_noise_alpha no_cuda num_train_epochs optim optim_args optim_target_modules output_dir"
    " overwrite_output_dir parallelism_config past_index per_device_eval_batch_size"
    " per_device_train_batch_size per_gpu_eval_batch_size per_gpu_train_batch_size"
    " predict_with_generate prediction_loss_only project push_to_hub push_to_hub_model_id"
    " push_to_hub_organization push_to_hub_token ray_scope remove_unused_columns report_to"
    " restore_callback_states_from_checkpoint resume_from_checkpoint run_name save_on_each_node"
    " save_only_model save_safetensors save_steps save_strategy save_total_limit seed sharded_ddp"
    " skip_memory_metrics sortish_sampler split_batches tf32 torch_compile torch_compile_backend"
    " torch_compile_mode torch_empty_cache_steps torchdynamo tp_size tpu_metrics_debug tpu_num_cores"
    " trackio_bucket_id trackio_space_id trackio_static_space_id train_sampling_strategy use_cache"
    " use_cpu use_ipex use_legacy_prediction_loop use_liger_kernel use_mps_device warmup_ratio"
    " warmup_steps weight_decay xpu_backend"
    " ";

/*
 * Fields of SFTConfig, DPOConfig and other preference methods, ModelConfig, ScriptArguments; and TrlParser's
 * own arguments.
 */
static const char trl[] =
    " accelerate_config activation_offloading alpha assistant_only_loss attn_implementation beta"
    " bnb_4bit_quant_storage bnb_4bit_quant_type chars_per_token chat_template_path"
    " completion_only_loss config cpo_alpha dataset_batch_size dataset_config dataset_kwargs"
    " dataset_name dataset_num_proc dataset_streaming dataset_test_name dataset_test_split"
    " dataset_text_field dataset_train_name dataset_train_split datasets disable_dropout discopop_tau"
    " dtype eos_token eval_packing f_alpha_divergence_coef f_divergence_type force_use_ref_model"
    " generate_during_eval gradient_checkpointing_use_reentrant ignore_bias_buffers is_encoder_decoder"
    " label_pad_token_id label_smoothing ld_alpha load_in_4bit load_in_8bit lora_alpha lora_dropout"
    " lora_modules_to_save lora_r lora_target_modules lora_target_parameters lora_task_type loss_type"
    " loss_weights max_completion_length max_length max_prompt_length max_seq_length max_target_length"
    " model_adapter_name model_init_kwargs model_name_or_path model_revision num_of_sequences packing"
    " packing_strategy pad_to_multiple_of pad_token padding_free padding_value"
    " precompute_ref_batch_size precompute_ref_log_probs ref_adapter_name ref_model_init_kwargs"
    " ref_model_mixup_alpha ref_model_sync_steps reference_free rm_adapter router_aux_loss_coef"
    " rpo_alpha sanity_check score_clip shuffle_dataset simpo_gamma streaming sync_ref_model"
    " test_split_size tools torch_dtype truncation_mode trust_remote_code use_bnb_nested_quant"
    " use_dora use_liger use_liger_loss use_logits_to_keep use_num_logits_to_keep use_peft use_rslora"
    " use_safetensors use_weighting vllm_model_impl"
    " ";

/* Fields of the configurations of methods that generate or need a reward model: GRPO, RLOO, PPO, KTO ... */
static const char methods[] =
    " base_model_attribute_name batch_size cache_implementation cast_lm_head_to_fp32"
    " center_rewards_coefficient chat_template_kwargs cliprange cliprange_value delta desirable_weight"
    " ds3_gather_for_generation entropy_coef entropy_coef_delta entropy_coef_max entropy_coef_min"
    " entropy_target epsilon epsilon_high exp_name gamma generation_batch_size generation_kwargs"
    " gpu_memory_utilization importance_sampling_level judge kl_coef kl_estimator lam lmbda"
    " local_batch_size local_mini_batch_size local_rollout_forward_batch_size log_completions"
    " log_completions_hub_repo log_multimodal log_unique_prompts mask_truncated_completions"
    " max_density_ratio max_new_tokens max_tool_calling_iterations micro_batch_size min_density_ratio"
    " min_p mini_batch_size missing_eos_penalty multi_objective_aggregation non_eos_penalty"
    " normalize_advantage normalize_advantages normalize_reward num_completions_to_print"
    " num_generations num_generations_eval num_iterations num_mini_batches num_ppo_epochs"
    " num_sample_generations num_total_batches off_policy_mask_threshold penalty_reward_value"
    " prompt_sample_size repetition_penalty response_length reward_clip_range reward_funcs"
    " reward_model_name_or_path reward_model_path reward_weights rloo_k sapo_temperature_neg"
    " sapo_temperature_pos scale_rewards seq_kd sft_model_path steps_per_generation stop_token"
    " stop_token_id teacher_model_init_kwargs teacher_model_name_or_path temperature token_level_kl"
    " top_entropy_quantile top_k top_p total_episodes transformers_continuous_batching_config"
    " undesirable_weight use_adaptive_entropy use_bias_correction_kl"
    " use_transformers_continuous_batching use_transformers_paged use_vllm vespo_k_neg vespo_k_pos"
    " vespo_lambda_neg vespo_lambda_pos vf_coef vllm_device vllm_dtype vllm_enable_prefix_caching"
    " vllm_enable_sleep_mode vllm_gpu_memory_utilization vllm_group_port vllm_guided_decoding_regex"
    " vllm_importance_sampling_cap vllm_importance_sampling_clip_max vllm_importance_sampling_clip_min"
    " vllm_importance_sampling_correction vllm_importance_sampling_mode vllm_max_model_len"
    " vllm_max_model_length vllm_mode vllm_server_base_url vllm_server_host vllm_server_port"
    " vllm_server_timeout vllm_structured_outputs_regex vllm_tensor_parallel_size"
    " wandb_log_unique_prompts whiten_rewards world_size"
    " ";

/* Fields of the alignment handbook and Open-R1, whose programs have the same names as TRL's. */
static const char recipes[] =
    " auto_insert_empty_system_msg base_model_revision benchmarks callbacks chat_template"
    " code_eval_scoring_mode code_eval_test_batch_size code_language code_provider cosine_max_len"
    " cosine_max_value_correct cosine_max_value_wrong cosine_min_value_correct cosine_min_value_wrong"
    " dataset_configs dataset_mixer dataset_mixture dataset_prompt_column dataset_splits"
    " e2b_router_url hub_model_revision ioi_provider max_completion_len max_eval_samples"
    " max_train_samples model_code_revision morph_router_url overwrite_hub_revision"
    " parallel_code_exec_per_proc preprocessing_num_workers push_to_hub_revision"
    " repetition_max_penalty repetition_n_grams soft_punish_cache system_prompt text_column"
    " tokenizer_name_or_path truncation_side use_flash_attention_2 wandb_entity wandb_project"
    " wandb_run_group"
    " ";

/* Arguments of transformers' examples run_clm.py, run_mlm.py, run_summarization.py and run_translation.py. */
static const char examples[] =
    " attn_implementation block_size cache_dir config_name config_overrides dataset_config_name"
    " dataset_name dtype forced_bos_token ignore_pad_token_for_loss keep_linebreaks lang line_by_line"
    " low_cpu_mem_usage max_eval_samples max_predict_samples max_seq_length max_source_length"
    " max_target_length max_train_samples mlm_probability model_name_or_path model_revision model_type"
    " num_beams overwrite_cache pad_to_max_length preprocessing_num_workers resize_position_embeddings"
    " source_lang source_prefix streaming summary_column target_lang test_file text_column token"
    " tokenizer_name torch_dtype train_file trust_remote_code use_auth_token use_fast_tokenizer"
    " val_max_target_length validation_file validation_split_percentage"
    " ";

const char *const p4d_reader__of_trl[] = {training, trl, recipes, NULL};
const char *const p4d_reader__of_trl_rl[] = {training, trl, methods, recipes, NULL};
const char *const p4d_reader__of_examples[] = {training, examples, NULL};
