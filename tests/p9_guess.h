// SPDX-License-Identifier: Apache-2.0
/*
 * p9_guess.h - 9P messages made of chance: of any type, on any fid, with what is wrong in one of them.
 *
 * A message is built from bytes by the shape of its type, so that fids, names, counts and tags mean something most of the
 * time; the spoil byte says what is then broken of it. The fuzzer's input and random numbers are the same to this.
 */
#ifndef TESTS_P9_GUESS_H
#define TESTS_P9_GUESS_H

#include "fuzz/input.h"
#include "p9_door.h"

enum {
	SPOIL_CUT = 1,   /* both buffers in two */
	SPOIL_BYTES = 2, /* each byte by itself */
	SPOIL_LIE = 4,   /* one byte of the header */
	SPOIL_SHORT = 8, /* the end of the body is not there */
	SPOIL_NO_ROOM = 16,
	SPOIL_RAW = 32,   /* a body of plain bytes */
	SPOIL_EXTRA = 64, /* more behind the message */
	SPOIL_TYPE = 128, /* whatever type */
};

#define GUESS_FIDS 12
#define GUESS_TAGS 32

/*
 * What a body is made of:
 *
 *   f fid   o 64-bit number, small   O 64-bit number   w 32-bit number, small   W 32-bit number   z 32 bits of zeros
 *   b byte   m mode   l flags of open   v bits of attributes   u flag of unlink   k flags of locks   t tag   c count
 *   M size of a message   s size of an attribute   N name   X name of an attribute   T target   A path   V version
 *   Q names of a walk   L length of data   D data
 */
static const struct shape {
	uint8_t type;
	const char *fields;
} guess_shapes[] = {
	{P9_TSTATFS, "f"},      {P9_TLOPEN, "fl"},         {P9_TLCREATE, "fNlmz"},
	{P9_TSYMLINK, "fNTz"},  {P9_TMKNOD, "fNmwwz"},     {P9_TRENAME, "ffN"},
	{P9_TREADLINK, "f"},    {P9_TGETATTR, "fO"},       {P9_TSETATTR, "fvmwwooooo"},
	{P9_TXATTRWALK, "ffX"}, {P9_TXATTRCREATE, "fXsw"}, {P9_TREADDIR, "foc"},
	{P9_TFSYNC, "fw"},      {P9_TLOCK, "fbkoowN"},     {P9_TGETLOCK, "fboowN"},
	{P9_TLINK, "ffN"},      {P9_TMKDIR, "fNmz"},       {P9_TRENAMEAT, "fNfN"},
	{P9_TUNLINKAT, "fNu"},  {P9_TVERSION, "MV"},       {P9_TAUTH, "ffN"},
	{P9_TATTACH, "faNAW"},  {P9_TFLUSH, "t"},          {P9_TWALK, "ffQ"},
	{P9_TREAD, "foc"},      {P9_TWRITE, "foLD"},       {P9_TCLUNK, "f"},
	{P9_TREMOVE, "f"},
};

static const char *const guess_names[] = {"f",  "d", "g",   "s", "p",       "new",
					  "..", ".", "d/g", "",  "outside", "new2"};
static const char *const guess_attrs[] = {
	"user.a", "user.virtfs.uid", "security.capability", "", "system.posix_acl_access", "a"};
static const char *const guess_targets[] = {"f", "../outside/secret", "/etc/passwd", "d", ""};
static const char *const guess_paths[] = {"", "d", "/d/", "..", "d/../..", "s", "f", "../outside"};
static const char *const guess_versions[] = {"9P2000.L", "9P2000.L", "9P2000.L", "9P2000.u", ""};

static void guess_number(struct msg *m, uint64_t v, size_t n)
{
	msg_add(m, &v, n);
}

static void guess_string(struct msg *m, const char *const *from, size_t n, struct input *in)
{
	static const char longest[257] = {[0 ... 255] = 'n'};
	const uint64_t i = take(in, 1);

	msg_add_string(m, i == 255 ? longest : i == 254 ? longest + 1 : from[i % n]);
}

static void guess_walk(struct msg *m, struct input *in)
{
	const uint64_t n = take(in, 1) % 20;

	guess_number(m, n, 2);
	for (unsigned i = 0; i < n; i++)
		guess_string(m, guess_names, ARRAY_LEN(guess_names), in);
}

/* The length goes where the L was, four bytes before. */
static void guess_data(struct msg *m, struct input *in)
{
	const size_t n = MIN((size_t)take(in, 1), in->left);
	const uint32_t said = (uint32_t)n;

	memcpy(m->bytes + m->len - 4, &said, 4);
	msg_add(m, in->p, n);
	in->p += n;
	in->left -= n;
}

static uint64_t guess_fid(struct input *in)
{
	const uint64_t v = take(in, 1);

	return v == 255 ? P9_NOFID : v == 254 ? take(in, 4) : v % GUESS_FIDS;
}

static uint64_t guess_small(struct input *in)
{
	const uint64_t v = take(in, 2);

	return v == 0xffff ? UINT64_MAX : v == 0xfffe ? INT64_MAX : v == 0xfffd ? UINT32_MAX : v;
}

