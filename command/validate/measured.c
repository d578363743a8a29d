/* SPDX-License-Identifier: Apache-2.0 */
#include "validate/measured.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"

/* The row being read. */
typedef struct fields {
	const p4d_measured_file *file;
	char *field[P4D_MEASURED_COLUMNS];
	int count;
	p4d_error *err;
} fields;

/* Cuts the next line off the text; false: there is no more. */
static bool next_line(p4d_measured_file *file, char **line)
{
	if (!*file->at)
		return false;
	*line = file->at;
	size_t length = strcspn(file->at, "\n");
	file->at += length;
	if (*file->at)
		*file->at++ = '\0';
	if (length && (*line)[length - 1] == '\r')
		(*line)[length - 1] = '\0';
	file->line++;
	return true;
}

/* Cuts a line into its fields; -1: it has too many. */
static int split(char *line, char *field[P4D_MEASURED_COLUMNS])
{
	int count = 0;

	for (char *at = line; at;) {
		if (count == P4D_MEASURED_COLUMNS)
			return -1;
		bool quoted = *at == '"';
		field[count++] = quoted ? ++at : at;
		char *end = at + strcspn(at, quoted ? "\"" : ",");
		char *comma = quoted && *end ? end + 1 : end;
		at = *comma == ',' ? comma + 1 : NULL;
		*end = '\0';
	}
	return count;
}

static int fail(const p4d_measured_file *file, p4d_error *err, const char *what, const char *column)
{
	return p4d_fail(err, P4D_E_VALUE, "%.200s:%u: %s%.64s", file->name, file->line, what, column);
}

/*
 * Reads the first line, the names of columns. Spreadsheets may write a byte order mark before it, or other
 * separators.
 */
static int read_header(p4d_measured_file *file, p4d_error *err)
{
	static const char mark[] = "\xef\xbb\xbf";
	char *line;

	if (!strncmp(file->at, mark, strlen(mark)))
		file->at += strlen(mark);
	if (!next_line(file, &line))
		return p4d_fail(err, P4D_E_VALUE, "%.200s is empty", file->name);
	const char *other = strchr(line, ';') ? "semicolons" : strchr(line, '\t') ? "tabs" : NULL;
	file->columns = split(line, file->header);
	if (file->columns >= 2)
		return 0;
	if (file->columns == 1 && other)
		return fail(file, err, "commas separate columns, not ", other);
	return fail(
	    file, err,
	    file->columns < 0 ? "too many columns" : "no names of columns, such as row_id,gpu,options", "");
}

int p4d_measured_open(p4d_measured_file *file, const char *name, char *text, p4d_error *err)
{
	*file = (p4d_measured_file){.name = name, .at = text};
	if (read_header(file, err) < 0)
		return p4d_fix(err, "p4d report --rows rows.csv");
	for (int i = 0; i < file->columns; i++)
		if (!strcmp(file->header[i], "step_seconds") ||
		    !strcmp(file->header[i], "tokens_per_s_per_gpu") ||
		    !strcmp(file->header[i], "tflops_per_gpu"))
			file->kind = P4D_MEASURED_THROUGHPUT;
		else if (!strcmp(file->header[i], "options"))
			file->kind = P4D_MEASURED_RUNS;
	return 0;
}

static const char *find(const fields *f, const char *column)
{
	for (int i = 0; i < f->file->columns && i < f->count; i++)
		if (!strcmp(f->file->header[i], column))
			return f->field[i];
	return NULL;
}

/* The text in an optional column; "": there is no such column. */
static const char *text_or_none(const fields *f, const char *column)
{
	const char *text = find(f, column);

	return text ? text : "";
}

static int text_of(const fields *f, const char *column, const char **text)
{
	*text = find(f, column);
	return *text ? 0 : fail(f->file, f->err, "no column ", column);
}

