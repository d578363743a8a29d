# SPDX-License-Identifier: Apache-2.0
# make check: tests that need neither a cluster nor a network. ./check runs everything. Folders here mirror those of
# the sources; doubles/ has stand-ins for hardware and for Slurm, support/ what tests share. A test of the estimator
# is one line. A test of the command or of the runtime has a second line, its LDADD.

# The longest is begun first.
unit_tests = \
	tests/estimator/search/test_search tests/estimator/search/test_search_budget tests/estimator/search/test_search_slices tests/estimator/search/test_search_sharding \
	tests/estimator/base/test_choice \
	tests/estimator/base/test_file \
	tests/estimator/base/test_json_file \
	tests/estimator/base/test_json_text \
	tests/estimator/base/test_number \
	tests/estimator/base/test_option \
	tests/estimator/base/test_text \
	tests/estimator/request/test_architecture tests/estimator/request/test_experts \
	tests/estimator/request/test_layers tests/estimator/request/test_layout tests/estimator/request/test_layout_slices \
	tests/estimator/request/test_request tests/estimator/request/test_heeds \
	tests/estimator/model/test_model tests/estimator/model/test_model_names \
	tests/estimator/model/test_model_counts \
	tests/estimator/model/test_model_published \
	tests/estimator/model/test_model_files tests/estimator/model/test_model_texts \
	tests/estimator/gpu/test_gpu \
	tests/estimator/site/test_conf \
	tests/estimator/site/test_associations \
	tests/estimator/site/test_conf_keys \
	tests/estimator/site/test_site \
	tests/estimator/site/test_site_file \
	tests/estimator/job/test_job tests/estimator/job/test_job_gpus \
	tests/estimator/job/test_hostlist tests/estimator/job/test_array \
	tests/estimator/job/test_sbatch tests/estimator/job/test_sbatch_script \
	tests/estimator/job/test_export \
	tests/estimator/job/test_script \
	tests/script/reader/test_reader_words tests/script/reader/test_hostile_scripts \
	tests/script/config/test_config \
	tests/estimator/rehearsals/test_rehearsals \
	tests/script/shell/test_shell tests/script/shell/test_shell_text \
	tests/estimator/schedule/test_schedule \
	tests/estimator/schedule/test_schedule_check \
	tests/estimator/schedule/test_schedule_kinds \
	tests/estimator/schedule/test_schedule_slots \
	tests/estimator/plan/test_cudnn_workspace \
	tests/estimator/plan/test_hostile_sizes \
	tests/estimator/plan/test_optimizer tests/estimator/plan/test_offload \
	tests/estimator/plan/test_plan tests/estimator/plan/test_plan_closed_form \
	tests/estimator/plan/test_plan_line \
	tests/estimator/plan/test_plan_packing tests/estimator/plan/test_caching_allocator \
	tests/estimator/serve/test_serving tests/estimator/serve/test_serving_speed tests/estimator/serve/test_colocated \
	tests/estimator/plan/test_stage_memory tests/estimator/plan/test_stage_memory_megatron \
	tests/estimator/plan/test_published_memory \
	tests/estimator/tape/test_tape tests/estimator/framework/test_framework tests/estimator/framework/test_megatron_memory tests/estimator/framework/test_rehearsed_memory tests/estimator/framework/test_torch_memory tests/estimator/framework/test_transformers_memory tests/estimator/framework/test_transformers_zero \
	tests/estimator/cost/test_cost tests/estimator/cost/test_counted tests/estimator/cost/test_cost_order tests/estimator/cost/test_cost_slices tests/estimator/cost/test_cost_grid \
	tests/estimator/cost/test_cost_bound \
	tests/estimator/cost/test_cost_network tests/estimator/cost/test_cost_runs tests/estimator/cost/test_cost_systems \
	tests/estimator/cost/test_systems_slices tests/estimator/cost/test_systems_models tests/estimator/cost/test_systems_grid tests/estimator/cost/test_systems_offload \
	tests/estimator/timeline/test_timeline \
	tests/estimator/timeline/test_timeline_steady \
	tests/estimator/guard/test_guard tests/estimator/guard/test_guard_bounds \
	tests/estimator/guard/test_guard_programs \
	tests/estimator/guard/test_guard_script \
	tests/estimator/guard/test_guard_verify tests/estimator/guard/test_verdict_record \
	tests/rehearsal/test_stand_ins tests/rehearsal/test_dnn_plan tests/rehearsal/test_solvers \
	tests/command/test_accounting tests/command/test_command_json tests/command/test_measure \
	tests/command/picture/test_charts tests/command/picture/test_svg \
	tests/command/picture/test_view tests/command/library/test_library

# job_submit_p4d.so in a host that plays slurmctld
if HAVE_SLURM
unit_tests += $(fakehost_tests) tests/plugin/test_spank_named tests/plugin/test_spank_gpus
check_LTLIBRARIES += libp4dfakehost.la tests/doubles/fake_nvml.la
TESTS += tests/plugin/test_plugin_symbols.sh
endif
tests_plugin_test_spank_named_SOURCES = tests/plugin/test_spank_named.c plugin/spank_named.c plugin/client_option.c
tests_plugin_test_spank_named_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/plugin -D_GNU_SOURCE $(SLURM_CPPFLAGS)
tests_plugin_test_spank_named_LDFLAGS = $(fakehost_exports)
tests_plugin_test_spank_gpus_SOURCES = tests/plugin/test_spank_gpus.c plugin/spank_gpus.c
tests_plugin_test_spank_gpus_CPPFLAGS = $(tests_plugin_test_spank_named_CPPFLAGS)
tests_plugin_test_spank_gpus_LDFLAGS = $(fakehost_exports)
# NVML, under its name
tests_doubles_fake_nvml_la_SOURCES = tests/doubles/fake_nvml.c
tests_doubles_fake_nvml_la_LDFLAGS = -module -avoid-version -rpath /nowhere
fakehost_tests = \
	tests/plugin/test_fakehost \
	tests/plugin/test_fakehost_environment \
	tests/plugin/test_fakehost_kept \
	tests/plugin/test_fakehost_log \
	tests/plugin/test_fakehost_record \
	tests/plugin/test_fakehost_update \
	tests/plugin/test_fakehost_site \
	tests/plugin/test_fakehost_cost
