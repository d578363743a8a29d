# SPDX-License-Identifier: Apache-2.0
# make check: unit tests, which need neither a cluster nor a network. ./check runs everything. A test is one line here.
# The longest is begun first.
unit_tests = \
	tests/unit/test_search \
	tests/unit/test_attention \
	tests/unit/test_clock \
	tests/unit/test_clock_bound \
	tests/unit/test_clock_runs \
	tests/unit/test_command_json \
	tests/unit/test_conf \
	tests/unit/test_export \
	tests/unit/test_gpu \
	tests/unit/test_guard \
	tests/unit/test_job \
	tests/unit/test_layout \
	tests/unit/test_memory \
	tests/unit/test_model \
	tests/unit/test_model_files \
	tests/unit/test_plan \
	tests/unit/test_plan_line \
	tests/unit/test_plan_packing \
	tests/unit/test_request \
	tests/unit/test_sbatch \
	tests/unit/test_schedule \
	tests/unit/test_schedule_check \
	tests/unit/test_schedule_slots \
	tests/unit/test_site \
	tests/unit/test_svg \
	tests/unit/test_timeline \
	tests/unit/test_timeline_steady \
	tests/unit/test_view
# Programs that print a figure each; `make bench` runs them.
bench_programs = tests/bench/schedule_speed tests/bench/plan_speed

tests_bench_schedule_speed_LDADD = libp4d.la
tests_bench_plan_speed_SOURCES = tests/bench/plan_speed.c
tests_bench_plan_speed_LDADD = libp4d.la
tests_unit_test_memory_SOURCES = tests/unit/test_memory.c estimator/measured.c
tests_unit_test_view_SOURCES = tests/unit/test_view.c estimator/svg_view.c estimator/simulation.c
tests_unit_test_svg_SOURCES = tests/unit/test_svg.c estimator/svg.c estimator/svg_axis.c
tests_unit_test_clock_runs_SOURCES = tests/unit/test_clock_runs.c estimator/measured.c estimator/measured_step.c
tests_unit_test_sbatch_SOURCES = tests/unit/test_sbatch.c estimator/sbatch.c estimator/arguments.c

# The cpu device: its operations in double, its types, and a model made of them.
if HAVE_OPENBLAS
unit_tests += \
	tests/unit/test_device_cpu \
	tests/unit/test_device_cpu_attention \
	tests/unit/test_device_cpu_types \
	tests/unit/test_device_llama
fp64_libraries = libp4dcpu64.la libp4d.la $(CMOCKA_LIBS)
tests_unit_test_device_cpu_LDADD = $(fp64_libraries)
tests_unit_test_device_cpu_attention_LDADD = $(fp64_libraries)
tests_unit_test_device_cpu_types_SOURCES = tests/unit/test_device_cpu_types.c tests/unit/device_cases.h
tests_unit_test_device_cpu_types_LDADD = libp4dtrain.la $(fp64_libraries)
tests_unit_test_device_llama_SOURCES = tests/unit/test_device_llama.c tests/unit/llama.h tests/unit/llama.c
tests_unit_test_device_llama_LDADD = libp4dtrain.la libp4d.la $(CMOCKA_LIBS)

# The same tests with the cuda device, its kernels compiled for the host.
if HAVE_CXX
cuda_tests = \
	tests/unit/test_cuda_shim \
	tests/unit/test_cuda_types \
	tests/unit/test_cuda_llama \
	tests/unit/test_cuda_kernels \
	tests/unit/test_cuda_attention \
	tests/unit/test_cuda_trainer \
	tests/unit/test_cuda_open
