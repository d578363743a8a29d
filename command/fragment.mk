# SPDX-License-Identifier: Apache-2.0
# The command p4d. Everything except its main function is a library, which tests also link.
noinst_LTLIBRARIES += libp4dcommand.la
libp4dcommand_la_SOURCES = \
	command/line/line.h command/line/line.c command/line/help.c command/line/own_options.def command/line/site_open.c command/line/live_cluster.c command/line/submitted.h command/line/submitted.c command/line/job_script.h command/line/job_script.c \
	command/line/subject.c command/line/synonyms.c \
	command/report/table.h command/report/table.c command/report/plan_groups.h command/report/plan_groups.c \
	command/accounting/accounting.h command/accounting/accounting_internal.h command/accounting/accounting.c command/accounting/sacct.h command/accounting/sacct.c \
	command/accounting/accounting_find.c command/accounting/accounting_records.h command/accounting/accounting_records.c command/accounting/accounting_line.c command/accounting/accounting_stored.c \
	command/report/report.h command/report/report.c command/report/report_json.c command/report/report_step.c \
	command/report/places.h command/report/places.c command/report/advice.h command/report/advice.c command/report/answer.h command/report/answer.c command/report/unfit.h command/report/unfit.c command/report/margins.h command/report/margins.c command/report/serving.h command/report/serving.c command/report/serving_plan.h command/report/serving_plan.c command/report/serving_places.c \
	command/report/colocated.h command/report/colocated.c \
	command/picture/svg.h command/picture/svg.c command/picture/svg_axis.h command/picture/svg_axis.c \
	command/picture/pictures.h command/picture/pictures.c command/picture/svg_memory.c \
	command/picture/svg_timeline.h command/picture/svg_timeline.c command/picture/svg_view.c command/picture/svg_flow.c \
	command/picture/simulation.h command/picture/simulation.c command/picture/simulation_trace.c \
	command/picture/history.h command/picture/history.c command/picture/charts.h command/picture/charts.c command/picture/svg_charts.c command/picture/text_charts.c command/picture/bars.h command/picture/bars.c command/picture/page.h command/picture/page.c \
	command/plot/training_log.h command/plot/training_log.c command/plot/command_plot.h command/plot/command_plot.c \
	command/validate/measured.h command/validate/measured.c command/validate/measured_step.c \
	command/validate/command_validate.h command/validate/command_validate.c command/validate/command_validate_memory.c \
	command/validate/command_validate_step.c command/validate/command_validate_runs.c command/validate/untaken.c command/validate/predicted_run.h command/validate/predicted_run.c command/validate/run_options.h command/validate/run_options.c \
	command/measure/memory_log.h command/measure/memory_log.c command/measure/prometheus.h command/measure/prometheus.c \
	command/measure/step_lines.h command/measure/step_lines.c command/measure/jobstats.h command/measure/jobstats.c \
	command/usage/usage.h command/usage/usage_join.c command/usage/usage_count.c command/usage/usage_text.c \
	command/usage/usage_json.c command/usage/usage_html.c command/usage/usage_refusals.h command/usage/usage_refusals.c command/usage/usage_deaths.c command/usage/usage_job.c command/usage/usage_rows.c \
	command/usage/command_report.h command/usage/command_report.c \
	command/calibrate/calibrate_internal.h command/calibrate/calibrate_rows.c command/calibrate/calibrate_fit.c \
	command/calibrate/calibrate_file.c command/calibrate/calibrate_share.c \
	command/calibrate/command_calibrate.h command/calibrate/command_calibrate.c \
	command/data/unpack.h command/data/unpack.c command/data/unpack_gzip.c command/data/unpack_zstd.c command/data/documents.h command/data/documents.c command/data/progress.h command/data/progress.c \
	command/data/conversation.h command/data/conversation.c command/data/pairs.h command/data/pairs.c command/data/chat.h command/data/chat_internal.h command/data/chat.c \
	command/data/chat_fixed.c command/data/chat_templates.def command/data/chat_jinja.c command/data/chat_source.h command/data/chat_source.c \
	command/data/command_data.h command/data/command_data.c \
	command/rehearse/store.h command/rehearse/store.c command/rehearse/store_keys.h command/rehearse/store_keys.c \
	command/rehearse/player.h command/rehearse/player.c command/rehearse/rehearsed.h command/rehearse/rehearsed.c \
	command/rehearse/rehearse_submit.h command/rehearse/rehearse_submit.c command/rehearse/rehearse_keep.h command/rehearse/rehearse_keep.c \
	command/rehearse/rehearsed_picture.c command/rehearse/rehearsed_serving.h command/rehearse/rehearsed_serving.c \
	command/rehearse/micro_batch.h command/rehearse/micro_batch.c \
	command/rehearse/rehearse_fits.h command/rehearse/rehearse_fits.c \
	command/rehearse/rehearse_answer.h command/rehearse/rehearse_answer.c command/rehearse/rehearse_json.c \
	command/rehearse/rehearse_step.h command/rehearse/rehearse_step.c \
	command/rehearse/words.h command/rehearse/words.c \
	command/rehearse/deepspeed_hosts.h command/rehearse/deepspeed_hosts.c command/rehearse/engine_ranks.h command/rehearse/engine_ranks.c \
	command/rehearse/launch_ranks.h command/rehearse/launch_ranks.c command/rehearse/read_command.h command/rehearse/read_command.c \
	command/rehearse/rank_environment.h command/rehearse/rank_environment.c command/rehearse/playing.h command/rehearse/playing.c \
	command/rehearse/rehearse_estimate.h command/rehearse/rehearse_estimate.c \
	command/rehearse/played_progress.h command/rehearse/played_progress.c command/rehearse/shell_launch.h command/rehearse/shell_launch.c command/rehearse/nvidia_smi.h command/rehearse/nvidia_smi.c command/rehearse/strays.h command/rehearse/strays.c \
	command/rehearse/rehearse_options.h command/rehearse/rehearse_options.c \
	command/rehearse/command_rehearse.h command/rehearse/command_rehearse.c \
	command/backtest/backtest.h command/backtest/command_backtest.h command/backtest/command_backtest.c command/backtest/backtest_run.c \
	command/backtest/backtest_judge.c command/backtest/backtest_line.c command/backtest/backtest_owner.c command/backtest/backtest_output.c \
	command/backtest/backtest_limits.c command/backtest/backtest_count.c command/backtest/backtest_text.c command/backtest/backtest_json.c \
	command/backtest/backtest_html.c \
	command/command.h command/command_pages.h command/command_pages.c command/command_estimate.c command/command_plan.c command/command_check.c command/command_conf.c command/command_job.c command/command_read.c \
	command/command_export.c command/command_list.c command/command_completion.c command/command_explain.c command/command_simulate.c
