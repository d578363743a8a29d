/* SPDX-License-Identifier: Apache-2.0 */
/* Reads fields of hybrid families' config.json: which layers have attention, and the sizes of the other
 * layers. */
#include <stdio.h>
#include <string.h>

#include "base/json_file.h"
#include "model/model_hf.h"

static void choose(p4d_request *model, p4d_option option, int64_t value)
{
	p4d_request_put(model, option, value, P4D_BY_MODEL);
}

/* A number of config.json, with the value if it is absent; 0: unset. */
typedef struct number {
	const char *key;
	p4d_option option;
	int64_t otherwise;
} number;

static int read_sizes(struct json_object *config, const number *sizes, size_t count, p4d_request *model,
		      p4d_error *err)
{
	for (size_t i = 0; i < count; i++) {
		const p4d_option_info *info = p4d_request_option_info(sizes[i].option);
		int64_t value = sizes[i].otherwise;
		if (p4d_json_integer(config, sizes[i].key, 0, info->max, &value, err) < 0)
			return -1;
		if (value)
			choose(model, sizes[i].option, value);
	}
	return 0;
}

/* Whether repeating the first `period` letters gives all letters. */
static bool repeats(const char *letters, size_t count, size_t period)
{
	for (size_t i = period; i < count; i++)
		if (letters[i] != letters[i - period])
			return false;
	return count % period == 0;
}

/* The pattern without repetitions. p4d does not model one that is too long. */
static void put_pattern(p4d_request *model, const char *letters, size_t count)
{
	size_t period = 1;

	while (period < count && !repeats(letters, count, period))
		period++;
	if (!count || period >= sizeof(model->layer_pattern)) {
		snprintf(model->unmodelled, sizeof(model->unmodelled), "a pattern of %zu layers", count);
		return;
	}
	memset(model->layer_pattern, 0, sizeof(model->layer_pattern));
	memcpy(model->layer_pattern, letters, period);
	choose(model, P4D_LAYER_PATTERN, 1);
}

/*
 * The letter of a layer, from its name in the library's current or former words. state: the letter of layers
 * with a state.
 */
static char letter_of(const char *name, char state)
{
	static const struct {
		const char *name;
		char letter; /* 0: the letter `state` */
	} names[] = {{"full_attention", '*'},
		     {"attention", '*'},
		     {"linear_attention", 0},
		     {"mamba", 0},
		     {"conv", 0},
		     {"mlp", '-'},
		     {"moe", 'E'}};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(names[i].name, name))
			return names[i].letter ? names[i].letter : state;
	return '\0';
}

/* Reads a list with a name for each layer. *found: the field exists. */
static int read_list(struct json_object *config, char state, p4d_request *model, bool *found, p4d_error *err)
{
	struct json_object *list = json_object_object_get(config, "layer_types");
	char letters[1024];
	size_t count = 0;

	if (!list)
		list = json_object_object_get(config, "layers_block_type");
	*found = json_object_is_type(list, json_type_array);
	if (!*found)
		return 0;
	for (; count < json_object_array_length(list); count++) {
		const char *name = json_object_get_string(json_object_array_get_idx(list, count));
		const char letter = name ? letter_of(name, state) : '\0';
		if (!letter || count == sizeof(letters))
			return p4d_fail(err, P4D_E_JSON, "\"layer_types\": layer %zu is %.40s", count,
					name ? name : "null");
		letters[count] = letter;
	}
	put_pattern(model, letters, count);
	p4d_request_default(model, P4D_LAYERS, (int64_t)count, P4D_BY_MODEL);
	return 0;
}

static void forget_experts(p4d_request *model)
{
	static const p4d_option of_experts[] = {P4D_EXPERTS, P4D_EXPERTS_PER_TOKEN, P4D_EXPERT_FFN,
						P4D_SHARED_FFN};

	for (size_t i = 0; i < sizeof(of_experts) / sizeof(*of_experts); i++) {
		model->value[of_experts[i]] = 0;
		model->origin[of_experts[i]] = P4D_UNSET;
	}
}

