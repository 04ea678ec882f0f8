// SPDX-License-Identifier: Apache-2.0
/*
 * log.h - one line per event: "error: blk0: /img: No space left on device".
 *
 * Every message names its object first and ends, where a call failed, with the errno text ("%m" in the format).
 * All functions keep errno and may be called on any thread; each line is one write(2) to standard error, so lines of
 * different threads do not mix. Lines a guest can provoke go through log_once() or log_limited().
 */
#ifndef VMM_LOG_H
#define VMM_LOG_H

#include "base.h"

enum log_level { LOG_ERR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* Lines above the level are dropped. The start level is LOG_WARN. */
void log_set_level(enum log_level level);
/* The terminal is in raw mode: end lines with CR LF. */
void log_set_raw_terminal(bool raw);

/*
 * How long a line waits for the reader of standard error (a full pipe, a stopped terminal) before it is lost. 0 while a
 * guest runs: what it can provoke must not hold the thread that says so. The start value is a second.
 */
void log_set_patience(int ms);

/* A line that is too long loses its middle: its beginning names the object, its end says why and what to do. */
void log_at(enum log_level level, const char *fmt, ...) printf_like(2, 3);
#define log_err(...)   log_at(LOG_ERR, __VA_ARGS__)
#define log_warn(...)  log_at(LOG_WARN, __VA_ARGS__)
#define log_info(...)  log_at(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_at(LOG_DEBUG, __VA_ARGS__)

/*
 * What to do where the process or the host has run out of descriptors, threads or memory, which may happen to any call;
 * for every other errno what the caller would say.
 */
const char *log_remedy(int err, const char *otherwise);

/* A flag in the object whose fault it is: the line is written the first time only. */
struct log_once {
	unsigned char said;
};
#define log_once(once, level, ...)                                           \
	do {                                                                 \
		if (!__atomic_test_and_set(&(once)->said, __ATOMIC_RELAXED)) \
			log_at(level, __VA_ARGS__);                          \
	} while (0)

/* At most ten lines a second per object; the first line after a pause says how many were left out. */
struct log_limit {
	int64_t second;
	unsigned lines, left_out;
};
/* For the macro: may a line of this level be written now? False, and not counted, if the level is not shown. */
bool log_limit_ok(struct log_limit *, enum log_level);
#define log_limited(limit, level, ...)              \
	do {                                        \
		if (log_limit_ok(limit, level))     \
			log_at(level, __VA_ARGS__); \
	} while (0)

#endif
