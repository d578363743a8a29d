/* SPDX-License-Identifier: Apache-2.0 */
#include "data/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"

enum { USUAL_WIDTH = 80, NARROWEST_BAR = 10, WIDEST_BAR = 60 };

static int columns(void)
{
	struct winsize size;

	return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : USUAL_WIDTH;
}

void p4d_progress__start(p4d_progress *progress, const char *what, uint64_t total)
{
	*progress = (p4d_progress){isatty(STDERR_FILENO) == 1, what, total, p4d_clock_seconds(), 0};
}

static void draw_bar(int width, double fraction)
{
	char bar[WIDEST_BAR + 1];
	int filled = (int)(fraction * width);

	memset(bar, '.', (size_t)width);
	memset(bar, '#', (size_t)filled);
	bar[width] = '\0';
	fprintf(stderr, " [%s]", bar);
}

void p4d_progress__update(p4d_progress *progress, uint64_t done)
{
	char left[64], right[96] = "";

	if (!progress->shown)
		return;
	double at = p4d_clock_seconds(), seconds = at - progress->start,
	       rate = seconds > 0 ? (double)done / seconds : 0;
	if (progress->drawn > 0 && at - progress->drawn < 0.1)
		return;
	progress->drawn = at;
	/* a file may grow while it is read */
	double fraction =
	    progress->total && done < progress->total ? (double)done / (double)progress->total : 1;
	snprintf(left, sizeof(left), "%.40s", progress->what);
	if (progress->total) {
		unsigned rest = rate > 0 ? (unsigned)(((double)progress->total * (1 - fraction)) / rate) : 0;
		snprintf(right, sizeof(right), " %3.0f %%  %.1f MiB/s  %u:%02u left", 100 * fraction,
			 rate / 0x1p20, rest / 60, rest % 60);
	} else {
		snprintf(right, sizeof(right), " %.1f MiB  %.1f MiB/s", (double)done / 0x1p20, rate / 0x1p20);
	}
	int room = columns() - (int)strlen(left) - (int)strlen(right) - 4;
	fprintf(stderr, "\r\033[K%s", left);
	if (progress->total && room >= NARROWEST_BAR)
		draw_bar(room < WIDEST_BAR ? room : WIDEST_BAR, fraction);
	fputs(right, stderr);
	fflush(stderr);
}

void p4d_progress__end(p4d_progress *progress)
{
	if (progress->shown && progress->drawn > 0)
		fputs("\r\033[K", stderr);
	progress->shown = false;
}