libp4dfakehost_la_SOURCES = tests/doubles/slurm/fakehost.h tests/doubles/slurm/fakehost.c tests/doubles/slurm/fakehost_cluster.c tests/doubles/slurm/plans.h \
	tests/doubles/slurm/plans.c tests/doubles/slurm/hosted.h tests/doubles/slurm/hosted.c
libp4dfakehost_la_CPPFLAGS = $(fakehost_CPPFLAGS)
fakehost_CPPFLAGS = $(AM_CPPFLAGS) $(SLURM_CPPFLAGS)
fakehost_exports = $(AM_LDFLAGS) -export-dynamic
fakehost_LDADD = libp4dfakehost.la $(LDADD)
tests_plugin_test_fakehost_CPPFLAGS = $(fakehost_CPPFLAGS)
tests_plugin_test_fakehost_LDFLAGS = $(fakehost_exports)
tests_plugin_test_fakehost_LDADD = $(fakehost_LDADD)
tests_plugin_test_fakehost_environment_CPPFLAGS = $(fakehost_CPPFLAGS)
tests_plugin_test_fakehost_environment_LDFLAGS = $(fakehost_exports)
tests_plugin_test_fakehost_environment_LDADD = $(fakehost_LDADD)
tests_plugin_test_fakehost_kept_CPPFLAGS = $(fakehost_CPPFLAGS)
tests_plugin_test_fakehost_kept_LDFLAGS = $(fakehost_exports)
tests_plugin_test_fakehost_kept_LDADD = $(fakehost_LDADD)
tests_plugin_test_fakehost_log_CPPFLAGS = $(fakehost_CPPFLAGS)
tests_plugin_test_fakehost_log_LDFLAGS = $(fakehost_exports)
tests_plugin_test_fakehost_log_LDADD = $(fakehost_LDADD)
tests_plugin_test_fakehost_record_CPPFLAGS = $(fakehost_CPPFLAGS)
tests_plugin_test_fakehost_record_LDFLAGS = $(fakehost_exports)
tests_plugin_test_fakehost_record_LDADD = $(fakehost_LDADD)
tests_plugin_test_fakehost_update_CPPFLAGS = $(fakehost_CPPFLAGS)
tests_plugin_test_fakehost_update_LDFLAGS = $(fakehost_exports)
tests_plugin_test_fakehost_update_LDADD = $(fakehost_LDADD)
tests_plugin_test_fakehost_site_CPPFLAGS = $(fakehost_CPPFLAGS)
tests_plugin_test_fakehost_site_LDFLAGS = $(fakehost_exports)
tests_plugin_test_fakehost_site_LDADD = $(fakehost_LDADD)
tests_plugin_test_fakehost_cost_CPPFLAGS = $(fakehost_CPPFLAGS)
tests_plugin_test_fakehost_cost_LDFLAGS = $(fakehost_exports)
tests_plugin_test_fakehost_cost_LDADD = $(fakehost_LDADD)

# p4d-train without a device
if HAVE_XXHASH
unit_tests += \
	tests/estimator/model/test_rope \
	tests/runtime/comm/test_comm \
	tests/runtime/comm/test_comm_ahead \
	tests/runtime/comm/test_comm_failure \
	tests/runtime/comm/test_comm_strangers \
	tests/runtime/comm/test_comm_parts \
	tests/runtime/comm/test_comm_ranks \
	tests/runtime/data/test_sampler tests/runtime/data/test_permutation \
	tests/runtime/data/test_tokens \
	tests/runtime/checkpoint/test_checkpoint \
	tests/runtime/checkpoint/test_checkpoint_damage \
	tests/runtime/checkpoint/test_checkpoint_saver \
	tests/runtime/checkpoint/test_safetensors \
	tests/runtime/run/test_learning_rate \
	tests/runtime/run/test_settings \
	tests/runtime/run/test_step_log tests/runtime/run/test_tensorboard \
	tests/runtime/template/test_pieces \
	tests/runtime/run/test_run_end
endif

# with the cpu device: its operations in double, its types, a model made of them, and training
if HAVE_OPENBLAS
unit_tests += \
	tests/runtime/device/test_device_cpu \
	tests/runtime/device/test_device_cpu_attention \
	tests/runtime/device/test_device_cpu_gelu \
	tests/runtime/device/test_blas_kernels \
	tests/runtime/device/test_device_cpu_threads tests/runtime/device/test_fp8_codes \
	tests/runtime/device/test_device_cpu_types \
	tests/runtime/device/test_device_llama \
	tests/runtime/comm/test_comm_device \
	tests/runtime/comm/test_comm_device_failure \
	tests/runtime/model/test_attention_blocks \
	tests/runtime/model/test_weights \
	tests/runtime/trainer/test_trainer \
	tests/runtime/trainer/test_trainer_layouts tests/runtime/trainer/test_trainer_fp8 tests/runtime/trainer/test_trainer_nf4 tests/runtime/trainer/test_trainer_optimizers \
	tests/runtime/trainer/test_trainer_offload tests/runtime/trainer/test_trainer_pairs \
	tests/runtime/trainer/test_trainer_transports \
	tests/runtime/trainer/test_skip tests/runtime/trainer/test_local_loss \
	tests/runtime/checkpoint/test_checkpoint_resume \
	tests/runtime/run/test_memory_report \
	tests/runtime/run/test_parity \
	tests/runtime/run/test_rank_cores \
	tests/runtime/run/test_killed \
	tests/rehearsal/test_backend