/* Reads a number in a column; an empty field is 0. */
static int number_of(const fields *f, const char *column, double *number)
{
	const char *text;

	*number = 0;
	if (text_of(f, column, &text) < 0)
		return -1;
	if (*text && !p4d_number_real(text, 0, 1e15, number))
		return fail(f->file, f->err, "not a number in column ", column);
	return 0;
}

/* Like number_of, for an optional column. */
static int number_or_none(const fields *f, const char *column, double *number)
{
	*number = 0;
	return find(f, column) ? number_of(f, column, number) : 0;
}

static int set(const fields *f, p4d_request *request, p4d_option option, const char *value)
{
	p4d_error inner;

	if (p4d_request_set(request, option, value, P4D_BY_USER, &inner) < 0)
		return fail(f->file, f->err, "", inner.text);
	return 0;
}

/* Sets options from columns that contain an option's value as users type it. */
static int set_same(const fields *f, p4d_request *request)
{
	static const struct {
		const char *column;
		p4d_option option;
	} same[] = {
	    {"num_layers", P4D_LAYERS},
	    {"hidden", P4D_HIDDEN},
	    {"ffn_hidden", P4D_FFN},
	    {"heads", P4D_HEADS},
	    {"kv_heads", P4D_KV_HEADS},
	    {"head_dim", P4D_HEAD_DIM},
	    {"vocab_padded", P4D_VOCAB},
	    {"seq_len", P4D_SEQ_LEN},
	    {"micro_batch", P4D_MICRO_BATCH},
	    {"tp", P4D_TP},
	    {"pp", P4D_PP},
	    {"cp", P4D_CP},
	    {"vpp", P4D_VPP},
	    {"cross_entropy", P4D_CROSS_ENTROPY},
	};
	const char *text;

	for (size_t i = 0; i < sizeof(same) / sizeof(*same); i++)
		if (text_of(f, same[i].column, &text) < 0 || set(f, request, same[i].option, text) < 0)
			return -1;
	return 0;
}

/* Sets options from columns that contain 1 or 0. */
static int set_flags(const fields *f, p4d_request *request)
{
	static const struct {
		const char *column;
		p4d_option option;
	} flags[] = {
	    {"glu", P4D_GLU},
	    {"tied_embed", P4D_TIED},
	    {"dropout", P4D_DROPOUT},
	    {"te_wgrad", P4D_TE_WGRAD},
	    {"sequence_parallel", P4D_SEQUENCE_PARALLEL},
	    {"dist_opt", P4D_OPTIMIZER_SHARDING},
	};
	const char *text;

	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++)
		if (text_of(f, flags[i].column, &text) < 0 ||
		    set(f, request, flags[i].option, !strcmp(text, "1") ? "on" : "off") < 0)
			return -1;
	return 0;
}

/* Sets options from columns with other words for the value. */
static int set_words(const fields *f, p4d_request *request)
{
	const char *norm, *swiglu, *positions, *recompute;

	if (text_of(f, "norm", &norm) < 0 || text_of(f, "swiglu", &swiglu) < 0 ||
	    text_of(f, "positions", &positions) < 0 || text_of(f, "recompute", &recompute) < 0)
		return -1;
	bool rms = tolower((unsigned char)norm[0]) == 'r',
	     learned = *positions && strcmp(positions, "0") != 0;
	if (set(f, request, P4D_NORM, rms ? "rmsnorm" : "layernorm") < 0 ||
	    set(f, request, P4D_SWIGLU, !strcmp(swiglu, "unfused") ? "unfused" : "fused") < 0 ||
	    set(f, request, P4D_RECOMPUTE, recompute) < 0 ||
	    set(f, request, P4D_POSITIONS, learned ? "learned" : "rope") < 0)
		return -1;
	return learned ? set(f, request, P4D_MAX_SEQ_LEN, positions) : 0;
}

