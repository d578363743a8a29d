/* SPDX-License-Identifier: Apache-2.0 */
/* The tokens of samples: each token once per pass, in random order, and the same in every layout. */
#include "support/support.h"

#include "data/blend.h"
#include "data/sampler.h"
#include "support/token_files.h"

/* A token's number is document * PLACES + place, so it shows where the token comes from. */
enum { DOCUMENTS = 200, PLACES = 1000, VOCABULARY = DOCUMENTS * PLACES, SEQ_LEN = 32 };

/* With a mask, every third token is not trained on. */
static bool is_masked(int32_t token)
{
	return token % 3 == 0;
}

static void write_documents(const char *name, int documents, uint64_t seed, bool masked)
{
	p4d_tokens_writer writer = {0};
	p4d_error err;
	int32_t text[120];

	assert_int_equal(p4d_tokens_writer_open(&writer, in_directory(name), VOCABULARY, masked, false, &err),
			 0);
	for (int d = 0; d < documents; d++) {
		uint64_t count = 1 + next_random(&seed) % 120;
		for (uint64_t i = 0; i < count; i++)
			text[i] = (int32_t)(d * PLACES + (int)i);
		for (uint64_t i = 0; masked && i < count; i++) {
			writer.trains = !is_masked(text[i]);
			assert_int_equal(p4d_tokens_writer_add(&writer, &text[i], 1, &err), 0);
		}
		assert_int_equal(p4d_tokens_writer_add(&writer, text, masked ? 0 : count, &err), 0);
		assert_int_equal(p4d_tokens_writer_end(&writer, &err), 0);
	}
	assert_int_equal(p4d_tokens_writer_close(&writer, &err), 0);
}

static int set_up(void **state)
{
	if (make_directory(state) < 0)
		return -1;
	write_documents("a", DOCUMENTS, 1, false);
	write_documents("b", DOCUMENTS, 2, false);
	write_documents("single", 1, 3, false);
	write_documents("masked", DOCUMENTS, 1, true);
	return 0;
}

static const p4d_sampler_options usual = {
    .seed = 42, .seq_len = SEQ_LEN, .tokens = {VOCABULARY, P4D_NO_DELIMITER}, .boundaries = true};

static p4d_sampler *open_with(const char *blend, const p4d_sampler_options *options)
{
	p4d_sampler *sampler;
	p4d_error err;

	if (p4d_sampler_open(&sampler, blend, options, &err) < 0)
		fail_msg("%s", err.text);
	return sampler;
}

static void fill(p4d_sampler *sampler, uint64_t first, uint64_t count, uint64_t rank, uint64_t cp,
		 const p4d_samples *out)
{
	p4d_error err;

	if (p4d_sampler_fill(sampler, first, count, rank, cp, out, &err) < 0)
		fail_msg("%s", err.text);
}

/* A batch with all arrays that a caller can request. */
typedef struct batch {
	int32_t tokens[64 * SEQ_LEN], labels[64 * SEQ_LEN], positions[64 * SEQ_LEN], documents[64 * SEQ_LEN];
} batch;

static p4d_samples all_of(batch *b)
{
	return (p4d_samples){b->tokens, b->labels, b->positions, b->documents};
}

/* In a pass, each token is an input at most once. Only the remainder, which does not fill a sample, is
 * missing. */
static void a_pass_sees_each_token_once(void **state)
{
	static unsigned seen[VOCABULARY];
	p4d_sampler *sampler = open_with(in_directory("a"), &usual);
	uint64_t samples = p4d_sampler_samples(sampler), tokens = p4d_sampler_tokens(sampler);
	static batch b;
	p4d_samples out = all_of(&b);

	(void)state;
	assert_true(samples == (tokens - 1) / SEQ_LEN && samples > 300);
	for (uint64_t pass = 0; pass < 3; pass++) {
		uint64_t distinct = 0;
		memset(seen, 0, sizeof(seen));
		for (uint64_t k = 0; k < samples; k++) {
			fill(sampler, pass * samples + k, 1, 0, 1, &out);
			for (int i = 0; i < SEQ_LEN; i++)
				distinct += !seen[b.tokens[i]]++;
		}
		assert_int_equal(distinct, samples * SEQ_LEN);
	}
	p4d_sampler_close(sampler);
}

