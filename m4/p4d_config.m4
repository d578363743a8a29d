# SPDX-License-Identifier: Apache-2.0
# P4D_CONFIG: what parses configuration files of training programs, for `p4d read`.
AC_DEFUN([P4D_CONFIG], [
	PKG_CHECK_MODULES([YAML], [yaml-0.1 >= 0.2.2],
		[p4d_yaml=yes
		 p4d_yaml_report="yes (libyaml `$PKG_CONFIG --modversion yaml-0.1`)"],
		[p4d_yaml=no
		 p4d_yaml_report="no (libyaml not found, so that p4d read leaves them out: apt-get install libyaml-dev)"])
	AM_CONDITIONAL([HAVE_YAML], [test "x$p4d_yaml" = xyes])
	p4d_toml=no
	AS_IF([test "x$p4d_cv_cxx" = xyes],
		[PKG_CHECK_MODULES([TOML], [tomlplusplus >= 3.3],
			[p4d_toml=yes
			 p4d_toml_report="yes (toml++ `$PKG_CONFIG --modversion tomlplusplus`)"],
			[p4d_toml_report="no (toml++ not found, so that p4d read leaves them out: apt-get install libtomlplusplus-dev)"])],
		[p4d_toml_report="no (no working C++ compiler, so that p4d read leaves them out: apt-get install g++)"])
	AM_CONDITIONAL([HAVE_TOML], [test "x$p4d_toml" = xyes])
])