unit_tests += $(cuda_tests)
cuda_CPPFLAGS = -I$(top_srcdir)/runtime/cuda/shim $(AM_CPPFLAGS) -DP4D_TEST_CUDA
cuda_LDADD = libp4dshim.la libp4dtrain.la libp4d.la $(CMOCKA_LIBS) -lstdc++ -lm
tests_unit_test_cuda_shim_SOURCES = tests/unit/test_cuda_shim.cc
tests_unit_test_cuda_shim_CPPFLAGS = $(cuda_CPPFLAGS)
tests_unit_test_cuda_shim_LDADD = $(cuda_LDADD)
tests_unit_test_cuda_types_SOURCES = tests/unit/test_device_cpu_types.c tests/unit/device_cases.h tests/unit/device_under_test.h
tests_unit_test_cuda_types_CPPFLAGS = $(cuda_CPPFLAGS)
tests_unit_test_cuda_types_LDADD = libp4dcpu64.la $(cuda_LDADD)
tests_unit_test_cuda_llama_SOURCES = tests/unit/test_device_llama.c tests/unit/llama.h tests/unit/llama.c
tests_unit_test_cuda_llama_CPPFLAGS = $(cuda_CPPFLAGS)
tests_unit_test_cuda_llama_LDADD = $(cuda_LDADD)
kernel_cases = tests/unit/kernel_cases.h tests/unit/kernel_cases.c
tests_unit_test_cuda_kernels_SOURCES = tests/unit/test_cuda_kernels.c $(kernel_cases)
tests_unit_test_cuda_kernels_CPPFLAGS = $(cuda_CPPFLAGS)
tests_unit_test_cuda_kernels_LDADD = $(cuda_LDADD)
tests_unit_test_cuda_attention_SOURCES = tests/unit/test_cuda_attention.c $(kernel_cases)
tests_unit_test_cuda_attention_CPPFLAGS = $(cuda_CPPFLAGS)
tests_unit_test_cuda_attention_LDADD = $(cuda_LDADD)
tests_unit_test_cuda_trainer_SOURCES = tests/unit/test_cuda_trainer.c tests/unit/training.h tests/unit/training_curves.h $(forked)
tests_unit_test_cuda_trainer_CPPFLAGS = $(cuda_CPPFLAGS)
tests_unit_test_cuda_trainer_LDADD = $(cuda_LDADD)
tests_unit_test_cuda_open_CPPFLAGS = $(cuda_CPPFLAGS)
tests_unit_test_cuda_open_LDADD = $(cuda_LDADD)
endif

# Graphs of attention, for GPUs that are described to cuDNN.
if HAVE_CUDNN
unit_tests += tests/unit/test_cudnn_graphs
tests_unit_test_cudnn_graphs_SOURCES = tests/unit/test_cudnn_graphs.c $(cudnn_graphs)
tests_unit_test_cudnn_graphs_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/runtime/cuda -isystem $(CUDA_INCLUDES) \
	-DP4D_CUDA_STUB='"$(CUDA_LIBDIR)/stubs/libcuda.so"'
tests_unit_test_cudnn_graphs_LDADD = libp4d.la $(CMOCKA_LIBS) -ldl
tests_unit_test_cudnn_graphs_LDFLAGS = $(AM_LDFLAGS) -Wl,-rpath,$(CUDA_LIBDIR)
endif

unit_tests += tests/unit/test_attention_blocks
tests_unit_test_attention_blocks_LDADD = libp4dtrain.la libp4d.la $(CMOCKA_LIBS)

# And on a GPU: built and run by tests/gpu/run only.
if HAVE_CUDA
gpu_checks = tests/gpu/check_types tests/gpu/check_llama tests/gpu/check_kernels tests/gpu/check_attention \
	tests/gpu/check_trainer tests/gpu/speed