# a stand-in for NCCL, which tests open instead
check_LTLIBRARIES += tests/doubles/fake_nccl.la
endif
tests_doubles_fake_nccl_la_SOURCES = tests/doubles/fake_nccl.h tests/doubles/fake_nccl.c
tests_doubles_fake_nccl_la_LDFLAGS = -module -avoid-version -rpath /nowhere

# with the cuda device, its kernels compiled for the host
if HAVE_OPENBLAS
if HAVE_CXX
unit_tests += $(cuda_tests)
endif
endif
cuda_tests = \
	tests/runtime/device/test_cuda_shim \
	tests/runtime/device/test_cuda_types \
	tests/runtime/device/test_cuda_llama \
	tests/runtime/device/test_cuda_kernels \
	tests/runtime/device/test_cuda_fp8 \
	tests/runtime/device/test_cuda_attention \
	tests/runtime/device/test_cuda_trainer \
	tests/runtime/device/test_cuda_products \
	tests/runtime/device/test_cuda_step \
	tests/runtime/device/test_cuda_traffic \
	tests/runtime/device/test_cuda_open
cuda_CPPFLAGS = -I$(top_srcdir)/tests/doubles/cuda $(AM_CPPFLAGS) -DP4D_TEST_CUDA
cuda_LDADD = libp4dshim.la $(runtime_LDADD) -lstdc++
tests_runtime_device_test_cuda_shim_SOURCES = tests/runtime/device/test_cuda_shim.cc
tests_runtime_device_test_cuda_shim_CPPFLAGS = $(cuda_CPPFLAGS)
tests_runtime_device_test_cuda_shim_LDADD = $(cuda_LDADD)
tests_runtime_device_test_cuda_types_SOURCES = tests/runtime/device/test_device_cpu_types.c
tests_runtime_device_test_cuda_types_CPPFLAGS = $(cuda_CPPFLAGS)
tests_runtime_device_test_cuda_types_LDADD = libp4dcpu64.la $(cuda_LDADD)
tests_runtime_device_test_cuda_llama_SOURCES = tests/runtime/device/test_device_llama.c
tests_runtime_device_test_cuda_llama_CPPFLAGS = $(cuda_CPPFLAGS)
tests_runtime_device_test_cuda_llama_LDADD = $(cuda_LDADD)
tests_runtime_device_test_cuda_kernels_CPPFLAGS = $(cuda_CPPFLAGS)
tests_runtime_device_test_cuda_kernels_LDADD = $(cuda_LDADD)
tests_runtime_device_test_cuda_fp8_CPPFLAGS = $(cuda_CPPFLAGS)
tests_runtime_device_test_cuda_fp8_LDADD = $(cuda_LDADD)
tests_runtime_device_test_cuda_attention_CPPFLAGS = $(cuda_CPPFLAGS)
tests_runtime_device_test_cuda_attention_LDADD = $(cuda_LDADD)
tests_runtime_device_test_cuda_trainer_CPPFLAGS = $(cuda_CPPFLAGS)
tests_runtime_device_test_cuda_trainer_LDADD = $(cuda_LDADD)
tests_runtime_device_test_cuda_products_CPPFLAGS = $(cuda_CPPFLAGS)
tests_runtime_device_test_cuda_products_LDADD = $(cuda_LDADD)
tests_runtime_device_test_cuda_step_SOURCES = tests/runtime/device/test_cuda_step.c \
	tests/doubles/counted_device.h tests/doubles/counted_device.c
tests_runtime_device_test_cuda_step_CPPFLAGS = $(cuda_CPPFLAGS)
tests_runtime_device_test_cuda_step_LDADD = $(cuda_LDADD)
tests_runtime_device_test_cuda_traffic_CPPFLAGS = $(cuda_CPPFLAGS)
tests_runtime_device_test_cuda_traffic_LDADD = libp4dtraffic.la $(cuda_LDADD)
tests_runtime_device_test_cuda_open_CPPFLAGS = $(cuda_CPPFLAGS)
tests_runtime_device_test_cuda_open_LDADD = $(cuda_LDADD)

# graphs of attention, for GPUs that are described to cuDNN
if HAVE_CUDNN
unit_tests += tests/runtime/device/test_cudnn_graphs
endif
tests_runtime_device_test_cudnn_graphs_CPPFLAGS = $(AM_CPPFLAGS) -isystem $(CUDA_INCLUDES) \
	-DP4D_CUDA_STUB='"$(CUDA_LIBDIR)/stubs/libcuda.so"'
tests_runtime_device_test_cudnn_graphs_LDADD = libp4dcudnn.la $(runtime_LDADD) -ldl
tests_runtime_device_test_cudnn_graphs_LDFLAGS = $(AM_LDFLAGS) -Wl,-rpath,$(CUDA_LIBDIR)

# the structure of the sources, and the names in the built objects
TESTS += tests/house/test_rooms.sh tests/house/test_names.sh tests/house/test_hardening.sh tests/house/test_sbom.sh tests/house/test_installed.sh
EXTRA_DIST += tests/house/test_rooms.sh tests/house/test_names.sh tests/house/test_hardening.sh tests/house/test_sbom.sh tests/house/test_installed.sh