libp4dcommand_la_CFLAGS = $(libp4dbase_la_CFLAGS)
libp4dcommand_la_CPPFLAGS = $(AM_CPPFLAGS) $(SMARTCOLS_CFLAGS) $(JSONC_CFLAGS) $(ZLIB_CFLAGS)
libp4dcommand_la_LIBADD = $(SMARTCOLS_LIBS) $(JSONC_LIBS) $(ZLIB_LIBS)

bin_PROGRAMS += p4d
p4d_LDFLAGS = $(AM_LDFLAGS) $(P4D_PROGRAM_LDFLAGS)
p4d_SOURCES = command/command.c
p4d_CPPFLAGS = $(libp4dcommand_la_CPPFLAGS)
p4d_LDADD = libp4dcommand.la libp4dtemplate.la libp4ddata.la
if HAVE_XXHASH
p4d_LDADD += libp4dcheckpoint.la
endif
p4d_LDADD += libp4dhost.la libp4d.la

# The library for other programs. It is not in this folder, because libp4d.la here is the whole estimator, which is
# linked into each part of p4d.
lib_LTLIBRARIES += library/libp4d.la
library_libp4d_la_SOURCES = command/library/p4d.h command/library/library_internal.h command/library/query.c command/library/reply.c
library_libp4d_la_CPPFLAGS = $(libp4dcommand_la_CPPFLAGS)
library_libp4d_la_CFLAGS = $(AM_CFLAGS) -ffunction-sections -fdata-sections
library_libp4d_la_LDFLAGS = $(AM_LDFLAGS) -version-info 0:0:0 -Wl,--as-needed -Wl,--gc-sections \
	-Wl,--version-script=$(srcdir)/command/library/p4d.map
library_libp4d_la_LIBADD = libp4dcommand.la libp4dhost.la libp4d.la
library_libp4d_la_DEPENDENCIES = $(library_libp4d_la_LIBADD) command/library/p4d.map
include_HEADERS = command/library/p4d.h
pkgconfigdir = $(libdir)/pkgconfig
nodist_pkgconfig_DATA = library/p4d.pc
CLEANFILES += library/p4d.pc
EXTRA_DIST += command/library/p4d.map command/library/p4d.pc.in
library/p4d.pc: $(srcdir)/command/library/p4d.pc.in Makefile
	@$(MKDIR_P) $(@D)
	$(AM_V_GEN)sed -e 's,@prefix\@,$(prefix),' -e 's,@includedir\@,$(includedir),' -e 's,@libdir\@,$(libdir),' \
		-e 's,@VERSION\@,$(VERSION),' $(srcdir)/command/library/p4d.pc.in >$@.tmp && mv $@.tmp $@

# Shell completions, printed by the command. bash loads _sbatch only if nothing else completes sbatch.
bashcompletiondir = $(datadir)/bash-completion/completions
nodist_bashcompletion_DATA = completion/bash/p4d completion/bash/_sbatch completion/bash/_salloc completion/bash/_srun
zshcompletiondir = $(datadir)/zsh/site-functions
nodist_zshcompletion_DATA = completion/zsh/_p4d
fishcompletiondir = $(datadir)/fish/vendor_completions.d
nodist_fishcompletion_DATA = completion/fish/p4d.fish
CLEANFILES += $(nodist_bashcompletion_DATA) $(nodist_zshcompletion_DATA) $(nodist_fishcompletion_DATA)

completion/bash/p4d completion/zsh/_p4d completion/fish/p4d.fish: p4d$(EXEEXT)
	@$(MKDIR_P) $(@D)
	$(AM_V_GEN)./p4d$(EXEEXT) completion `basename $(@D)` >$@.tmp && mv $@.tmp $@
completion/bash/_sbatch completion/bash/_salloc completion/bash/_srun:
	@$(MKDIR_P) $(@D)
	$(AM_V_GEN)echo '. "$${BASH_SOURCE[0]%/*}/p4d"' >$@
