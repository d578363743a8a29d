/* SPDX-License-Identifier: Apache-2.0 */
/* The tape simulator, compared with calculations by hand. */
#include "support/support.h"

#include "tape/op.h"

/*
 * A tape with three operations. A matmul of x (1 KiB) with a weight gives y (2 KiB). An elementwise
 * operation gives z, and saves y for its backward pass. The last operation gives the result, a quarter of
 * z (512 bytes), and needs 4 KiB while it runs.
 */
static p4d_tape_tensor written(p4d_tape_writer *w)
{
	w->tokens = 1;
	w->weight = 1;
	const p4d_tape_tensor x = p4d_op_begin(w, 512, 2, true);
	const p4d_tape_tensor y = p4d_op_made(w, 1024, 2, true);
	p4d_tape_operation *o = p4d_op_append(w, x, y, P4D_NEW_GRADIENT);

	o->saved[0] = x.value;
	o->weight = 256;
	const p4d_tape_tensor z = p4d_op_map(w, y, true, false);
	p4d_op_append(w, z, p4d_op_made(w, 256, 2, true), P4D_NEW_GRADIENT)->scratch = 4096;
	return y;
}

static void assert_pass(p4d_tape_pass pass, int64_t most, int64_t end)
{
	assert_int_equal(pass.most.live + pass.most.weights, most);
	assert_int_equal(pass.end.live, end);
}

static void saved_by_operations(void **state)
{
	p4d_tape tape;
	p4d_tape_writer w = {.tape = &tape};

	(void)state;
	written(&w);
	assert_pass(p4d_tape_forward(&tape, true, false, false), 2048 + 2048 + 512 + 4096, 2048 + 512);
	/* at the peak, y and the gradients of z and y exist; the result's gradient is already free */
	const p4d_tape_pass back = p4d_tape_backward(&tape, false, false);
	assert_pass(back, 2048 - 512 + 2048, 1024 - (512 + 1024 + 2048));
	assert_int_equal(back.end.weights, 256);
	assert_int_equal(p4d_tape_backward(&tape, true, false).end.weights, 0);
}

/* The last operation saves nothing. Its backward pass ends before the previous operation needs y. At that
 * time, the gradient of z and all recomputed tensors exist. */
static void recomputed_inside_the_backward_pass(void **state)
{
	p4d_tape tape;
	p4d_tape_writer w = {.tape = &tape};
	const int64_t gradient = 2048 - 512;

	(void)state;
	written(&w);
	assert_pass(p4d_tape_selected(&tape), 2048 + 512 + 4096, 512); /* y is free when the last operation
									* runs */
	const p4d_tape_pass again = p4d_tape_again_selected(&tape);
	assert_pass(again, 2048 + 2048 + 512 + 4096, 2048);
	const p4d_tape_weights way = {.reduced = false};
	p4d_tape_pass back;
	p4d_tape_backward_in(&tape, &again, true, &way, 1, &back);
	assert_pass(back, gradient + again.most.live, -512);
}

/* Three treatments of parameter gradients in one pass: kept, freed at once, and cast from one byte to four
 * and kept. */
static void ways_to_treat_gradients_of_parameters(void **state)
{
	p4d_tape tape;
	p4d_tape_writer w = {.tape = &tape};
	const p4d_tape_weights way[] = {{false, 0, 0}, {true, 0, 0}, {false, 1, 4}};
	/* when the matmul's weight gradient exists, the gradients of x and y exist as well; z, y and the
	 * result's gradient are free */
	const int64_t live = 2048 + 1024 - 512 - 2048;
	p4d_tape_pass pass[3];

	(void)state;
	written(&w);
	tape.operation[0].weight = 8192;
	p4d_tape_backward_in(&tape, NULL, false, way, 3, pass);
	assert_int_equal(pass[0].most.live + pass[0].most.weights, live + 8192);
	assert_int_equal(pass[1].most.live + pass[1].most.weights, live + 8192);
	assert_int_equal(pass[2].most.live + pass[2].most.weights,
			 1024 - (512 + 1024 + 2048) + 8192 + 4 * 8192);
	assert_int_equal(pass[0].end.weights, 8192);
	assert_int_equal(pass[1].end.weights, 0);
	assert_int_equal(pass[2].end.weights, 4 * 8192);
	assert_true(pass[0].end.live == pass[1].end.live && pass[1].end.live == pass[2].end.live);
}

static void results_that_stay(void **state)
{
	p4d_tape tape;
	p4d_tape_writer w = {.tape = &tape};

	(void)state;
	written(&w);
	tape.operation[0].stays = true;
	assert_pass(p4d_tape_selected(&tape), 2048 + 2048 + 512 + 4096, 2048 + 512);
	assert_pass(p4d_tape_again_selected(&tape), 2048 + 512 + 4096, 0);
}

/* An operation that exceeds the tape's size is an error, and does not overrun memory. */
static void too_long(void **state)
{
	p4d_tape tape;
	p4d_tape_writer w = {.tape = &tape};
	p4d_tape_tensor x = written(&w);

	(void)state;
	for (int i = 0; i < 2 * P4D_TAPE_OPERATIONS; i++)
		x = p4d_op_map(&w, x, true, true);
	assert_true(tape.overflow && tape.operations <= P4D_TAPE_OPERATIONS &&
		    tape.values <= P4D_TAPE_VALUES);
	p4d_tape_backward(&tape, true, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(saved_by_operations),
					   cmocka_unit_test(recomputed_inside_the_backward_pass),
					   cmocka_unit_test(ways_to_treat_gradients_of_parameters),
					   cmocka_unit_test(results_that_stay), cmocka_unit_test(too_long)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