/* Compares labels, positions and documents of a sample with those that its tokens encode. */
static void check_sample(const batch *b, const p4d_sampler_options *options)
{
	int32_t ordinal = 0, start = 0;

	for (int i = 0; i < SEQ_LEN; i++) {
		bool follows = i > 0 && b->tokens[i] == b->tokens[i - 1] + 1;
		if (i > 0 && !follows) {
			/* a document begins at its first token */
			assert_int_equal(b->tokens[i] % PLACES, 0);
			ordinal++;
			start = i;
		}
		assert_int_equal(b->documents[i], options->boundaries ? ordinal : 0);
		assert_int_equal(b->positions[i], options->reset_positions ? i - start : i);
		if (i > 0)
			assert_int_equal(b->labels[i - 1],
					 options->boundaries && !follows ? -1 : b->tokens[i]);
	}
	/* the last label is the token after the sample */
	int32_t last = b->labels[SEQ_LEN - 1];
	assert_true(last == b->tokens[SEQ_LEN - 1] + 1 ||
		    (options->boundaries ? last == -1 : last % PLACES == 0));
}

static void samples_are_documents_in_a_row(void **state)
{
	static batch b;
	p4d_samples out = all_of(&b);

	(void)state;
	for (int form = 0; form < 4; form++) {
		p4d_sampler_options options = usual;
		options.boundaries = form & 1;
		options.reset_positions = form & 2;
		p4d_sampler *sampler = open_with(in_directory("a"), &options);
		uint64_t trained = 0;
		for (uint64_t k = 0; k < 1000; k++) {
			fill(sampler, k, 1, 0, 1, &out);
			check_sample(&b, &options);
			for (int i = 0; i < SEQ_LEN; i++)
				trained += b.labels[i] >= 0;
		}
		assert_true(options.boundaries ? trained < 1000 * SEQ_LEN : trained == 1000 * SEQ_LEN);
		p4d_sampler_close(sampler);
	}
}

/* For each third token, the label is masked; the samples are otherwise the same. */
static void masked_labels_are_none(void **state)
{
	p4d_sampler *plain = open_with(in_directory("a"), &usual),
		    *masked = open_with(in_directory("masked"), &usual);
	static batch one, other;
	const p4d_samples to_one = all_of(&one), to_other = all_of(&other);
	uint64_t none = 0, one_hash, other_hash;

	(void)state;
	assert_true(p4d_sampler_is_masked(in_directory("masked")));
	assert_false(p4d_sampler_is_masked(in_directory("a")));
	for (uint64_t k = 0; k < 500; k++) {
		fill(plain, k, 1, 0, 1, &to_one);
		fill(masked, k, 1, 0, 1, &to_other);
		assert_memory_equal(one.tokens, other.tokens, SEQ_LEN * sizeof(*one.tokens));
		for (int i = 0; i < SEQ_LEN; i++) {
			const bool hidden = one.labels[i] >= 0 && is_masked(one.labels[i]);
			assert_int_equal(other.labels[i], hidden ? -1 : one.labels[i]);
			none += hidden;
		}
	}
	assert_true(none > 500 * SEQ_LEN / 4);
	assert_int_equal(p4d_sampler_hash(plain, &one_hash, NULL), 0);
	assert_int_equal(p4d_sampler_hash(masked, &other_hash, NULL), 0);
	assert_true(one_hash != other_hash);
	p4d_sampler_close(plain);
	p4d_sampler_close(masked);
}

/* A sequence has only whole documents, except a document that is longer than a sequence. A pass has each
 * document once. */