EXTRA_PROGRAMS += $(gpu_checks)
gpu-checks: $(gpu_checks)
gpu_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests/unit -isystem $(CUDA_INCLUDES) -DP4D_TEST_GPU
gpu_LDADD = libp4dtrain.la libp4d.la $(CMOCKA_LIBS) -L$(CUDA_LIBDIR) -lcudart_static -lpthread -lrt -ldl -lm
tests_gpu_check_types_SOURCES = tests/unit/test_device_cpu_types.c
tests_gpu_check_types_CPPFLAGS = $(gpu_CPPFLAGS)
tests_gpu_check_types_LDADD = libp4dcpu64.la $(gpu_LDADD)
tests_gpu_check_llama_SOURCES = tests/unit/test_device_llama.c tests/unit/llama.c
tests_gpu_check_llama_CPPFLAGS = $(gpu_CPPFLAGS)
tests_gpu_check_llama_LDADD = $(gpu_LDADD)
tests_gpu_check_kernels_SOURCES = tests/unit/test_cuda_kernels.c tests/unit/kernel_cases.c
tests_gpu_check_kernels_CPPFLAGS = $(gpu_CPPFLAGS)
tests_gpu_check_kernels_LDADD = $(gpu_LDADD)
tests_gpu_check_attention_SOURCES = tests/unit/test_cuda_attention.c tests/unit/kernel_cases.c
tests_gpu_check_attention_CPPFLAGS = $(gpu_CPPFLAGS)
tests_gpu_check_attention_LDADD = $(gpu_LDADD)
tests_gpu_check_trainer_SOURCES = tests/unit/test_cuda_trainer.c tests/unit/forked.c
tests_gpu_check_trainer_CPPFLAGS = $(gpu_CPPFLAGS)
tests_gpu_check_trainer_LDADD = $(gpu_LDADD)
tests_gpu_speed_SOURCES = tests/gpu/speed.c
tests_gpu_speed_CPPFLAGS = $(gpu_CPPFLAGS)
tests_gpu_speed_LDADD = $(gpu_LDADD)
endif

unit_tests += tests/unit/test_checkpoint_resume
tests_unit_test_checkpoint_resume_SOURCES = \
	tests/unit/test_checkpoint_resume.c tests/unit/training.h $(checkpoint_ranks) $(forked)
tests_unit_test_checkpoint_resume_LDADD = libp4dtrain.la libp4d.la $(CMOCKA_LIBS)

unit_tests += tests/unit/test_memory_report
tests_unit_test_memory_report_SOURCES = tests/unit/test_memory_report.c tests/unit/training.h $(forked)
tests_unit_test_memory_report_CPPFLAGS = $(AM_CPPFLAGS) $(JSONC_CFLAGS)
tests_unit_test_memory_report_LDADD = libp4dtrain.la libp4d.la $(CMOCKA_LIBS) $(JSONC_LIBS) -lm

unit_tests += tests/unit/test_skip
tests_unit_test_skip_SOURCES = tests/unit/test_skip.c tests/unit/training.h $(forked)
tests_unit_test_skip_LDADD = libp4dtrain.la libp4d.la $(CMOCKA_LIBS) -lm

unit_tests += tests/unit/test_trainer
tests_unit_test_trainer_SOURCES = tests/unit/test_trainer.c tests/unit/training.h tests/unit/llama.h tests/unit/llama.c
tests_unit_test_trainer_LDADD = libp4dtrain.la libp4d.la $(CMOCKA_LIBS)
unit_tests += tests/unit/test_trainer_layouts tests/unit/test_weights
tests_unit_test_weights_SOURCES = tests/unit/test_weights.c tests/unit/training.h
tests_unit_test_weights_LDADD = libp4dtrain.la libp4d.la $(CMOCKA_LIBS)
curves = tests/unit/training.h tests/unit/training_curves.h tests/unit/training_layouts.h $(forked)
tests_unit_test_trainer_layouts_SOURCES = tests/unit/test_trainer_layouts.c $(curves)
tests_unit_test_trainer_layouts_LDADD = libp4dtrain.la libp4d.la $(CMOCKA_LIBS) -lm

# Devices that queue what they do, as GPUs do, and a stand-in for NCCL between them.
check_LTLIBRARIES += tests/unit/fake_nccl.la
tests_unit_fake_nccl_la_SOURCES = tests/unit/fake_nccl.h tests/unit/fake_nccl.c
tests_unit_fake_nccl_la_LDFLAGS = -module -avoid-version -rpath /nowhere
queued = tests/unit/transports.h tests/unit/queued_device.h tests/unit/queued_device.c
unit_tests += \
	tests/unit/test_comm_device tests/unit/test_comm_device_failure \
	tests/unit/test_trainer_transports
