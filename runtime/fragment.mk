# SPDX-License-Identifier: Apache-2.0
# libp4dtemplate: chat templates of released models, for `p4d data`.
noinst_LTLIBRARIES += libp4dtemplate.la
libp4dtemplate_la_SOURCES = \
	runtime/template/template.h runtime/template/template.c runtime/template/arena.h runtime/template/arena.c \
	runtime/template/value.h runtime/template/utf8.h runtime/template/utf8.c runtime/template/literal.h runtime/template/literal.c \
	runtime/template/lexer.h runtime/template/lexer.c runtime/template/syntax.h runtime/template/parser.h runtime/template/parser.c \
	runtime/template/parser_expressions.c runtime/template/run.h runtime/template/run.c runtime/template/evaluate.c \
	runtime/template/execute.c runtime/template/call.c runtime/template/operate.h runtime/template/operate.c \
	runtime/template/operate_math.c runtime/template/access.c runtime/template/write.c runtime/template/json.c \
	runtime/template/builtin.h runtime/template/functions.c runtime/template/test_kinds.c runtime/template/strings.h \
	runtime/template/strings.c runtime/template/methods.c runtime/template/methods_list.c runtime/template/filters_text.c \
	runtime/template/filters_value.c runtime/template/filters_list.c
libp4dtemplate_la_CPPFLAGS = $(AM_CPPFLAGS) $(JSONC_CFLAGS)
libp4dtemplate_la_CFLAGS = $(AM_CFLAGS) $(TRAIN_CFLAGS) -fvisibility=hidden
libp4dtemplate_la_LIBADD = $(JSONC_LIBS) -lm

# libp4ddata: training data, for p4d-train and `p4d data`.
noinst_LTLIBRARIES += libp4ddata.la
libp4ddata_la_SOURCES = \
	runtime/data/tokens.h runtime/data/tokens_internal.h runtime/data/tokens.c runtime/data/tokens_megatron.c \
	runtime/data/tokens_llmc.c runtime/data/tokens_writer.h runtime/data/tokens_writer.c \
	runtime/data/tokenizer.h runtime/data/tokenizer.c runtime/data/piece.h runtime/data/piece.c runtime/data/sentencepiece.h \
	runtime/data/permutation.h runtime/data/permutation.c runtime/data/shuffled.h runtime/data/shuffled.c \
	runtime/data/packed.h runtime/data/packed.c \
	runtime/data/blend.h runtime/data/blend.c runtime/data/sampler.h runtime/data/sampler.c
libp4ddata_la_CPPFLAGS = $(AM_CPPFLAGS) $(JSONC_CFLAGS)
libp4ddata_la_CFLAGS = $(AM_CFLAGS) $(TRAIN_CFLAGS) -fvisibility=hidden
if HAVE_TOKENIZERS
libp4ddata_la_SOURCES += \
	runtime/data/tokenizer_json.h runtime/data/tokenizer_json.c runtime/data/added_tokens.h runtime/data/added_tokens.c \
	runtime/data/normalizer.h runtime/data/normalizer.c runtime/data/splitter.h runtime/data/splitter.c \
	runtime/data/pattern.h runtime/data/pattern.c runtime/data/bpe.h runtime/data/bpe_internal.h runtime/data/bpe.c \
	runtime/data/bpe_read.c runtime/data/bpe_merge.h runtime/data/bpe_merge.c runtime/data/bpe_tables.h runtime/data/bpe_tables.c
libp4ddata_la_CPPFLAGS += $(TOKENIZERS_CFLAGS)
libp4ddata_la_LIBADD = $(TOKENIZERS_LIBS)
endif

if HAVE_SENTENCEPIECE
pkglib_LTLIBRARIES += libp4d-sentencepiece.la
installed_modules += $(pkglibdir)/libp4d-sentencepiece
libp4d_sentencepiece_la_SOURCES = runtime/data/sentencepiece.h runtime/data/sentencepiece.cc
libp4d_sentencepiece_la_CXXFLAGS = $(AM_CXXFLAGS) $(SENTENCEPIECE_CFLAGS)
libp4d_sentencepiece_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -export-symbols-regex '^p4d_sentencepiece__calls$$'
libp4d_sentencepiece_la_LIBADD = $(SENTENCEPIECE_LIBS)
endif