static void packed_documents_are_whole(void **state)
{
	p4d_sampler_options options = usual;
	static batch b, again;
	const p4d_samples out = all_of(&b), parts = all_of(&again);
	static unsigned seen[DOCUMENTS], lengths[DOCUMENTS];

	(void)state;
	options.packed = options.reset_positions = true;
	p4d_sampler *sampler = open_with(in_directory("masked"), &options);
	const p4d_sampler_packing packing = p4d_sampler_packing_of(sampler);
	const uint64_t samples = p4d_sampler_samples(sampler);
	assert_int_equal(packing.sequences, samples);
	assert_true(packing.longest > 2 * SEQ_LEN && packing.cut > 50);
	for (uint64_t pass = 0; pass < 2; pass++) {
		uint64_t tokens = 0;
		memset(seen, 0, sizeof(seen));
		for (uint64_t k = 0; k < samples; k++) {
			int start = 0;
			fill(sampler, pass * samples + k, 1, 0, 1, &out);
			for (int i = 0; i < SEQ_LEN; i++) {
				start = i && b.documents[i] != b.documents[i - 1] ? i : start;
				const int32_t document = b.tokens[start] / PLACES;
				const bool padding = b.tokens[i] == 0 && b.labels[i] < 0 && start > 0 &&
						     b.tokens[SEQ_LEN - 1] == 0;
				assert_int_equal(b.positions[i], i - start);
				if (padding)
					continue;
				assert_int_equal(b.tokens[i], document * PLACES + i - start);
				const bool ends = i + 1 == SEQ_LEN || b.documents[i + 1] != b.documents[i];
				const int32_t next = b.tokens[i] + 1;
				assert_int_equal(b.labels[i], ends || is_masked(next) ? -1 : next);
				seen[document] += start == i;
				lengths[document] += pass == 0;
				tokens++;
			}
			/* with context parallelism over two ranks, a rank has its chunks of the whole
			 * sequence */
			fill(sampler, pass * samples + k, 1, 1, 2, &parts);
			assert_memory_equal(again.labels, b.labels + SEQ_LEN / 4,
					    SEQ_LEN / 2 * sizeof(*b.labels));
		}
		assert_int_equal(tokens, packing.tokens);
		for (int d = 0; d < DOCUMENTS; d++)
			assert_int_equal(seen[d], 1);
	}
	assert_true(packing.tokens > samples * SEQ_LEN * 3 / 4);
	p4d_sampler_close(sampler);
}

/* Copies a rank's part of a sample to its places in the whole sequence. */
static void scatter(int32_t *to, const int32_t *part, uint64_t rank, uint64_t cp)
{
	uint64_t length = cp > 1 ? SEQ_LEN / (2 * cp) : SEQ_LEN;

	memcpy(to + rank * length, part, length * sizeof(*to));
	if (cp > 1)
		memcpy(to + (2 * cp - 1 - rank) * length, part + length, length * sizeof(*to));
}

static void scatter_all(batch *whole, const batch *part, uint64_t sample, uint64_t row, uint64_t rank,
			uint64_t cp)
{
	uint64_t to = sample * SEQ_LEN, from = row * (SEQ_LEN / cp);

	scatter(whole->tokens + to, part->tokens + from, rank, cp);
	scatter(whole->labels + to, part->labels + from, rank, cp);
	scatter(whole->positions + to, part->positions + from, rank, cp);
	scatter(whole->documents + to, part->documents + from, rank, cp);
}

