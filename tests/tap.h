// SPDX-License-Identifier: Apache-2.0
/*
 * tap.h - the test programs' words. A name is a sentence: ok(pop(loop) == -EPROTO, "a looped chain is refused").
 * A program ends with return done(); the runner counts its "ok", "not ok" and "# skip" lines. An abort fails it.
 */
#ifndef TESTS_TAP_H
#define TESTS_TAP_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static int tap_n, tap_failed;

__attribute__((format(printf, 4, 5), unused)) static int tap_ok(int good, const char *file,
								int line, const char *fmt, ...)
{
	va_list ap;

	printf("%s %d - ", good ? "ok" : "not ok", ++tap_n);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	if (!good) {
		printf(" (%s:%d)", file, line);
		tap_failed++;
	}
	printf("\n");
	fflush(stdout);
	return good;
}
#define ok(cond, ...) tap_ok(!!(cond), __FILE__, __LINE__, __VA_ARGS__)

/* Shows both numbers when they differ. */
#define is(got, want, ...)                                                                       \
	({                                                                                       \
		long long got_ = (long long)(got), want_ = (long long)(want);                    \
		int good_ = tap_ok(got_ == want_, __FILE__, __LINE__, __VA_ARGS__);              \
		if (!good_)                                                                      \
			printf("#   got %lld (0x%llx), want %lld (0x%llx)\n", got_, got_, want_, \
			       want_);                                                           \
		good_;                                                                           \
	})

/* A test that cannot run here, with the reason; counted, never silent. */
#define skip(why, ...)                              \
	do {                                        \
		printf("ok %d - # skip ", ++tap_n); \
		printf(__VA_ARGS__);                \
		printf(": %s\n", why);              \
	} while (0)

/* For set-up that must work for the test to mean anything. */
#define need(cond)                                                                           \
	do {                                                                                 \
		if (!(cond)) {                                                               \
			printf("not ok %d - set-up: %s (%s:%d)\n", ++tap_n, #cond, __FILE__, \
			       __LINE__);                                                    \
			exit(1);                                                             \
		}                                                                            \
	} while (0)

__attribute__((unused)) static int done(void)
{
	printf("1..%d\n", tap_n);
	return tap_failed ? 1 : 0;
}

#endif