# libp4dcheckpoint: checkpoints, and weights in other programs' formats, for p4d-train and `p4d export`.
if HAVE_XXHASH
noinst_LTLIBRARIES += libp4dcheckpoint.la
endif
libp4dcheckpoint_la_SOURCES = \
	runtime/model/weights.h runtime/model/place.c runtime/model/weights.c runtime/model/weight_slices.c \
	runtime/device/nf4_codes.h runtime/model/nf4.h runtime/model/nf4.c \
	runtime/checkpoint/safetensors.h runtime/checkpoint/safetensors_internal.h runtime/checkpoint/safetensors.c \
	runtime/checkpoint/safetensors_header.c runtime/checkpoint/safetensors_writer.c \
	runtime/checkpoint/checkpoint.h runtime/checkpoint/checkpoint_internal.h runtime/checkpoint/checkpoint_files.c \
	runtime/checkpoint/checkpoint_manifest.c runtime/checkpoint/checkpoint_map.c runtime/checkpoint/checkpoint_read.c \
	runtime/checkpoint/checkpoint_lock.c runtime/checkpoint/checkpoint_save.c runtime/checkpoint/checkpoint_saver.c runtime/checkpoint/checkpoint_load.c \
	runtime/checkpoint/huggingface.h runtime/checkpoint/huggingface.c runtime/checkpoint/huggingface_internal.h \
	runtime/checkpoint/huggingface_export.c runtime/checkpoint/huggingface_unused.c runtime/checkpoint/adapter.c \
	runtime/checkpoint/quantized_base.c \
	runtime/checkpoint/huggingface_names.h runtime/checkpoint/huggingface_names.c \
	runtime/checkpoint/huggingface_config.h runtime/checkpoint/huggingface_config.c \
	runtime/checkpoint/released.h runtime/checkpoint/released.c runtime/checkpoint/companions.h runtime/checkpoint/companions.c runtime/checkpoint/export.h runtime/checkpoint/export.c
libp4dcheckpoint_la_CPPFLAGS = $(AM_CPPFLAGS) $(JSONC_CFLAGS) $(XXHASH_CFLAGS)
libp4dcheckpoint_la_CFLAGS = $(AM_CFLAGS) $(TRAIN_CFLAGS) -fvisibility=hidden
libp4dcheckpoint_la_LIBADD = $(XXHASH_LIBS) -lm

# libp4dtrain: the parts of p4d-train in addition to libp4d, libp4ddata and libp4dcheckpoint. Programs link all of
# them.
if HAVE_XXHASH
noinst_LTLIBRARIES += libp4dtrain.la
endif
libp4dtrain_la_SOURCES = $(device_sources) $(comm_sources) $(model_sources) $(trainer_sources) $(run_sources)
libp4dtrain_la_CPPFLAGS = $(AM_CPPFLAGS) $(JSONC_CFLAGS)
libp4dtrain_la_CFLAGS = $(AM_CFLAGS) $(TRAIN_CFLAGS) -fvisibility=hidden
libp4dtrain_la_LIBADD = libp4ddevice.la libp4dsettings.la -lm

device_sources = runtime/device/operations.def runtime/device/device.h runtime/device/rounding.h
# Code that every device links.
noinst_LTLIBRARIES += libp4ddevice.la
libp4ddevice_la_SOURCES = runtime/device/device_wait.h runtime/device/device_wait.c
libp4ddevice_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden

# Communication between ranks.
comm_sources = \
	runtime/comm/comm.h runtime/comm/wire.h runtime/comm/wire.c runtime/comm/ranks_slurm.c \
	runtime/comm/local_key.h runtime/comm/local_key.c runtime/comm/rendezvous.h runtime/comm/rendezvous.c runtime/comm/rendezvous_server.c \
	runtime/comm/world.h runtime/comm/world.c runtime/comm/events.c \
	runtime/comm/node.h runtime/comm/node_open.c runtime/comm/events.h runtime/comm/channel.h runtime/comm/channel_shm.h \
	runtime/comm/channel_shm.c runtime/comm/channel_tcp.c runtime/comm/channel.c \
	runtime/comm/sum.h runtime/comm/sum.c runtime/comm/group.h runtime/comm/group.c \
	runtime/comm/collectives.c runtime/comm/collectives_node.c runtime/comm/collectives_wire.c \
	runtime/comm/comm_device.h runtime/comm/transport.h runtime/comm/comm_device.c \
	runtime/comm/transport/transport_open.h runtime/comm/transport/transport_open.c \
	runtime/comm/transport/staged.h runtime/comm/transport/staged.c \
	runtime/comm/transport/nccl.h runtime/comm/transport/nccl.c runtime/comm/transport/nccl_open.c \
	runtime/comm/transport/nccl_library.h runtime/comm/transport/nccl_library.c runtime/comm/transport/nccl_check.c

