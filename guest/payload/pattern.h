// SPDX-License-Identifier: Apache-2.0
/*
 * pattern.h - the rule that every byte of test data follows, for the guest and for the host.
 *
 * Each 8 bytes derive from their block and their place in it, that is from their offset in the file or disk, and from
 * a seed that tells one writing from the next. So a reader knows every byte, and stale, shifted, swapped and torn data
 * show. What the host prepares has seed 0.
 */
#ifndef PAYLOAD_PATTERN_H
#define PAYLOAD_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PATTERN_BLOCK 4096u

/* The 8 bytes that contain offset off. The factor is odd, so different offsets never look alike. */
static inline uint64_t pattern_word(uint32_t seed, uint64_t off)
{
	return (((uint64_t)seed << 40) + off / 8 + 1) * 0x9e3779b97f4a7c15u;
}

static inline uint8_t pattern_byte(uint32_t seed, uint64_t off)
{
	return (uint8_t)(pattern_word(seed, off) >> 8 * (off % 8));
}

static inline void pattern_fill(uint8_t *p, size_t len, uint32_t seed, uint64_t off)
{
	for (; len && off % 8; len--)
		*p++ = pattern_byte(seed, off++);
	for (; len >= 8; len -= 8, p += 8, off += 8) {
		uint64_t w = pattern_word(seed, off);

		__builtin_memcpy(p, &w, sizeof(w));
	}
	for (; len; len--)
		*p++ = pattern_byte(seed, off++);
}

/* How many bytes are right before the first wrong one: len if all are. */
static inline size_t pattern_check(const uint8_t *p, size_t len, uint32_t seed, uint64_t off)
{
	size_t i = 0;

	while (i < len) {
		uint64_t w;

		if (len - i >= 8 && (off + i) % 8 == 0) {
			__builtin_memcpy(&w, p + i, sizeof(w));
			if (w == pattern_word(seed, off + i)) {
				i += 8;
				continue;
			}
		}
		if (p[i] != pattern_byte(seed, off + i))
			return i;
		i++;
	}
	return len;
}

/* Only the first and the last whole word of each block: what a benchmark can afford. */
static inline bool pattern_check_quick(const uint8_t *p, size_t len, uint32_t seed, uint64_t off)
{
	size_t n;

	for (size_t i = 0; i < len; i += n) {
		n = PATTERN_BLOCK - (off + i) % PATTERN_BLOCK;
		n = n < len - i ? n : len - i;
		if (n < 8)
			continue;
		if (pattern_check(p + i, 8, seed, off + i) != 8 ||
		    pattern_check(p + i + n - 8, 8, seed, off + i + n - 8) != 8)
			return false;
	}
	return true;
}

#endif