/* Writes a pattern in which one of `period` layers has attention. */
static void put_period(p4d_request *model, int64_t period, int64_t offset, char state)
{
	char letters[P4D_PATTERN_SIZE];

	if (period >= P4D_PATTERN_SIZE) {
		snprintf(model->unmodelled, sizeof(model->unmodelled), "attention in one of %lld layers",
			 (long long)period);
		return;
	}
	memset(letters, state, (size_t)period);
	letters[offset] = '*';
	put_pattern(model, letters, (size_t)period);
}

int p4d_model__own_nemotron_h(struct json_object *config, p4d_request *model, p4d_error *err)
{
	static const number sizes[] = {{"ssm_state_size", P4D_STATE_SIZE, 128},
				       {"mamba_num_heads", P4D_STATE_HEADS, 128},
				       {"mamba_head_dim", P4D_STATE_HEAD_DIM, 64},
				       {"n_groups", P4D_STATE_GROUPS, 8},
				       {"conv_kernel", P4D_STATE_CONV, 4},
				       {"chunk_size", P4D_STATE_CHUNK, 128},
				       {"moe_shared_expert_intermediate_size", P4D_SHARED_FFN, 7688}};
	char letters[1024] = "";
	double epsilon = 1e-5;
	int64_t latent = 0;
	bool found;

	if (p4d_json_string(config, "hybrid_override_pattern", letters, sizeof(letters), err) < 0 ||
	    p4d_json_number(config, "layer_norm_epsilon", 0, 0.1, &epsilon, err) < 0 ||
	    p4d_json_integer(config, "moe_latent_size", 0, 1 << 20, &latent, err) < 0 ||
	    read_sizes(config, sizes, sizeof(sizes) / sizeof(*sizes), model, err) < 0 ||
	    read_list(config, 'M', model, &found, err) < 0)
		return -1;
	p4d_request_put_real(model, P4D_NORM_EPSILON, epsilon, P4D_BY_MODEL);
	if (!found) {
		put_pattern(model, letters, strlen(letters));
		choose(model, P4D_LAYERS, (int64_t)strlen(letters));
	}
	if (latent)
		snprintf(model->unmodelled, sizeof(model->unmodelled),
			 "NemotronHForCausalLM: experts of a lower rank (moe_latent_size=%lld)",
			 (long long)latent);
	if (strchr(model->layer_pattern, 'E'))
		return 0;
	forget_experts(model); /* the class has defaults for experts, which this file does not use */
	return 0;
}

int p4d_model__own_qwen3_next(struct json_object *config, p4d_request *model, p4d_error *err)
{
	static const number sizes[] = {{"linear_key_head_dim", P4D_STATE_SIZE, 128},
				       {"linear_num_value_heads", P4D_STATE_HEADS, 32},
				       {"linear_value_head_dim", P4D_STATE_HEAD_DIM, 128},
				       {"linear_num_key_heads", P4D_STATE_GROUPS, 16},
				       {"linear_conv_kernel_dim", P4D_STATE_CONV, 4}};
	struct json_object *dense = json_object_object_get(config, "mlp_only_layers");
	int64_t period = 4, every = 1;
	bool found;

	if (p4d_json_integer(config, "full_attention_interval", 1, 65536, &period, err) < 0 ||
	    p4d_json_integer(config, "decoder_sparse_step", 1, 65536, &every, err) < 0 ||
	    read_sizes(config, sizes, sizeof(sizes) / sizeof(*sizes), model, err) < 0 ||
	    read_list(config, 'G', model, &found, err) < 0)
		return -1;
	if (every != 1 || (json_object_is_type(dense, json_type_array) && json_object_array_length(dense)))
		snprintf(model->unmodelled, sizeof(model->unmodelled),
			 "experts in some of the layers (decoder_sparse_step, mlp_only_layers)");
	if (!found)
		put_period(model, period, period - 1, 'G');
	return 0;
}