static int set_batch(const fields *f, p4d_request *request)
{
	double global, micro, count, dp;
	char text[32];

	if (number_of(f, "global_batch", &global) < 0 || number_of(f, "micro_batch", &micro) < 0 ||
	    number_of(f, "num_microbatches", &count) < 0 || number_of(f, "dp", &dp) < 0)
		return -1;
	snprintf(text, sizeof(text), "%.0f", global > 0 ? global : micro * count * dp);
	return set(f, request, P4D_GLOBAL_BATCH, text);
}

/* Sets options from columns that older files do not have; defaults are those of Llama-type models in bf16. */
static int set_optional(const fields *f, p4d_request *request)
{
	const char *bias = text_or_none(f, "bias"), *attention = text_or_none(f, "attention"),
		   *precision = text_or_none(f, "precision"), *exchange = text_or_none(f, "cp_comm");

	return set(f, request, P4D_BIAS, *bias ? bias : "none") < 0 ||
		       set(f, request, P4D_ATTENTION,
			   !strncmp(attention, "unfused", strlen("unfused")) ? "unfused"
			   : !strcmp(attention, "flash2")                    ? "flash2"
									     : "flash") < 0 ||
		       set(f, request, P4D_CP_COMM, *exchange ? exchange : "p2p") < 0 ||
		       set(f, request, P4D_PRECISION, *precision ? precision : "bf16") < 0
		   ? -1
		   : 0;
}

/* Sets options from columns with the option's name (_ instead of -); an empty field sets nothing. */
static int set_named(const fields *f, p4d_request *request, const p4d_option *options, size_t count)
{
	char column[32];

	for (size_t i = 0; i < count; i++) {
		snprintf(column, sizeof(column), "%s", p4d_request_option_info(options[i])->name);
		for (char *at = column; *at; at++)
			*at = *at == '-' ? '_' : *at;
		const char *text = text_or_none(f, column);
		if (*text && set(f, request, options[i], text) < 0)
			return -1;
	}
	return 0;
}

/*
 * Sets options from columns that only some files have; an empty field means the default. Files without
 * overlap columns have runs without overlap: Megatron-LM of 2021 and the B200 runs.
 */
static int set_options(const fields *f, p4d_request *request)
{
	static const p4d_option options[] = {P4D_GRAD_DTYPE,       P4D_OPTIMIZER_DTYPE,
					     P4D_ALLOCATOR,        P4D_ACCOUNT_FOR_EMBEDDING,
					     P4D_ACCOUNT_FOR_LOSS, P4D_ACTIVATION,
					     P4D_TP_COMM_OVERLAP,  P4D_OVERLAP_P2P,
					     P4D_OVERLAP_DP,       P4D_EXPERTS,
					     P4D_KV_LORA_RANK,     P4D_Q_LORA_RANK,
					     P4D_ROPE_HEAD_DIM,    P4D_V_HEAD_DIM,
					     P4D_FP8_RECIPE,       P4D_FP8_PARAM_GATHER,
					     P4D_ADAM_COPIES,      P4D_CUDA_GRAPHS},
				of_experts[] = {P4D_EXPERTS_PER_TOKEN,
						P4D_EXPERT_FFN,
						P4D_SHARED_FFN,
						P4D_DENSE_LAYERS,
						P4D_EP,
						P4D_ETP,
						P4D_IMBALANCE,
						P4D_EXPERT_CAPACITY,
						P4D_PAD_EXPERTS,
						P4D_RECOMPUTE_MODULES,
						P4D_SHARED_OVERLAP};

	p4d_request_put(request, P4D_OVERLAP_P2P, 0, P4D_BY_P4D);
	if (set_named(f, request, options, sizeof(options) / sizeof(*options)) < 0)
		return -1;
	/* files have ep=1 for models without experts */
	return p4d_is_set(request, P4D_EXPERTS)
		   ? set_named(f, request, of_experts, sizeof(of_experts) / sizeof(*of_experts))
		   : 0;
}