# the command that was built, as a user types it
command_tests = \
	tests/command/test_backtest.sh tests/command/test_check.sh tests/command/test_check_releases.sh \
	tests/command/test_cluster.sh \
	tests/command/test_conf.sh \
	tests/command/test_completion.sh tests/command/test_data.sh tests/command/test_documents.sh \
	tests/command/test_estimate.sh \
	tests/command/test_fixes.sh \
	tests/command/test_job.sh \
	tests/command/test_read.sh tests/command/test_read_release.sh tests/command/test_read_launch.sh tests/command/test_read_unread.sh tests/command/test_read_names.sh tests/command/test_read_hydra.sh tests/command/test_read_slurm.sh tests/command/test_submitted.sh tests/command/test_array_tasks.sh tests/command/test_server.sh tests/command/test_read_scripts.sh \
	tests/command/test_lists.sh tests/command/test_torch_options.sh tests/command/test_validate.sh tests/command/test_calibrate.sh tests/command/test_report.sh tests/command/test_accuracy.sh \
	tests/command/test_output.sh \
	tests/command/test_plan.sh tests/command/test_places.sh \
	tests/command/test_plot.sh tests/command/test_programs.sh tests/command/test_program.sh tests/command/test_rehearse.sh tests/command/test_rehearse_running.sh tests/command/test_rehearse_shell.sh tests/command/test_check_rehearsed.sh \
	tests/command/test_simulate.sh tests/command/test_templates.sh \
	tests/command/test_usage.sh tests/command/test_web.sh tests/command/library/test_shared.sh
if HAVE_TOKENIZERS
command_tests += tests/command/test_tokenizers.sh
endif
if HAVE_OPENBLAS
command_tests += tests/command/test_chat.sh tests/command/test_export.sh tests/command/test_train.sh tests/command/test_train_logs.sh tests/command/test_train_evaluation.sh tests/command/test_train_config.sh tests/command/test_train_options.sh tests/command/test_train_moments.sh tests/command/test_train_offload.sh tests/command/test_train_released.sh tests/command/test_train_lora.sh tests/command/test_train_preference.sh tests/command/test_train_local_loss.sh
if HAVE_TOKENIZERS
command_tests += tests/command/test_fine_tuning.sh
endif
endif
TESTS += $(command_tests)

# What tests link: the part they test and what that part uses, so that a change to one part compiles no other. All of these are static.
test_CPPFLAGS = $(CMOCKA_CFLAGS) $(JSONC_CFLAGS) $(XXHASH_CFLAGS)
AM_CPPFLAGS += $(test_CPPFLAGS)
estimator_libraries = libp4dsupport.la libp4dhost.la libp4d.la
runtime_libraries = libp4dsupport.la
if HAVE_OPENBLAS
runtime_libraries += libp4dtrainsupport.la
endif
if HAVE_XXHASH
runtime_libraries += libp4dtrain.la libp4dcheckpoint.la
endif
runtime_libraries += libp4ddata.la libp4dhost.la libp4d.la
test_foundations = $(CMOCKA_LIBS) $(JSONC_LIBS) -lm
LDADD = $(estimator_libraries) $(test_foundations)
command_LDADD = libp4dsupport.la libp4dcommand.la $(LDADD)
runtime_LDADD = $(runtime_libraries) $(test_foundations)
tests_command_test_accounting_LDADD = $(command_LDADD)
tests_command_test_measure_LDADD = $(command_LDADD)
# with the library and its header alone
library_LDADD = library/libp4d.la
check_PROGRAMS += tests/command/library/ask
tests_command_library_ask_SOURCES = tests/command/library/ask.c
tests_command_library_ask_CPPFLAGS = -I$(top_srcdir)/command/library
tests_command_library_ask_LDADD = $(library_LDADD)
tests_command_library_test_library_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/command/library
tests_command_library_test_library_LDADD = $(library_LDADD) $(CMOCKA_LIBS)
tests_command_picture_test_charts_LDADD = $(command_LDADD)
tests_command_picture_test_svg_LDADD = $(command_LDADD)
tests_command_picture_test_view_LDADD = $(command_LDADD)
tests_estimator_plan_test_published_memory_LDADD = $(command_LDADD)
tests_estimator_cost_test_cost_runs_LDADD = $(command_LDADD)
tests_runtime_comm_test_comm_LDADD = $(runtime_LDADD)
tests_runtime_comm_test_comm_ahead_LDADD = $(runtime_LDADD)
tests_runtime_comm_test_comm_failure_LDADD = $(runtime_LDADD)
tests_runtime_comm_test_comm_strangers_LDADD = $(runtime_LDADD)
tests_runtime_comm_test_comm_parts_LDADD = $(runtime_LDADD)
tests_runtime_comm_test_comm_ranks_LDADD = $(runtime_LDADD)
tests_runtime_data_test_sampler_LDADD = $(runtime_LDADD)
tests_runtime_data_test_permutation_LDADD = $(runtime_LDADD)
tests_runtime_data_test_tokens_LDADD = $(runtime_LDADD)
tests_runtime_template_test_pieces_LDADD = libp4dtemplate.la $(runtime_LDADD)
tests_runtime_checkpoint_test_checkpoint_damage_LDADD = $(runtime_LDADD)
tests_runtime_checkpoint_test_checkpoint_saver_LDADD = $(runtime_LDADD)
tests_runtime_checkpoint_test_safetensors_LDADD = $(runtime_LDADD)
tests_runtime_run_test_learning_rate_LDADD = $(runtime_LDADD)
tests_runtime_run_test_settings_LDADD = $(runtime_LDADD)
tests_runtime_run_test_step_log_LDADD = $(runtime_LDADD)
tests_runtime_run_test_tensorboard_LDADD = $(runtime_LDADD)
tests_runtime_run_test_run_end_LDADD = $(runtime_LDADD)
tests_runtime_device_test_blas_kernels_LDADD = $(runtime_LDADD)
tests_runtime_device_test_device_cpu_threads_LDADD = $(runtime_LDADD)
tests_runtime_device_test_fp8_codes_LDADD = $(runtime_LDADD)
tests_runtime_device_test_device_llama_LDADD = $(runtime_LDADD)
tests_runtime_comm_test_comm_device_LDADD = $(runtime_LDADD)
tests_runtime_comm_test_comm_device_failure_LDADD = $(runtime_LDADD)
tests_runtime_model_test_attention_blocks_LDADD = $(runtime_LDADD)
tests_runtime_model_test_weights_LDADD = $(runtime_LDADD)
tests_runtime_trainer_test_trainer_LDADD = $(runtime_LDADD)
tests_runtime_trainer_test_trainer_layouts_LDADD = $(runtime_LDADD)
tests_runtime_trainer_test_trainer_fp8_LDADD = $(runtime_LDADD)
tests_runtime_trainer_test_trainer_nf4_LDADD = $(runtime_LDADD)
tests_runtime_trainer_test_trainer_optimizers_LDADD = $(runtime_LDADD)
tests_runtime_trainer_test_trainer_offload_LDADD = $(runtime_LDADD)
tests_runtime_trainer_test_trainer_pairs_LDADD = $(runtime_LDADD)
tests_runtime_trainer_test_trainer_transports_LDADD = $(runtime_LDADD)
tests_runtime_trainer_test_skip_LDADD = $(runtime_LDADD)
tests_runtime_trainer_test_local_loss_LDADD = $(runtime_LDADD)
tests_runtime_checkpoint_test_checkpoint_resume_LDADD = $(runtime_LDADD)
tests_runtime_run_test_memory_report_LDADD = $(runtime_LDADD)
tests_runtime_run_test_parity_LDADD = $(runtime_LDADD)
tests_runtime_run_test_rank_cores_LDADD = $(runtime_LDADD)
tests_runtime_run_test_killed_LDADD = $(runtime_LDADD)
tests_estimator_model_test_rope_LDADD = $(runtime_LDADD)
tests_bench_comm_speed_LDADD = $(runtime_LDADD)
tests_bench_device_speed_LDADD = $(runtime_LDADD)
tests_bench_train_speed_LDADD = $(runtime_LDADD)
check_LTLIBRARIES += libp4dsupport.la
libp4dsupport_la_SOURCES = \
	tests/support/support.h tests/support/deviations.h tests/support/rows.h tests/support/numbers.h tests/support/shapes.h tests/support/conf_file.h tests/support/durations.h tests/support/guarded_site.h \
	tests/support/built_layout.h tests/support/site_text.h tests/support/shell_means.h tests/support/estimates.h tests/support/job_sites.h tests/support/model_files.h tests/support/models.h tests/support/sbatch_words.h \
	tests/support/cost_steps.h tests/support/comm_failures.h tests/support/plan_layouts.h tests/support/cost_gpus.h tests/support/systems.h tests/support/search_space.h tests/support/token_files.h tests/support/checkpoint_ranks.h tests/support/whole_checkpoint.h \
	tests/support/schedule_check.h tests/support/schedule_check.c tests/support/schedule_execute.c \
	tests/support/forked.h tests/support/forked.c
