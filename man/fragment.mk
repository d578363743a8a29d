# SPDX-License-Identifier: Apache-2.0
# Manual pages are written in scdoc. @CODES@ and @OPTIONS@ in a page stand for the tables of codes.def and options.def.
pages = man/p4d.1 man/p4d.conf.5 man/p4d-codes.7 man/p4d-spank.8
EXTRA_DIST += man/p4d.1.scd man/p4d.conf.5.scd man/p4d-codes.7.scd man/p4d-spank.8.scd

if HAVE_SCDOC
man_MANS = $(pages)
CLEANFILES += $(pages) man/codes.scd man/options.scd

noinst_PROGRAMS += reference
reference_SOURCES = man/reference.c
reference_LDADD = libp4d.la

man/codes.scd man/options.scd: reference$(EXEEXT)
	@$(MKDIR_P) man
	$(AM_V_GEN)./reference$(EXEEXT) `basename $@ .scd` >$@.tmp && mv $@.tmp $@

SUFFIXES = .scd
.scd:
	@$(MKDIR_P) man
	$(AM_V_GEN)sed -e '/^@CODES@$$/{r man/codes.scd' -e 'd}' -e '/^@OPTIONS@$$/{r man/options.scd' -e 'd}' $< | \
		$(SCDOC) >$@.tmp && mv $@.tmp $@
$(pages): man/codes.scd man/options.scd
endif