static void guess_text(struct msg *m, char kind, struct input *in)
{
	switch (kind) {
	case 'N':
		return guess_string(m, guess_names, ARRAY_LEN(guess_names), in);
	case 'X':
		return guess_string(m, guess_attrs, ARRAY_LEN(guess_attrs), in);
	case 'T':
		return guess_string(m, guess_targets, ARRAY_LEN(guess_targets), in);
	case 'A':
		return guess_string(m, guess_paths, ARRAY_LEN(guess_paths), in);
	case 'V':
		return guess_string(m, guess_versions, ARRAY_LEN(guess_versions), in);
	case 'Q':
		return guess_walk(m, in);
	case 'D':
		return guess_data(m, in);
	}
}

static void guess_field(struct msg *m, char kind, struct input *in)
{
	switch (kind) {
	case 'f':
		return guess_number(m, guess_fid(in), 4);
	case 'a':
		return guess_number(m, P9_NOFID - (take(in, 1) == 255), 4);
	case 'o':
		return guess_number(m, guess_small(in), 8);
	case 'O':
		return guess_number(m, take(in, 8), 8);
	case 'c':
		return guess_number(m, guess_small(in), 4);
	case 's':
		return guess_number(m, guess_small(in) & ~(uint64_t)0xff00, 8);
	case 'w':
		return guess_number(m, take(in, 1), 4);
	case 'W':
		return guess_number(m, take(in, 4), 4);
	case 'z':
	case 'L':
		return guess_number(m, 0, 4);
	case 'b':
		return guess_number(m, take(in, 1) % 4, 1);
	case 'm':
		return guess_number(m, take(in, 2), 4);
	case 'l':
		return guess_number(m, take(in, 1) & 1 ? take(in, 4) : O_RDWR, 4);
	case 'v':
		return guess_number(m, take(in, 2) & 0x1ff, 4);
	case 'u':
		return guess_number(m, take(in, 1) & 1 ? P9_AT_REMOVEDIR : 0, 4);
	case 'k':
		return guess_number(m, take(in, 1) % 4, 4);
	case 't':
		return guess_number(m, take(in, 1) % GUESS_TAGS, 2);
	case 'M':
		return guess_number(m, 4096 + take(in, 2), 4);
	default:
		guess_text(m, kind, in);
	}
}

static struct sent *guess_sent(struct msg *m, uint8_t spoil, uint16_t room, struct input *in)
{
	const uint8_t at = spoil & (SPOIL_CUT | SPOIL_LIE) ? (uint8_t)take(in, 1) : 0;
	struct p9_header h;
	struct sent *s;

	if (spoil & SPOIL_LIE)
		m->bytes[at % P9_HEADER] = (uint8_t)take(in, 1);
	memcpy(&h, m->bytes, sizeof(h));
	if (spoil & SPOIL_EXTRA)
		msg_add(m, "extra bytes behind it", 21);
	door.layout = spoil & SPOIL_BYTES ? BYTES : spoil & SPOIL_CUT ? CUT : LINUX;
	door.cut = at;
	s = sent_of(m, h.type, le16_get(h.tag),
		    spoil & SPOIL_NO_ROOM ? room % 16u : P9_SHORT + room);
	door.layout = WHOLE;
	return s;
}

/* The next message; it was not sent. */
__attribute__((unused)) static struct sent *guess(struct input *in)
{
	const uint8_t which = (uint8_t)take(in, 1), spoil = (uint8_t)take(in, 1);
	const struct shape *shape = &guess_shapes[which % ARRAY_LEN(guess_shapes)];
	const uint16_t room = (uint16_t)(take(in, 1) * 16);
	struct p9_header h = {.type = spoil & SPOIL_TYPE ? which : shape->type};
	struct msg m = {0};
	uint8_t raw[64] = {0};

	door.tag = (uint16_t)((door.tag + 1) % GUESS_TAGS);
	h.tag = le16_of(door.tag);
	msg_add(&m, &h, sizeof(h));
	for (const char *f = shape->fields; *f && !(spoil & SPOIL_RAW); f++)
		guess_field(&m, *f, in);
	if (spoil & SPOIL_RAW) {
		for (unsigned i = 0; i < sizeof(raw); i += 8)
			memcpy(raw + i, &(uint64_t){take(in, 8)}, 8);
		msg_add(&m, raw, sizeof(raw));
	}
	if (spoil & SPOIL_SHORT)
		m.len -= MIN(m.len - sizeof(h), (size_t)take(in, 1));
	h.size = le32_of((uint32_t)m.len);
	memcpy(m.bytes, &h, sizeof(h));
	return guess_sent(&m, spoil, room, in);
}

/* Fids that messages find: 0 the root, 1 f, 2 f open, 3 d open, 4 s, 5 p, 6 an attribute, 7 d for another user. */
__attribute__((unused)) static void guess_session(uint32_t msize)
{
	need(ask_version(msize, "9P2000.L") > 0);
	(void)!ask_attach(0, "", 0);
	(void)!ask_walk(0, 1, "f", NULL);
	(void)!ask_walk(0, 2, "f", NULL);
	(void)!ask_lopen(2, O_RDWR);
	(void)!ask_walk(0, 3, "d", NULL);
	(void)!ask_lopen(3, O_RDONLY);
	(void)!ask_walk(0, 4, "s", NULL);
	(void)!ask_walk(0, 5, "p", NULL);
	(void)!ask_walk(0, 6, "f", NULL);
	(void)!tell(P9_TXATTRCREATE, "4s84", 6u, "user.a", (uint64_t)3, 0u);
	(void)!ask_attach(7, "d", 1000);
}

#endif
