/* SPDX-License-Identifier: Apache-2.0 */
#include "given_options.h"

#include <stdio.h>
#include <stdlib.h>

#include "job_environment.h"

bool p4d_given_any(const p4d_given *given)
{
	for (int i = 0; i < P4D_OPTIONS; i++)
		if (given->text[i])
			return true;
	return false;
}

int p4d_given_request(const p4d_given *given, p4d_request *request, p4d_error *err)
{
	for (int i = 0; i < P4D_OPTIONS; i++)
		if (given->text[i] &&
		    p4d_request_set(request, (p4d_option)i, given->text[i], P4D_BY_USER, err) < 0)
			return -1;
	return 0;
}

void p4d_given_put(const p4d_given *given, spank_t spank, const p4d_request *request)
{
	char name[128], value[1024];

	for (int i = 0; i < P4D_OPTIONS; i++) {
		p4d_option option = (p4d_option)i;
		const char *text = given->text[i];
		if (!text)
			continue;
		if (request && p4d_request_option_info(option)->kind != P4D_SWITCH_KIND &&
		    p4d_is_set(request, option))
			text = p4d_request_value_text(request, option, value, sizeof(value));
		p4d_environment_option_variable(option, name, sizeof(name));
		setenv(name, text, 1);
		spank_job_control_setenv(spank, name, text, 1);
	}
}
