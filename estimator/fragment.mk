# SPDX-License-Identifier: Apache-2.0
# libp4d: linked into the command, both plugins, the runtime and the tests. Nothing here knows Slurm or CUDA. One room per
# concept, lowest first; tests/house/test_rooms.sh holds the order.

# The table of options and the names of a job's variables: all that p4d.so takes, so without other libraries.
noinst_LTLIBRARIES += libp4doptions.la
libp4doptions_la_SOURCES = \
	estimator/base/codes.def estimator/base/error.h estimator/base/error.c \
	estimator/base/clock.h estimator/base/file.h estimator/base/file.c \
	estimator/base/text.h estimator/base/text.c \
	estimator/base/exported.h estimator/base/exported.c estimator/base/number.h estimator/base/number.c \
	estimator/base/choice.h estimator/base/choice.c \
	estimator/base/option.h estimator/base/option.c \
	estimator/request/options.def estimator/request/options_page.def estimator/request/options_page.h estimator/request/architectures.def estimator/request/programs.def estimator/request/schedules.h estimator/request/network.h estimator/request/request.h estimator/request/request.c \
	estimator/job/export.h estimator/job/export.c \
	estimator/rehearsals/rehearsals.h estimator/rehearsals/rehearsals_place.c \
	script/reader/reader_words.h script/reader/reader_words.c
libp4doptions_la_CFLAGS = $(libp4dbase_la_CFLAGS)

noinst_LTLIBRARIES += libp4dbase.la
libp4dbase_la_SOURCES = \
	estimator/base/grow.h estimator/base/hash.h estimator/base/wide.h estimator/base/digest.h estimator/base/digest.c \
	estimator/base/new_file.h estimator/base/new_file.c \
	estimator/base/suggest.h estimator/base/suggest.c \
	estimator/base/json_text.h estimator/base/json_text.c \
	estimator/base/arguments.h estimator/base/arguments.c \
	estimator/base/completion.h estimator/base/completion.c \
	estimator/request/architecture.h estimator/request/architecture.c \
	estimator/request/fp8.h estimator/request/fp8.c estimator/gpu/gpu.h estimator/gpu/gpu_table.h estimator/gpu/gpu.c
libp4dbase_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden -ffunction-sections -fdata-sections
libp4dbase_la_LIBADD = libp4doptions.la

# The reader of JSON. sbatch opens it as a separate plugin, for jobs that name a file.
noinst_LTLIBRARIES += libp4djson.la
libp4djson_la_SOURCES = \
	estimator/base/json_file.h estimator/base/json_file.c \
	estimator/gpu/gpu_file.c \
	estimator/model/model.h estimator/model/model_json.h estimator/model/presets.h \
	estimator/model/model_file.c estimator/model/model_hf.h estimator/model/model_hf.c estimator/model/model_untrained.c \
	estimator/model/model_families.c estimator/model/model_hybrids.c estimator/model/model_quantization.c estimator/model/model_preset.c estimator/model/model_rope.c estimator/model/model_scales.c
libp4djson_la_CPPFLAGS = $(AM_CPPFLAGS) $(JSONC_CFLAGS)
libp4djson_la_CFLAGS = $(libp4dbase_la_CFLAGS)
libp4djson_la_LIBADD = $(JSONC_LIBS)

