/* SPDX-License-Identifier: Apache-2.0 */
/* Token files: the content of valid files, and the error for each kind of invalid file. */
#include "support/support.h"

#include "data/tokens.h"
#include "support/token_files.h"

enum { SEQUENCES = 3, BOUNDS = 3 };
static const p4d_tokens_options usual = {300, P4D_NO_DELIMITER};

/* The documents {7, 8, 9}, in two sequences, and {299}, written by hand in Megatron-LM's format. */
static bytes good_index(unsigned type, unsigned width)
{
	bytes b = {.size = 0};

	memcpy(b.data, "MMIDIDX\0\0", 9);
	b.size = 9;
	put(&b, 1, 8);
	put(&b, type, 1);
	put(&b, SEQUENCES, 8);
	put(&b, BOUNDS, 8);
	put(&b, 2, 4);
	put(&b, 1, 4);
	put(&b, 1, 4);
	put(&b, 0, 8);
	put(&b, 2 * width, 8);
	put(&b, 3 * width, 8);
	put(&b, 0, 8);
	put(&b, 2, 8);
	put(&b, 3, 8);
	return b;
}

static bytes good_data(unsigned width)
{
	bytes b = {.size = 0};

	put(&b, 7, width);
	put(&b, 8, width);
	put(&b, 9, width);
	put(&b, width == 1 ? 99 : 299, width);
	return b;
}

static void every_integer_type(void **state)
{
	static const unsigned kinds[][2] = {{1, 1}, {2, 1}, {3, 2}, {4, 4}, {5, 8}, {8, 2}};
	p4d_tokens *tokens;
	p4d_error err;
	int32_t out[4];

	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		bytes index = good_index(kinds[i][0], kinds[i][1]), data = good_data(kinds[i][1]);
		assert_int_equal(p4d_tokens__parse(&tokens, "t", index.data, index.size, data.data, data.size,
						   &usual, &err),
				 0);
		assert_int_equal(p4d_tokens__documents(tokens), 2);
		assert_int_equal(p4d_tokens__total(tokens), 4);
		p4d_document first = p4d_tokens__document(tokens, 0),
			     second = p4d_tokens__document(tokens, 1);
		assert_true(first.first == 0 && first.count == 3 && second.first == 3 && second.count == 1);
		assert_int_equal(p4d_tokens__read(tokens, 0, 4, out, &err), 0);
		assert_true(out[0] == 7 && out[1] == 8 && out[2] == 9 &&
			    out[3] == (kinds[i][1] == 1 ? 99 : 299));
		assert_int_equal(p4d_tokens__read(tokens, 2, 3, out, &err), -1);
		assert_non_null(strstr(err.text, "t.bin: tokens 2 to 5 requested, but it has only 4"));
		p4d_tokens__close(tokens);
	}
}

/* The index of multimodal data has modes at its end. p4d skips them. */
static void modes_are_skipped(void **state)
{
	bytes index = good_index(8, 2), data = good_data(2);
	p4d_tokens *tokens;
	p4d_error err;

	(void)state;
	put(&index, 0, SEQUENCES);
	assert_int_equal(
	    p4d_tokens__parse(&tokens, "t", index.data, index.size, data.data, data.size, &usual, &err), 0);
	p4d_tokens__close(tokens);
}

static void refuse_index(const bytes *index, const bytes *data, const char *text)
{
	p4d_tokens *tokens = NULL;
	p4d_error err = {0};

	if (p4d_tokens__parse(&tokens, "t", index->data, index->size, data->data, data->size, &usual, &err) ==
	    0)
		fail_msg("passes: %s", text);
	assert_null(tokens);
	assert_int_equal(err.code, P4D_E_DATA);
	if (!strstr(err.text, text))
		fail_msg("says \"%s\" instead of \"%s\"", err.text, text);
}

