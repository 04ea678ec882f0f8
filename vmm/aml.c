// SPDX-License-Identifier: Apache-2.0
/*
 * aml.c - the little of AML and of resource templates that the DSDT needs, as bytes.
 *
 * Packages nest, and each begins with the length of all that follows: it is left open and patched
 * when it is closed. The caller's buffer may be full at any point; nothing is written then.
 * Spec: ACPI 6.3, 20.2 (AML), 6.4 (resources). Calls: bytes.h.
 */
#include "aml.h"
#include "mem.h"
#include <assert.h>

enum {
	AML_ZERO = 0x00,
	AML_ONE = 0x01,
	AML_NAME = 0x08,
	AML_BYTE = 0x0a,
	AML_WORD = 0x0b,
	AML_DWORD = 0x0c,
	AML_STRING = 0x0d,
	AML_SCOPE = 0x10,
	AML_BUFFER = 0x11,
	AML_PACKAGE = 0x12,
	AML_EXT = 0x5b,
	AML_EXT_DEVICE = 0x82,
};

void aml_int(struct bytes *b, uint32_t v)
{
	if (v <= 1) {
		bytes_u8(b, v ? AML_ONE : AML_ZERO);
	} else if (v <= UINT8_MAX) {
		bytes_u8(b, AML_BYTE);
		bytes_u8(b, (uint8_t)v);
	} else if (v <= UINT16_MAX) {
		bytes_u8(b, AML_WORD);
		bytes_u16(b, (uint16_t)v);
	} else {
		bytes_u8(b, AML_DWORD);
		bytes_u32(b, v);
	}
}

/* Name(seg, ...): the object follows. seg is four characters. */
void aml_name(struct bytes *b, const char *seg)
{
	bytes_u8(b, AML_NAME);
	bytes_put(b, seg, 4);
}

void aml_name_int(struct bytes *b, const char *seg, uint32_t v)
{
	aml_name(b, seg);
	aml_int(b, v);
}

/*
 * A package length counts itself and all that follows, which is not known yet: always the
 * three-byte form (up to 1 MiB), filled in by aml_close().
 */
static size_t aml_open(struct bytes *b)
{
	size_t at = b->len;

	bytes_zero(b, 3);
	return at;
}

void aml_close(struct bytes *b, size_t at)
{
	size_t n = b->len - at;
	uint8_t len[3] = {(uint8_t)(0x80 | (n & 0xf)), (uint8_t)(n >> 4), (uint8_t)(n >> 12)};

	assert(n < MIB(1));
	bytes_patch(b, at, len, sizeof(len));
}

size_t aml_open_scope(struct bytes *b, const char *path)
{
	size_t at;

	bytes_u8(b, AML_SCOPE);
	at = aml_open(b);
	bytes_put(b, path, strlen(path));
	return at;
}

size_t aml_open_device(struct bytes *b, const char *seg)
{
	size_t at;

	bytes_u8(b, AML_EXT);
	bytes_u8(b, AML_EXT_DEVICE);
	at = aml_open(b);
	bytes_put(b, seg, 4);
	return at;
}

size_t aml_open_package(struct bytes *b, unsigned n)
{
	size_t at;

	bytes_u8(b, AML_PACKAGE);
	at = aml_open(b);
	bytes_u8(b, (uint8_t)n);
	return at;
}

/*
 * "PNP0501": three letters of five bits, four hex digits, as one big-endian number (ACPI 19.6,
 * EISAID).
 */
static void aml_eisa_id(struct bytes *b, const char *id)
{
	unsigned letters = 0, digits = (unsigned)strtoul(id + 3, NULL, 16);

	for (unsigned i = 0; i < 3; i++)
		letters = letters << 5 | ((unsigned)id[i] & 0x1f);
	bytes_u8(b, AML_DWORD);
	bytes_u32(b, __builtin_bswap32(letters << 16 | digits));
}

/* An EISA id has seven characters and is written packed, an ACPI id eight and is a string. */
void aml_name_id(struct bytes *b, const char *seg, const char *id)
{
	aml_name(b, seg);
	if (strlen(id) == 7) {
		aml_eisa_id(b, id);
		return;
	}
	bytes_u8(b, AML_STRING);
	bytes_put(b, id, strlen(id) + 1);
}

/* ---- resource templates (ACPI 6.4): a buffer of descriptors ---- */