if HAVE_OPENBLAS
check_LTLIBRARIES += libp4dtrainsupport.la
endif
libp4dtrainsupport_la_SOURCES = \
	tests/support/training.h tests/support/trl_pairs.h tests/support/training_curves.h tests/support/training_layouts.h tests/support/sliced_layouts.h tests/support/transports.h \
	tests/support/device_cases.h tests/support/device_under_test.h \
	tests/support/llama.h tests/support/llama.c \
	tests/support/launched.h tests/support/launched.c tests/support/runs.h tests/support/run_log.h tests/support/run_log.c \
	tests/doubles/queued_device.h tests/doubles/queued_device.c tests/doubles/queued_streams.h tests/doubles/queued_streams.c
# what differs with the device under test is compiled with it
tests_runtime_device_test_cuda_kernels_SOURCES = tests/runtime/device/test_cuda_kernels.c $(kernel_cases)
tests_runtime_device_test_cuda_fp8_SOURCES = tests/runtime/device/test_cuda_fp8.c $(kernel_cases)
tests_runtime_device_test_cuda_attention_SOURCES = tests/runtime/device/test_cuda_attention.c $(kernel_cases)
kernel_cases = tests/support/kernel_optimizers.h tests/support/kernel_cases.h tests/support/kernel_cases.c \
	tests/support/kernel_products.c tests/support/kernel_norms.c tests/support/kernel_attention.c