tests_unit_test_comm_device_SOURCES = tests/unit/test_comm_device.c $(forked) $(queued)
tests_unit_test_comm_device_LDADD = libp4dtrain.la libp4d.la $(CMOCKA_LIBS)
tests_unit_test_comm_device_failure_SOURCES = tests/unit/test_comm_device_failure.c $(curves) $(queued)
tests_unit_test_comm_device_failure_LDADD = libp4dtrain.la libp4d.la $(CMOCKA_LIBS) -lm
tests_unit_test_trainer_transports_SOURCES = tests/unit/test_trainer_transports.c $(curves) $(queued)
tests_unit_test_trainer_transports_LDADD = libp4dtrain.la libp4d.la $(CMOCKA_LIBS) -lm
unit_tests += tests/train/test_killed
tests_train_test_killed_SOURCES = tests/train/test_killed.c \
	tests/train/launched.h tests/train/launched.c tests/train/runs.h tests/train/run_log.h tests/train/run_log.c
tests_train_test_killed_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/tests/unit
tests_train_test_killed_LDADD = libp4dtrain.la libp4d.la $(CMOCKA_LIBS) -lm

train_bench = $(srcdir)/tests/bench/overfit.sh
bench_programs += tests/bench/device_speed
tests_bench_device_speed_SOURCES = \
	tests/bench/device_speed.c tests/bench/products.h tests/unit/llama.h tests/unit/llama.c
tests_bench_device_speed_LDADD = libp4dtrain.la libp4d.la
bench_programs += tests/bench/train_speed
tests_bench_train_speed_SOURCES = tests/bench/train_speed.c tests/bench/products.h
tests_bench_train_speed_LDADD = libp4dtrain.la libp4d.la
endif

# p4d-train's parts
if HAVE_XXHASH
unit_tests += \
	tests/unit/test_checkpoint \
	tests/unit/test_checkpoint_damage \
	tests/unit/test_checkpoint_saver \
	tests/unit/test_safetensors \
	tests/unit/test_sampler \
	tests/unit/test_tokens
unit_tests += $(run_tests)
unit_tests += tests/unit/test_comm tests/unit/test_comm_ahead tests/unit/test_comm_failure tests/unit/test_comm_parts
bench_programs += tests/bench/comm_speed
train_fuzzers = tests/fuzz/fuzz_safetensors tests/fuzz/fuzz_tokens
endif
train_libs = libp4dtrain.la libp4d.la $(CMOCKA_LIBS)
checkpoint_ranks = tests/unit/checkpoint_ranks.h tests/unit/token_files.h
tests_unit_test_checkpoint_SOURCES = tests/unit/test_checkpoint.c $(checkpoint_ranks)
tests_unit_test_checkpoint_CPPFLAGS = $(AM_CPPFLAGS) $(XXHASH_CFLAGS)
tests_unit_test_checkpoint_LDADD = $(train_libs) $(XXHASH_LIBS)
tests_unit_test_checkpoint_damage_SOURCES = tests/unit/test_checkpoint_damage.c $(checkpoint_ranks)
tests_unit_test_checkpoint_damage_LDADD = $(train_libs)
tests_unit_test_checkpoint_saver_SOURCES = tests/unit/test_checkpoint_saver.c $(checkpoint_ranks)
tests_unit_test_checkpoint_saver_LDADD = $(train_libs)
tests_unit_test_safetensors_LDADD = $(train_libs)
tests_unit_test_sampler_LDADD = $(train_libs)
tests_unit_test_tokens_LDADD = $(train_libs)

# A run of p4d-train, without the training.
run_tests = \
	tests/unit/test_learning_rate tests/unit/test_rope tests/unit/test_settings tests/unit/test_step_log tests/unit/test_run_end
tests_unit_test_learning_rate_LDADD = $(train_libs) -lm
tests_unit_test_rope_LDADD = $(train_libs) -lm
tests_unit_test_settings_LDADD = $(train_libs)
tests_unit_test_step_log_CPPFLAGS = $(AM_CPPFLAGS) $(JSONC_CFLAGS)
tests_unit_test_step_log_LDADD = $(train_libs) $(JSONC_LIBS) -lm
tests_unit_test_run_end_LDADD = $(train_libs)