static void malformed_index(void **state)
{
	static const struct {
		size_t at;
		uint64_t number;
		size_t width;
		const char *text;
	} cases[] = {
	    {0, 'X', 1, "t.idx: byte 0: not MMIDIDX"},
	    {9, 2, 8, "t.idx: byte 9: version is 2, expected 1"},
	    {17, 6, 1, "t.idx: byte 17: type is 6, expected an integer type"},
	    {17, 0, 1, "type is 0"},
	    {18, 4, 8, "t.idx: truncated at byte 94"},
	    {18, 2, 8, "t.idx: 12 bytes after the document bounds at byte 82"},
	    {18, UINT64_MAX, 8, "truncated"},
	    {18, (uint64_t)1 << 62, 8, "truncated"},
	    {26, 1, 8, "t.idx: byte 26: number of document bounds is 1"},
	    {26, 4, 8, "truncated"},
	    {26, (uint64_t)1 << 61, 8, "truncated"},
	    {34, UINT32_MAX, 4, "t.idx: byte 34: length of sequence 0 is -1"},
	    {34, 5, 4,
	     "t.idx: byte 46: sequence 0 of 5 tokens is at byte 0 of t.bin, expected multiples of 2 "
	     "within its 8 bytes"},
	    {62, 8, 8, "t.idx: byte 62: sequence 2 of 1 tokens is at byte 8"},
	    {62, 5, 8, "sequence 2 of 1 tokens is at byte 5"},
	    {62, UINT64_MAX - 1, 8, "sequence 2 of 1 tokens is at byte -2"},
	    {54, 6, 8,
	     "t.idx: byte 54: sequence 1 does not follow the previous one of its document, "
	     "expected offset 4"},
	    {70, 1, 8, "t.idx: byte 70: first document bound is 1, expected 0"},
	    {78, 4, 8, "t.idx: byte 78: document 0 ends before sequence 4, expected 0 to 3"},
	    {78, UINT64_MAX, 8, "document 0 ends before sequence -1"},
	    {86, 1, 8, "t.idx: byte 86: document 1 ends before sequence 1, expected 2 to 3"},
	    {86, 2, 8, "t.idx: byte 86: last document bound is 2, expected the number of sequences"},
	};
	const bytes data = good_data(2);

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bytes index = good_index(8, 2);
		uint64_t number = htole64(cases[i].number);
		memcpy(index.data + cases[i].at, &number, cases[i].width);
		refuse_index(&index, &data, cases[i].text);
	}
}

static void truncated_index(void **state)
{
	const bytes data = good_data(2);
	bytes index = good_index(8, 2);

	(void)state;
	for (size_t size = index.size; size-- > 0;) {
		index.size = size;
		refuse_index(&index, &data, size < 34 ? "expected a header of 34" : "truncated at byte");
	}
	index = good_index(8, 2);
	bytes shorter = data;
	shorter.size = 7;
	refuse_index(&index, &shorter, "sequence 2 of 1 tokens is at byte 6 of t.bin");
	shorter.size = 0;
	refuse_index(&index, &shorter, "within its 0 bytes");
	put(&index, 0, 1);
	refuse_index(&index, &data, "t.idx: 1 bytes after the document bounds at byte 94");
}

static void documents_without_tokens(void **state)
{
	bytes index = {.size = 0}, data = {.size = 0};
	p4d_tokens *tokens;
	p4d_error err;

	(void)state;
	/* bounds 0 0 1 1: the first and the last document have no sequence */
	memcpy(index.data, "MMIDIDX\0\0", 9);
	index.size = 9;
	put(&index, 1, 8);
	put(&index, 8, 1);
	put(&index, 1, 8);
	put(&index, 4, 8);
	put(&index, 1, 4);
	put(&index, 0, 8);
	put(&index, 0, 8);
	put(&index, 0, 8);
	put(&index, 1, 8);
	put(&index, 1, 8);
	put(&data, 5, 2);
	assert_int_equal(
	    p4d_tokens__parse(&tokens, "t", index.data, index.size, data.data, data.size, &usual, &err), 0);
	assert_int_equal(p4d_tokens__documents(tokens), 3);
	assert_int_equal(p4d_tokens__document(tokens, 0).count, 0);
	assert_int_equal(p4d_tokens__document(tokens, 1).count, 1);
	assert_int_equal(p4d_tokens__document(tokens, 2).count, 0);
	p4d_tokens__close(tokens);
	memset(index.data + 34, 0, 4);
	refuse_index(&index, &data, "t.bin: contains no tokens");
}

