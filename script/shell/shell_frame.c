/* SPDX-License-Identifier: Apache-2.0 */
/* FUNCNAME and BASH_SOURCE: the current function and file. */
#include <string.h>

#include "shell/shell_internal.h"

static bool in_function(const p4d_shell_frame *frame)
{
	for (; frame->outer; frame = frame->outer)
		if (!p4d_value_is(frame->function, "source"))
			return true;
	return false;
}

bool p4d_shell__is_of_frames(p4d_shell_name name)
{
	return (name.length == 11 && !memcmp(name.text, "BASH_SOURCE", 11)) ||
	       (name.length == 8 && !memcmp(name.text, "FUNCNAME", 8));
}

/* Outside of functions FUNCNAME is empty. BASH_SOURCE is empty in `bash -c`. */
p4d_shell_var *p4d_shell__of_frames(p4d_shell *sh, p4d_shell_name name)
{
	static const p4d_cell main[] = {{.c = 'm'}, {.c = 'a'}, {.c = 'i'}, {.c = 'n'}};
	const bool sources = name.text[0] == 'B';
	p4d_shell_var *v = p4d_shell__find(sh, name, true);

	if (!v || (!sources && !in_function(sh->in.frame)))
		return NULL;
	v->value = (p4d_shell_words){0};
	for (const p4d_shell_frame *f = sh->in.frame; f; f = f->outer) {
		const p4d_value function = f->outer ? f->function : (p4d_value){main, 4};
		if (!sources || f->source.length)
			p4d_shell__add_word(sh, &v->value, sources ? f->source : function);
	}
	v->array = v->set = true;
	return v->value.count ? v : NULL;
}
