/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support.h"

#include <unistd.h>

#include "doubles/slurm/hosted.h"

fakehost hosted;
const char *hosted_said;
static size_t alive;

void hosted_expect(job_desc_msg_t *desc, bool accepted, const char *code)
{
	int rc = fakehost_submit(&hosted, desc, &hosted_said);

	if ((rc == SLURM_SUCCESS) != accepted || (*code ? !strstr(hosted_said, code) : *hosted_said != '\0'))
		fail_msg("code %d, hosted_said: %s", rc, hosted_said);
	fakehost_free(desc);
}

int hosted_update(job_desc_msg_t *change, job_desc_msg_t *current)
{
	int rc = fakehost_modify(&hosted, change, current, &hosted_said);

	fakehost_free(change);
	return rc;
}

char **hosted_variable(char **list, uint32_t count, const char *name)
{
	size_t length = strlen(name);

	for (uint32_t i = 0; i < count; i++)
		if (!strncmp(list[i], name, length) && list[i][length] == '=')
			return &list[i];
	fail_msg("the job has no %s", name);
	return NULL;
}

void hosted_edit(job_desc_msg_t *desc, const char *name, const char *value)
{
	char **at = hosted_variable(desc->environment, desc->env_size, name);
	char text[8192];

	snprintf(text, sizeof(text), "%s=%s", value ? name : "REMOVED", value ? value : "");
	fakehost_set(at, text);
}

void hosted_edit_everywhere(job_desc_msg_t *desc, const char *name, const char *value)
{
	char copy[128], text[8192];

	hosted_edit(desc, name, value);
	snprintf(copy, sizeof(copy), "SLURM_SPANK_%s", name);
	hosted_edit(desc, copy, value);
	snprintf(text, sizeof(text), "%s=%s", value ? name : "REMOVED", value ? value : "");
	fakehost_set(hosted_variable(desc->spank_job_env, desc->spank_job_env_size, name), text);
}

const char *hosted_plan(job_desc_msg_t *desc)
{
	return *hosted_variable(desc->environment, desc->env_size, "P4D_PLAN") + strlen("P4D_PLAN=");
}

bool hosted_logged(const char *text)
{
	for (int i = 0; i < HOSTED_TRIES; i++) {
		if (strstr(fakehost_log(), text))
			return true;
		usleep(HOSTED_TRY_US);
	}
	return false;
}

static const char *plugin(void)
{
	static char path[4096];
	const char *build = getenv("P4D_TEST_BUILDDIR");

	snprintf(path, sizeof(path), "%s/.libs/job_submit_p4d.so", build ? build : ".");
	return path;
}

int hosted_start(void **state)
{
	*state = (void *)site_make();
	fakehost_open(&hosted, plugin(), *state);
	return 0;
}

int hosted_stop(void **state)
{
	(void)state;
	fakehost_close(&hosted);
	site_remove();
	return 0;
}

int hosted_count(void **state)
{
	(void)state;
	alive = fakehost_alive();
	return 0;
}

int hosted_leaks(void **state)
{
	(void)state;
	/* waits for the plugin's thread, which may still hold memory of a request */
	for (int waited = 0; fakehost_alive() != alive && waited < HOSTED_TRIES; waited++)
		usleep(HOSTED_TRY_US);
	if (fakehost_alive() != alive)
		print_error("%zd of Slurm's allocations were not freed\n",
			    (ssize_t)(fakehost_alive() - alive));
	return fakehost_alive() != alive;
}
