/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "base/json_file.h"
#include "model/model_json.h"

/* The model option for a key, with '_' for '-'; P4D_OPTIONS if there is none. */
static p4d_option option_of_key(const char *key)
{
	for (int i = 0; i < P4D_OPTIONS; i++) {
		const char *name = p4d_request_option_info((p4d_option)i)->name, *at = key;
		while (*name && *at == (*name == '-' ? '_' : *name)) {
			name++;
			at++;
		}
		if (!*name && !*at && (p4d_request_option_info((p4d_option)i)->where & P4D_WHERE_MODEL))
			return (p4d_option)i;
	}
	return P4D_OPTIONS;
}

/* "13.0B" -> 13000000000, with half of the last digit as tolerance. */
static int parse_printed(const char *printed, p4d_preset *preset, p4d_error *err)
{
	static const char units[] = "KMBT";
	uint64_t digits = 0, scale = 1;
	const char *at = printed;
	int decimals = 0, count = 0;

	for (bool point = false; isdigit((unsigned char)*at) || (*at == '.' && !point); at++) {
		if (*at == '.') {
			point = true;
			continue;
		}
		digits = digits * 10 + (uint64_t)(*at - '0');
		decimals += point;
		if (++count > 6)
			break;
	}
	const char *unit = *at ? strchr(units, *at) : NULL;
	int exponent = unit ? 3 * (int)(unit - units + 1) - decimals : 0;
	if (!unit || at[1] || count == 0 || count > 6 || exponent < 1)
		return p4d_fail(err, P4D_E_VALUE,
				"\"parameters\" is \"%.32s\": neither a number nor like \"13.0B\"", printed);
	while (exponent-- > 0)
		scale *= 10;
	preset->parameters = digits * scale;
	preset->rounding = scale / 2;
	preset->exact = 0;
	return 0;
}

static int read_parameters(struct json_object *object, p4d_preset *preset, p4d_error *err)
{
	char printed[32] = "";
	int64_t number = 0;

	if (json_object_is_type(json_object_object_get(object, "parameters"), json_type_string)) {
		if (p4d_json_string(object, "parameters", printed, sizeof(printed), err) < 0)
			return -1;
		return parse_printed(printed, preset, err);
	}
	if (p4d_json_integer(object, "parameters", 1, INT64_MAX, &number, err) < 0)
		return -1;
	preset->parameters = (uint64_t)number;
	preset->exact = number != 0;
	return 0;
}

/* One member of a preset that is a model option. */
static int read_option(struct json_object *object, const char *key, p4d_option option, p4d_request *model,
		       p4d_error *err)
{
	const p4d_option_info *info = p4d_request_option_info(option);
	char word[128] = "";
	int64_t value = 0;
	double real = -1;

	if (option == P4D_ROPE_SCALING)
		return p4d_model__read_rope(object, model, err);
	if (info->kind == P4D_DECIMAL_KIND) {
		if (p4d_json_number(object, key, info->least, info->most, &real, err) < 0)
			return -1;
		if (real >= 0)
			p4d_request_put_real(model, option, real, P4D_BY_MODEL);
		return 0;
	}

	if (info->kind == P4D_CHOICE_KIND || info->kind == P4D_TEXT_KIND) {
		if (p4d_json_string(object, key, word, sizeof(word), err) < 0)
			return -1;
		return *word ? p4d_request_set(model, option, word, P4D_BY_MODEL, err) : 0;
	}
	if (p4d_json_integer(object, key, info->min, info->max, &value, err) < 0)
		return -1;
	if (value)
		p4d_request_put(model, option, value, P4D_BY_MODEL);
	return 0;
}

int p4d_model__read_preset(struct json_object *object, p4d_request *model, p4d_preset *preset, p4d_error *err)
{
	static const char *const known[] = {"name",         "aliases", "source", "parameters",
					    "global_batch", "seq_len", NULL};
	int64_t batch = 0, seq_len = 0;

	json_object_object_foreach(object, key, member)
	{
		const char *const *other = known;
		p4d_option option = option_of_key(key);
		(void)member;
		while (*other && strcmp(*other, key))
			other++;
		if (option != P4D_OPTIONS) {
			if (read_option(object, key, option, model, err) < 0)
				return -1;
		} else if (!*other) {
			return p4d_json_unknown_field(key, err);
		}
	}
	if (p4d_json_string(object, "name", preset->name, sizeof(preset->name), err) < 0 ||
	    p4d_json_list(object, "aliases", preset->aliases, sizeof(preset->aliases), err) < 0 ||
	    p4d_json_string(object, "source", preset->source, sizeof(preset->source), err) < 0 ||
	    read_parameters(object, preset, err) < 0 ||
	    p4d_json_integer(object, "global_batch", 1, p4d_request_option_info(P4D_GLOBAL_BATCH)->max,
			     &batch, err) < 0 ||
	    p4d_json_integer(object, "seq_len", 1, p4d_request_option_info(P4D_SEQ_LEN)->max, &seq_len, err) <
		0)
		return -1;
	preset->global_batch = (uint32_t)batch;
	preset->seq_len = (uint32_t)seq_len;
	return 0;
}