# The part of the model that a rank computes, on a device and with its groups.
model_sources = \
	runtime/model/depth.h runtime/model/depth.c runtime/model/net.h runtime/model/net.c \
	runtime/model/initialize.c runtime/model/buffers.h runtime/model/buffers.c runtime/model/buffers_arena.c \
	runtime/model/adapters.h runtime/model/adapters.c runtime/model/quantized.h runtime/model/quantized.c \
	runtime/model/parallel.h runtime/model/parallel.c runtime/model/layer.h runtime/model/layer_forward.c \
	runtime/model/layer_backward.c runtime/model/sequence_order.h runtime/model/sequence_order.c \
	runtime/model/document_groups.h runtime/model/document_groups.c \
	runtime/model/attention.h runtime/model/attention.c runtime/model/attention_ring.c runtime/model/attention_slices.c runtime/model/attention_gather.c \
	runtime/model/norm.h runtime/model/norm.c runtime/model/embedding.h runtime/model/embedding.c runtime/model/head.h runtime/model/head.c runtime/model/pairs.h runtime/model/pairs.c runtime/model/vocabulary.c \
	runtime/model/generate.h runtime/model/generate.c \
	runtime/model/host_link.h runtime/model/host_link.c runtime/model/swap.h runtime/model/swap.c runtime/model/window.h runtime/model/window.c runtime/model/window_gather.c \
	runtime/model/gradient_window.h runtime/model/gradient_window.c runtime/model/newton_schulz.h runtime/model/newton_schulz.c \
	runtime/model/arena_use.c runtime/model/product.h runtime/model/product.c \
	runtime/model/weight_codes.h runtime/model/weight_codes.c runtime/model/warm_up.c

# The executor of instruction lists, and the optimizer.
trainer_sources = \
	runtime/trainer/trainer.h runtime/trainer/trainer_internal.h runtime/trainer/trainer.c runtime/trainer/trainer_state.c \
	runtime/trainer/executor.c runtime/trainer/uses.c runtime/trainer/optimizer.c runtime/trainer/optimizer_host.c runtime/trainer/optimizer_bytes.c runtime/trainer/optimizer_muon.c

# The options of p4d-train. The manual is made from them, even if p4d-train is not built.
noinst_LTLIBRARIES += libp4dsettings.la
libp4dsettings_la_SOURCES = runtime/run/settings.def runtime/run/settings.h runtime/run/settings_internal.h \
	runtime/run/settings_table.c runtime/run/settings_completion.c runtime/run/settings.c runtime/run/settings_check.c runtime/run/settings_file.c \
	runtime/run/settings_words.c
libp4dsettings_la_CPPFLAGS = $(AM_CPPFLAGS) $(JSONC_CFLAGS)
libp4dsettings_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden

# A run: its settings, its messages, and its end.
run_sources = \
	runtime/run/memory_report.h runtime/run/memory_report.c \
	runtime/run/job_plan.h runtime/run/job_plan.c runtime/run/settings_print.h runtime/run/settings_print.c \
	runtime/run/learning_rate.h runtime/run/learning_rate.c runtime/run/loss_watch.h runtime/run/loss_watch.c \
	runtime/run/best_loss.h runtime/run/best_loss.c \
	runtime/run/log_file.h runtime/run/log_file.c runtime/run/tensorboard.h runtime/run/tensorboard.c \
	runtime/run/step_log.h runtime/run/step_log.c runtime/run/stop.h runtime/run/stop.c \
	runtime/run/page_fault.h runtime/run/page_fault.c runtime/run/watchdog.h runtime/run/watchdog.c runtime/run/rank_error.h runtime/run/rank_error.c \
	runtime/run/local_ranks.h runtime/run/local_ranks.c \
	runtime/run/checkpoint_trainer.h runtime/run/checkpoint_trainer.c \
	runtime/run/rank_cores.h runtime/run/rank_cores.c runtime/run/logits_file.h runtime/run/logits_file.c runtime/run/stored_model.h runtime/run/stored_model.c runtime/run/train_sample.h runtime/run/train_sample.c \
	runtime/run/train_weights.h runtime/run/train_weights.c

