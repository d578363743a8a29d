/* SPDX-License-Identifier: Apache-2.0 */
/* The writer of SVG files: its output, and that no input makes it write invalid SVG. */
#include "support/support.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "picture/svg.h"
#include "picture/svg_axis.h"

static const p4d_svg_style styles[] = {
    {".a", "fill:#111", "fill:#eee"}, {".b", "fill:#222", NULL}, {NULL, NULL, NULL}};

static void begin(p4d_svg *svg)
{
	assert_int_equal(p4d_svg__open(svg, NULL), 0);
}

/* What was drawn so far; the caller frees the picture. */
static const char *drawn(p4d_svg *svg)
{
	assert_int_equal(fflush(svg->body), 0);
	return svg->text;
}

static void assert_drawn(p4d_svg *svg, const char *wanted)
{
	assert_string_equal(drawn(svg), wanted);
	p4d_svg__free(svg);
}

static void numbers_have_one_decimal(void **state)
{
	p4d_svg svg;

	(void)state;
	begin(&svg);
	p4d_svg__line(&svg, "a", 0, -0.04, 0.25001, -0.66);
	p4d_svg__line(&svg, "a", 10, 1.96, 12.34, -12.34);
	assert_drawn(&svg, "<line class=\"a\" x1=\"0\" y1=\"0\" x2=\".3\" y2=\"-.7\"/>\n"
			   "<line class=\"a\" x1=\"10\" y1=\"2\" x2=\"12.3\" y2=\"-12.3\"/>\n");
}

/* Rounded coordinates leave no gap between neighbouring rectangles. */
static void neighbours_meet(void **state)
{
	p4d_svg svg;

	(void)state;
	begin(&svg);
	p4d_svg__rect(&svg, "a", 0, 0, 1.06, 2);
	p4d_svg__rect(&svg, "a", 1.06, 0, 1.06, 2);
	assert_drawn(&svg, "<rect class=\"a\" x=\"0\" y=\"0\" width=\"1.1\" height=\"2\"/>\n"
			   "<rect class=\"a\" x=\"1.1\" y=\"0\" width=\"1\" height=\"2\"/>\n");
}

static void boxes_that_touch_are_joined(void **state)
{
	p4d_svg svg;

	(void)state;
	begin(&svg);
	p4d_svg__band(&svg, "b f", 10, 0.5);
	p4d_svg__box(&svg, 1, 5, 2);
	p4d_svg__box(&svg, 3, 5, 2);
	p4d_svg__box(&svg, 5.5, 5, 0.01); /* no part of the rectangle is visible */
	p4d_svg__box(&svg, 6, 5, 1);
	p4d_svg__band_end(&svg);
	assert_drawn(
	    &svg, "<path class=\"b f\" stroke-width=\"10\" stroke-opacity=\"0.50\" d=\"M1 5h2h2M6 5h1\"/>\n");
}

static void areas_are_closed(void **state)
{
	p4d_svg svg;

	(void)state;
	begin(&svg);
	p4d_svg__area(&svg, "a", 0, 10);
	p4d_svg__area_to(&svg, 2, 4);
	p4d_svg__area_end(&svg, 8, 10);
	assert_drawn(&svg, "<path class=\"a\" d=\"M0 10H2V4H8V10z\"/>\n");
}

static void text_is_escaped(void **state)
{
	static const struct {
		const char *text, *wanted;
	} rows[] = {
	    {"a<b>&\"c'", "a&lt;b&gt;&amp;\"c'"},
	    {"]]>", "]]&gt;"},
	    {"gr\xc3\xb6\xc3\x9f"
	     "e \xe2\x80\xa6 \xf0\x9f\x99\x82",
	     "gr\xc3\xb6\xc3\x9f"
	     "e \xe2\x80\xa6 \xf0\x9f\x99\x82"},
	    {"\x01\x1b[1m\n\x7f", "??[1m??"},
	    {"\xff\xc3(\xe2\x80", "??"
				  "(??"},      /* bytes that are not UTF-8, and a character that is cut off */
	    {"\xc0\xaf\xe0\x80\xaf", "?????"}, /* encodings that are longer than necessary */
	    {"\xed\xa0\x80", "???"},           /* half of a surrogate pair */
	    {"\xef\xbf\xbe\xf4\x90\x80\x80",
	     "???????"}, /* a code that is no character, and one above the last */
	};
	char wanted[128];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		p4d_svg svg;
		begin(&svg);
		p4d_svg__text(&svg, "a", 1, 2, "%s", rows[i].text);
		snprintf(wanted, sizeof(wanted), "<text class=\"a\" x=\"1\" y=\"2\">%s</text>\n",
			 rows[i].wanted);
		assert_drawn(&svg, wanted);
	}
}

