/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that others measured: logs of training programs, records of jobstats, answers of Prometheus. */
#include "support/support.h"

#include <unistd.h>

#include "measure/jobstats.h"
#include "measure/memory_log.h"
#include "measure/prometheus.h"

static char path[] = "/tmp/p4d-measure.XXXXXX";

static void put(const char *text)
{
	FILE *to = fopen(path, "w");

	assert_non_null(to);
	fputs(text, to);
	assert_int_equal(fclose(to), 0);
}

static void near(double value, double expected)
{
	if (value < expected - 0.005 || value > expected + 0.005)
		fail_msg("%g instead of %g", value, expected);
}

/* Lines as the programs print them, among other lines. The largest value of all ranks and steps is used. */
static void logs(void **state)
{
	static const struct {
		const char *text, *format, *what;
		double allocated, reserved, device, total;
	} of[] = {
	    {"time to initialize megatron (seconds): 6.437\n"
	     "[Rank 0] (after 1 iterations) memory (MB) | allocated: 17403.96 | max allocated: 30291.27 | "
	     "reserved: 33254.0 | max reserved: 33254.0\n"
	     " [2026-11-02 10:00:00] iteration 2/ 500 | consumed samples: 256 | lm loss: 1.09E+01 |\n"
	     "[Rank 4] (after 1 iterations) memory (MB) | allocated: 15403.5 | max allocated: 31232 | "
	     "reserved: 33792 | max reserved: 34816\n",
	     "Megatron-LM", "reserved", 30.5, 34, 0, 0},
	    {"[rank0]:2026-11-02 10:00:00,123 - root - INFO - CUDA capacity: NVIDIA H100 with 79.10GiB "
	     "memory\n"
	     "[rank0]:2026-11-02 10:00:10,123 - root - INFO - \033[31mstep:  1  \033[32mloss: 12.2  "
	     "\033[38;2;54;234;"
	     "195mgrad_norm:  3.0  \033[36mmemory: 41.05GiB(51.90%)  \033[34mtps: 1,234  \033[35mmfu: "
	     "40.1%\033[0m\n"
	     "[rank0]:2026-11-02 10:00:20,123 - root - INFO - step: 10  loss:  8.1  memory: 47.46GiB(60.00%) "
	     " tps: "
	     "5,678\n",
	     "torchtitan", "reserved", 0, 47.46, 0, 79.10},
	    {"{\"event\":\"start\",\"layout\":\"tp=2\"}\n"
	     "{\"event\":\"step\",\"step\":1,\"loss\":3.1,\"memory_bytes\":32212254720}\n"
	     "{\"event\":\"step\",\"step\":2,\"loss\":null,\"memory_bytes\":null}\n"
	     "{\"event\":\"memory\",\"rank\":0,\"device_bytes\":34359738368,\"device_total_bytes\":"
	     "85899345920}\n",
	     "p4d-train", "device", 30, 0, 32, 80},
	    {"{\"phase\": \"load\", \"step\": 1, \"allocated\": 16106127360, \"reserved\": 17179869184}\n"
	     "{\"phase\": \"backward\", \"step\": 2, \"allocated\": 64424509440, \"reserved\": "
	     "68719476736}\n",
	     "p4d rehearse", "reserved", 60, 64, 0, 0},
	    {"p4d-rehearsal 2\nprogram train.py\n"
	     "run 1 8 8 h100-80gb warn 1700000000 64424509440 84932558848 its GPUs are nearly full\n"
	     "run 1 4 4 h100-80gb reject 1700000000 84424509440 84932558848 out of memory\nend\n",
	     "p4d rehearse", "device", 0, 0, 60, 79.1},
	};
	p4d_memory_log log;
	const char *what;
	p4d_error err;

	(void)state;
	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		put(of[i].text);
		assert_int_equal(p4d_memory_log_read(&log, path, &err), 0);
		assert_string_equal(log.format, of[i].format);
		near(log.allocated, of[i].allocated);
		near(log.reserved, of[i].reserved);
		near(log.device, of[i].device);
		near(log.total, of[i].total);
		assert_true(p4d_memory_log_gib(&log, &what) > 0);
		assert_string_equal(what, of[i].what);
	}
}

/* Lines that look similar but contain no measurement. */
static void other_lines(void **state)
{
	static const char *const of[] = {
	    "",
	    "memory: 41.05GiB(51.90%)",
	    "step: 1 memory: nanGiB(nan%)",
	    "step: 1 memory: -1.0GiB(3%)",
	    "memory (MB) | allocated: 1 | max allocated: inf | max reserved: 3",
	    "memory (MB) | allocated: 1 | max allocated: - | max reserved: 3",
	    "max allocated: 12",
	    "{\"event\":\"step\",\"memory_bytes\":\"12\"}",
	    "{\"event\":\"step\",\"memory_bytes\":12",
	    "{\"event\":7,\"memory_bytes\":12}",
	    "{\"phase\":1,\"allocated\":12}",
	    "run 1 8 8 h100-80gb reject 1700000000 64424509440 84932558848",
	    "run 1 8 8",
	    "\033[31",
	    "\033[",
	};
	p4d_memory_log log = {.format = NULL};
	char line[128];
	p4d_error err;

	(void)state;
	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		snprintf(line, sizeof(line), "%s", of[i]);
		if (p4d_memory_log__line(&log, line))
			fail_msg("\"%s\" says something of memory", of[i]);
	}
	put("iteration 1\n");
	assert_int_equal(p4d_memory_log_read(&log, path, &err), -1);
	assert_int_equal(err.code, P4D_E_VALUE);
	assert_non_null(strstr(err.text, "no line has the memory of a GPU"));
	assert_int_equal(p4d_memory_log_read(&log, "/nonexistent", &err), -1);
	assert_int_equal(err.code, P4D_E_IO);
}

