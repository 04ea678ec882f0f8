// SPDX-License-Identifier: Apache-2.0
/*
 * t_cursor.c - the byte stream over iovecs: pieces, empty iovecs, and failures that stick.
 *
 * The stream is cut so that every field crosses a border, with empty iovecs at the start, between
 * and at the end.
 */
#include "../vmm/cursor.h"
#include "tap.h"

/* "abc" "" "defgh" "" "ij", and an empty one with no address at each end */
struct stream {
	char a[3], b[5], c[2];
	struct iovec iov[7];
};

static struct cursor stream_init(struct stream *s)
{
	memcpy(s->a, "abc", 3);
	memcpy(s->b, "defgh", 5);
	memcpy(s->c, "ij", 2);
	s->iov[0] = (struct iovec){NULL, 0};
	s->iov[1] = (struct iovec){s->a, 3};
	s->iov[2] = (struct iovec){s->a, 0};
	s->iov[3] = (struct iovec){s->b, 5};
	s->iov[4] = (struct iovec){s->b, 0};
	s->iov[5] = (struct iovec){s->c, 2};
	s->iov[6] = (struct iovec){NULL, 0};
	return cursor_of(s->iov, 7);
}

static void test_get(void)
{
	struct stream s;
	struct cursor c = stream_init(&s);
	char buf[10];

	is(c.left, 10, "left is the sum of all iovecs");
	cursor_get(&c, buf, 4);
	ok(!memcmp(buf, "abcd", 4) && c.left == 6, "a field across a border comes out whole");
	cursor_skip(&c, 1);
	cursor_get(&c, buf, 5);
	ok(!memcmp(buf, "fghij", 5) && !c.left && !c.err,
	   "skip moves on, and the last byte can be read");
	cursor_get(&c, buf, 0);
	cursor_skip(&c, 0);
	is(c.err, 0, "nothing more can be had from an empty stream without an error");
}

static void test_sticky(void)
{
	struct stream s;
	struct cursor c = stream_init(&s);
	char buf[12];

	memset(buf, 'x', sizeof(buf));
	cursor_get(&c, buf, 11);
	is(c.err, -EPROTO, "a field longer than the stream is an error");
	ok(!memcmp(buf, "\0\0\0\0\0\0\0\0\0\0\0x", 12),
	   "and is zeroed, to its length and no further");
	memset(buf, 'x', sizeof(buf));
	cursor_get(&c, buf, 2);
	ok(!memcmp(buf, "\0\0x", 3) && c.left == 10,
	   "after an error a field that would fit is zero too");
	cursor_put(&c, "ZZ", 2);
	cursor_skip(&c, 2);
	ok(!memcmp(s.a, "abc", 3) && c.left == 10,
	   "after an error nothing is written and nothing moves");
	ok(cursor_split(&c, 1).err == -EPROTO, "a part of a failed stream has failed");

	c = stream_init(&s);
	cursor_skip(&c, SIZE_MAX);
	is(c.err, -EPROTO, "a length near the end of the address space does not wrap");
}

static void test_peek(void)
{
	struct stream s;
	struct cursor c = stream_init(&s);
	char buf[12];

	cursor_peek(&c, buf, 9);
	ok(!memcmp(buf, "abcdefghi", 9) && c.left == 10, "a look over borders moves nothing");
	cursor_skip(&c, 4);
	cursor_peek(&c, buf, 2);
	ok(!memcmp(buf, "ef", 2) && c.left == 6, "nor does one into a piece");
	memset(buf, 'x', sizeof(buf));
	cursor_peek(&c, buf, 7);
	ok(!memcmp(buf, "\0\0\0\0\0\0\0x", 8), "one too far sees zeros");
	cursor_get(&c, buf, 6);
	ok(!memcmp(buf, "efghij", 6) && !c.err, "and does the stream no harm");
}

static void test_trim(void)
{
	struct stream s;
	struct cursor c = stream_init(&s);
	char buf[10];

	cursor_skip(&c, 4);
	cursor_trim(&c, 7);
	is(c.left, 6, "a stream is not made longer");
	cursor_trim(&c, 2);
	cursor_get(&c, buf, 2);
	ok(!memcmp(buf, "ef", 2) && !c.left && !c.err, "it can be cut within a piece");
	cursor_put(&c, "Z", 1);
	ok(c.err == -EPROTO && s.b[3] == 'g', "and what is behind the cut is out of reach");

	c = stream_init(&s);
	cursor_trim(&c, 4);
	cursor_get(&c, buf, 3);
	cursor_put(&c, "ZZ", 2);
	ok(c.err == -EPROTO && s.b[0] == 'd', "also where the cut is in a piece to come");
}

static void test_put(void)
{
	struct stream s;
	struct cursor c = stream_init(&s);

	cursor_put(&c, "012345678", 9);
	ok(!memcmp(s.a, "012", 3) && !memcmp(s.b, "34567", 5) && !memcmp(s.c, "8j", 2),
	   "bytes are spread over the iovecs");
	cursor_put(&c, "ZZ", 2);
	ok(c.err == -EPROTO && s.c[1] == 'j', "what does not fit is not written in part");
}

static void test_split(void)
{
	struct stream s;
	struct cursor c = stream_init(&s), part;
	char buf[10];

	cursor_skip(&c, 2);
	part = cursor_split(&c, 4);
	is(part.left, 4, "a part has the length asked for");
	cursor_get(&part, buf, 4);
	ok(!memcmp(buf, "cdef", 4), "a part holds the bytes from here on");
	cursor_get(&part, buf, 1);
	ok(part.err == -EPROTO && buf[0] == 0,
	   "a part ends where it was cut, though the iovec goes on");
	cursor_get(&c, buf, 4);
	ok(!memcmp(buf, "ghij", 4) && !c.err, "the stream goes on behind the part");

	c = stream_init(&s);
	part = cursor_split(&c, 11);
	ok(part.err == -EPROTO && c.err == -EPROTO && !part.left,
	   "a part longer than the stream fails both");
}

static void test_iov(void)
{
	struct stream s;
	struct cursor c = stream_init(&s);
	struct iovec out[3];

	cursor_skip(&c, 1);
	is(cursor_iov(&c, 8, out, 2), -E2BIG, "more pieces than there is room for");
	ok(!c.err && c.left == 9, "leaves the stream where it was");
	is(cursor_iov(&c, 8, out, 3), 3, "pieces come out without the empty iovecs");
	ok(out[0].iov_base == s.a + 1 && out[0].iov_len == 2 && out[1].iov_base == s.b &&
		   out[1].iov_len == 5 && out[2].iov_base == s.c && out[2].iov_len == 1,
	   "they point into the buffers and add up");
	is(c.left, 1, "the stream moved past them");
	is(cursor_iov(&c, 0, out, 0), 0, "no bytes are no pieces");
	is(cursor_iov(&c, 2, out, 3), -EPROTO, "more bytes than there are is an error");
	is(c.err, -EPROTO, "that sticks");
}

static void test_empty(void)
{
	struct cursor c = cursor_of(NULL, 0);
	char byte = 'x';

	cursor_get(&c, &byte, 1);
	ok(c.err == -EPROTO && byte == 0, "a stream of no iovecs has no bytes");
}

int main(void)
{
	test_get();
	test_sticky();
	test_peek();
	test_trim();
	test_put();
	test_split();
	test_iov();
	test_empty();
	return done();
}
