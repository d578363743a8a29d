/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor files: written and read back, cut off at each byte, and malformed files with their messages. */
#include "support/support.h"

#include <json-c/json_c_version.h>

#include "checkpoint/safetensors.h"
#include "support/token_files.h"

/* A file with this header, followed by `room` bytes of data. */
static bytes with_header(const char *header, size_t room)
{
	bytes b = {.size = 0};

	put(&b, strlen(header), 8);
	assert_true(b.size + strlen(header) + room <= sizeof(b.data));
	memcpy(b.data + b.size, header, strlen(header));
	b.size += strlen(header);
	for (size_t i = 0; i < room; i++)
		put(&b, i, 1);
	return b;
}

static p4d_safetensors *parse(const bytes *b)
{
	p4d_safetensors *files;
	p4d_error err;

	if (p4d_safetensors__parse(&files, "t", b->data, b->size, &err) < 0)
		fail_msg("%s", err.text);
	return files;
}

/* Files as other programs write them: blanks after the header, tensors in any order, an empty tensor, a
 * tensor with one number. */
static void foreign_file(void **state)
{
	bytes b = with_header("{\"b\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[2,10]},"
			      "\"__metadata__\":{\"format\":\"pt\"},"
			      "\"none\":{\"dtype\":\"F32\",\"shape\":[3,0],\"data_offsets\":[10,10]},"
			      "\"a/\\u00e4\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[0,2]}}     ",
			      10);
	p4d_safetensors *files = parse(&b);

	(void)state;
	assert_int_equal(p4d_safetensors__count(files), 3);
	assert_string_equal(p4d_safetensors__at(files, 0)->name, "a/\xc3\xa4");
	const p4d_safetensors_tensor *single = p4d_safetensors__find(files, "a/\xc3\xa4"),
				     *two = p4d_safetensors__find(files, "b");
	assert_true(single->type == P4D_ST_BF16 && single->dims == 0 && single->bytes == 2);
	assert_true(two->type == P4D_ST_F32 && two->dims == 2 && two->shape[0] == 2 && two->shape[1] == 1);
	assert_int_equal(((const uint8_t *)two->data)[0], 2);
	assert_int_equal(p4d_safetensors__find(files, "none")->bytes, 0);
	assert_null(p4d_safetensors__find(files, "c"));
	assert_null(p4d_safetensors__find(files, "__metadata__"));
	assert_false(two->has_checksum);
	assert_int_equal(p4d_safetensors__verify(two, NULL), 0);
	p4d_safetensors__close(files);

	b = with_header("{}", 0);
	files = parse(&b);
	assert_int_equal(p4d_safetensors__count(files), 0);
	assert_null(p4d_safetensors__find(files, "a"));
	p4d_safetensors__close(files);
}

static void refuse(const void *data, size_t size, const char *text)
{
	p4d_safetensors *files = NULL;
	p4d_error err = {0};

	if (p4d_safetensors__parse(&files, "t", data, size, &err) == 0)
		fail_msg("passes: %s", text);
	assert_null(files);
	assert_int_equal(err.code, P4D_E_CHECKPOINT);
	if (!strstr(err.text, text))
		fail_msg("says \"%s\" instead of \"%s\"", err.text, text);
}

static void malformed_headers(void **state){
#define A "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":"
#define B ",\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":"
    static const struct {const char * header, *text;
size_t room;
}
cases[] = {
    {"[]", "byte 8: is 0x5b, expected {", 0},
    {" {}", "byte 8: is 0x20, expected {", 0},
    {"{\"a\":", "t: truncated: the JSON text ends", 0},
    {"{\"a\":1}", "tensor \"a\": its description is not an object", 0},
    {A "[0,8]},\"a\":{}}", "field \"a\" is given twice", 8},
    {A "[0,8]}", "the JSON text ends after 53 bytes", 8},
    {"{\"a\":{}}", "tensor \"a\": no string \"dtype\"", 0},
    {"{\"a\":{\"dtype\":\"F31\",\"shape\":[2],\"data_offsets\":[0,8]}}", "unknown \"dtype\"", 8},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", "no array \"shape\"", 8},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}",
     "\"shape\" contains an invalid size", 8},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2.5],\"data_offsets\":[0,8]}}",
     "\"shape\" contains an invalid size", 8},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[18446744073709551616],\"data_offsets\":[0,8]}}",
#if JSON_C_VERSION_NUM >= 18 << 8 /* older releases take the nearest number */
     "beyond 64 bits", 8},
#else
     "\"shape\" contains an invalid size", 8},
