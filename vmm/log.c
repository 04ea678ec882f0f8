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

#define LINE_MAX_BYTES  1024
#define LINE_TAIL_BYTES 300
#define TEXT_MAX_BYTES \
	16384 /* of a line before it is shortened: a few paths, each PATH_MAX at most */
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

/* Takes out the middle of what is longer than room; the length then. */
static size_t shorten(char *s, size_t n, size_t room)
{
	static const char gap[] = {'.', '.', '.'};
	size_t head = room - LINE_TAIL_BYTES - sizeof(gap);

	if (n <= room)
		return n;
	memcpy(s + head, gap, sizeof(gap));
	memmove(s + head + sizeof(gap), s + n - LINE_TAIL_BYTES, LINE_TAIL_BYTES);
	return room;
}

/* errno is what %m shows. */
printf_like(2, 0) static void write_line(enum log_level level, const char *fmt, va_list ap)
{
	static const char *const word[] = {"error", "warning", "info", "debug"};
	char line[TEXT_MAX_BYTES];
	int shown = errno, start = snprintf(line, sizeof(line), "wherry: %s: ", word[level]);
	size_t len;

	errno = shown;
	vsnprintf(line + start, sizeof(line) - start, fmt, ap);
	len = shorten(line, strlen(line), LINE_MAX_BYTES - 2); /* CR LF */
	make_printable(line, len);
	if (__atomic_load_n(&raw_terminal, __ATOMIC_RELAXED))
		line[len++] = '\r';
	line[len++] = '\n';
	emit(line, len);
}

void log_at(enum log_level level, const char *fmt, ...)
{
	int saved = errno;
	va_list ap;

	if (!level_shown(level))
		return;
	va_start(ap, fmt);
	write_line(level, fmt, ap);
	va_end(ap);
	errno = saved;
}

const char *log_remedy(int err, const char *otherwise)
{
	switch (err) {
	case EMFILE:
		return "raise ulimit -n";
	case ENFILE:
		return "raise ulimit -n, or the host's fs.file-max";
	case EAGAIN: /* of clone, above all */
		return "raise ulimit -u, or the host's kernel.threads-max";
	case ENOMEM:
		return "free memory on the host, or raise ulimit -v";
	default:
		return otherwise;
	}
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