static void a_file_is_written_whole(void **state)
{
	char path[] = "/tmp/p4d-test-svg.XXXXXX", text[2048] = "";
	p4d_svg svg;
	p4d_error err;
	int made = mkstemp(path);

	(void)state;
	begin(&svg);
	assert_true(made >= 0);
	close(made);
	p4d_svg__rect(&svg, "a", 1, 2, 3, 4);
	assert_int_equal(p4d_svg__save(&svg, path, 100.4, 50, "t & t", "d", styles, &err), 0);
	assert_null(svg.body);
	assert_null(svg.text);
	FILE *from = fopen(path, "r");
	assert_non_null(from);
	assert_true(fread(text, 1, sizeof(text) - 1, from) > 0);
	fclose(from);
	unlink(path);
	assert_non_null(strstr(text, "viewBox=\"0 0 100 50\""));
	assert_non_null(strstr(text, "<title id=\"title\">t &amp; t</title>"));
	assert_non_null(
	    strstr(text, ".b{fill:#222}\n@media (prefers-color-scheme:dark){\n.a{fill:#eee}\n}\n"));
	assert_non_null(
	    strstr(text, "<rect class=\"a\" x=\"1\" y=\"2\" width=\"3\" height=\"4\"/>\n</svg>\n"));
}

static void unwritable_files_are_errors(void **state)
{
	static const char *const paths[] = {"/nonexistent/x.svg", "/", "/dev/full"};

	(void)state;
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		p4d_svg svg;
		p4d_error err = {P4D_OK, "", ""};
		begin(&svg);
		p4d_svg__rect(&svg, "a", 1, 2, 3, 4);
		assert_int_equal(p4d_svg__save(&svg, paths[i], 10, 10, "", "", styles, &err), -1);
		assert_int_equal(err.code, P4D_E_IO);
		assert_non_null(strstr(err.text, paths[i]));
		assert_null(svg.text);
	}
}

/* A step is 1, 2 or 5 times a power of ten. For at most 10 pieces, an axis therefore has at least 4. */
static void steps_of_axes(void **state)
{
	(void)state;
	assert_true(fabs(p4d_svg__axis_step(80, 10) - 10) < 1e-9);
	assert_true(fabs(p4d_svg__axis_step(81, 10) - 10) < 1e-9);
	assert_true(fabs(p4d_svg__axis_step(101, 10) - 20) < 1e-9);
	assert_true(fabs(p4d_svg__axis_step(0.043, 12) - 0.005) < 1e-12);
	for (double range = 1e-7; range < 1e9; range *= 1.37) {
		double pieces = range / p4d_svg__axis_step(range, 10);
		assert_true(pieces <= 10 + 1e-9 && pieces >= 4 - 1e-9);
	}
	assert_int_equal(p4d_svg__axis_decimals(20), 0);
	assert_int_equal(p4d_svg__axis_decimals(0.5), 1);
	assert_int_equal(p4d_svg__axis_decimals(0.002), 3);
	assert_true(p4d_svg__axis_step(0, 10) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(numbers_have_one_decimal),
	    cmocka_unit_test(neighbours_meet),
	    cmocka_unit_test(boxes_that_touch_are_joined),
	    cmocka_unit_test(areas_are_closed),
	    cmocka_unit_test(text_is_escaped),
	    cmocka_unit_test(a_file_is_written_whole),
	    cmocka_unit_test(unwritable_files_are_errors),
	    cmocka_unit_test(steps_of_axes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