#endif
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,2],\"data_offsets\":[0,8]}}",
     "no array \"shape\" of at most 8", 8},
    /* 2^62 * 4 bytes overflow to 0 in 64 bits */
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}}",
     "tensor \"a\": has 0 bytes, which does not match its shape and dtype", 0},
    {A "[0]}}", "no \"data_offsets\" [begin, end]", 8},
    {A "[0,8,8]}}", "no \"data_offsets\"", 8},
    {A "[-8,0]}}", "no \"data_offsets\"", 8},
    {A "[0,9223372036854775807]}}", "no \"data_offsets\"", 8},
    {A "[8,0]}}", "tensor \"a\": bytes 8 to 0, expected within the 8 bytes", 8},
    {A "[0,8]}}", "tensor \"a\": bytes 0 to 8, expected within the 7 bytes", 7},
    {A "[0,7]}}", "tensor \"a\": has 7 bytes, which does not match its shape and dtype", 7},
    {A "[0,8]}}", "t: 1 bytes after the last tensor", 9},
    {A "[1,9]}}", "tensor \"a\": does not begin where the previous tensor ends", 9},
    {A "[0,8]}" B "[9,11]}}", "tensor \"b\": does not begin where", 11},
    {A "[0,8]}" B "[7,9]}}", "tensor \"b\": does not begin where", 9},
    {A "[0,8]},\"__metadata__\":{\"xxh3:a\":\"12\"}}", "its checksum is not 16 hexadecimal digits", 8},
    {A "[0,8]},\"__metadata__\":{\"xxh3:a\":\"123456789abcdefX\"}}", "its checksum is not", 8},
};
#undef A
#undef B

(void)state;
for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
	bytes b = with_header(cases[i].header, cases[i].room);
	refuse(b.data, b.size, cases[i].text);
}
refuse("", 0, "byte 0: a header of 0 bytes in a file of 0");
refuse("\2\0\0\0\0\0\0", 7, "in a file of 7");
refuse("\3\0\0\0\0\0\0\0{}", 10, "byte 0: a header of 3 bytes in a file of 10");
refuse("\377\377\377\377\377\377\377\377{}", 10, "a header of 18446744073709551615 bytes");
}

static const p4d_safetensors_tensor two_tensors[] = {
    {.name = "model.weight", .type = P4D_ST_F32, .dims = 2, .shape = {3, 5}},
    {.name = "none", .type = P4D_ST_F64, .dims = 1, .shape = {0}},
    {.name = "model.\"bias\"", .type = P4D_ST_BF16, .dims = 1, .shape = {7}},
};
enum { TENSORS = 3, DATA = 15 * 4 + 7 * 2 };
static const char *const some_metadata[] = {"format", "pt", "step", "12", NULL};

static uint64_t write_two(const char *path, size_t chunk)
{
	p4d_safetensors_writer *writer;
	p4d_error err;
	uint64_t checksum = 0;
	uint8_t data[DATA];

	for (int i = 0; i < DATA; i++)
		data[i] = (uint8_t)(i * 7);
	if (p4d_safetensors__create(&writer, path, two_tensors, TENSORS, some_metadata, &err) < 0)
		fail_msg("%s", err.text);
	for (size_t at = 0; at < DATA; at += chunk)
		assert_int_equal(
		    p4d_safetensors__write(writer, data + at, at + chunk < DATA ? chunk : DATA - at, &err),
		    0);
	if (p4d_safetensors__finish(writer, &checksum, &err) < 0)
		fail_msg("%s", err.text);
	return checksum;
}

static bytes read_bytes(const char *path)
{
	bytes b = {.size = 0};
	FILE *in = fopen(path, "rb");

	assert_non_null(in);
	b.size = fread(b.data, 1, sizeof(b.data), in);
	fclose(in);
	return b;
}