# Communication between ranks: forked here, or on their own.
forked = tests/unit/forked.h tests/unit/forked.c
tests_unit_test_comm_SOURCES = tests/unit/test_comm.c $(forked)
tests_unit_test_comm_LDADD = libp4dtrain.la $(LDADD) -lm
tests_unit_test_comm_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc -Wl,--wrap=calloc -Wl,--wrap=realloc
tests_unit_test_comm_failure_SOURCES = tests/unit/test_comm_failure.c $(forked)
tests_unit_test_comm_failure_LDADD = libp4dtrain.la $(LDADD) -lm
tests_unit_test_comm_parts_LDADD = libp4dtrain.la $(LDADD) -lm
tests_unit_test_comm_ahead_SOURCES = tests/unit/test_comm_ahead.c $(forked)
tests_unit_test_comm_ahead_LDADD = libp4dtrain.la $(LDADD)
tests_bench_comm_speed_LDADD = libp4dtrain.la libp4d.la

# The command that was built, as a user types it.
command_tests = \
	tests/command/test_check.sh \
	tests/command/test_cluster.sh \
	tests/command/test_conf.sh \
	tests/command/test_data.sh \
	tests/command/test_estimate.sh \
	tests/command/test_job.sh \
	tests/command/test_lists.sh \
	tests/command/test_output.sh \
	tests/command/test_plan.sh \
	tests/command/test_simulate.sh \
	tests/command/test_usage.sh
if HAVE_OPENBLAS
command_tests += tests/command/test_train.sh
endif
TESTS += $(command_tests)
EXTRA_DIST += tests/command/lib.sh $(command_tests) tests/command/test_train.sh tests/bench/overfit.sh

# job_submit_p4d.so in a host that plays slurmctld.
if HAVE_SLURM
unit_tests += tests/unit/test_fakehost
bench_programs += tests/bench/verdict_latency
TESTS += tests/unit/test_plugin_symbols.sh
fakehost = \
	tests/fakehost/fakehost.h tests/fakehost/fakehost.c \
	tests/fakehost/plans.h tests/fakehost/plans.c
tests_unit_test_fakehost_SOURCES = tests/unit/test_fakehost.c $(fakehost)
tests_unit_test_fakehost_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE $(SLURM_CPPFLAGS)
tests_unit_test_fakehost_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
tests_bench_verdict_latency_SOURCES = tests/bench/verdict_latency.c $(fakehost)
tests_bench_verdict_latency_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE $(SLURM_CPPFLAGS)
tests_bench_verdict_latency_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
tests_bench_verdict_latency_LDADD = libp4d.la
endif

AM_CPPFLAGS += $(CMOCKA_CFLAGS)
LDADD = libp4d.la $(CMOCKA_LIBS)
AM_TESTS_ENVIRONMENT = \
	P4D_TEST_DATADIR=$(abs_top_srcdir)/etc; export P4D_TEST_DATADIR; \
	P4D_TEST_SRCDIR=$(abs_top_srcdir); export P4D_TEST_SRCDIR; \
	P4D_TEST_BUILDDIR=$(abs_top_builddir); export P4D_TEST_BUILDDIR;

if HAVE_CMOCKA
check_PROGRAMS += $(unit_tests)
TESTS += $(unit_tests)
else
check-local:
	@echo "unit tests skipped: cmocka not found (apt-get install libcmocka-dev)"
endif

# Every parser of foreign text survives what fuzzing found. tests/fuzz/fuzz.sh looks for more.
fuzzers = \
	tests/fuzz/fuzz_conf \
	tests/fuzz/fuzz_gpus \
	tests/fuzz/fuzz_gres \
	tests/fuzz/fuzz_model \
	tests/fuzz/fuzz_sbatch \
	$(train_fuzzers)
