# SPDX-License-Identifier: Apache-2.0
# libp4d: linked into the command, both plugins and the tests. Nothing here knows Slurm or CUDA.
noinst_LTLIBRARIES += libp4d.la
libp4d_la_SOURCES = \
	estimator/codes.def estimator/options.def \
	estimator/error.h estimator/error.c \
	estimator/request.h estimator/request.c \
	estimator/defaults.h estimator/defaults.c \
	estimator/json_file.h estimator/json_file.c \
	estimator/model.h estimator/model_forms.h estimator/model.c estimator/model_hf.c estimator/model_preset.c estimator/model_names.c \
	estimator/rope.h estimator/rope.c estimator/model_rope.c \
	estimator/gpu.h estimator/gpu_table.h estimator/gpu.c estimator/gpu_load.c \
	estimator/alike.h estimator/alike.c \
	estimator/conf.h estimator/conf_keys.c estimator/conf_words.h estimator/conf_words.c estimator/conf_parse.c estimator/conf.c \
	estimator/site.h estimator/site_data.h estimator/site_load.c estimator/site.c \
	estimator/job.h estimator/job_parse.h estimator/gres.c estimator/job_gpu.c estimator/job.c \
	estimator/sbatch.h estimator/sbatch_job.c \
	estimator/layout.h estimator/layout.c \
	estimator/attention.h estimator/attention.c \
	estimator/parameters.h estimator/parameters.c estimator/memory.h estimator/memory_paper.h estimator/memory.c estimator/memory_paper.c \
	estimator/plan.h estimator/plan_rows.h estimator/plan.c estimator/plan_pack.c estimator/plan_p4d.c estimator/plan_megatron.c \
	estimator/clock.h estimator/clock_forms.h estimator/clock.c estimator/clock_step.c estimator/clock_parts.c estimator/clock_layer.c estimator/clock_head.c \
	estimator/clock_ops.c estimator/clock_comm.c estimator/clock_flops.c \
	estimator/schedule.h estimator/schedule_order.h estimator/schedule_order.c estimator/schedule_v.c \
	estimator/schedule.c estimator/schedule_slots.c estimator/slot_pool.h estimator/slot_pool.c \
	estimator/schedule_check.h estimator/schedule_fields.c estimator/schedule_check.c estimator/schedule_execute.c \
	estimator/timeline.h estimator/timeline_cost.h estimator/timeline_cost.c estimator/timeline.c \
	estimator/timeline_graph.h estimator/timeline_graph.c estimator/timeline_period.c estimator/timeline_gpipe.c estimator/timeline_steady.c \
	estimator/plan_line.h estimator/plan_line.c \
	estimator/search.h estimator/search.c estimator/search_walk.h estimator/search_walk.c \
	estimator/search_trial.c estimator/search_advice.c \
	estimator/script.h estimator/script.c \
	estimator/guard.h estimator/verdict.h estimator/verdict.c estimator/judge.c estimator/guard.c estimator/verify.c \
	estimator/export.h estimator/export.c
nodist_libp4d_la_SOURCES = estimator/gpu_table.c
libp4d_la_CPPFLAGS = $(AM_CPPFLAGS) $(JSONC_CFLAGS)
libp4d_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden
libp4d_la_LIBADD = $(JSONC_LIBS) -lm

# etc/gpus.json as a table in the program: reading JSON is most of what a submission would cost.
noinst_PROGRAMS += gputable
gputable_SOURCES = \
	estimator/gpu_table_main.c \
	estimator/error.h estimator/error.c estimator/json_file.h estimator/json_file.c estimator/gpu.h estimator/gpu.c
gputable_CPPFLAGS = $(AM_CPPFLAGS) $(JSONC_CFLAGS)
gputable_LDADD = $(JSONC_LIBS) -lm
estimator/gpu_table.c: gputable$(EXEEXT) $(srcdir)/etc/gpus.json
	@$(MKDIR_P) estimator
	$(AM_V_GEN)./gputable$(EXEEXT) $(srcdir)/etc/gpus.json >$@.tmp && mv $@.tmp $@
CLEANFILES += estimator/gpu_table.c

# p4d data
p4d_data_sources = \
	estimator/documents.h estimator/documents.c estimator/progress.h estimator/progress.c estimator/command_data.c \
	runtime/tokenizer.h runtime/tokenizer.c runtime/sentencepiece.h runtime/library.h runtime/library.c \
	runtime/tokens_writer.h runtime/tokens_writer.c runtime/new_file.h runtime/new_file.c

bin_PROGRAMS += p4d
p4d_SOURCES = \
	estimator/command.h estimator/command.c \
	estimator/arguments.h estimator/arguments.c \
	estimator/command_options.c estimator/command_site.c estimator/command_cluster.c estimator/command_subject.c \
	estimator/command_estimate.c estimator/command_plan.c estimator/command_check.c estimator/command_conf.c \
	estimator/command_job.c estimator/command_list.c estimator/command_explain.c \
	estimator/measured.h estimator/measured.c estimator/measured_step.c \
	estimator/command_validate.h estimator/command_validate.c estimator/command_validate_memory.c estimator/command_validate_step.c \
	$(p4d_data_sources) \
	estimator/sbatch_options.def estimator/sbatch.c \
	estimator/table.h estimator/table.c \
	estimator/report.c estimator/report_json.c \
	estimator/svg.h estimator/svg.c estimator/svg_axis.h estimator/svg_axis.c \
	estimator/pictures.h estimator/pictures.c estimator/svg_memory.c \
	estimator/svg_timeline.h estimator/svg_timeline.c estimator/svg_view.c estimator/svg_flow.c \
	estimator/simulation.h estimator/simulation.c estimator/command_simulate.c \
	estimator/losses.h estimator/losses.c estimator/report_step.c
p4d_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE $(SMARTCOLS_CFLAGS) $(JSONC_CFLAGS) $(SLURM_CPPFLAGS)
p4d_LDADD = libp4d.la $(SMARTCOLS_LIBS) $(JSONC_LIBS) -lm

if HAVE_SENTENCEPIECE
pkglib_LTLIBRARIES += libp4d-sentencepiece.la
installed_modules += $(pkglibdir)/libp4d-sentencepiece
libp4d_sentencepiece_la_SOURCES = runtime/sentencepiece.h runtime/sentencepiece.cc
libp4d_sentencepiece_la_CXXFLAGS = $(AM_CXXFLAGS) $(SENTENCEPIECE_CFLAGS)
libp4d_sentencepiece_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -export-symbols-regex '^p4d_sentencepiece_calls$$'
libp4d_sentencepiece_la_LIBADD = $(SENTENCEPIECE_LIBS)
endif