static int read_shape(const fields *f, p4d_measured *row)
{
	double gpus, per_node;

	if (number_of(f, "n_gpus", &gpus) < 0 || number_or_none(f, "gpus_per_node", &per_node) < 0)
		return -1;
	if (gpus < 1)
		return fail(f->file, f->err, "n_gpus must be above 0", "");
	row->gpus = (uint64_t)gpus;
	/* assumes all GPUs of the job on one node, at most 8, which is the usual number in such files */
	row->gpus_per_node = per_node >= 1 ? (uint64_t)per_node : row->gpus < 8 ? row->gpus : 8;
	snprintf(row->request.model, sizeof(row->request.model), "%s", row->id);
	p4d_request_put(&row->request, P4D_MODEL, 1, P4D_BY_USER);
	p4d_request_put(&row->request, P4D_FRAMEWORK, P4D_FRAMEWORK_MEGATRON, P4D_BY_USER);
	p4d_request_put(&row->request, P4D_QK_NORM, 0, P4D_BY_USER);
	/* runs of NeMo, Megatron Bridge and SimuMax make no attention mask, and the mask of runs of 2021
	 * is small */
	p4d_request_put(&row->request, P4D_ATTENTION_MASK, 0, P4D_BY_USER);
	return set_same(f, &row->request) < 0 || set_flags(f, &row->request) < 0 ||
		       set_words(f, &row->request) < 0 || set_optional(f, &row->request) < 0 ||
		       set_options(f, &row->request) < 0 || set_batch(f, &row->request) < 0
		   ? -1
		   : 0;
}

static int read_memory(const fields *f, p4d_measured *row)
{
	row->partly_given = *text_or_none(f, "not_given");
	if (number_of(f, "measured_gib", &row->allocated_gib) < 0 ||
	    number_of(f, "measured_reserved_gib", &row->reserved_gib) < 0)
		return -1;
	return row->allocated_gib > 0 ? 0 : fail(f->file, f->err, "measured_gib must be above 0", "");
}

static int read_throughput(const fields *f, p4d_measured *row)
{
	if (number_or_none(f, "step_seconds", &row->step_seconds) < 0 ||
	    number_or_none(f, "tokens_per_s_per_gpu", &row->tokens_per_second_per_gpu) < 0 ||
	    number_or_none(f, "tflops_per_gpu", &row->tflops_per_gpu) < 0 ||
	    number_or_none(f, "net_gb_per_s", &row->net_gb_per_s) < 0)
		return -1;
	const char *count = text_or_none(f, "tflops_count");
	row->tflops_of_hardware = !strcmp(count, "hardware");
	if (row->step_seconds > 0 || row->tokens_per_second_per_gpu > 0)
		return 0;
	if (row->tflops_per_gpu <= 0)
		return fail(f->file, f->err, "neither time, tokens nor TFLOP/s were measured", "");
	if (!row->tflops_of_hardware && strcmp(count, "model"))
		return fail(f->file, f->err, "neither hardware nor model in column ", "tflops_count");
	return 0;
}

/* Whether p4d supports a row's precision; "" means bf16. */
static bool is_modelled(const fields *f, p4d_measured *row)
{
	const char *precision = text_or_none(f, "precision");
	p4d_request any = {.model = ""};

	if (!*precision || p4d_request_set(&any, P4D_PRECISION, precision, P4D_BY_USER, NULL) == 0)
		return true;
	snprintf(row->unmodelled, sizeof(row->unmodelled), "precision %.40s", precision);
	return false;
}

/* Fills the request of a run that ran out of memory, or row->unmodelled if p4d cannot check it. */
static void read_death(const fields *f, p4d_measured *row)
{
	const char *class = text_or_none(f, "class");
	fields quiet = *f;
	p4d_measured known = *row;

	quiet.err = NULL;
	if (*class && strcmp(class, "dense") && strcmp(class, "fp8"))
		snprintf(row->unmodelled, sizeof(row->unmodelled), "%.40s is not modelled", class);
	else if (!*row->unmodelled && read_shape(&quiet, &known) < 0)
		snprintf(row->unmodelled, sizeof(row->unmodelled), "inputs are missing");
	else if (!*row->unmodelled)
		*row = known;
}