/* For each layout, the batches of all ranks and micro-batches together are the batch of one rank. */
static void layouts_see_the_same_batch(void **state)
{
	enum { GLOBAL = 16, CONSUMED = 740 };
	static const uint64_t sizes[] = {1, 2, 4};
	static batch expected, whole, part;
	p4d_samples out = all_of(&expected);
	p4d_sampler_options options = usual;
	char blend[400];

	(void)state;
	options.reset_positions = true;
	snprintf(blend, sizeof(blend), "0.7 %s 0.3 %s", in_directory("a"), in_directory("b"));
	p4d_sampler *one = open_with(blend, &options);
	fill(one, CONSUMED, GLOBAL, 0, 1, &out);
	for (uint64_t dp = 1; dp <= 8; dp *= 2)
		for (uint64_t cp = 1; cp <= 8; cp *= 2)
			for (int s = 0; s < 3; s++) {
				uint64_t size = sizes[s], micro_batches = GLOBAL / dp / size;
				if (GLOBAL % (dp * size))
					continue;
				memset(&whole, 0xee, sizeof(whole));
				for (uint64_t rank = 0; rank < dp * cp; rank++) {
					p4d_sampler *sampler = open_with(blend, &options);
					for (uint64_t m = 0; m < micro_batches; m++) {
						uint64_t first =
						    p4d_first_sample(CONSUMED, m, size, rank / cp, dp);
						out = all_of(&part);
						fill(sampler, first, size, rank % cp, cp, &out);
						for (uint64_t i = 0; i < size; i++)
							scatter_all(&whole, &part, first - CONSUMED + i, i,
								    rank % cp, cp);
					}
					p4d_sampler_close(sampler);
				}
				size_t length = GLOBAL * SEQ_LEN * sizeof(int32_t);
				assert_memory_equal(whole.tokens, expected.tokens, length);
				assert_memory_equal(whole.labels, expected.labels, length);
				assert_memory_equal(whole.positions, expected.positions, length);
				assert_memory_equal(whole.documents, expected.documents, length);
			}
	p4d_sampler_close(one);
}

/* A sample does not depend on the samples that were read before it. */
static void samples_have_no_history(void **state)
{
	static batch forward[8], other;
	static const uint64_t numbers[8] = {0, 1, 399, 400, 401, 5000, 100000, (uint64_t)1 << 40};
	p4d_sampler *sampler = open_with(in_directory("a"), &usual);
	p4d_samples out;

	(void)state;
	for (int i = 0; i < 8; i++) {
		out = all_of(&forward[i]);
		fill(sampler, numbers[i], 1, 0, 1, &out);
	}
	out = all_of(&other);
	for (int i = 8; i-- > 0;) {
		p4d_sampler *fresh = open_with(in_directory("a"), &usual);
		fill(fresh, numbers[i], 1, 0, 1, &out);
		assert_memory_equal(other.tokens, forward[i].tokens, SEQ_LEN * sizeof(int32_t));
		p4d_sampler_close(fresh);
		fill(sampler, numbers[i], 1, 0, 1, &out);
		assert_memory_equal(other.labels, forward[i].labels, SEQ_LEN * sizeof(int32_t));
	}
	p4d_sampler_close(sampler);
}

/* Samples with other data, order, weights or split have another hash. */
static void hashes_tell_apart(void **state)
{
	enum { KINDS = 8 };
	p4d_sampler_options options[KINDS];
	char blend[KINDS][600];
	uint64_t hash[KINDS];

	(void)state;
	for (int i = 0; i < KINDS; i++) {
		options[i] = usual;
		snprintf(blend[i], sizeof(blend[i]), "%s", in_directory(i == 1 ? "b" : "a"));
	}
	options[2].seed++;
	options[3].seq_len /= 2;
	options[4].validation = 0.2;
	options[5].boundaries = false;
	snprintf(blend[6], sizeof(blend[6]), "1 %s", in_directory("a"));
	snprintf(blend[6] + strlen(blend[6]), 300, " 2 %s", in_directory("b"));
	snprintf(blend[7], sizeof(blend[7]), "2 %s", in_directory("a"));
	snprintf(blend[7] + strlen(blend[7]), 300, " 1 %s", in_directory("b"));
	for (int i = 0; i < KINDS; i++) {
		p4d_sampler *one = open_with(blend[i], &options[i]),
			    *again = open_with(blend[i], &options[i]);
		uint64_t same;
		assert_int_equal(p4d_sampler_hash(one, &hash[i], NULL), 0);
		assert_int_equal(p4d_sampler_hash(again, &same, NULL), 0);
		assert_int_equal(hash[i], same);
		for (int j = 0; j < i; j++)
			assert_int_not_equal(hash[i], hash[j]);
		p4d_sampler_close(one);
		p4d_sampler_close(again);
	}
}