/* {"nodes":{"node01":{...,"gpu_total_memory":{"0":80 GiB,"1":...},"gpu_used_memory":{"0":30 GiB,"1":59.8
 * GiB}},"node02":{... 1 GiB}}} */
#define RECORD \
	"H4sIAAAAAAACA5WQyw6DIBBF/2XWxAwDCPgzjamkIVExFRet4d+L1LRh0UV387jnzmOHOQxuhW4vAfIjiiH242VyU7g/" \
	"oFMSGWyrG74Vdkqinxx0" \
	"ouEMrsuWXQyD27JdaoMdMHeUsVZIZSm78SpPb6gaURhBxImU1CfTSkJrtEX5YaIf/" \
	"bOPPswnY3lDRWyxMSnLyll0dP9Y8edKHLXQkhuS6TCv3tAi" \
	"FiwPEekFISG04VkBAAA="
#define WITHOUT_GPUS \
	"H4sIAAAAAAACA6tWystPSS1WsqpWyjMEkckFpUCeRW2tjlJJfkliTnxJZm6qkpWxmYGBjlI6WNKgFgCqfYrsNgAAAA=="

static void jobstats(void **state)
{
	double used, total;

	(void)state;
	if (!p4d_jobstats_is_built())
		skip();
	assert_true(p4d_jobstats_read("JS1:" RECORD, &used, &total));
	near(used, 59.8);
	near(total, 80);
	assert_true(p4d_jobstats_read("ticket 12 JS1:" RECORD " p4d-verdict:60.0of79.1GiB", &used, &total));
	near(used, 59.8);
	static const char *const none[] = {"",
					   "JS1:",
					   "JS1:Short",
					   "JS1:None",
					   "JS1:" WITHOUT_GPUS,
					   "JS2:" RECORD,
					   RECORD,
					   "JS1:H4sIAAAAAAACA5WQyw6DIBBF",
					   "JS1:AAAA",
					   NULL};
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		if (p4d_jobstats_read(none[i], &used, &total))
			fail_msg("\"%s\" is a record", none[i]);
		assert_true(used == 0 && total == 0);
	}
	/* a record with one damaged byte gives either no numbers or possible ones */
	char record[sizeof("JS1:" RECORD)] = "JS1:" RECORD;
	for (size_t i = 4; i < sizeof(record) - 1; i++) {
		const char was = record[i];
		record[i] = was == 'A' ? 'B' : 'A';
		if (p4d_jobstats_read(record, &used, &total))
			assert_true(used > 0 && used < 1e6);
		record[i] = was;
	}
}

static void prometheus(void **state)
{
	p4d_prometheus all = {.count = 0};
	p4d_error err;

	(void)state;
	put("{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":["
	    "{\"metric\":{\"jobid\":\"12\",\"minor_number\":\"0\"},\"value\":[1700000000.1,\"32212254720\"]},"
	    "{\"metric\":{\"jobid\":\"12\",\"minor_number\":\"1\"},\"value\":[1700000000.1,\"64209879040\"]},"
	    "{\"metric\":{\"jobid\":\"7\"},\"value\":[1700000000.1,\"NaN\"]},"
	    "{\"metric\":{\"jobid\":\"8\"},\"value\":[1700000000.1,\"0\"]},"
	    "{\"metric\":{\"instance\":\"node01\"},\"value\":[1700000000.1,\"64209879040\"]},"
	    "{\"metric\":{\"hpc_job\":\"9\",\"__name__\":\"DCGM_FI_DEV_FB_USED\"},\"values\":[[1,\"10240\"],["
	    "2,\"61235\"],[3,\"+Inf\"]]}"
	    "]}}");
	assert_int_equal(p4d_prometheus_read(&all, path, &err), 0);
	assert_int_equal(all.count, 2);
	near(p4d_prometheus_find(&all, "12"), 59.8);
	near(p4d_prometheus_find(&all, "9"), 59.8);
	near(p4d_prometheus_find(&all, "7"), 0);
	near(p4d_prometheus_find(&all, "99"), 0);
	assert_int_equal(all.without_job, 1);
	assert_int_equal(all.dropped, 3);
	p4d_prometheus_free(&all);
	static const char *const bad[] = {
	    "",
	    "[]",
	    "{\"status\":\"error\",\"error\":\"query timed out\"}",
	    "{\"data\":{\"result\":3}}",
	    "{\"data\":[]}",
	    "{\"data\":{\"result\":[]}}",
	    "{\"data\":{\"result\":[1,null,{\"metric\":3},{\"metric\":{\"jobid\":\"1\"},\"value\":3}]}}"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		all = (p4d_prometheus){.count = 0};
		put(bad[i]);
		if (p4d_prometheus_read(&all, path, &err) == 0)
			fail_msg("%s is an answer", bad[i]);
		p4d_prometheus_free(&all);
	}
}

static int make_file(void **state)
{
	(void)state;
	const int fd = mkstemp(path);
	return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
	(void)state;
	return unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(logs),
	    cmocka_unit_test(other_lines),
	    cmocka_unit_test(jobstats),
	    cmocka_unit_test(prometheus),
	};

	return cmocka_run_group_tests_name("measure", tests, make_file, remove_file);
}
