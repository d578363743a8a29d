/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the answers of sbatch and of `p4d check`. */
#include "answer.h"

#include <ctype.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guard/verdict.h"
#include "slurm_compat.h"

void read_text(const char *path, char *text)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t used = 0;
	ssize_t n = 0;

	while (fd >= 0 && used < TEXT_MAX - 1 && (n = read(fd, text + used, TEXT_MAX - 1 - used)) > 0)
		used += (size_t)n;
	if (fd >= 0)
		close(fd);
	text[used] = '\0';
}

static void run(const job *j, char **words, output *a)
{
	pid_t pid = fork();

	if (pid == 0) {
		for (unsigned i = 0; i < j->pieces; i++)
			if (j->piece[i].place == VARIABLE)
				putenv((char *)j->piece[i].text);
		if (dup2(open(j->source == FROM_STDIN ? "job.sh" : "/dev/null", O_RDONLY | O_CLOEXEC), 0) <
			0 ||
		    dup2(open("out", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), 1) < 0 ||
		    dup2(open("err", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), 2) < 0)
			_exit(126);
		execvp(words[0], words);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &a->status, 0) < 0)
		abort();
	read_text("out", a->out);
	read_text("err", a->err);
}

void submit(const job *j, output *a)
{
	char wrap[1024], *words[MAX_WORDS] = {"sbatch", "-H", "--parsable"};

	command_line(j, words, 3, wrap, sizeof(wrap));
	run(j, words, a);
}

static char conf_option[4096];

void check_with(const char *conf)
{
	snprintf(conf_option, sizeof(conf_option), conf ? "--conf=%s" : "", conf);
}

void check(const job *j, const char *json, output *a)
{
	char wrap[1024], *words[MAX_WORDS] = {"p4d", "check", "-H", "--parsable"};
	unsigned at = 4;

	if (json)
		words[at++] = (char *)json;
	if (*conf_option)
		words[at++] = conf_option;
	command_line(j, words, at, wrap, sizeof(wrap));
	run(j, words, a);
}

static void add_code(verdict *v, const char *text)
{
	unsigned code;

	if (sscanf(text, "P4D%3u", &code) == 1 && isdigit((unsigned char)text[3]) &&
	    code < sizeof(v->codes)) {
		v->codes[code] = 1;
	}
}

static bool load_plans(uint32_t id, verdict *v)
{
	job_info_msg_t *info = NULL;

	if (P4D_LOAD_JOB(&info, id, SHOW_ALL) != SLURM_SUCCESS)
		return false;
	for (uint32_t i = 0; i < info->record_count && i < COMPONENTS; i++) {
		const char *comment = info->job_array[i].admin_comment;
		const char *plan = comment ? strstr(comment, "p4d1:") : NULL;
		if (plan)
			snprintf(v->plan[i], PLAN_MAX, "%.*s", (int)strcspn(plan, " \n"), plan);
	}
	slurm_free_job_info_msg(info);
	return true;
}

bool of_sbatch(const output *a, verdict *v)
{
	memset(v, 0, sizeof(*v));
	v->refused = a->status != 0;
	v->by_slurm =
	    v->refused && !strstr(a->err, "error: p4d: [") && !strstr(a->err, "init_post_opt() failed");
	for (const char *at = a->err; (at = strstr(at, "P4D")); at++)
		add_code(v, at);
	return v->refused || load_plans((uint32_t)strtoul(a->out, NULL, 10), v);
}

static const char *member(struct json_object *object, const char *name)
{
	const char *text = json_object_get_string(json_object_object_get(object, name));

	return text ? text : "";
}

static void of_component(struct json_object *answer, unsigned component, verdict *v)
{
	struct json_object *messages = json_object_object_get(answer, "messages");
	bool told = strcmp(member(answer, "mode"), "observe") != 0;
	unsigned lines = 0; /* number of message lines; sbatch prints at most P4D_VERDICT_LINES of them */

	v->refused |=
	    !strcmp(member(answer, "verdict"), "reject") || !strcmp(member(answer, "verdict"), "error");
	for (size_t i = 0; told && messages && i < json_object_array_length(messages); i++) {
		const char *fix = member(json_object_array_get_idx(messages, i), "fix");
		lines += *fix ? 2 : 1;
		if (lines <= P4D_VERDICT_LINES)
			add_code(v, member(json_object_array_get_idx(messages, i), "code"));
		if (!*v->fix)
			snprintf(v->fix, sizeof(v->fix), "%s", fix);
	}
	snprintf(v->plan[component], PLAN_MAX, "%s", member(answer, "plan"));
}

bool of_check(const output *a, verdict *v)
{
	struct json_object *answer = json_tokener_parse(a->out);
	struct json_object *components = json_object_object_get(answer, "components");

	memset(v, 0, sizeof(*v));
	for (unsigned i = 0; i < (components ? json_object_array_length(components) : 1) && i < COMPONENTS;
	     i++)
		of_component(components ? json_object_array_get_idx(components, i) : answer, i, v);
	json_object_put(answer);
	return answer && v->refused == (a->status != 0);
}