/* The order differs between seeds and between passes. */
static void orders_differ(void **state)
{
	static batch first, second;
	p4d_sampler_options options = usual;
	p4d_sampler *a = open_with(in_directory("a"), &options);
	options.seed++;
	p4d_sampler *b = open_with(in_directory("a"), &options);
	uint64_t samples = p4d_sampler_samples(a);
	unsigned same_seed = 0, same_pass = 0;

	(void)state;
	for (uint64_t k = 0; k < 100; k++) {
		p4d_samples out = all_of(&first);
		fill(a, k, 1, 0, 1, &out);
		out = all_of(&second);
		fill(b, k, 1, 0, 1, &out);
		same_seed += !memcmp(first.tokens, second.tokens, SEQ_LEN * sizeof(int32_t));
		fill(a, samples + k, 1, 0, 1, &out);
		same_pass += !memcmp(first.tokens, second.tokens, SEQ_LEN * sizeof(int32_t));
	}
	assert_true(same_seed < 3 && same_pass < 3);
	p4d_sampler_close(a);
	p4d_sampler_close(b);
}

static void mark_documents(const p4d_sampler_options *options, bool *seen)
{
	static batch b;
	p4d_samples out = all_of(&b);
	p4d_sampler *sampler = open_with(in_directory("a"), options);

	/* the second pass also uses the tokens that were left over in the first one */
	for (uint64_t k = 0; k < 2 * p4d_sampler_samples(sampler); k++) {
		fill(sampler, k, 1, 0, 1, &out);
		for (int i = 0; i < SEQ_LEN; i++)
			seen[b.tokens[i] / PLACES] = true;
	}
	p4d_sampler_close(sampler);
}

static void validation_is_kept_apart(void **state)
{
	bool training[DOCUMENTS] = {false}, validation[DOCUMENTS] = {false};
	unsigned apart = 0;
	p4d_sampler_options options = usual;

	(void)state;
	options.validation = 0.1;
	for (uint64_t seed = 0; seed < 5; seed++) {
		options.seed = seed;
		options.validate = false;
		mark_documents(&options, training);
		options.validate = true;
		mark_documents(&options, validation);
	}
	for (int i = 0; i < DOCUMENTS; i++) {
		assert_false(training[i] && validation[i]);
		assert_true(training[i] || validation[i]);
		apart += validation[i];
	}
	assert_int_equal(apart, DOCUMENTS / 10);
}

static void shares_of_a_blend(void **state)
{
	p4d_blend blend = {0};
	p4d_error err;
	uint64_t expected[3] = {0, 0, 0}, index;

	(void)state;
	assert_int_equal(p4d_blend__parse(&blend, " 0.5 x\t0.3 y 0.2 z ", &err), 0);
	assert_int_equal(blend.sources, 3);
	assert_string_equal(blend.path[1], "y");
	assert_int_equal(p4d_blend__deal(&blend, &err), 0);
	for (uint64_t k = 0; k < 3 * P4D_BLEND_PERIOD; k++) {
		unsigned source = p4d_blend__source(&blend, k, &index);
		/* the samples of each source come in order, and none is left out */
		assert_int_equal(index, expected[source]++);
		for (unsigned i = 0; k < P4D_BLEND_PERIOD && i < 3; i++) {
			double share = blend.weight[i] * (double)(k + 1);
			assert_true((double)expected[i] > share - 1.01 && (double)expected[i] < share + 1.01);
		}
	}
	p4d_blend__free(&blend);
	assert_int_equal(p4d_blend__parse(&blend, "x y", &err), 0);
	assert_true(blend.sources == 2 && blend.weight[0] == 0 && blend.weight[1] == 0);
	p4d_blend__free(&blend);
}

static void refuse(const char *blend, const p4d_sampler_options *options, p4d_code code, const char *text)
{
	p4d_sampler *sampler;
	p4d_error err = {0};

	assert_int_equal(p4d_sampler_open(&sampler, blend, options, &err), -1);
	if (err.code != code || !strstr(err.text, text))
		fail_msg("%s: says %d \"%s\" instead of \"%s\"", blend, (int)err.code, err.text, text);
}

