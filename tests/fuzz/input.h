// SPDX-License-Identifier: Apache-2.0
/*
 * input.h - the fuzzer's bytes as a stream of choices: what it has run out of is zero.
 */
#ifndef TESTS_FUZZ_INPUT_H
#define TESTS_FUZZ_INPUT_H

#include "../../vmm/base.h"

struct input {
	const uint8_t *p;
	size_t left;
};

/* The next n bytes (at most 8) as a number. */
static inline uint64_t take(struct input *in, unsigned n)
{
	uint64_t v = 0;

	n = (unsigned)MIN((size_t)n, in->left);
	memcpy(&v, in->p, n);
	in->p += n;
	in->left -= n;
	return v;
}

/* What must never be; not assert(), which a release build may leave out. */
static inline void must(bool cond)
{
	if (!cond)
		abort();
}

#endif