if HAVE_OPENBLAS
# The cpu device's operations are compiled once per element type. fp64 is for tests.
cpu_operations = \
	runtime/device/cpu/cpu_operations.h runtime/device/cpu/cpu_types.h runtime/device/cpu/cpu_math.h \
	runtime/device/cpu/cpu_attention.h runtime/device/cpu/cpu_gemm.c runtime/device/cpu/cpu_fp8.c runtime/device/cpu/cpu_nf4.c runtime/device/cpu/cpu_muon.c runtime/device/cpu/cpu_adam.h runtime/device/cpu/cpu_byte_moments.c runtime/device/byte_codes.h runtime/device/dropout.h runtime/device/cpu/cpu_dropout.c runtime/device/cpu/cpu_pairs.c runtime/device/fp8_codes.h runtime/device/cpu/cpu_norm.c \
	runtime/device/cpu/cpu_rope.c runtime/device/cpu/cpu_attention.c runtime/device/cpu/cpu_attention_backward.c \
	runtime/device/cpu/cpu_layer_norm.c runtime/device/cpu/cpu_gelu.c runtime/device/cpu/cpu_soft_cap.c \
	runtime/device/cpu/cpu_swiglu.c runtime/device/cpu/cpu_embedding.c runtime/device/cpu/cpu_cross_entropy.c \
	runtime/device/cpu/cpu_adamw.c runtime/device/cpu/cpu_threads.h
cpu_CPPFLAGS = $(AM_CPPFLAGS) $(OPENBLAS_CFLAGS)
cpu_CFLAGS = $(AM_CFLAGS) $(TRAIN_CFLAGS)

noinst_LTLIBRARIES += libp4dcpu32.la libp4dcpu16.la
libp4dcpu32_la_SOURCES = $(cpu_operations)
libp4dcpu32_la_CPPFLAGS = $(cpu_CPPFLAGS) -DP4D_CPU_TYPE=32
libp4dcpu32_la_CFLAGS = $(cpu_CFLAGS)
libp4dcpu16_la_SOURCES = $(cpu_operations)
libp4dcpu16_la_CPPFLAGS = $(cpu_CPPFLAGS) -DP4D_CPU_TYPE=16
libp4dcpu16_la_CFLAGS = $(cpu_CFLAGS)
check_LTLIBRARIES += libp4dcpu64.la
libp4dcpu64_la_SOURCES = $(cpu_operations)
libp4dcpu64_la_CPPFLAGS = $(cpu_CPPFLAGS) -DP4D_CPU_TYPE=64
libp4dcpu64_la_CFLAGS = $(cpu_CFLAGS)
libp4dcpu64_la_LIBADD = $(OPENBLAS_LIBS) $(OPENMP_LIBS) -lm

libp4dtrain_la_SOURCES += runtime/device/cpu/blas_kernels.h runtime/device/cpu/blas_kernels.c runtime/device/cpu/cpu_threads.c runtime/device/cpu/device_cpu.c \
	runtime/device/device_cuda.h runtime/device/device_cuda.c
libp4dtrain_la_CPPFLAGS += $(OPENBLAS_CFLAGS)
libp4dtrain_la_LIBADD += libp4dcpu32.la libp4dcpu16.la $(OPENBLAS_LIBS) $(OPENMP_LIBS)

bin_PROGRAMS += p4d-train
p4d_train_LDFLAGS = $(AM_LDFLAGS) $(P4D_PROGRAM_LDFLAGS)
p4d_train_SOURCES = \
	runtime/run/train_main.c runtime/run/train.h runtime/run/train_internal.h runtime/run/train.c runtime/run/train_say.c runtime/run/train_evaluate.c runtime/run/train_trace.h runtime/run/train_trace.c runtime/run/train_data.h runtime/run/train_data.c runtime/run/train_agree.h runtime/run/train_agree.c \
	runtime/run/train_save.h runtime/run/train_save.c runtime/run/train_device.h runtime/run/train_device.c
p4d_train_LDADD = libp4dtrain.la libp4dcheckpoint.la libp4ddata.la libp4dhost.la libp4d.la

nodist_bashcompletion_DATA += completion/bash/p4d-train
nodist_zshcompletion_DATA += completion/zsh/_p4d-train
nodist_fishcompletion_DATA += completion/fish/p4d-train.fish
completion/bash/p4d-train completion/zsh/_p4d-train completion/fish/p4d-train.fish: p4d-train$(EXEEXT)
	@$(MKDIR_P) $(@D)
	$(AM_V_GEN)./p4d-train$(EXEEXT) --completion `basename $(@D)` >$@.tmp && mv $@.tmp $@
endif
