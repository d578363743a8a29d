# SPDX-License-Identifier: Apache-2.0
# P4D_SENTENCEPIECE: `p4d data` encodes with SentencePiece models. The library is C++, so this needs a C++ compiler too.
# The .pc file of Debian 13 requires that of protobuf-lite, which no package there depends on: what counts is that it links.
AC_DEFUN([P4D_SENTENCEPIECE], [
	AC_ARG_WITH([sentencepiece],
		[AS_HELP_STRING([--without-sentencepiece], [p4d data without SentencePiece tokenizers])],
		[], [with_sentencepiece=check])
	p4d_sentencepiece=no
	AS_IF([test "x$with_sentencepiece" = xno],
		[p4d_sentencepiece_report="no (--without-sentencepiece)"],
		[PKG_CHECK_MODULES([SENTENCEPIECE], [sentencepiece >= 0.1.9],
			[p4d_sentencepiece_from="sentencepiece `$PKG_CONFIG --modversion sentencepiece`"],
			[SENTENCEPIECE_LIBS=-lsentencepiece
			 p4d_sentencepiece_from="found by compiling; pkg-config: `AS_ECHO(["$SENTENCEPIECE_PKG_ERRORS"]) | grep . | tail -n 1`"])
		 P4D_SENTENCEPIECE_TRY])
	AS_IF([test "x$p4d_sentencepiece$with_sentencepiece" = xnoyes],
		[AC_MSG_ERROR([--with-sentencepiece was given, but: $p4d_sentencepiece_report])])
	AM_CONDITIONAL([HAVE_SENTENCEPIECE], [test "x$p4d_sentencepiece" = xyes])
])

AC_DEFUN([P4D_SENTENCEPIECE_TRY], [
	AC_LANG_PUSH([C++])
	p4d_save_LIBS=$LIBS
	p4d_save_CXXFLAGS=$CXXFLAGS
	# The .pc file also names the trainer, which nothing here calls.
	SENTENCEPIECE_LIBS=`AS_ECHO(["$SENTENCEPIECE_LIBS"]) | sed 's/-lsentencepiece_train//'`
	LIBS="$SENTENCEPIECE_LIBS $LIBS"
	CXXFLAGS="$CXXFLAGS $SENTENCEPIECE_CFLAGS"
	AC_MSG_CHECKING([whether the C++ compiler links libsentencepiece])
	AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <sentencepiece_processor.h>]],
			[[sentencepiece::SentencePieceProcessor p; return p.GetPieceSize();]])],
		[p4d_sentencepiece=yes
		 p4d_sentencepiece_report="yes ($p4d_sentencepiece_from)"],
		[p4d_sentencepiece_report="no (not found, or no working C++ compiler: apt-get install libsentencepiece-dev g++, since its release 0.2.2 also libabsl-dev libprotobuf-dev)"])
	AC_MSG_RESULT([$p4d_sentencepiece])
	LIBS=$p4d_save_LIBS
	CXXFLAGS=$p4d_save_CXXFLAGS
	AC_LANG_POP([C++])
])