check_PROGRAMS += $(fuzzers)
TESTS += tests/fuzz/test_replay.sh
tests_fuzz_fuzz_conf_SOURCES = tests/fuzz/fuzz_conf.c tests/fuzz/replay.c
tests_fuzz_fuzz_gpus_SOURCES = tests/fuzz/fuzz_gpus.c tests/fuzz/replay.c
tests_fuzz_fuzz_gres_SOURCES = tests/fuzz/fuzz_gres.c tests/fuzz/replay.c
tests_fuzz_fuzz_model_SOURCES = tests/fuzz/fuzz_model.c tests/fuzz/replay.c
tests_fuzz_fuzz_safetensors_SOURCES = tests/fuzz/fuzz_safetensors.c tests/fuzz/replay.c
tests_fuzz_fuzz_safetensors_LDADD = libp4dtrain.la libp4d.la
tests_fuzz_fuzz_tokens_SOURCES = tests/fuzz/fuzz_tokens.c tests/fuzz/replay.c
tests_fuzz_fuzz_tokens_LDADD = libp4dtrain.la libp4d.la
tests_fuzz_fuzz_sbatch_SOURCES = tests/fuzz/fuzz_sbatch.c tests/fuzz/replay.c estimator/sbatch.c estimator/arguments.c
EXTRA_DIST += tests/fuzz/test_replay.sh tests/fuzz/fuzz.sh tests/fuzz/corpus

# What cluster tests and benches run; built on demand.
if HAVE_SLURM
tools = submit interleave
EXTRA_PROGRAMS += $(tools)
submit_SOURCES = tests/tools/submit.c
submit_CPPFLAGS = $(AM_CPPFLAGS) $(SLURM_CPPFLAGS)
submit_LDADD = $(SLURM_LIBS)
interleave_SOURCES = tests/tools/interleave.c
interleave_LDADD =
tools: $(tools)

# Prints how p4d's costs compare; never fails by the clock.
EXTRA_PROGRAMS += $(bench_programs)
bench: all $(tools) $(bench_programs)
	@for program in $(bench_programs); do $(AM_TESTS_ENVIRONMENT) ./$$program || exit 1; done
	@$(AM_TESTS_ENVIRONMENT) $(train_bench)
	@PLUGINS=$(abs_top_builddir)/.libs $(srcdir)/tests/bench/sbatch_cost.sh
else
EXTRA_PROGRAMS += $(bench_programs)
bench: all $(bench_programs)
	@for program in $(bench_programs); do $(AM_TESTS_ENVIRONMENT) ./$$program || exit 1; done
	@$(AM_TESTS_ENVIRONMENT) $(train_bench)
	@echo "the other benches need Slurm: $(top_srcdir)/configure --with-slurm=DIR"
endif
.PHONY: bench tools
CLEANFILES += $(EXTRA_PROGRAMS)

# make distcheck without the tests that calculate for long and read no files: it is about files.
long_tests = tests/train/test_killed tests/unit/test_comm tests/unit/test_comm_device tests/unit/test_comm_failure \
	tests/unit/test_cuda_attention tests/unit/test_cuda_kernels tests/unit/test_cuda_llama tests/unit/test_cuda_trainer \
	tests/unit/test_cuda_types tests/unit/test_cudnn_graphs tests/unit/test_search tests/unit/test_trainer_layouts tests/unit/test_trainer_transports
distcheck-short:
	$(MAKE) distcheck AM_MAKEFLAGS='TESTS="$(filter-out $(long_tests),$(TESTS))"'

EXTRA_DIST += tests/unit/support.h tests/unit/numbers.h tests/unit/token_files.h tests/unit/site_file.h tests/unit/shapes.h tests/unit/durations.h
EXTRA_DIST += tests/unit/plan_layouts.h tests/unit/clock_gpus.h
EXTRA_DIST += tests/gpu/run tests/gpu/pack tests/gpu/pytorch_baseline.py
EXTRA_DIST += tests/parity/make_oracle.py
EXTRA_DIST += tests/setup.sh tests/static.sh tests/install.sh tests/data tests/cluster tests/bench/sbatch_cost.sh
EXTRA_DIST += tests/demo_training.sh tests/without_training.sh tests/pkg_config.sh
EXTRA_DIST += tests/unit/test_plugin_symbols.sh
