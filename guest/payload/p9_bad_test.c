// SPDX-License-Identifier: Apache-2.0
/*
 * p9_bad_test.c - 9P messages that are none: each has its answer, and the session goes on; what leaves no room for an answer
 * breaks the queue until a reset.
 *
 * Hard cases E3 (errors above 0), E5 (lengths that lie), E7 (walks), E9 (what is not opened), F1.
 */
#include "p9.h"

#define PATIENT_MS 5000
#define TMP        3u

/* With this size in its header (0: the right one), and room for an answer of so many bytes: 0, an errno, or -1. */
static int send(uint32_t size, uint32_t room)
{
	struct seg s[] = {{hdr_out[0], p9_end(0, 0)}, {hdr_in[0], room}};

	if (size)
		memcpy(hdr_out[0], &size, sizeof(size));
	return p9_error(0, vq_call(p9_queue(), s, 1, 1));
}

static void begin(uint8_t type, uint32_t fid)
{
	p9_begin(0, (enum p9_type)type);
	p9_u32(0, fid);
}

static int walk_of(unsigned names)
{
	begin(P9_TWALK, P9_ROOT);
	p9_u32(0, TMP);
	p9_u16(0, (uint16_t)names);
	for (unsigned i = 0; i < names; i++)
		p9_name(0, "..", 2);
	return send(0, P9_REPLY);
}

static int walk_to(const char *name, uint32_t len, uint32_t said)
{
	begin(P9_TWALK, P9_ROOT);
	p9_u32(0, TMP);
	p9_u16(0, 1);
	p9_name(0, name, len);
	memcpy(hdr_out[0] + 17, &said, 2);
	return send(0, P9_REPLY);
}

static int getattr_sized(uint32_t size)
{
	begin(P9_TGETATTR, P9_ROOT);
	p9_u64(0, P9_ALL);
	return send(size, P9_REPLY);
}

static int write_more_than_there_is(void)
{
	int e;

	p9_try_walk(P9_ROOT, TMP, "from-host.dat");
	p9_try_open(TMP, O_RDONLY);
	begin(P9_TWRITE, TMP);
	p9_u64(0, 0);
	p9_u32(0, 0xfffffff0u);
	e = send(0, P9_REPLY);
	p9_try_clunk(TMP);
	return e;
}

static int read_in_room(uint32_t count, uint32_t room)
{
	begin(P9_TREAD, TMP);
	p9_u64(0, 0);
	p9_u32(0, count);
	return send(0, room);
}

static int typed(uint8_t type)
{
	begin(type, P9_ROOT);
	return send(0, P9_REPLY);
}

static void test_lengths(void)
{
	unsigned bad = 0;

	for (uint32_t size = 1; size < 19; size++)
		bad += getattr_sized(size) != EINVAL;
	is(bad, 0, "9p, bad: messages that are cut off are EINVAL, at any byte");
	is(getattr_sized(20), EINVAL, "9p, bad: as is one that says it is longer than it is");
	is(getattr_sized(P9_MSIZE + 1), EINVAL, "9p, bad: or longer than was agreed on");
	is(getattr_sized(0xffffffff), EINVAL, "9p, bad: or as long as can be");
	is(walk_to("name", 4, 5), EINVAL, "9p, bad: a string runs over the end by one");
	is(walk_to("name", 4, 0xffff), EINVAL, "9p, bad: and by far");
	is(walk_to("na\0me", 5, 5), EINVAL, "9p, bad: a name with a NUL in it");
	is(write_more_than_there_is(), EINVAL, "9p, bad: data that is not there");
	is(getattr_sized(0), 0, "9p, bad: after all that the session goes on");
}

static void test_types(void)
{
	static const uint8_t known[] = {8,   12,  14,  16,  18,  20,  22,  24, 26, 30,
					32,  40,  50,  52,  54,  70,  72,  74, 76, 100,
					102, 104, 108, 110, 116, 118, 120, 122};
	unsigned bad = 0;

	for (unsigned type = 0; type < 256; type++) {
		bool is_known = false;

		for (unsigned i = 0; i < ARRAY_LEN(known); i++)
			is_known |= known[i] == type;
		bad += !is_known && typed((uint8_t)type) != EOPNOTSUPP;
	}
	is(bad, 0, "9p, bad: answers and unknown types are EOPNOTSUPP");
}

static void test_fids(void)
{
	struct p9_attr a;
	uint32_t n;

	is(-p9_getattr(4242, &a), EBADF, "9p, bad: a fid that is not there");
	is(-p9_getattr(P9_NOFID, &a), EBADF, "9p, bad: the one that is none");
	is(-p9_try_walk(P9_ROOT, P9_NOFID, NULL), EINVAL, "9p, bad: which is not given either");
	is(walk_of(17), EINVAL, "9p, bad: a walk of 17 names");
	is(-p9_try_clunk(TMP), EBADF, "9p, bad: makes no fid");
	is(walk_of(16), 0, "9p, bad: one of 16 is none");
	is(-p9_try_walk(P9_ROOT, TMP, NULL), EINVAL, "9p, bad: a number that is in use");
	is(-p9_try_open(TMP, O_RDWR), EISDIR, "9p, bad: a directory is opened for writing");
	is(read_in_room(100, P9_IO), EBADF, "9p, bad: one that is not open is read");
	is(p9_try_clunk(TMP), 0, "9p, bad: it is let go of");
	p9_try_walk(P9_ROOT, TMP, "from-host.dat");
	p9_try_open(TMP, O_RDONLY);
	n = read_in_room(0xffffffff, P9_IO + 100) ? 0 : p9_get32(0);
	is(n, 100, "9p, bad: a read beyond all bounds gets what there is room for");
	is(read_in_room(100, P9_IO), 0, "9p, bad: and without room nothing");
	p9_try_clunk(TMP);
}

static bool breaks(uint32_t out, uint32_t room)
{
	struct seg s[2] = {{hdr_out[0], out}};
	struct vdev *d = p9_queue()->dev;
	uint64_t t0 = cpu_tsc();
	uint32_t n = out ? 1 : 0;

	begin(P9_TCLUNK, P9_ROOT);
	p9_end(0, 0);
	if (room)
		s[n] = (struct seg){hdr_in[0], room};
	vq_add(p9_queue(), 0, s, n, room ? 1 : 0);
	vq_kick(p9_queue());
	while (!(virtio_status(d) & VIRTIO_CONFIG_S_NEEDS_RESET))
		if (clock_passed(t0, PATIENT_MS))
			return false;
	p9_down();
	p9_up(d);
	return true;
}

static void test_broken(void)
{
	struct p9_attr a;

	ok(breaks(11, 10), "9p, bad: no room for an error breaks the queue");
	ok(breaks(11, 0), "9p, bad: so does no room at all");
	ok(breaks(0, P9_REPLY), "9p, bad: and no message");
	ok(breaks(6, P9_REPLY), "9p, bad: and one that has no whole header");
	ok(p9_getattr(P9_ROOT, &a) > 0, "9p, bad: each time a reset mends it");
}

void p9_bad_test(struct vdev *d)
{
	p9_up(d);
	test_lengths();
	test_types();
	test_fids();
	test_broken();
}