int p4d_model__own_jamba(struct json_object *config, p4d_request *model, p4d_error *err)
{
	const int64_t hidden = model->value[P4D_HIDDEN] ? model->value[P4D_HIDDEN] : 4096;
	const number sizes[] = {
	    {"mamba_d_state", P4D_STATE_SIZE, 16},
	    {"mamba_d_conv", P4D_STATE_CONV, 4},
	    /* the field may be "auto" instead of a number */
	    {json_object_is_type(json_object_object_get(config, "mamba_dt_rank"), json_type_int)
		 ? "mamba_dt_rank"
		 : "",
	     P4D_STATE_RANK, (hidden + 15) / 16}};
	int64_t period = 8, offset = 4, every = 2, first = 1, expand = 2;

	if (p4d_json_integer(config, "attn_layer_period", 1, 65536, &period, err) < 0 ||
	    p4d_json_integer(config, "attn_layer_offset", 0, 65535, &offset, err) < 0 ||
	    p4d_json_integer(config, "expert_layer_period", 1, 65536, &every, err) < 0 ||
	    p4d_json_integer(config, "expert_layer_offset", 0, 65535, &first, err) < 0 ||
	    p4d_json_integer(config, "mamba_expand", 1, 64, &expand, err) < 0 ||
	    read_sizes(config, sizes, sizeof(sizes) / sizeof(*sizes), model, err) < 0)
		return -1;
	if (offset >= period || first != every - 1) {
		snprintf(model->unmodelled, sizeof(model->unmodelled),
			 "JambaForCausalLM: attention in layer %lld of %lld, experts in %lld of %lld",
			 (long long)offset, (long long)period, (long long)first, (long long)every);
		return 0;
	}
	choose(model, P4D_STATE_HEADS, expand * hidden);
	put_period(model, period, offset, 'S');
	if (model->value[P4D_EXPERTS] == 1) /* one expert means a dense layer */
		forget_experts(model);
	else if (every > 1)
		choose(model, P4D_EXPERT_EVERY, every);
	return 0;
}

/* Reads the list of layers with attention. All other layers get the letter `state`. */
static int put_attending(struct json_object *config, const char *key, char state, p4d_request *model,
			 p4d_error *err)
{
	struct json_object *list = json_object_object_get(config, key);
	char letters[1024];
	const int64_t layers = model->value[P4D_LAYERS];

	if (layers < 1 || (size_t)layers > sizeof(letters))
		return 0;
	memset(letters, state, (size_t)layers);
	for (size_t i = 0; json_object_is_type(list, json_type_array) && i < json_object_array_length(list);
	     i++) {
		const int64_t layer = json_object_get_int64(json_object_array_get_idx(list, i));
		if (layer < 0 || layer >= layers)
			return p4d_fail(err, P4D_E_JSON, "\"%s\": there is no layer %lld", key,
					(long long)layer);
		letters[layer] = '*';
	}
	put_pattern(model, letters, (size_t)layers);
	return 0;
}

/* The feed-forward width is two thirds of the value in the file, times a factor, rounded up to whole
 * blocks; unless the file says that the value is not adjusted. */
static int read_adjusted_width(struct json_object *config, p4d_request *model, p4d_error *err)
{
	int64_t width = model->value[P4D_FFN], unit = 256;
	double factor = 1;
	bool adjusted = true;

	if (p4d_json_integer(config, "block_ff_dim", 1, 1 << 23, &width, err) < 0 ||
	    p4d_json_integer(config, "block_multiple_of", 1, 1 << 20, &unit, err) < 0 ||
	    p4d_json_number(config, "block_ffn_dim_multiplier", 0, 64, &factor, err) < 0 ||
	    p4d_json_boolean(config, "block_auto_adjust_ff_dim", &adjusted, err) < 0)
		return -1;
	if (adjusted) {
		width = (int64_t)(factor * (double)(2 * width / 3));
		width = (width + unit - 1) / unit * unit;
	}
	if (width > 0)
		choose(model, P4D_FFN, width);
	return 0;
}

