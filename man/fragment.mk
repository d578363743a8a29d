# SPDX-License-Identifier: Apache-2.0
# Manual pages are written in scdoc. @CODES@, @OPTIONS@, @PAGE@, @HEEDS@ and @SETTINGS@ in a page stand for the
# tables of codes.def, options.def and settings.def.
# A tarball has them made, all of them: there scdoc is not needed.
pages = man/p4d.1 man/p4d-backtest.1 man/p4d-data.1 man/p4d-rehearse.1 man/p4d-report.1 man/p4d-options.7 man/p4d-json.5 man/p4d.3 man/p4d.conf.5 man/p4d-codes.7 man/p4d-systems.7 man/p4d-spank.8
all_pages = man/p4d.1 man/p4d-backtest.1 man/p4d-data.1 man/p4d-rehearse.1 man/p4d-report.1 man/p4d-options.7 man/p4d-json.5 man/p4d.3 man/p4d.conf.5 man/p4d-codes.7 man/p4d-systems.7 man/p4d-spank.8 man/p4d-train.1
if HAVE_OPENBLAS
pages += man/p4d-train.1
endif
EXTRA_DIST += man/p4d.1.scd man/p4d-options.7.scd man/p4d-json.5.scd man/p4d.3.scd man/p4d-backtest.1.scd man/p4d-data.1.scd man/p4d-rehearse.1.scd man/p4d-report.1.scd man/p4d.conf.5.scd man/p4d-codes.7.scd man/p4d-systems.7.scd man/p4d-spank.8.scd man/p4d-train.1.scd

if HAVE_SCDOC
man_MANS = $(pages)
made_pages = $(all_pages)
CLEANFILES += $(all_pages) man/codes.scd man/options.scd man/page.scd man/heeds.scd man/settings.scd

noinst_PROGRAMS += reference
reference_SOURCES = man/reference.c
reference_LDADD = libp4dsettings.la libp4d.la

man/codes.scd man/options.scd man/page.scd man/heeds.scd man/settings.scd: reference$(EXEEXT)
	@$(MKDIR_P) man
	$(AM_V_GEN)./reference$(EXEEXT) `basename $@ .scd` >$@.tmp && mv $@.tmp $@

SUFFIXES = .scd
.scd:
	@$(MKDIR_P) man
	$(AM_V_GEN)sed -e '/^@CODES@$$/{r man/codes.scd' -e 'd}' -e '/^@OPTIONS@$$/{r man/options.scd' -e 'd}' \
		-e '/^@PAGE@$$/{r man/page.scd' -e 'd}' \
		-e '/^@HEEDS@$$/{r man/heeds.scd' -e 'd}' \
		-e '/^@SETTINGS@$$/{r man/settings.scd' -e 'd}' $< | \
		SOURCE_DATE_EPOCH=$(date_epoch) $(SCDOC) >$@.tmp && mv $@.tmp $@
$(all_pages): man/codes.scd man/options.scd man/page.scd man/heeds.scd man/settings.scd
endif
if HAVE_PAGES
man_MANS = $(pages)
made_pages = $(all_pages)
endif
dist-pages: $(made_pages)
	@for page in $(made_pages); do \
		if test -f $$page; then cp $$page $(distdir)/man; else cp $(srcdir)/$$page $(distdir)/man; fi || exit 1; \
	done
.PHONY: dist-pages

# The pictures of the guides, drawn again by `make pictures`.
pictures: p4d$(EXEEXT)
	@$(MKDIR_P) $(srcdir)/man/pictures
	P4D_DATADIR=$(srcdir)/etc SLURM_CONF=/nonexistent ./p4d$(EXEEXT) simulate --model llama3-70b --gpu h100 --nodes 8 \
		--tp 4 --pp 4 --schedule v-half --vocab-parallel vocab-2 --global-batch 32 \
		--svg $(srcdir)/man/pictures/pipeline.svg >/dev/null
	P4D_DATADIR=$(srcdir)/etc SLURM_CONF=/nonexistent ./p4d$(EXEEXT) estimate --model llama3-70b --gpu h100 --nodes 8 \
		--tp 4 --pp 8 --global-batch 128 --svg $(srcdir)/man/pictures/memory.svg >/dev/null

