/* SPDX-License-Identifier: Apache-2.0 */
#include "real.h"

#include <dlfcn.h>

void *p4d_real(const char *library, const char *name)
{
	void *opened = dlopen(library, RTLD_NOW | RTLD_NOLOAD);

	return opened ? dlsym(opened, name) : dlsym(RTLD_NEXT, name);
}