static void outside_of_vocabulary(void **state)
{
	bytes index = good_index(8, 2), data = good_data(2);
	p4d_tokens_options options = {299, P4D_NO_DELIMITER};
	p4d_tokens *tokens;
	p4d_error err;
	int32_t out[4];

	(void)state;
	assert_int_equal(
	    p4d_tokens__parse(&tokens, "t", index.data, index.size, data.data, data.size, &options, &err), 0);
	assert_int_equal(p4d_tokens__read(tokens, 0, 3, out, &err), 0);
	assert_int_equal(p4d_tokens__read(tokens, 2, 2, out, &err), -1);
	assert_int_equal(err.code, P4D_E_DATA);
	assert_string_equal(err.text, "t.bin: byte 6: token 299 outside the vocabulary, expected 0 to 298");
	p4d_tokens__close(tokens);

	index = good_index(5, 8);
	data = good_data(8);
	memset(data.data + 8, 0xff, 8);
	assert_int_equal(
	    p4d_tokens__parse(&tokens, "t", index.data, index.size, data.data, data.size, &usual, &err), 0);
	assert_int_equal(p4d_tokens__read(tokens, 0, 4, out, &err), -1);
	assert_string_equal(err.text, "t.bin: byte 8: token -1 outside the vocabulary, expected 0 to 299");
	p4d_tokens__close(tokens);
	options.vocabulary = 0;
	assert_int_equal(
	    p4d_tokens__parse(&tokens, "t", index.data, index.size, data.data, data.size, &options, &err),
	    -1);
	assert_non_null(strstr(err.text, "a vocabulary of 0 tokens"));
}

static bytes llmc(uint32_t magic, uint32_t version, uint32_t count, unsigned width)
{
	static const uint16_t text[] = {50, 1, 2, 50, 3, 50, 50, 4};
	bytes b = {.size = 0};

	put(&b, magic, 4);
	put(&b, version, 4);
	put(&b, count, 4);
	b.size = 1024;
	for (size_t i = 0; i < sizeof(text) / sizeof(text[0]); i++)
		put(&b, text[i], width);
	return b;
}

static void llmc_files(void **state)
{
	static const uint32_t kinds[][3] = {{20240520, 1, 2}, {20240801, 7, 4}};
	static const uint64_t counts[] = {3, 2, 1, 2};
	p4d_tokens_options options = {51, 50};
	p4d_tokens *tokens;
	p4d_error err;
	int32_t out[8];

	(void)state;
	for (int i = 0; i < 2; i++) {
		bytes data = llmc(kinds[i][0], kinds[i][1], 8, kinds[i][2]);
		assert_int_equal(
		    p4d_tokens__parse(&tokens, "t", NULL, 0, data.data, data.size, &options, &err), 0);
		assert_int_equal(p4d_tokens__total(tokens), 8);
		assert_int_equal(p4d_tokens__documents(tokens), 4);
		for (uint64_t d = 0; d < 4; d++)
			assert_int_equal(p4d_tokens__document(tokens, d).count, counts[d]);
		assert_int_equal(p4d_tokens__document(tokens, 3).first, 6);
		assert_int_equal(p4d_tokens__read(tokens, 0, 8, out, &err), 0);
		assert_true(out[0] == 50 && out[2] == 2 && out[7] == 4);
		p4d_tokens__close(tokens);
		/* there is no delimiter, or the first token is not one */
		assert_int_equal(p4d_tokens__parse(&tokens, "t", NULL, 0, data.data, data.size, &usual, &err),
				 0);
		assert_int_equal(p4d_tokens__documents(tokens), 1);
		p4d_tokens__close(tokens);
		options.delimiter = 3;
		assert_int_equal(
		    p4d_tokens__parse(&tokens, "t", NULL, 0, data.data, data.size, &options, &err), 0);
		assert_int_equal(p4d_tokens__documents(tokens), 2);
		assert_int_equal(p4d_tokens__document(tokens, 0).count, 4);
		p4d_tokens__close(tokens);
		options.delimiter = 50;
	}
}