/* Whether quantity `what` belongs to an inference engine: its start, or its speed. */
static bool is_of_engine(const char *what)
{
	static const char *const known[] = {"weights",      "cache",    "tokens",
					    "tokens_per_s", "first_ms", "between_ms"};

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (!strcmp(what, known[i]))
			return true;
	return false;
}

/* Reads a run described by p4d's own options. */
static int read_run(const fields *f, p4d_measured *row)
{
	const char *options, *what, *class;

	if (text_of(f, "options", &options) < 0 || text_of(f, "what", &what) < 0 ||
	    text_of(f, "class", &class) < 0)
		return -1;
	if (strlen(options) >= sizeof(row->options))
		return fail(f->file, f->err, "too long in column ", "options");
	snprintf(row->options, sizeof(row->options), "%s", options);
	snprintf(row->what, sizeof(row->what), "%s", what);
	snprintf(row->class, sizeof(row->class), "%s", class);
	row->seen = *text_or_none(f, "seen");
	snprintf(row->user, sizeof(row->user), "%s", text_or_none(f, "user"));
	snprintf(row->date, sizeof(row->date), "%s", text_or_none(f, "date"));
	snprintf(row->slurm, sizeof(row->slurm), "%s", text_or_none(f, "slurm"));
	snprintf(row->driver, sizeof(row->driver), "%s", text_or_none(f, "driver"));
	row->oom = row->complete && !strcmp(text_or_none(f, "oom"), "1");
	if (!row->complete || row->oom) {
		row->complete = false;
		return 0;
	}
	row->serves = is_of_engine(what);
	const bool seconds = !strcmp(what, "step_s");
	if (!row->serves && !seconds && strcmp(what, "allocated") && strcmp(what, "reserved") &&
	    strcmp(what, "device"))
		return fail(
		    f->file, f->err,
		    "neither allocated, reserved, device, step_s, weights, cache, tokens, tokens_per_s, "
		    "first_ms nor between_ms in column ",
		    "what");
	const char *column = row->serves || seconds ? "measured" : "measured_gib";
	if (number_of(f, column, &row->allocated_gib) < 0)
		return -1;
	return row->allocated_gib > 0 ? 0 : fail(f->file, f->err, "not above 0 in column ", column);
}

static int read_fields(const fields *f, p4d_measured *row)
{
	const char *id, *gpu, *complete;

	if (text_of(f, "row_id", &id) < 0 || text_of(f, "gpu", &gpu) < 0 ||
	    text_of(f, "validate", &complete) < 0)
		return -1;
	snprintf(row->id, sizeof(row->id), "%s", id);
	snprintf(row->model, sizeof(row->model), "%s", text_or_none(f, "model"));
	snprintf(row->gpu, sizeof(row->gpu), "%s", gpu);
	if (f->file->kind == P4D_MEASURED_RUNS) {
		row->complete = !strcmp(complete, "1");
		return read_run(f, row);
	}
	row->complete = is_modelled(f, row) && !strcmp(complete, "1");
	row->oom = !row->complete && !strcmp(text_or_none(f, "oom"), "1");
	if (row->oom)
		read_death(f, row);
	if (!row->complete)
		return 0;
	int rc = f->file->kind == P4D_MEASURED_THROUGHPUT ? read_throughput(f, row) : read_memory(f, row);
	return rc < 0 ? -1 : read_shape(f, row);
}

int p4d_measured_next(p4d_measured_file *file, p4d_measured *row, p4d_error *err)
{
	fields f = {.file = file, .err = err};
	p4d_measured result = {.complete = false};
	char *line;

	do {
		if (!next_line(file, &line))
			return 0;
	} while (!*line);
	f.count = split(line, f.field);
	if (f.count != file->columns)
		return fail(file, err, "number of fields differs from the header", "");
	if (read_fields(&f, &result) < 0)
		return -1;
	*row = result;
	return 1;
}
