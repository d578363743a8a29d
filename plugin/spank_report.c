/* SPDX-License-Identifier: Apache-2.0 */
#include "spank_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

#include "client_option.h"
#include "guard/verdict_log.h"
#include "slurm_compat.h"

void p4d_spank_report_text(const char *text)
{
	while (*text) {
		int length = (int)strcspn(text, "\n");
		slurm_spank_log("%.*s", length, text);
		text += length;
		text += *text == '\n';
	}
}

void p4d_spank_report_verdict(const p4d_verdict *verdict)
{
	char text[4096];

	const bool advice = verdict->action == P4D_PASS || (verdict->read && verdict->action != P4D_REJECT);
	if (advice && !p4d_client_talks())
		return;
	p4d_spank_report_text(p4d_verdict_text(verdict, text, sizeof(text)));
}

void p4d_spank_report_refusal(const p4d_site *site, const char *event, const p4d_job *job,
			      const p4d_verdict *verdict)
{
	char line[P4D_VERDICT_LINE], id[16] = "";

	if (p4d_site_client_log(site) != P4D_CLIENT_LOG_SYSLOG)
		return;
	if (p4d_client_job_id())
		snprintf(id, sizeof(id), "%u", p4d_client_job_id());
	char *name = p4d_client_option("job-name");
	const p4d_verdict_subject subject = {
	    .event = event, .source = "client", .name = name, .job_id = id, .uid = getuid(), .job = job};
	syslog(LOG_USER | LOG_NOTICE, "%s", p4d_verdict_line(&subject, verdict, line, sizeof(line)));
	free(name);
}

void p4d_spank_report_memory(const p4d_verdict *verdict)
{
	const p4d_estimate *estimate = &verdict->estimate;

	if (!verdict->judged)
		return;
	slurm_spank_log("p4d: stage %" PRIu32 " of %" PRIu64 ", %s: %.1f of %.1f GiB", estimate->stage,
			verdict->layout.pp, p4d_memory_phase_name(estimate->peak.phase),
			p4d_to_gib(estimate->peak.device_bytes), p4d_to_gib(estimate->capacity_bytes));
	for (int i = 0; i < P4D_PART_COUNT; i++)
		if (estimate->peak.part[i])
			slurm_spank_log("p4d:   %-20s %8.2f GiB", p4d_memory_class_name((p4d_memory_class)i),
					p4d_to_gib(estimate->peak.part[i]));
}