enum {
	RES_IO = 0x47,
	RES_END = 0x79,
	RES_MEMORY32_FIXED = 0x86,
	RES_DWORD_SPACE = 0x87,
	RES_WORD_SPACE = 0x88,
	RES_INTERRUPT = 0x89,
	RES_QWORD_SPACE = 0x8a,
};
enum { SPACE_MEMORY = 0, SPACE_BUS = 2 };
enum {
	SPACE_MIN_MAX_FIXED = 0x0c,
	SPACE_READ_WRITE = 0x01
}; /* positive decode, producer, not cached */

struct aml_crs aml_crs_open(struct bytes *b)
{
	struct aml_crs c;

	aml_name(b, "_CRS");
	bytes_u8(b, AML_BUFFER);
	c.package = aml_open(b);
	bytes_u8(b, AML_WORD);
	c.size = b->len;
	bytes_u16(b, 0);
	return c;
}

void aml_crs_close(struct bytes *b, const struct aml_crs *c)
{
	bytes_u8(b, RES_END);
	bytes_u8(b, 0); /* no checksum */
	bytes_patch_u16(b, c->size, (uint16_t)(b->len - c->size - 2));
	aml_close(b, c->package);
}

void aml_res_io(struct bytes *b, uint64_t base, uint64_t len)
{
	assert(base <= UINT16_MAX && len >= 1 && len <= UINT8_MAX);
	bytes_u8(b, RES_IO);
	bytes_u8(b, 1); /* decodes 16 bits */
	bytes_u16(b, (uint16_t)base);
	bytes_u16(b, (uint16_t)base);
	bytes_u8(b, 1);
	bytes_u8(b, (uint8_t)len);
}

void aml_res_memory32(struct bytes *b, uint64_t base, uint64_t len)
{
	assert(len >= 1 && base < MEM_HIGH && len <= MEM_HIGH - base);
	bytes_u8(b, RES_MEMORY32_FIXED);
	bytes_u16(b, 9);
	bytes_u8(b, SPACE_READ_WRITE);
	bytes_u32(b, (uint32_t)base);
	bytes_u32(b, (uint32_t)len);
}

/* Active high, exclusive. */
void aml_res_interrupt(struct bytes *b, uint32_t gsi, bool level)
{
	bytes_u8(b, RES_INTERRUPT);
	bytes_u16(b, 6);
	bytes_u8(b, 0x01 | (level ? 0 : 0x02)); /* consumer; edge */
	bytes_u8(b, 1);
	bytes_u32(b, gsi);
}

void aml_res_bus(struct bytes *b, uint16_t first, uint16_t last)
{
	bytes_u8(b, RES_WORD_SPACE);
	bytes_u16(b, 13);
	bytes_u8(b, SPACE_BUS);
	bytes_u8(b, SPACE_MIN_MAX_FIXED);
	bytes_u8(b, 0);
	bytes_u16(b, 0); /* granularity */
	bytes_u16(b, first);
	bytes_u16(b, last);
	bytes_u16(b, 0); /* translation */
	bytes_u16(b, (uint16_t)(last - first + 1));
}

void aml_res_window32(struct bytes *b, uint32_t base, uint32_t len)
{
	bytes_u8(b, RES_DWORD_SPACE);
	bytes_u16(b, 23);
	bytes_u8(b, SPACE_MEMORY);
	bytes_u8(b, SPACE_MIN_MAX_FIXED);
	bytes_u8(b, SPACE_READ_WRITE);
	bytes_u32(b, 0);
	bytes_u32(b, base);
	bytes_u32(b, base + len - 1);
	bytes_u32(b, 0);
	bytes_u32(b, len);
}

/* Not marked prefetchable: a kernel would then keep BARs that are not prefetchable out of it. */
void aml_res_window64(struct bytes *b, uint64_t base, uint64_t len)
{
	bytes_u8(b, RES_QWORD_SPACE);
	bytes_u16(b, 43);
	bytes_u8(b, SPACE_MEMORY);
	bytes_u8(b, SPACE_MIN_MAX_FIXED);
	bytes_u8(b, SPACE_READ_WRITE);
	bytes_u64(b, 0);
	bytes_u64(b, base);
	bytes_u64(b, base + len - 1);
	bytes_u64(b, 0);
	bytes_u64(b, len);
}
