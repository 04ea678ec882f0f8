// SPDX-License-Identifier: Apache-2.0
/*
 * bytes.h - appends little-endian fields to a buffer of bounded size: how the ACPI and MP tables
 * are written.
 *
 * The first field that does not fit sets full, and every later call does nothing, so a builder
 * writes everything and checks once (bytes_result). Lengths and checksums are known only at the
 * end: bytes_patch_*() and bytes_checksum() fill them in. All in one buffer that the caller owns;
 * no allocation.
 */
#ifndef VMM_BYTES_H
#define VMM_BYTES_H

#include "base.h"

struct bytes {
	uint8_t *out;
	size_t cap, len;
	bool full;
};

static inline void bytes_put(struct bytes *b, const void *p, size_t n)
{
	if (b->full || n > b->cap - b->len) {
		b->full = true;
		return;
	}
	memcpy(b->out + b->len, p, n);
	b->len += n;
}
static inline void bytes_u8(struct bytes *b, uint8_t v)
{
	bytes_put(b, &v, sizeof(v));
}
static inline void bytes_u16(struct bytes *b, uint16_t v)
{
	bytes_put(b, &(le16){htole16(v)}, sizeof(v));
}
static inline void bytes_u32(struct bytes *b, uint32_t v)
{
	bytes_put(b, &(le32){htole32(v)}, sizeof(v));
}
static inline void bytes_u64(struct bytes *b, uint64_t v)
{
	bytes_put(b, &(le64){htole64(v)}, sizeof(v));
}
static inline void bytes_zero(struct bytes *b, size_t n)
{
	while (n-- && !b->full)
		bytes_u8(b, 0);
}
/* Zeros up to the next multiple of align of the offset in the buffer. */
static inline void bytes_align(struct bytes *b, size_t align)
{
	bytes_zero(b, ALIGN_UP(b->len, align) - b->len);
}

/* Overwrites what was appended at offset at. */
static inline void bytes_patch(struct bytes *b, size_t at, const void *p, size_t n)
{
	if (!b->full)
		memcpy(b->out + at, p, n);
}
static inline void bytes_patch_u16(struct bytes *b, size_t at, uint16_t v)
{
	bytes_patch(b, at, &(le16){htole16(v)}, sizeof(v));
}
static inline void bytes_patch_u32(struct bytes *b, size_t at, uint32_t v)
{
	bytes_patch(b, at, &(le32){htole32(v)}, sizeof(v));
}
static inline void bytes_patch_u64(struct bytes *b, size_t at, uint64_t v)
{
	bytes_patch(b, at, &(le64){htole64(v)}, sizeof(v));
}
/*
 * Sets the byte at offset sum, which must be 0, so that the n bytes from offset from add up to 0.
 */
static inline void bytes_checksum(struct bytes *b, size_t sum, size_t from, size_t n)
{
	uint8_t total = 0;

	if (b->full)
		return;
	for (size_t i = from; i < from + n; i++)
		total = (uint8_t)(total + b->out[i]);
	b->out[sum] = (uint8_t)-total;
}

/* How many bytes were written, or -ENOSPC. */
static inline int bytes_result(const struct bytes *b)
{
	return b->full ? -ENOSPC : (int)b->len;
}

#endif
