/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the library that parses a file. */
#include "config/config_library.h"

#include <dlfcn.h>
#include <string.h>
#include <strings.h>

#include "config.h"

const p4d_config_library p4d_config_libraries[P4D_CONFIG_FORMATS] = {
    [P4D_CONFIG_YAML] = {"libp4d-yaml.so", "p4d_config__yaml", "YAML"},
    [P4D_CONFIG_TOML] = {"libp4d-toml.so", "p4d_config__toml", "TOML"},
};

bool p4d_config_format_of(const char *path, p4d_config_format *format)
{
	static const struct {
		const char *end;
		p4d_config_format format;
	} ends[] = {
	    {".yaml", P4D_CONFIG_YAML},
	    {".yml", P4D_CONFIG_YAML},
	    {".json", P4D_CONFIG_YAML},
	    {".toml", P4D_CONFIG_TOML},
	};
	const char *end = strrchr(path, '.');

	if (!strncmp(path, "/dev/fd/", strlen("/dev/fd/"))) { /* the output of a command, as for <(COMMAND) */
		*format = P4D_CONFIG_YAML;
		return true;
	}
	for (size_t i = 0; end && i < sizeof(ends) / sizeof(ends[0]); i++)
		if (!strcasecmp(end, ends[i].end)) {
			*format = ends[i].format;
			return true;
		}
	return false;
}

p4d_config_read *p4d_config_open(const char *path, p4d_config_format format)
{
	void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL); /* the library stays open */
	const p4d_config_module *module =
	    library ? dlsym(library, p4d_config_libraries[format].symbol) : NULL;

	return module && !strcmp(module->version, PACKAGE_VERSION) ? module->read : NULL;
}