# What reads configuration files of training programs: opened on demand, one library a format.
config_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -Wl,--as-needed -Wl,--gc-sections -Wl,-z,nodelete
config_headers = script/config/config_tree.h script/config/config_library.h script/config/config_internal.h
if HAVE_YAML
noinst_LTLIBRARIES += libp4dyaml.la
pkglib_LTLIBRARIES += libp4d-yaml.la
installed_modules += $(pkglibdir)/libp4d-yaml
endif
libp4dyaml_la_SOURCES = $(config_headers) script/config/config_yaml.c
libp4dyaml_la_CFLAGS = $(libp4dbase_la_CFLAGS) $(YAML_CFLAGS)
libp4dyaml_la_LIBADD = libp4dconfig.la $(YAML_LIBS)
libp4d_yaml_la_SOURCES =
libp4d_yaml_la_LDFLAGS = $(config_LDFLAGS) -export-symbols-regex '^p4d_config__yaml$$'
libp4d_yaml_la_LIBADD = libp4dyaml.la
if HAVE_TOML
noinst_LTLIBRARIES += libp4dtoml.la
pkglib_LTLIBRARIES += libp4d-toml.la
installed_modules += $(pkglibdir)/libp4d-toml
endif
libp4dtoml_la_SOURCES = $(config_headers) script/config/config_toml.cc
libp4dtoml_la_CXXFLAGS = $(AM_CXXFLAGS) -fvisibility=hidden -ffunction-sections -fdata-sections $(TOML_CFLAGS)
libp4dtoml_la_LIBADD = libp4dconfig.la $(TOML_LIBS)
libp4d_toml_la_SOURCES =
nodist_EXTRA_libp4d_toml_la_SOURCES = linked-as-c++.cc
libp4d_toml_la_LDFLAGS = $(config_LDFLAGS) -export-symbols-regex '^p4d_config__toml$$'
libp4d_toml_la_LIBADD = libp4dtoml.la
noinst_LTLIBRARIES += libp4dconfig.la
libp4dconfig_la_SOURCES = $(config_headers) script/config/config_tree.c
libp4dconfig_la_CFLAGS = $(libp4dbase_la_CFLAGS)

# The part of base that touches files and the machine. Slurm's plugins do without.
noinst_LTLIBRARIES += libp4dhost.la
libp4dhost_la_SOURCES = \
	estimator/base/mapping.h estimator/base/mapping.c \
	estimator/base/library.h estimator/base/library.c \
	estimator/base/host_memory.h estimator/base/host_memory.c \
	estimator/base/vector.h
libp4dhost_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden

# All of libp4d: the core, what reads JSON, and what reads job scripts.
noinst_LTLIBRARIES += libp4d.la libp4dcore.la libp4dreader.la
libp4d_la_SOURCES =
libp4d_la_LIBADD = libp4dcore.la libp4djson.la libp4dreader.la
libp4dcore_la_SOURCES = \
	estimator/request/devices.h \
	estimator/request/defaults.h estimator/request/defaults.c \
	estimator/request/heeds.h estimator/request/heeds.c \
	estimator/request/layout.h estimator/request/layout.c \
	estimator/request/layout_internal.h estimator/request/layout_pipeline.c estimator/request/layout_slices.c estimator/request/layout_adapters.c estimator/request/layout_modules.c estimator/request/layout_grid.c estimator/request/layout_check.c \
	estimator/request/layers.h estimator/request/layers.c estimator/request/model_size.h estimator/request/model_size.c estimator/request/routing.h estimator/request/routing.c \
	estimator/request/framework.h estimator/request/framework.c \
	estimator/request/class_loss.h estimator/request/class_loss.c \
	estimator/model/model_internal.h estimator/model/model.c estimator/model/model_names.c estimator/model/presets.c \
	estimator/model/model_place.c estimator/model/hub_name.h estimator/model/hub_name.c estimator/model/other_models.c estimator/model/hub_cache.h \
	estimator/model/hub_cache.c \
	estimator/model/rope.h estimator/model/rope.c \
	estimator/gpu/gpu_load.c \
	estimator/site/conf.h estimator/site/conf_keys.def estimator/site/conf_keys.c estimator/site/conf_words.h estimator/site/conf_words.c \
	estimator/site/conf_parse.c estimator/site/conf.c \
	estimator/site/associations.h estimator/site/associations.c \
	estimator/site/site.h estimator/site/site_internal.h estimator/site/site_load.c estimator/site/site_network.c estimator/site/site_gpus.c estimator/site/site_margins.c estimator/site/site.c \
	estimator/job/job.h estimator/job/job_internal.h estimator/job/gres.c estimator/job/array.h estimator/job/array.c estimator/job/tasks.h estimator/job/tasks.c estimator/job/hostlist.h estimator/job/hostlist.c estimator/job/job_flags.c estimator/job/job_gpu.c estimator/job/job_place.c estimator/job/job_limits.h \
	estimator/job/job_limits.c estimator/job/job.c \
	estimator/job/sbatch_options.def estimator/job/sbatch.h estimator/job/sbatch.c estimator/job/sbatch_job.c \
	estimator/job/cluster.h estimator/job/cluster.c estimator/job/script.h estimator/job/script.c \
	estimator/schedule/schedule.h estimator/schedule/schedule_order.h estimator/schedule/schedule_order.c \
	estimator/schedule/schedule.c estimator/schedule/schedule_slots.c \
	estimator/schedule/kind_gpipe.c estimator/schedule/kind_1f1b.c estimator/schedule/kind_interleaved.c \
	estimator/schedule/kind_zb1p.c estimator/schedule/kind_zbv.c estimator/schedule/kind_v_half.c \
	estimator/schedule/kind_dualpipe_v.c \
	estimator/schedule/slot_pool.h estimator/schedule/slot_pool.c \
	estimator/schedule/schedule_fields.h estimator/schedule/schedule_fields.c \
	estimator/plan/shared_sizes.h estimator/plan/optimizer.h estimator/plan/optimizer.c \
	estimator/plan/offload.h estimator/plan/offload.c \
	estimator/plan/buffers.def estimator/plan/buffers.h \
	estimator/plan/cudnn_workspace.h estimator/plan/cudnn_workspace.c \
	estimator/plan/packed_documents.h estimator/plan/packed_documents.c \
	estimator/serve/serving.h estimator/serve/serving.c estimator/serve/serving_cache.c estimator/serve/serving_internal.h estimator/serve/serving_speed.h estimator/serve/serving_speed.c estimator/serve/serving_search.h estimator/serve/serving_search.c estimator/serve/colocated.h estimator/serve/colocated.c estimator/plan/parameters.h estimator/plan/parameters.c \
	estimator/plan/stage_memory.h estimator/plan/stage_memory.c \
	estimator/plan/memory_paper.h estimator/plan/memory_paper.c \
	estimator/plan/memory_played.h estimator/plan/memory_played.c \
	estimator/plan/fp8_operand.h estimator/plan/nf4.h estimator/plan/byte_moments.h estimator/plan/byte_moments.c estimator/plan/muon.h estimator/plan/muon.c estimator/plan/plan.h estimator/plan/plan_rows.h estimator/plan/plan_memo.h estimator/plan/plan_memo.c estimator/plan/plan.c estimator/plan/plan_pack.c estimator/plan/caching_allocator.h estimator/plan/caching_allocator.c \
	estimator/plan/plan_line.h estimator/plan/plan_line.c \
	estimator/framework/frameworks.c estimator/framework/others.c estimator/framework/p4d_fp8.h estimator/framework/p4d_fp8.c estimator/framework/p4d_check.h estimator/framework/p4d_check.c estimator/framework/p4d_groups.c estimator/framework/p4d_sizes.h estimator/framework/p4d_sizes.c estimator/framework/p4d.c estimator/framework/torch.h estimator/framework/torch.c estimator/framework/torch_model.c estimator/framework/torch_blocks.h estimator/framework/torch_blocks.c estimator/framework/transformers_reserved.h estimator/framework/transformers_reserved.c estimator/framework/transformers_reserved_parameters.c estimator/framework/transformers_reserved_units.c estimator/framework/transformers_reserved_zero.c estimator/framework/transformers_reserved_flat.c estimator/framework/transformers_reserved_gather.c estimator/framework/torchtitan.h estimator/framework/torchtitan_layer.c estimator/framework/torchtitan_experts.c estimator/framework/torchtitan_memory.c estimator/framework/torchtitan_head.c estimator/framework/torchtitan_units.c estimator/framework/torchtitan_fsdp.c estimator/framework/torchtitan_pipeline.c estimator/framework/torchtitan_reserved.h estimator/framework/torchtitan_reserved.c estimator/framework/torchtitan_reserved_stage.c estimator/tape/tape.h estimator/tape/tape.c estimator/tape/op.h estimator/tape/op.c estimator/framework/transformers.h estimator/framework/transformers.c estimator/framework/litgpt.c estimator/framework/transformers_fsdp.c estimator/framework/transformers_flat.c estimator/framework/transformers_step.c estimator/framework/transformers_evaluation.c estimator/framework/transformers_layer.c estimator/framework/transformers_eager.c estimator/framework/transformers_fused.c estimator/framework/transformers_modules.c estimator/framework/transformers_writer.c estimator/framework/transformers_experts.c estimator/framework/transformers_sizes.c estimator/framework/transformers_states.c estimator/framework/transformers_host.c estimator/framework/transformers_zero.h estimator/framework/transformers_zero.c estimator/framework/trainer.c \
	estimator/framework/fsdp.c estimator/framework/deepspeed.c estimator/framework/ddp.c \
	estimator/framework/megatron.c estimator/framework/megatron_arguments.h estimator/framework/megatron_arguments.c estimator/framework/megatron_memory.h estimator/framework/megatron_memory.c estimator/framework/megatron_experts.c estimator/framework/megatron_layer.c estimator/framework/megatron_libraries.c estimator/framework/megatron_states.c estimator/framework/megatron_passes.c estimator/framework/megatron_reserved.h estimator/framework/megatron_reserved.c estimator/framework/megatron_reserved_attention.h estimator/framework/megatron_reserved_attention.c estimator/framework/megatron_reserved_experts.h estimator/framework/megatron_reserved_experts.c estimator/framework/megatron_reserved_layers.h estimator/framework/megatron_reserved_layers.c estimator/framework/megatron_reserved_passes.h estimator/framework/megatron_reserved_passes.c estimator/framework/megatron_reserved_states.h estimator/framework/megatron_reserved_states.c estimator/framework/megatron_reserved_steps.c estimator/framework/megatron_sizes.c estimator/framework/megatron_fp8.c estimator/framework/megatron_graphs.c estimator/framework/megatron_mask.c estimator/framework/megatron_unfused.c \
	estimator/timeline/trace.h estimator/timeline/trace.c \
	estimator/timeline/timeline.h estimator/timeline/timeline_cost.h estimator/timeline/timeline_cost.c \
	estimator/timeline/timeline.c estimator/timeline/timeline_graph.h estimator/timeline/timeline_graph.c \
	estimator/timeline/timeline_period.c estimator/timeline/timeline_gpipe.c estimator/timeline/timeline_steady.c \
	estimator/cost/cost.h estimator/cost/cost_internal.h estimator/cost/cost.c estimator/cost/cost_slices.c estimator/cost/cost_gathers.c estimator/cost/cost_swap.c estimator/cost/cost_dropped.c estimator/cost/cost_step.c \
	estimator/cost/cost_states.c estimator/cost/cost_memory.c estimator/cost/cost_parts.c estimator/cost/cost_attention.c estimator/cost/cost_layer.c estimator/cost/cost_overlap.c estimator/cost/cost_grid.c estimator/cost/cost_best_grid.c estimator/cost/cost_head.c estimator/cost/cost_ops.c \
	estimator/cost/cost_comm.c estimator/cost/cost_serving.c estimator/cost/cost_experts.c estimator/cost/cost_flops.c estimator/cost/cost_fp8.c estimator/cost/cost_nf4.c estimator/cost/cost_muon.c estimator/cost/counted.h estimator/cost/cost_counted.c \
	estimator/cost/breakdown.h estimator/cost/breakdown.c \
	estimator/search/search.h estimator/search/search.c estimator/search/search_internal.h estimator/search/search_enumerate.c \
	estimator/search/placement.h estimator/search/placement.c estimator/search/search_prune.c estimator/search/search_sharding.c estimator/search/search_candidate.c estimator/search/search_near.c estimator/search/search_advice.c \
	estimator/guard/guard.h estimator/guard/verdict.h estimator/guard/verdict.c estimator/guard/verdict_log.h estimator/guard/verdict_log.c estimator/guard/verdict_record.h estimator/guard/verdict_record.c estimator/guard/note.h estimator/guard/note.c \
	estimator/guard/judge.c estimator/guard/judge_serving.c estimator/guard/judge_weights.c estimator/guard/judge_rehearsed.c estimator/guard/judge_colocated.c estimator/guard/releases.c \
	estimator/guard/judge_host.c \
	estimator/guard/judge_length.c \
	estimator/guard/script_request.h estimator/guard/script_request.c estimator/guard/script_concern.c estimator/guard/script_words.h estimator/guard/script_words.c estimator/guard/script_fix.c estimator/guard/script_typed.c estimator/guard/submit.h estimator/guard/submit.c estimator/guard/judge_array.c \
	estimator/guard/guard_internal.h estimator/guard/guard.c estimator/guard/correct.c estimator/guard/pasted.c estimator/guard/verify.c estimator/guard/ways_out.c