/* Reads layer_types or, in earlier files, the indices of layers with attention. */
int p4d_model__own_lfm2(struct json_object *config, p4d_request *model, p4d_error *err)
{
	static const number sizes[] = {{"conv_L_cache", P4D_STATE_CONV, 3}};
	bool found, biased = false;

	if (read_adjusted_width(config, model, err) < 0 ||
	    read_sizes(config, sizes, sizeof(sizes) / sizeof(*sizes), model, err) < 0 ||
	    p4d_json_boolean(config, "conv_bias", &biased, err) < 0 ||
	    read_list(config, 'C', model, &found, err) < 0)
		return -1;
	if (biased)
		snprintf(model->unmodelled, sizeof(model->unmodelled), "Lfm2ForCausalLM: conv_bias=true");
	if (!found && !json_object_is_type(json_object_object_get(config, "full_attn_idxs"), json_type_array))
		put_pattern(model, "*", 1);
	else if (!found)
		return put_attending(config, "full_attn_idxs", 'C', model, err);
	return 0;
}

/* Reads the Mamba-2 mixer that Bamba and Granite 4 share. */
static int read_mamba2(struct json_object *config, p4d_request *model, p4d_error *err)
{
	const bool automatic =
	    !json_object_is_type(json_object_object_get(config, "mamba_d_head"), json_type_int);
	const number sizes[] = {{"mamba_d_state", P4D_STATE_SIZE, 256},
				{"mamba_n_heads", P4D_STATE_HEADS, 128},
				{automatic ? "" : "mamba_d_head", P4D_STATE_HEAD_DIM, 0},
				{"mamba_n_groups", P4D_STATE_GROUPS, 1},
				{"mamba_d_conv", P4D_STATE_CONV, 4},
				{"mamba_chunk_size", P4D_STATE_CHUNK, 256}};
	int64_t expand = 2;

	if (p4d_json_integer(config, "mamba_expand", 1, 64, &expand, err) < 0 ||
	    read_sizes(config, sizes, sizeof(sizes) / sizeof(*sizes), model, err) < 0)
		return -1;
	const int64_t head = expand * model->value[P4D_HIDDEN] / model->value[P4D_STATE_HEADS];
	if (automatic && head)
		choose(model, P4D_STATE_HEAD_DIM, head);
	return 0;
}

int p4d_model__own_bamba(struct json_object *config, p4d_request *model, p4d_error *err)
{
	bool found;

	if (read_mamba2(config, model, err) < 0 || read_list(config, 'M', model, &found, err) < 0)
		return -1;
	return found ? 0 : put_attending(config, "attn_layer_indices", 'M', model, err);
}

/* If there are no routed experts, the shared experts are the feed-forward part. */
int p4d_model__own_granite_hybrid(struct json_object *config, p4d_request *model, p4d_error *err)
{
	int64_t width = 1024, experts = 8;
	char positions[32] = "";
	bool found;

	if (p4d_json_integer(config, "shared_intermediate_size", 0, 1 << 23, &width, err) < 0 ||
	    p4d_json_integer(config, "num_local_experts", 0, 65536, &experts, err) < 0 ||
	    p4d_json_string(config, "position_embedding_type", positions, sizeof(positions), err) < 0 ||
	    read_mamba2(config, model, err) < 0 || read_list(config, 'M', model, &found, err) < 0)
		return -1;
	if (!found)
		put_pattern(model, "M", 1);
	if (!strcmp(positions, "rope"))
		choose(model, P4D_POSITIONS, P4D_ROPE);
	if (experts > 0) {
		choose(model, P4D_EXPERTS, experts);
		choose(model, P4D_EXPERT_FFN, model->value[P4D_FFN]);
		if (width)
			choose(model, P4D_SHARED_FFN, width);
		return 0;
	}
	forget_experts(model);
	if (width)
		choose(model, P4D_FFN, width);
	return 0;
}