tests_runtime_device_test_device_cpu_LDADD = libp4dcpu64.la $(runtime_LDADD)
tests_runtime_device_test_device_cpu_gelu_LDADD = libp4dcpu64.la $(runtime_LDADD)
tests_runtime_device_test_device_cpu_attention_LDADD = libp4dcpu64.la $(runtime_LDADD)
tests_runtime_device_test_device_cpu_types_LDADD = libp4dcpu64.la $(runtime_LDADD)
tests_runtime_comm_test_comm_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc -Wl,--wrap=calloc -Wl,--wrap=realloc
tests_runtime_checkpoint_test_checkpoint_LDADD = $(runtime_LDADD) $(XXHASH_LIBS)
# a training program that p4d rehearse runs
check_PROGRAMS += tests/rehearsal/played
tests_rehearsal_played_LDADD = -ldl
# what ./check rehearsal runs, and a test of that
TESTS += tests/rehearsal/test_run.sh tests/rehearsal/test_timeline.sh
EXTRA_DIST += tests/rehearsal/run.py tests/rehearsal/make_serving.py tests/rehearsal/make_rehearsed_memory.py tests/rehearsal/trainings tests/rehearsal/test_run.sh tests/rehearsal/test_timeline.sh tests/rehearsal/programs tests/rehearsal/published
EXTRA_DIST += tests/rehearsal/parity.py
tests_rehearsal_test_backend_SOURCES = tests/rehearsal/test_backend.c tests/rehearsal/watched.h tests/rehearsal/watched.c
tests_rehearsal_test_backend_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/rehearsal
if HAVE_CUDA
tests_rehearsal_test_backend_CPPFLAGS += -DP4D_TEST_STANDINS
tests_rehearsal_test_backend_LDFLAGS = $(AM_LDFLAGS) -Wl,-rpath,$(CUDA_LIBDIR)
endif
if HAVE_CUDNN
tests_rehearsal_test_backend_CPPFLAGS += -DP4D_TEST_FUSED
endif
tests_rehearsal_test_backend_LDADD = $(runtime_LDADD) -ldl
tests_rehearsal_test_dnn_plan_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/rehearsal
tests_rehearsal_test_dnn_plan_LDADD = libp4dstandins.la $(CMOCKA_LIBS) -ldl -lpthread
tests_rehearsal_test_stand_ins_LDADD = libp4dstandins.la $(CMOCKA_LIBS) -ldl -lpthread
tests_rehearsal_test_solvers_LDADD = libp4dstandins.la $(CMOCKA_LIBS) -ldl -lpthread

# The memory of a GPU that is played is closed to the host, as a GPU's is.
AM_TESTS_ENVIRONMENT = \
	P4D_TEST_DATADIR=$(abs_top_srcdir)/etc; export P4D_TEST_DATADIR; \
	P4D_TEST_SRCDIR=$(abs_top_srcdir); export P4D_TEST_SRCDIR; \
	P4D_TEST_BUILDDIR=$(abs_top_builddir); export P4D_TEST_BUILDDIR; \
	P4D_TEST_PROTECTIONS='$(P4D_PROTECTIONS)'; export P4D_TEST_PROTECTIONS; \
	P4D_SHIM_GUARD=$${P4D_SHIM_GUARD:-1}; export P4D_SHIM_GUARD; \
	OPENBLAS_NUM_THREADS=1; export OPENBLAS_NUM_THREADS;

if HAVE_CMOCKA
check_PROGRAMS += $(unit_tests)
TESTS += $(unit_tests)
else
check-local:
	@echo "unit tests skipped: cmocka not found (apt-get install libcmocka-dev)"
endif

# Every parser of foreign text survives what fuzzing found. tests/fuzz/fuzz.sh looks for more.
fuzzers = tests/fuzz/fuzz_accounting tests/fuzz/fuzz_arguments tests/fuzz/fuzz_conf tests/fuzz/fuzz_documents tests/fuzz/fuzz_gpus tests/fuzz/fuzz_gres tests/fuzz/fuzz_measure tests/fuzz/fuzz_model \
	tests/fuzz/fuzz_plan tests/fuzz/fuzz_reader tests/fuzz/fuzz_record tests/fuzz/fuzz_sbatch tests/fuzz/fuzz_template
if HAVE_SLURM
fuzzers += tests/fuzz/fuzz_environment
endif
if HAVE_XXHASH
fuzzers += tests/fuzz/fuzz_index tests/fuzz/fuzz_join tests/fuzz/fuzz_manifest tests/fuzz/fuzz_safetensors \
	tests/fuzz/fuzz_settings tests/fuzz/fuzz_tokens
endif
if HAVE_TOKENIZERS
fuzzers += tests/fuzz/fuzz_tokenizer
endif
check_PROGRAMS += $(fuzzers)
TESTS += tests/fuzz/test_replay.sh
libp4dreplay_la_SOURCES = tests/fuzz/replay.c
check_LTLIBRARIES += libp4dreplay.la
fuzz_LDADD = libp4dreplay.la $(estimator_libraries)
runtime_fuzz_LDADD = libp4dreplay.la $(runtime_libraries)
tests_fuzz_fuzz_accounting_LDADD = libp4dreplay.la libp4dcommand.la $(estimator_libraries)
tests_fuzz_fuzz_arguments_CPPFLAGS = $(AM_CPPFLAGS)
tests_fuzz_fuzz_arguments_LDADD = $(fuzz_LDADD)
if HAVE_YAML
tests_fuzz_fuzz_arguments_CPPFLAGS += -DP4D_TEST_YAML
tests_fuzz_fuzz_arguments_LDADD += libp4dyaml.la
endif
if HAVE_TOML
tests_fuzz_fuzz_arguments_CPPFLAGS += -DP4D_TEST_TOML
tests_fuzz_fuzz_arguments_LDADD += libp4dtoml.la -lstdc++
endif
tests_fuzz_fuzz_conf_LDADD = $(fuzz_LDADD)
tests_fuzz_fuzz_documents_LDADD = libp4dreplay.la libp4dcommand.la libp4dtemplate.la $(runtime_libraries)
tests_fuzz_fuzz_environment_SOURCES = tests/fuzz/fuzz_environment.c plugin/job_environment.h plugin/job_environment.c
tests_fuzz_fuzz_environment_LDADD = $(fuzz_LDADD)
tests_fuzz_fuzz_gpus_LDADD = $(fuzz_LDADD)
tests_fuzz_fuzz_gres_LDADD = $(fuzz_LDADD)
tests_fuzz_fuzz_index_LDADD = $(runtime_fuzz_LDADD)
tests_fuzz_fuzz_join_LDADD = $(runtime_fuzz_LDADD)
tests_fuzz_fuzz_manifest_LDADD = $(runtime_fuzz_LDADD) $(XXHASH_LIBS)
tests_fuzz_fuzz_measure_LDADD = libp4dreplay.la libp4dcommand.la $(estimator_libraries)
tests_fuzz_fuzz_model_LDADD = $(fuzz_LDADD)
tests_fuzz_fuzz_plan_LDADD = $(fuzz_LDADD)
tests_fuzz_fuzz_reader_LDADD = $(fuzz_LDADD)
tests_fuzz_fuzz_record_LDADD = $(fuzz_LDADD)
tests_fuzz_fuzz_safetensors_LDADD = $(runtime_fuzz_LDADD)
tests_fuzz_fuzz_sbatch_LDADD = $(fuzz_LDADD)
tests_fuzz_fuzz_settings_LDADD = $(runtime_fuzz_LDADD)
tests_fuzz_fuzz_template_LDADD = libp4dreplay.la libp4dtemplate.la $(estimator_libraries)
tests_fuzz_fuzz_tokenizer_LDADD = $(runtime_fuzz_LDADD)
tests_fuzz_fuzz_tokens_LDADD = $(runtime_fuzz_LDADD)

