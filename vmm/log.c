// SPDX-License-Identifier: Apache-2.0
/*
 * log.c - lines on standard error, and the limits for lines a guest can provoke.
 *
 * A line is put together on the stack and leaves in one write(2), so that it is whole whatever
 * other threads print, and so that it works in a thread whose filter allows little more than write.
 * Level, terminal mode and patience are the only state: single words, read and set without a lock. A full or
 * closed standard error loses the line: there is nowhere to say so. Any thread. Calls: libc only.
 */
#include "log.h"
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#define LINE_MAX_BYTES   1024
#define LINES_PER_SECOND 10

static enum log_level max_level = LOG_WARN;
static bool raw_terminal;
static int patience_ms = 1000;

void log_set_level(enum log_level level)
{
	__atomic_store_n(&max_level, level, __ATOMIC_RELAXED);
}

void log_set_raw_terminal(bool raw)
{
	__atomic_store_n(&raw_terminal, raw, __ATOMIC_RELAXED);
}

void log_set_patience(int ms)
{
	__atomic_store_n(&patience_ms, ms, __ATOMIC_RELAXED);
}

/* Not again after EINTR: a vCPU that is kicked while it writes has to go. */
static void emit(const char *line, size_t len)
{
	struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
	int ms = __atomic_load_n(&patience_ms, __ATOMIC_RELAXED);
	struct timespec wait = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

	if (ppoll(&p, 1, &wait, NULL) == 1)
		(void)!write(STDERR_FILENO, line, len);
}

static bool level_shown(enum log_level level)
{
	return level <= __atomic_load_n(&max_level, __ATOMIC_RELAXED);
}

/* A path or a guest's string may hold line ends or escape sequences: a line stays a line of text. */
static void make_printable(char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f)
			s[i] = '?';
}

void log_at(enum log_level level, const char *fmt, ...)
{
	static const char *const word[] = {"error", "warning", "info", "debug"};
	char line[LINE_MAX_BYTES];
	const size_t room =
		sizeof(line) - 2; /* text and its NUL; CR LF takes the NUL's place and one more */
	int saved = errno, start;
	size_t len;
	va_list ap;

	if (!level_shown(level))
		return;
	start = snprintf(line, room, "wherry: %s: ", word[level]);

	errno = saved; /* for %m */
	va_start(ap, fmt);
	vsnprintf(line + start, room - start, fmt, ap);
	va_end(ap);

	len = strlen(line); /* not start + n: a long line was cut */
	make_printable(line, len);
	if (__atomic_load_n(&raw_terminal, __ATOMIC_RELAXED))
		line[len++] = '\r';
	line[len++] = '\n';
	emit(line, len);
	errno = saved;
}

/*
 * Two threads that meet at the turn of a second may let a few lines more through; the counts are
 * never torn. Lines below the level are not counted, or a quiet program would report how many lines
 * it did not want to print.
 */
bool log_limit_ok(struct log_limit *l, enum log_level level)
{
	struct timespec now;
	unsigned left_out;

	if (!level_shown(level))
		return false;
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (__atomic_exchange_n(&l->second, now.tv_sec, __ATOMIC_RELAXED) != now.tv_sec) {
		__atomic_store_n(&l->lines, 0, __ATOMIC_RELAXED);
		left_out = __atomic_exchange_n(&l->left_out, 0, __ATOMIC_RELAXED);
		if (left_out)
			log_at(level, "%u lines like the next one were left out", left_out);
	}
	if (__atomic_fetch_add(&l->lines, 1, __ATOMIC_RELAXED) < LINES_PER_SECOND)
		return true;
	__atomic_fetch_add(&l->left_out, 1, __ATOMIC_RELAXED);
	return false;
}