static void malformed_llmc(void **state)
{
	static const struct {
		uint32_t magic, version, count;
		size_t size;
		const char *text;
	} cases[] = {
	    {20240521, 1, 8, 1040, "t.bin: byte 0: magic is 20240521, expected 20240520 or 20240801"},
	    {20240520, 7, 8, 1040, "t.bin: byte 4: version is 7, expected 1"},
	    {20240520, 1, 9, 1040,
	     "t.bin: byte 8: 9 tokens of 2 bytes, expected as many as fit in the 16 bytes"},
	    {20240520, 1, 7, 1040, "byte 8: 7 tokens"},
	    {20240520, 1, 8, 1039, "byte 8: 8 tokens"},
	    {20240520, 1, UINT32_MAX, 1040, "byte 8: -1 tokens"},
	    {20240520, 1, 8, 1023, "t.bin: 1023 bytes, expected a header of 1024"},
	    {20240520, 1, 0, 1024, "t.bin: contains no tokens"},
	};
	p4d_tokens *tokens;
	p4d_error err;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bytes data = llmc(cases[i].magic, cases[i].version, cases[i].count, 2);
		assert_int_equal(
		    p4d_tokens__parse(&tokens, "t", NULL, 0, data.data, cases[i].size, &usual, &err), -1);
		assert_int_equal(err.code, P4D_E_DATA);
		if (!strstr(err.text, cases[i].text))
			fail_msg("says \"%s\" instead of \"%s\"", err.text, cases[i].text);
	}
}

static void refuse_path(const char *name, const char *text)
{
	p4d_tokens *tokens;
	p4d_error err;

	assert_int_equal(p4d_tokens__open(&tokens, in_directory(name), &usual, &err), -1);
	assert_int_equal(err.code, P4D_E_DATA);
	if (!strstr(err.text, text))
		fail_msg("says \"%s\" instead of \"%s\"", err.text, text);
}

static void files_that_cannot_be_opened(void **state)
{
	bytes index = good_index(8, 2), data = good_data(2);
	p4d_tokens *tokens;
	p4d_error err;

	(void)state;
	refuse_path("nowhere", "nowhere.bin: cannot be read: No such file");
	assert_int_equal(mkdir(in_directory("folder.bin"), 0700), 0);
	refuse_path("folder", "folder.bin: is a directory, not a file");
	assert_int_equal(mkfifo(in_directory("pipe.bin"), 0600), 0);
	refuse_path("pipe", "pipe.bin: not a regular file");
	write_file(in_directory("empty.bin"), "", 0);
	refuse_path("empty", "empty.bin: empty file");
	write_file(in_directory("alone.bin"), data.data, data.size);
	refuse_path("alone", "alone.bin: byte 0: not the magic of llm.c, and no Megatron-LM index");
	write_file(in_directory("alone.idx"), "", 0);
	refuse_path("alone", "alone.idx: 0 bytes, expected a header of 34");
	write_file(in_directory("alone.idx"), index.data, index.size);
	const char *names[] = {"alone", "alone.bin", "alone.idx"};
	for (int i = 0; i < 3; i++) {
		assert_int_equal(p4d_tokens__open(&tokens, in_directory(names[i]), &usual, &err), 0);
		p4d_tokens__close(tokens);
	}
	/* with an index, a file is not read as llm.c's, even if its first tokens are llm.c's magic number */
	data.size = 0;
	put(&data, 20240520, 8);
	p4d_tokens_options options = {65536, P4D_NO_DELIMITER};
	write_file(in_directory("alone.bin"), data.data, data.size);
	assert_int_equal(p4d_tokens__open(&tokens, in_directory("alone"), &options, &err), 0);
	assert_int_equal(p4d_tokens__documents(tokens), 2);
	p4d_tokens__close(tokens);
}

