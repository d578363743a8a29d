/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of communication that one process can test. */
#include "support/support.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/comm.h"
#include "comm/rendezvous.h"
#include "comm/sum.h"

static void test_unusable_settings(void **state)
{
	p4d_ranks good_one, r;
	p4d_world *world = NULL;
	p4d_error err;

	(void)state;
	assert_int_equal(p4d_ranks_local(&good_one, 1, &err), 0);
	for (int i = 0; i < 6; i++) {
		r = good_one;
		switch (i) {
		case 0:
			r.size = 0;
			break;
		case 1:
			r.rank = 1;
			break;
		case 2:
			r.join_seconds = NAN;
			break;
		case 3:
			r.idle_seconds = 1;
			break;
		case 4:
			r.size = 2;
			r.port = 0;
			break;
		default:
			r.size = 2;
			r.host[0] = '\0';
		}
		assert_int_equal(p4d_world_open(&world, &r, &err), -1);
		assert_int_equal(err.code, P4D_E_VALUE);
		assert_null(world);
	}
	p4d_world_close(NULL);
	p4d_group_close(NULL);
}

static const p4d_comm_key one_key = {{1, ~(uint64_t)1}};

/* The expected hashes were made by OpenSSL (mac SIPHASH) with the key 1, ~1. */
static void test_mac(void **state)
{
	uint8_t message[64];
	uint64_t seen[64];

	(void)state;
	for (size_t i = 0; i < sizeof(message); i++)
		message[i] = (uint8_t)i;
	for (size_t n = 0; n < 64; n++) {
		seen[n] = p4d_wire__mac(one_key, message, n);
		assert_true(seen[n] != p4d_wire__mac((p4d_comm_key){{2, ~(uint64_t)1}}, message, n) &&
			    seen[n] != p4d_wire__mac((p4d_comm_key){{1, 0}}, message, n));
		for (size_t m = 0; m < n; m++)
			assert_true(seen[n] != seen[m]);
	}
	assert_true(seen[0] == 0x15f9c9e4409f3326 && seen[15] == 0x0e3ff85e1b29b9f0);
	p4d_comm_key none = p4d_wire__derive(one_key, message, 0),
		     some = p4d_wire__derive(one_key, message, 15);
	assert_true(none.word[0] == 0x89dcb19ca907ba55 && none.word[1] == 0xbff3b3db511bff7e);
	assert_true(some.word[0] == 0xf1b701e0a8d69f85 && some.word[1] == 0x2cbaa432c22643aa);
	uint64_t before = p4d_wire__mac(one_key, message, 64);
	for (int bit = 0; bit < 512; bit++) {
		message[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_true(p4d_wire__mac(one_key, message, 64) != before);
		message[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	assert_true(p4d_wire__mac(one_key, message, 64) == before);
}

static void test_lists(void **state)
{
	static const struct {
		const char *absent, *text;
	} cases[] = {{"........", ""}, {"x.......", "0"}, {".xx.....", "1, 2"}, {"..xxx..x", "2-4, 7"}};
	char text[64];
	bool absent[256];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (int r = 0; r < 8; r++)
			absent[r] = cases[i].absent[r] == 'x';
		p4d_rendezvous__rank_list(text, sizeof(text), absent, 8);
		assert_string_equal(text, cases[i].text);
	}
	for (int r = 0; r < 256; r++)
		absent[r] = r % 2;
	p4d_rendezvous__rank_list(text, sizeof(text), absent, 256);
	assert_true(strlen(text) < sizeof(text));
	assert_string_equal(text + strlen(text) - 3, "...");
}

static void test_addresses(void **state)
{
	static const char *const loopback[] = {"localhost", "127.0.0.1", "127.3.2.1", "::1"};
	static const char *const others[] = {"192.0.2.7", "2001:db8::1", "node1", "local"};

	(void)state;
	for (size_t i = 0; i < sizeof(loopback) / sizeof(loopback[0]); i++)
		assert_true(p4d_rendezvous__is_loopback(loopback[i]));
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_false(p4d_rendezvous__is_loopback(others[i]));
}

/* On rank 0's host, this host name means loopback, as with "127.0.1.1 h1" in /etc/hosts. On the other
 * hosts it does not. */
static void test_listens_on_one_address(void **state)
{
	const char *const launchers[] = {"", "192.0.2.1", "0x7f.2"};
	p4d_wire_address outward, at;
	bool routed = p4d_wire__address_toward(&outward, "192.0.2.1");
	p4d_rendezvous m;
	p4d_ranks r;
	p4d_error err;

	(void)state;
	assert_int_equal(p4d_ranks_local(&r, 1, &err), 0);
	snprintf(r.host, sizeof(r.host), "0x7f.1");
	assert_false(p4d_rendezvous__is_loopback(r.host));
	for (int i = 0; i < 3; i++) {
		snprintf(r.other_host, sizeof(r.other_host), "%s", launchers[i]);
		assert_int_equal(p4d_rendezvous__open(&m, &r, p4d_clock_seconds() + 5, &err), 0);
		assert_true(p4d_wire__address_local(&at, m.listener));
		p4d_rendezvous__close(&m, 1);
		at.port = 0;
		if (i == 1 && routed)
			assert_memory_equal(&at, &outward, sizeof(at));
		else
			assert_true(p4d_wire__address_is_loopback(&at));
	}
}

/* All 16-bit numbers survive a conversion to fp32 and back. Ties go to even, and large numbers become
 * infinity. */
static void test_sixteen_bits(void **state)
{
	(void)state;
	for (int t = 0; t < 2; t++) {
		p4d_dtype type = t ? P4D_DT_FP16 : P4D_DT_BF16;
		uint32_t infinity = t ? 0x7c00 : 0x7f80;
		float below, x, above, half;
		for (uint32_t bits = 0; bits < 0x10000; bits++) {
			uint16_t from = (uint16_t)bits, next = (uint16_t)(bits + 1), back;
			p4d_sum__load(&x, &from, 1, type);
			p4d_sum__store(&back, &x, 1, type);
			if ((bits & 0x7fff) > infinity) {
				assert_true(isnan(x) && (back & 0x7fff) > infinity);
				continue;
			}
			if (back != from)
				fail_msg("%04x became %04x", from, back);
			if ((bits & 0x7fff) >= infinity - 1)
				continue;
			p4d_sum__load(&above, &next, 1, type);
			half = (float)(((double)x + (double)above) / 2);
			if (half == x || half == above)
				continue; /* no number lies between these two */
			p4d_sum__store(&back, &half, 1, type);
			assert_int_equal(back, bits & 1 ? next : from);
			below = nextafterf(half, x);
			p4d_sum__store(&back, &below, 1, type);
			assert_int_equal(back, from);
			below = nextafterf(half, above);
			p4d_sum__store(&back, &below, 1, type);
			assert_int_equal(back, next);
		}
	}
	float edge[] = {65519.996f, 65520.0f, -65520.0f, 1e30f}, largest = 3.4e38f;
	uint16_t out[4];
	p4d_sum__store(out, edge, 4, P4D_DT_FP16);
	assert_true(out[0] == 0x7bff && out[1] == 0x7c00 && out[2] == 0xfc00 && out[3] == 0x7c00);
	p4d_sum__store(out, &largest, 1, P4D_DT_BF16);
	assert_int_equal(out[0], 0x7f80);
}

/* A sum is rounded only at its end: 256 + 1 + 1 is 258 in bf16, although 256 + 1 alone rounds to 256. */
static void test_rounded_once(void **state)
{
	uint16_t a = 0x4380, one = 0x3f80, sum;
	const void *operands[] = {&a, &one, &one};

	(void)state;
	p4d_sum__combine(&sum, operands, 3, 1, P4D_DT_BF16, P4D_SUM);
	assert_int_equal(sum, 0x4381);
	p4d_sum__combine(&sum, operands, 2, 1, P4D_DT_BF16, P4D_SUM);
	assert_int_equal(sum, 0x4380);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_unusable_settings),
	    cmocka_unit_test(test_mac),
	    cmocka_unit_test(test_lists),
	    cmocka_unit_test(test_addresses),
	    cmocka_unit_test(test_listens_on_one_address),
	    cmocka_unit_test(test_sixteen_bits),
	    cmocka_unit_test(test_rounded_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