static void written_and_read(void **state)
{
	static const size_t chunks[] = {1, 7, DATA};
	p4d_safetensors *files;
	p4d_error err;
	uint64_t checksum = 0;

	(void)state;
	for (int i = 0; i < 3; i++) {
		int before = count_files();
		uint64_t now = write_two(in_directory("two.safetensors"), chunks[i]);
		assert_int_equal(count_files(), i ? before : before + 1);
		assert_true(i == 0 || now == checksum);
		checksum = now;
		assert_int_equal(p4d_safetensors__open(&files, in_directory("two.safetensors"), &err), 0);
		assert_int_equal(p4d_safetensors__header_checksum(files), checksum);
		assert_int_equal(p4d_safetensors__count(files), TENSORS);
		const bytes written = read_bytes(in_directory("two.safetensors"));
		assert_non_null(memmem(written.data, written.size, "\"step\":\"12\"", 11));
		const uint8_t *data = p4d_safetensors__find(files, "model.weight")->data;
		/* in the mapped file, data is aligned for the widest type */
		assert_int_equal((uintptr_t)data % 8, 0);
		for (int j = 0; j < DATA; j++)
			assert_int_equal(data[j], (uint8_t)(j * 7));
		for (size_t j = 0; j < TENSORS; j++) {
			const p4d_safetensors_tensor *found =
			    p4d_safetensors__find(files, two_tensors[j].name);
			assert_non_null(found);
			assert_true(found->type == two_tensors[j].type &&
				    found->dims == two_tensors[j].dims &&
				    !memcmp(found->shape, two_tensors[j].shape, sizeof(found->shape)));
			assert_true(found->has_checksum);
			assert_int_equal(p4d_safetensors__verify(found, &err), 0);
		}
		p4d_safetensors__close(files);
	}
}

/* p4d notices every changed byte of a file. The checksum of the header finds a changed bit. */
static void damage_is_noticed(void **state)
{
	uint64_t checksum = write_two(in_directory("damaged"), DATA);
	bytes whole = read_bytes(in_directory("damaged"));
	unsigned by_tensor = 0;

	(void)state;
	for (size_t size = 0; size < whole.size; size++)
		refuse(whole.data, size, "t: ");
	for (size_t bit = 0; bit < 8 * whole.size; bit++) {
		p4d_safetensors *files;
		p4d_error err;
		bool noticed = false;
		bytes b = whole;
		b.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
		if (p4d_safetensors__parse(&files, "t", b.data, b.size, &err) < 0)
			continue;
		for (size_t i = 0; i < p4d_safetensors__count(files); i++)
			if (p4d_safetensors__verify(p4d_safetensors__at(files, i), &err) < 0) {
				assert_int_equal(err.code, P4D_E_CHECKPOINT);
				assert_non_null(strstr(err.text, "its checksum is"));
				by_tensor++;
				noticed = true;
			}
		noticed |= p4d_safetensors__header_checksum(files) != checksum;
		assert_true(noticed);
		p4d_safetensors__close(files);
	}
	assert_true(by_tensor >= 8 * DATA);
}

static void refuse_writing(const p4d_safetensors_tensor *tensors, size_t count, const char *text)
{
	p4d_safetensors_writer *writer = NULL;
	p4d_error err = {0};
	int before = count_files();

	assert_int_equal(p4d_safetensors__create(&writer, in_directory("bad"), tensors, count, NULL, &err),
			 -1);
	assert_null(writer);
	if (err.code != P4D_E_VALUE || !strstr(err.text, text))
		fail_msg("says %d \"%s\" instead of \"%s\"", (int)err.code, err.text, text);
	assert_int_equal(count_files(), before);
}

static void mistakes_in_writing(void **state)
{
	p4d_safetensors_tensor wrong[2] = {two_tensors[0], two_tensors[0]};
	p4d_safetensors_writer *writer;
	p4d_error err;
	uint8_t data[DATA + 1] = {0};
	int before = count_files();

	(void)state;
	refuse_writing(wrong, 2, "two tensors are named \"model.weight\"");
	wrong[1].name = "__metadata__";
	refuse_writing(wrong, 2, "no tensor may be named");
	wrong[1].name = "b";
	wrong[1].shape[0] = (uint64_t)1 << 62;
	refuse_writing(wrong, 2, "tensor \"b\": its size overflows 64 bits");
	wrong[0].shape[0] = wrong[1].shape[0] = (uint64_t)1 << 60;
	wrong[0].dims = wrong[1].dims = 1;
	refuse_writing(wrong, 2, "more than 2^63 bytes");

	assert_int_equal(
	    p4d_safetensors__create(&writer, in_directory("bad"), two_tensors, TENSORS, NULL, &err), 0);
	assert_int_equal(count_files(), before + 1);
	assert_int_equal(p4d_safetensors__write(writer, data, DATA - 1, &err), 0);
	assert_int_equal(p4d_safetensors__finish(writer, NULL, &err), -1);
	assert_non_null(strstr(err.text, "data of 1 tensors is missing"));
	assert_int_equal(count_files(), before);

	assert_int_equal(
	    p4d_safetensors__create(&writer, in_directory("bad"), two_tensors, TENSORS, NULL, &err), 0);
	assert_int_equal(p4d_safetensors__write(writer, data, DATA + 1, &err), -1);
	assert_non_null(strstr(err.text, "1 bytes more than its tensors hold"));
	p4d_safetensors__abandon(writer);
	assert_int_equal(count_files(), before);
	p4d_safetensors__abandon(NULL);

	/* a file without tensors is valid as well */
	assert_int_equal(p4d_safetensors__create(&writer, in_directory("bad"), NULL, 0, NULL, &err), 0);
	assert_int_equal(p4d_safetensors__finish(writer, NULL, &err), 0);
	p4d_safetensors *files;
	assert_int_equal(p4d_safetensors__open(&files, in_directory("bad"), &err), 0);
	p4d_safetensors__close(files);
}

