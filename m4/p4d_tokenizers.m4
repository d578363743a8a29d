# SPDX-License-Identifier: Apache-2.0
# P4D_TOKENIZERS: `p4d data` reads tokenizer.json files, whose patterns PCRE2 matches and whose normalization forms utf8proc makes.
AC_DEFUN([P4D_TOKENIZERS], [
	PKG_CHECK_MODULES([TOKENIZERS], [libutf8proc >= 2.2 libpcre2-8 >= 10.40],
		[p4d_tokenizers=yes
		 p4d_tokenizers_report="yes (PCRE2 `$PKG_CONFIG --modversion libpcre2-8`, utf8proc `$PKG_CONFIG --modversion libutf8proc`)"
		 AC_DEFINE([HAVE_TOKENIZERS], [1], [Define to 1 if PCRE2 and utf8proc are there.])],
		[p4d_tokenizers=no
		 p4d_tokenizers_report="no (PCRE2 or utf8proc not found: apt-get install libpcre2-dev libutf8proc-dev)"])
	AM_CONDITIONAL([HAVE_TOKENIZERS], [test "x$p4d_tokenizers" = xyes])
])