# On a GPU: built and run by tests/gpu/run only.
if HAVE_CUDA
gpu_checks = tests/gpu/check_types tests/gpu/check_llama tests/gpu/check_kernels tests/gpu/check_fp8 tests/gpu/check_attention \
	tests/gpu/check_trainer tests/gpu/speed
EXTRA_PROGRAMS += $(gpu_checks)
gpu-checks: $(gpu_checks)
# What tests/gpu/run needs on a machine that has nothing but a GPU, its driver and PyTorch's wheels.
gpu-kit:
	rm -rf p4d-gpu-kit && $(srcdir)/tests/gpu/pack . p4d-gpu-kit
	tar -czf p4d-gpu-kit.tgz p4d-gpu-kit && rm -rf p4d-gpu-kit && ls -lh p4d-gpu-kit.tgz
CLEANFILES += p4d-gpu-kit.tgz
# What is known of each kernel without a GPU.
gpu-report: tests/runtime/device/test_cuda_traffic
	@$(srcdir)/tests/gpu/report $< '$(NVCC) -std=c++17 $(roots) $(NVCCFLAGS)' $(addprefix $(srcdir)/,$(cuda_kernels))
endif
gpu_CPPFLAGS = $(AM_CPPFLAGS) -isystem $(CUDA_INCLUDES) -DP4D_TEST_GPU
gpu_LDADD = $(runtime_LDADD) -L$(CUDA_LIBDIR) -lcudart_static -lpthread -lrt -ldl -lm
tests_gpu_check_types_SOURCES = tests/runtime/device/test_device_cpu_types.c
tests_gpu_check_types_CPPFLAGS = $(gpu_CPPFLAGS)
tests_gpu_check_types_LDADD = libp4dcpu64.la $(gpu_LDADD)
tests_gpu_check_llama_SOURCES = tests/runtime/device/test_device_llama.c
tests_gpu_check_llama_CPPFLAGS = $(gpu_CPPFLAGS)
tests_gpu_check_llama_LDADD = $(gpu_LDADD)
tests_gpu_check_kernels_SOURCES = tests/runtime/device/test_cuda_kernels.c $(kernel_cases)
tests_gpu_check_kernels_CPPFLAGS = $(gpu_CPPFLAGS)
tests_gpu_check_kernels_LDADD = $(gpu_LDADD)
tests_gpu_check_fp8_SOURCES = tests/runtime/device/test_cuda_fp8.c $(kernel_cases)
tests_gpu_check_fp8_CPPFLAGS = $(gpu_CPPFLAGS)
tests_gpu_check_fp8_LDADD = $(gpu_LDADD)
tests_gpu_check_attention_SOURCES = tests/runtime/device/test_cuda_attention.c $(kernel_cases)
tests_gpu_check_attention_CPPFLAGS = $(gpu_CPPFLAGS)
tests_gpu_check_attention_LDADD = $(gpu_LDADD)
tests_gpu_check_trainer_SOURCES = tests/runtime/device/test_cuda_trainer.c
tests_gpu_check_trainer_CPPFLAGS = $(gpu_CPPFLAGS)
tests_gpu_check_trainer_LDADD = $(gpu_LDADD)
tests_gpu_speed_CPPFLAGS = $(gpu_CPPFLAGS)
tests_gpu_speed_LDADD = $(gpu_LDADD)

# Jobs with fixes that are pasted.
check_PROGRAMS += fixes
fixes_SOURCES = tests/tools/fixes/fixes.c tests/tools/fixes/cases.c tests/tools/fixes/cases.h tests/tools/fixes/edit.c \
	tests/tools/fixes/edit.h
fixes_CPPFLAGS = $(AM_CPPFLAGS) $(JSONC_CFLAGS)
fixes_LDADD = $(JSONC_LIBS) -lm

# What cluster tests and benches run; built on demand.
if HAVE_SLURM
tools = agree soak-client submit interleave
EXTRA_PROGRAMS += $(tools)
tools: $(tools)
endif
submit_SOURCES = tests/tools/submit.c
submit_CPPFLAGS = $(AM_CPPFLAGS) $(SLURM_CPPFLAGS)
submit_LDADD = $(SLURM_LIBS)
agree_SOURCES = tests/tools/agree/agree.c tests/tools/agree/answer.c tests/tools/agree/answer.h \
	tests/tools/agree/aspects.c tests/tools/agree/aspects.h tests/tools/agree/fix.c tests/tools/agree/fix.h \
	tests/tools/agree/job.c tests/tools/agree/job.h