static void what_is_refused(void **state)
{
	p4d_sampler_options options = usual;
	char blend[400];

	(void)state;
	refuse("", &usual, P4D_E_VALUE, "no dataset given");
	refuse("0.5", &usual, P4D_E_VALUE, "expected a path after the last weight");
	refuse("0.5 a b", &usual, P4D_E_VALUE, "the weight \"b\" is not a number above 0");
	refuse("0 a", &usual, P4D_E_VALUE, "the weight \"0\" is not a number above 0");
	refuse("-1 a", &usual, P4D_E_VALUE, "not a number above 0");
	refuse("nan a", &usual, P4D_E_VALUE, "not a number above 0");
	refuse("/nowhere/x", &usual, P4D_E_DATA, "/nowhere/x.bin");
	snprintf(blend, sizeof(blend), "1e-7 %s 1 %s", in_directory("a"), in_directory("b"));
	refuse(blend, &usual, P4D_E_VALUE, "less than 1 in 65536");
	options.seq_len = 0;
	refuse(in_directory("a"), &options, P4D_E_VALUE, "sequences of 0 tokens");
	options.seq_len = 1 << 20;
	refuse(in_directory("a"), &options, P4D_E_DATA, "expected at least seq-len + 1 = 1048577");
	options = usual;
	options.validation = 1;
	refuse(in_directory("a"), &options, P4D_E_VALUE, "the validation fraction is 1, expected");
	options.validation = 0.1;
	refuse(in_directory("single"), &options, P4D_E_DATA,
	       "has 1 document, cannot split off 0.1 for validation");
	options.validation = 0;
	options.validate = true;
	refuse(in_directory("a"), &options, P4D_E_VALUE, "the validation fraction is 0");
	/* a file of llm.c does not mark where documents begin */
	bytes plain = {.size = 0};
	put(&plain, 20240520, 4);
	put(&plain, 1, 4);
	put(&plain, 3 * SEQ_LEN, 4);
	plain.size = 256 * 4;
	for (uint64_t i = 0; i < 3 * SEQ_LEN; i++)
		put(&plain, i % 7, 2);
	write_file(in_directory("plain.bin"), plain.data, plain.size);
	options = usual;
	refuse(in_directory("plain"), &options, P4D_E_DATA, "llm.c files do not mark where documents begin");
	options.tokens.delimiter = 6;
	p4d_sampler_close(open_with(in_directory("plain"), &options));
	options.tokens.delimiter = P4D_NO_DELIMITER;
	options.boundaries = false;
	p4d_sampler_close(open_with(in_directory("plain"), &options));
	options = usual;
	options.tokens.vocabulary = 1000;
	p4d_sampler *sampler = open_with(in_directory("a"), &options);
	static batch b;
	p4d_samples out = all_of(&b);
	p4d_error err;
	assert_int_equal(p4d_sampler_fill(sampler, 0, 64, 0, 1, &out, &err), -1);
	assert_int_equal(err.code, P4D_E_DATA);
	assert_non_null(strstr(err.text, "outside the vocabulary, expected 0 to 999"));
	assert_int_equal(p4d_sampler_fill(sampler, 0, 1, 0, 3, &out, &err), -1);
	assert_int_equal(p4d_sampler_fill(sampler, 0, 1, 0, UINT64_MAX / 2 + 1, &out, &err), -1);
	assert_int_equal(p4d_sampler_fill(sampler, 0, 1, 2, 2, &out, &err), -1);
	assert_non_null(strstr(err.text, "split into 2*2 equal chunks for context-parallel rank 2"));
	p4d_sampler_close(sampler);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_pass_sees_each_token_once),
	    cmocka_unit_test(samples_are_documents_in_a_row),
	    cmocka_unit_test(masked_labels_are_none),
	    cmocka_unit_test(packed_documents_are_whole),
	    cmocka_unit_test(layouts_see_the_same_batch),
	    cmocka_unit_test(samples_have_no_history),
	    cmocka_unit_test(orders_differ),
	    cmocka_unit_test(hashes_tell_apart),
	    cmocka_unit_test(validation_is_kept_apart),
	    cmocka_unit_test(shares_of_a_blend),
	    cmocka_unit_test(what_is_refused),
	};

	return cmocka_run_group_tests(tests, set_up, remove_directory);
}