/* For both widths of tokens, the reader returns what the writer was given. */
static void written_and_read(void **state)
{
	static const uint64_t vocabularies[] = {257, 65536, 65537, (uint64_t)INT32_MAX + 1};
	enum { DOCUMENTS = 2000 };
	p4d_tokens *tokens;
	p4d_error err;
	int32_t text[100], out[100];

	(void)state;
	for (size_t v = 0; v < sizeof(vocabularies) / sizeof(vocabularies[0]); v++) {
		p4d_tokens_writer writer = {0};
		p4d_tokens_options options = {vocabularies[v], P4D_NO_DELIMITER};
		uint64_t random = v, total = 0;
		int files = count_files();
		assert_int_equal(
		    p4d_tokens_writer_open(&writer, in_directory("w"), vocabularies[v], false, false, &err),
		    0);
		for (int d = 0; d < DOCUMENTS; d++) {
			uint64_t count = next_random(&random) % 100;
			for (uint64_t i = 0; i < count; i++)
				text[i] = (int32_t)(next_random(&random) % vocabularies[v]);
			assert_int_equal(p4d_tokens_writer_add(&writer, text, count / 2, &err), 0);
			assert_int_equal(
			    p4d_tokens_writer_add(&writer, text + count / 2, count - count / 2, &err), 0);
			assert_int_equal(p4d_tokens_writer_end(&writer, &err), 0);
			total += count;
		}
		assert_int_equal(p4d_tokens_writer_close(&writer, &err), 0);
		assert_int_equal(count_files(), v ? files : files + 2);
		assert_int_equal(p4d_tokens__open(&tokens, in_directory("w"), &options, &err), 0);
		assert_int_equal(p4d_tokens__total(tokens), total);
		random = v;
		uint64_t number = 0;
		for (int d = 0; d < DOCUMENTS; d++) {
			uint64_t count = next_random(&random) % 100;
			for (uint64_t i = 0; i < count; i++)
				text[i] = (int32_t)(next_random(&random) % vocabularies[v]);
			if (!count)
				continue;
			p4d_document document = p4d_tokens__document(tokens, number++);
			assert_int_equal(document.count, count);
			assert_int_equal(p4d_tokens__read(tokens, document.first, count, out, &err), 0);
			assert_memory_equal(out, text, count * sizeof(*out));
		}
		assert_int_equal(p4d_tokens__documents(tokens), number);
		p4d_tokens__close(tokens);
	}
}

static void writer_leaves_nothing_behind(void **state)
{
	const int32_t text[] = {1, 2, 300};
	p4d_tokens_writer writer = {0};
	p4d_error err;
	int files = count_files();

	(void)state;
	assert_int_equal(p4d_tokens_writer_open(&writer, in_directory("gone"), 257, true, false, &err), 0);
	assert_int_equal(count_files(), files + 3);
	assert_int_equal(p4d_tokens_writer_add(&writer, text, 2, &err), 0);
	assert_int_equal(p4d_tokens_writer_end(&writer, &err), 0);
	assert_int_equal(p4d_tokens_writer_add(&writer, text, 3, &err), -1);
	assert_string_equal(err.text, "token 300 in document 1 outside the vocabulary, expected 0 to 256");
	p4d_tokens_writer_abandon(&writer);
	assert_int_equal(count_files(), files);
	p4d_tokens_writer_abandon(&writer);
	assert_int_equal(
	    p4d_tokens_writer_open(&writer, in_directory("nowhere/gone"), 257, false, false, &err), -1);
	assert_int_equal(err.code, P4D_E_IO);
	assert_non_null(strstr(err.text, "nowhere/gone.bin: cannot be written: No such file"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_integer_type),
	    cmocka_unit_test(modes_are_skipped),
	    cmocka_unit_test(malformed_index),
	    cmocka_unit_test(truncated_index),
	    cmocka_unit_test(documents_without_tokens),
	    cmocka_unit_test(outside_of_vocabulary),
	    cmocka_unit_test(llmc_files),
	    cmocka_unit_test(malformed_llmc),
	    cmocka_unit_test(files_that_cannot_be_opened),
	    cmocka_unit_test(written_and_read),
	    cmocka_unit_test(writer_leaves_nothing_behind),
	};

	return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