agree_CPPFLAGS = $(AM_CPPFLAGS) $(SLURM_CPPFLAGS) $(JSONC_CFLAGS)
agree_LDADD = $(SLURM_LIBS) $(JSONC_LIBS)
soak_client_SOURCES = tests/tools/soak/soak.c tests/tools/agree/answer.c tests/tools/agree/answer.h tests/tools/agree/aspects.c \
	tests/tools/agree/aspects.h tests/tools/agree/job.c tests/tools/agree/job.h
soak_client_CPPFLAGS = $(agree_CPPFLAGS) -I$(top_srcdir)/tests/tools
soak_client_LDADD = $(agree_LDADD)
interleave_SOURCES = tests/tools/interleave.c
interleave_LDADD =

# Prints how p4d's costs compare; never fails by the clock.
bench_programs = tests/bench/schedule_speed tests/bench/plan_speed tests/bench/worst_completion
bench_scripts =
if HAVE_XXHASH
bench_programs += tests/bench/comm_speed
endif
if HAVE_OPENBLAS
bench_programs += tests/bench/device_speed tests/bench/train_speed
bench_scripts += $(srcdir)/tests/bench/overfit.sh
endif
if HAVE_SLURM
bench_programs += tests/bench/verdict_latency tests/bench/worst_verdict
bench_scripts += $(srcdir)/tests/bench/sbatch_cost.sh
endif
EXTRA_PROGRAMS += $(bench_programs)
bench: all $(tools) $(bench_programs)
	@for bench in $(bench_programs) $(bench_scripts); do \
		$(AM_TESTS_ENVIRONMENT) PLUGINS=$(abs_top_builddir)/.libs $$bench || exit 1; done
tests_bench_device_speed_SOURCES = tests/bench/device_speed.c tests/bench/products.h
tests_bench_train_speed_SOURCES = tests/bench/train_speed.c tests/bench/products.h
tests_bench_verdict_latency_CPPFLAGS = $(fakehost_CPPFLAGS)
tests_bench_verdict_latency_LDFLAGS = $(fakehost_exports)
tests_bench_verdict_latency_LDADD = $(fakehost_LDADD)
tests_bench_worst_verdict_CPPFLAGS = $(fakehost_CPPFLAGS)
tests_bench_worst_verdict_LDFLAGS = $(fakehost_exports)
tests_bench_worst_verdict_LDADD = $(fakehost_LDADD)
soak: all $(tools) tests/rehearsal/played$(EXEEXT)
	$(srcdir)/tests/cluster/soak.sh --plugins=$(abs_top_builddir)/.libs
.PHONY: soak bench check-compiled tools gpu-checks gpu-kit gpu-report pictures always
CLEANFILES += $(EXTRA_PROGRAMS)

# Tests that need not be repeated with another compilation of the same sources: those that read the sources, long
# searches, and trainings by the command, whose parts have their own tests.
same_tests = tests/house/test_rooms.sh tests/house/test_names.sh tests/house/test_hardening.sh tests/house/test_sbom.sh tests/house/test_installed.sh \
	tests/gpu/test_kit.sh tests/gpu/test_report.sh \
	tests/estimator/search/test_search tests/runtime/run/test_killed tests/plugin/test_fakehost_cost tests/command/test_rehearse.sh tests/command/test_rehearse_running.sh tests/command/test_rehearse_shell.sh tests/command/test_check_rehearsed.sh tests/rehearsal/test_run.sh \
	tests/command/test_train.sh $(addprefix tests/command/test_train_,options.sh moments.sh offload.sh local_loss.sh released.sh)
# In these, operands are in the host's memory, where sanitizers watch every byte.
check-compiled:
	P4D_SHIM_GUARD=0 $(MAKE) check TESTS="$(filter-out $(same_tests),$(TESTS))"

EXTRA_DIST += tests/command/lib.sh $(command_tests) tests/command/test_chat.sh tests/command/test_export.sh tests/command/test_fine_tuning.sh tests/command/test_tokenizers.sh tests/command/test_train.sh tests/command/test_train_logs.sh tests/command/test_train_evaluation.sh tests/command/test_train_config.sh tests/command/test_train_options.sh tests/command/test_train_moments.sh tests/command/test_train_offload.sh tests/command/test_train_released.sh tests/command/test_train_lora.sh tests/command/test_train_preference.sh tests/command/test_train_local_loss.sh tests/plugin/test_plugin_symbols.sh
EXTRA_DIST += tests/doubles/slurm/sacct
EXTRA_DIST += tests/fuzz/test_replay.sh tests/fuzz/fuzz.sh tests/fuzz/real_files.sh tests/fuzz/corpus
TESTS += tests/gpu/test_kit.sh tests/gpu/test_report.sh
EXTRA_DIST += tests/gpu/run tests/gpu/pack tests/gpu/report tests/gpu/test_kit.sh tests/gpu/test_report.sh tests/gpu/pytorch_baseline.py tests/parity
EXTRA_DIST += tests/documents.sh tests/sentences.awk tests/setup.sh tests/static.sh tests/install.sh tests/distcheck.sh tests/data tests/cluster
EXTRA_DIST += tests/demo_training.sh tests/plugin_directory.sh tests/without_training.sh tests/pkg_config.sh tests/packages.sh tests/packages_cluster.sh tests/releases.sh
EXTRA_DIST += tests/web/compare.js
EXTRA_DIST += tests/bench/sbatch_cost.sh tests/bench/overfit.sh tests/bench/pytorch_cpu.py