nodist_libp4dcore_la_SOURCES = estimator/site/tables.c
libp4dcore_la_CFLAGS = $(libp4dbase_la_CFLAGS)
libp4dcore_la_LIBADD = libp4dbase.la -lm
libp4dreader_la_SOURCES = \
	$(config_headers) script/config/config_library.c \
	estimator/job/read_job.h estimator/job/read_job.c estimator/job/read_rehearsed.c \
	estimator/rehearsals/rehearsals_internal.h estimator/rehearsals/rehearsals_digest.c estimator/rehearsals/rehearsals_words.def \
	estimator/rehearsals/rehearsals_key.h estimator/rehearsals/rehearsals_key.c estimator/rehearsals/rehearsals_record.c \
	estimator/rehearsals/rehearsals_launcher.c estimator/rehearsals/rehearsals_find.c estimator/rehearsals/rehearsals_put.c \
	script/shell/shell.h script/shell/shell_internal.h script/shell/shell_value.c script/shell/shell_split.c script/shell/shell_word.c \
	script/shell/shell_parameter.c script/shell/shell_number.c script/shell/shell_test.c script/shell/shell_run.c \
	script/shell/shell_command.c script/shell/shell_builtin.c script/shell/shell_file.c script/shell/shell_variable.c \
	script/shell/shell_loop.c script/shell/shell_frame.c script/shell/shell_unread.c script/shell/shell_output.c script/shell/shell_python.c script/shell/shell_filter.c script/shell/shell_search.c script/shell/shell_awk.c script/shell/shell_pattern.c script/shell/shell_glob.c script/shell/shell_regular.c script/shell/shell_brace.c script/shell/shell_read.c \
	script/reader/reader.h script/reader/reader_internal.h script/reader/readers.def script/reader/reader.c script/reader/launch.c script/reader/launched.c script/reader/python.c script/reader/started.c script/reader/programs.c script/reader/told.h script/reader/told.c script/reader/evidence.h script/reader/evidence.c script/reader/environment.c script/reader/known_arguments.c \
	script/reader/read_values.c script/reader/read_arguments.c script/reader/read_config.c script/reader/read_references.c \
	script/reader/read_megatron.h script/reader/read_megatron.c script/reader/read_megatron_hybrid.c script/reader/read_megatron_split.c script/reader/read_megatron_swift.c script/reader/read_finetune.h script/reader/read_finetune.c script/reader/read_finetune_sharding.c script/reader/read_trainer.c script/reader/read_axolotl.c script/reader/read_llamafactory.c script/reader/read_swift_2.c \
	script/reader/read_torchtune.c script/reader/torchtitan_configs.def script/reader/torchtune_configs.def script/reader/read_torchtitan.c script/reader/read_serve.c script/reader/read_named.c script/reader/read_nemo_rl.c script/reader/read_others.c script/reader/read_reinforcement.h script/reader/read_reinforcement.c script/reader/read_verl.c script/reader/read_hydra.c script/reader/read_files.h script/reader/read_files.c
libp4dreader_la_CFLAGS = $(libp4dbase_la_CFLAGS)
libp4dreader_la_LIBADD = libp4dconfig.la

# etc/gpus.json and etc/models/ as tables in the program: a submission would otherwise spend most of its time on
# reading JSON.
noinst_PROGRAMS += tables
tables_SOURCES = estimator/site/tables_main.c
tables_LDADD = libp4djson.la libp4dbase.la -lm
tables_from = $(addprefix $(srcdir)/,etc/gpus.json $(sort $(dist_model_DATA)))
estimator/site/tables.c: tables$(EXEEXT) $(tables_from)
	@$(MKDIR_P) $(@D)
	$(AM_V_GEN)./tables$(EXEEXT) $(tables_from) >$@.tmp && mv $@.tmp $@
CLEANFILES += estimator/site/tables.c