static void write_index(const char *name, const char *text)
{
	write_file(in_directory(name), text, strlen(text));
}

static void refuse_open(const char *name, const char *text)
{
	p4d_safetensors *files;
	p4d_error err = {0};

	assert_int_equal(p4d_safetensors__open(&files, in_directory(name), &err), -1);
	if (err.code != P4D_E_CHECKPOINT || !strstr(err.text, text))
		fail_msg("says %d \"%s\" instead of \"%s\"", (int)err.code, err.text, text);
}

static void sharded(void **state)
{
	static const char *const names[] = {"model.weight", "x", "none"};
	static const char *const shards[] = {"one.safetensors", "two.safetensors", "one.safetensors"};
	p4d_safetensors_tensor x = {.name = "x", .type = P4D_ST_U8, .dims = 1, .shape = {2}};
	p4d_safetensors_writer *writer;
	p4d_safetensors *files;
	p4d_error err;

	(void)state;
	assert_int_equal(mkdir(in_directory("model"), 0700), 0);
	refuse_open("model", "model: contains neither model.safetensors.index.json nor model.safetensors");
	write_two(in_directory("model/one.safetensors"), DATA);
	assert_int_equal(
	    p4d_safetensors__create(&writer, in_directory("model/two.safetensors"), &x, 1, NULL, &err), 0);
	assert_int_equal(p4d_safetensors__write(writer, "hi", 2, &err), 0);
	assert_int_equal(p4d_safetensors__finish(writer, NULL, &err), 0);
	assert_int_equal(p4d_safetensors__write_index(in_directory("model/model.safetensors.index.json"),
						      names, shards, 3, 62, &err),
			 0);
	static const char *const ways[] = {"model", "model/model.safetensors.index.json"};
	for (int i = 0; i < 2; i++) {
		assert_int_equal(p4d_safetensors__open(&files, in_directory(ways[i]), &err), 0);
		assert_int_equal(p4d_safetensors__count(files), 3);
		assert_memory_equal(p4d_safetensors__find(files, "x")->data, "hi", 2);
		assert_non_null(strstr(p4d_safetensors__find(files, "x")->file, "model/two.safetensors"));
		assert_int_equal(p4d_safetensors__find(files, "model.weight")->bytes, 60);
		/* tensors that a file has but the index does not */
		assert_null(p4d_safetensors__find(files, "model.\"bias\""));
		assert_int_equal(p4d_safetensors__verify(p4d_safetensors__find(files, "x"), &err), 0);
		p4d_safetensors__close(files);
	}
	write_index("model/a.json", "{\"weight_map\":{\"x\":\"one.safetensors\"}}");
	refuse_open("model/a.json", "a.json: tensor \"x\" not found in one.safetensors");
	write_index("model/a.json", "{\"weight_map\":{\"x\":\"three.safetensors\"}}");
	refuse_open("model/a.json", "three.safetensors: ");
	write_index("model/a.json", "{\"weight_map\":{\"x\":\"../two.safetensors\"}}");
	refuse_open("model/a.json", "names \"../two.safetensors\", expected a file in the same directory");
	write_index("model/a.json", "{\"weight_map\":{\"x\":\"\"}}");
	refuse_open("model/a.json", "expected a file in the same directory");
	write_index("model/a.json", "{\"weight_map\":{\"x\":\"..\"}}");
	refuse_open("model/a.json", "model/..");
	write_index("model/a.json", "{\"weight_map\":{\"x\":1}}");
	refuse_open("model/a.json", "tensor \"x\" has no file");
	write_index("model/a.json", "{\"weight_map\":[]}");
	refuse_open("model/a.json", "no object \"weight_map\"");
	write_index("model/a.json", "{");
	refuse_open("model/a.json", "a.json: ");
	refuse_open("nowhere.json", "nowhere.json");
	refuse_open("nowhere", "nowhere: ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(foreign_file),        cmocka_unit_test(malformed_headers),
	    cmocka_unit_test(written_and_read),    cmocka_unit_test(damage_is_noticed),
	    cmocka_unit_test(mistakes_in_writing), cmocka_unit_test(sharded),
	};

	return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
