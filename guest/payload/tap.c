// SPDX-License-Identifier: Apache-2.0
/*
 * tap.c - test lines on the console, in the form that the host's tests have: "ok 3 - a sentence".
 */
#include "payload.h"

static unsigned tests;

static void __attribute__((format(printf, 4, 0)))
result(bool good, const char *file, int line, const char *fmt, va_list ap)
{
	print("%s %u - ", good ? "ok" : "not ok", ++tests);
	print_args(fmt, ap);
	if (!good)
		print(" (%s:%d)", file, line);
	print("\n");
}

bool tap_ok(bool good, const char *file, int line, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	result(good, file, line, fmt, ap);
	va_end(ap);
	return good;
}

bool tap_is(uint64_t got, uint64_t want, const char *file, int line, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	result(got == want, file, line, fmt, ap);
	va_end(ap);
	if (got != want)
		print("#   got %ld (0x%lx), want %ld (0x%lx)\n", (int64_t)got, got, (int64_t)want,
		      want);
	return got == want;
}

void tap_end(void)
{
	if (tests)
		print("1..%u\n", tests);
}
