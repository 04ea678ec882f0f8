// SPDX-License-Identifier: Apache-2.0
/*
 * t_fuse.c - the FUSE server as a protocol: sessions, headers in pieces, what is too short or too small, lies, and
 * requests in flight.
 *
 * What is agreed on is in t_fuse_init.c, what each opcode does to files in t_fuse_ops.c. Hard cases A10, A11, A18, A23, A26,
 * D1 to D4, D8, D9, D13, D53.
 */
#include "fuse_door.h"

enum { SERVED = 1, ON_NODE = 2, ON_HANDLE = 4, NO_REPLY = 8, ANYTIME = 16 };

/* The whole protocol, told once more: what is served is a decision, not an accident. */
static const struct {
	uint8_t is;
	uint16_t body, room;
} protocol[] = {
	[FUSE_LOOKUP] = {SERVED | ON_NODE, 2, 128},
	[FUSE_FORGET] = {SERVED | NO_REPLY, 8, 0},
	[FUSE_GETATTR] = {SERVED | ON_NODE, 16, 104},
	[FUSE_SETATTR] = {SERVED | ON_NODE, 88, 104},
	[FUSE_READLINK] = {SERVED | ON_NODE, 0, 0},
	[FUSE_SYMLINK] = {SERVED | ON_NODE, 3, 128},
	[FUSE_MKNOD] = {SERVED | ON_NODE, 18, 128},
	[FUSE_MKDIR] = {SERVED | ON_NODE, 10, 128},
	[FUSE_UNLINK] = {SERVED | ON_NODE, 2, 0},
	[FUSE_RMDIR] = {SERVED | ON_NODE, 2, 0},
	[FUSE_RENAME] = {SERVED | ON_NODE, 12, 0},
	[FUSE_LINK] = {SERVED | ON_NODE, 10, 128},
	[FUSE_OPEN] = {SERVED | ON_NODE, 8, 16},
	[FUSE_READ] = {SERVED | ON_NODE | ON_HANDLE, 40, 0},
	[FUSE_WRITE] = {SERVED | ON_NODE | ON_HANDLE, 40, 8},
	[FUSE_STATFS] = {SERVED | ON_NODE, 0, 80},
	[FUSE_RELEASE] = {SERVED | ON_HANDLE, 24, 0},
	[FUSE_FSYNC] = {SERVED | ON_NODE | ON_HANDLE, 16, 0},
	[FUSE_SETXATTR] = {SERVED | ON_NODE, 10, 0},
	[FUSE_GETXATTR] = {SERVED | ON_NODE, 10, 0},
	[FUSE_LISTXATTR] = {SERVED | ON_NODE, 8, 0},
	[FUSE_REMOVEXATTR] = {SERVED | ON_NODE, 2, 0},
	[FUSE_FLUSH] = {SERVED | ON_NODE, 24, 0},
	[FUSE_INIT] = {SERVED | ANYTIME, 16, 64},
	[FUSE_OPENDIR] = {SERVED | ON_NODE, 8, 16},
	[FUSE_READDIR] = {SERVED | ON_NODE | ON_HANDLE, 40, 0},
	[FUSE_RELEASEDIR] = {SERVED | ON_HANDLE, 24, 0},
	[FUSE_FSYNCDIR] = {SERVED | ON_NODE | ON_HANDLE, 16, 0},
	[FUSE_GETLK] = {SERVED | ON_NODE, 48, 24},
	[FUSE_SETLK] = {SERVED | ON_NODE, 48, 0},
	[FUSE_SETLKW] = {SERVED | ON_NODE, 48, 0},
	[FUSE_CREATE] = {SERVED | ON_NODE, 18, 144},
	[FUSE_INTERRUPT] = {SERVED | NO_REPLY, 8, 0},
	[FUSE_DESTROY] = {SERVED | ANYTIME, 0, 0},
	[FUSE_IOCTL] = {SERVED | ON_NODE, 32, 16},
	[FUSE_BATCH_FORGET] = {SERVED | NO_REPLY, 8, 0},
	[FUSE_FALLOCATE] = {SERVED | ON_NODE | ON_HANDLE, 32, 0},
	[FUSE_READDIRPLUS] = {SERVED | ON_NODE | ON_HANDLE, 40, 0},
	[FUSE_RENAME2] = {SERVED | ON_NODE, 20, 0},
	[FUSE_LSEEK] = {SERVED | ON_NODE | ON_HANDLE, 24, 8},
	[FUSE_COPY_FILE_RANGE] = {SERVED | ON_NODE | ON_HANDLE, 56, 8},
	[FUSE_SETUPMAPPING] = {SERVED | ON_NODE, 40, 0},
	[FUSE_REMOVEMAPPING] = {SERVED, 4, 0},
	[FUSE_SYNCFS] = {SERVED | ON_NODE, 8, 0},
	[FUSE_TMPFILE] = {SERVED | ON_NODE, 18, 144},
	[FUSE_STATX] = {SERVED | ON_NODE, 24, 288},
	[FUSE_COPY_FILE_RANGE_64] = {SERVED | ON_NODE | ON_HANDLE, 56, 8},
};

static uint8_t kind(uint32_t opcode)
{
	return opcode < ARRAY_LEN(protocol) ? protocol[opcode].is : 0;
}

/* ---- sessions ---- */

/* Leaves two nodes, of three and one lookups, and two handles. */
static void hold_some(void)
{
	host_write("held", "x", 1);
	need(mkdirat(door.dir, "sub", 0755) == 0 || errno == EEXIST);
	find(ROOT, "held");
	find(ROOT, "held");
	open_file(find(ROOT, "held"), O_RDWR);
	open_dir(find(ROOT, "sub"));
}

static void test_sessions(void)
{
	struct fuse_init_out o;
	struct fuse_attr attr;
	unsigned before = host_descriptors(), fds;
	uint64_t old, fh;

	door_open(BY_MODE, false);
	session();
	fds = host_descriptors();
	hold_some();
	ok(held().nodes == 2 && held().handles == 2 && held().inodes == 3, "a guest holds things");
	old = find(ROOT, "held");
	fh = open_file(old, O_RDONLY);
	is(ask_init(7, 31, UINT32_MAX, &o), 64, "a guest that starts over is welcome");
	ok(nothing_held(), "and holds nothing from before");
	is(host_descriptors(), fds, "and nor do we");
	is(ask_attr(old, &attr), -ESTALE, "an old node id is stale");
	ok(find(ROOT, "held") != old, "and not used again");
	is(release(old, fh), -EBADF, "an old handle is not one");
	is(ask(FUSE_DESTROY, 0, NULL, 0, NULL, 0), 0, "DESTROY is answered");
	ok(nothing_held(), "and drops everything");
	is(ask_attr(ROOT, &attr), -EIO, "and ends the session");
	is(ask(FUSE_DESTROY, 0, NULL, 0, NULL, 0), 0, "also a second one is answered");
	session();
	hold_some();
	door_close();
	is(host_descriptors(), before, "destroying the server drops everything");
}

static void reset_it(void *arg)
{
	(void)arg;
	fuse_reset(door.fuse);
}

static void test_reset(void)
{
	struct fuse_attr attr;
	unsigned fds;

	door_open(BY_MODE, false);
	session();
	fds = host_descriptors();
	for (unsigned i = 0; i < 20; i++) {
		hold_some();
		loop_call(door.io, reset_it, NULL);
		need(nothing_held());
		is(ask_attr(ROOT, &attr), -EIO, "a reset ends the session (%u)", i);
		session();
	}
	is(host_descriptors(), fds, "twenty resets leave nothing behind");
	door_close();
}

/* ---- layouts ---- */

/* The readable and the writable part in two pieces each, cut where it is said. */
static int in_pieces(struct sent *s, size_t rd_cut, size_t wr_cut)
{
	s->iov = realloc(s->iov, 4 * sizeof(*s->iov));
	need(s->iov);
	s->iov[0] = (struct iovec){s->rd, rd_cut};
	s->iov[1] = (struct iovec){s->rd + rd_cut, s->rd_len - rd_cut};
	s->iov[2] = (struct iovec){s->wr, wr_cut};
	s->iov[3] = (struct iovec){s->wr + wr_cut, s->wr_len - wr_cut};
	s->req.rd = s->iov;
	s->req.wr = s->iov + 2;
	s->req.nrd = s->req.nwr = 2;
	loop_call(door.io, sent_serve, s);
	return sent_judge(s);
}

/* Every byte in an iovec of its own, with an empty one before each. */
static int in_bytes(struct sent *s)
{
	size_t n = 2 * (s->rd_len + s->wr_len);

	s->iov = realloc(s->iov, n * sizeof(*s->iov));
	need(s->iov);
	for (size_t i = 0; i < n; i++) {
		uint8_t *p = i / 2 < s->rd_len ? s->rd + i / 2 : s->wr + i / 2 - s->rd_len;

		s->iov[i] = (struct iovec){p, i % 2};
	}
	s->req.rd = s->iov;
	s->req.nrd = (unsigned)(2 * s->rd_len);
	s->req.wr = s->iov + s->req.nrd;
	s->req.nwr = (unsigned)(2 * s->wr_len);
	loop_call(door.io, sent_serve, s);
	return sent_judge(s);
}

/* cut beyond the reply: bytes. The size in the attributes, or -1. */
static int64_t size_in_pieces(size_t rd_cut, size_t wr_cut)
{
	struct sent *s =
		sent_make(FUSE_LOOKUP, ROOT, "seven", 6, NULL, 0, sizeof(struct fuse_entry_out));
	int r = wr_cut > s->wr_len ? in_bytes(s) : in_pieces(s, rd_cut, wr_cut);
	struct fuse_entry_out e;

	memcpy(&e, s->wr + HDR_OUT, sizeof(e));
	sent_free(s);
	return r == sizeof(e) ? (int64_t)e.attr.size : -1;
}

static void test_pieces(void)
{
	unsigned good = 0, n = 0;
	size_t i;

	door_open(BY_MODE, false);
	session();
	host_write("seven", "1234567", 7);
	for (i = 0; i <= HDR_IN + 6; i++, n++)
		good += size_in_pieces(i, 0) == 7;
	is(good, n, "a request is understood wherever it is cut");
	for (good = n = 0, i = 0; i <= HDR_OUT + sizeof(struct fuse_entry_out); i++, n++)
		good += size_in_pieces(HDR_IN, i) == 7;
	is(good, n, "a reply is whole wherever its room is cut");
	is(size_in_pieces(0, SIZE_MAX), 7, "also when every byte has its own buffer");
	door_close();
}

static void test_data_pieces(void)
{
	static const char text[] = "the quick brown fox jumps over it";
	const uint32_t n = sizeof(text);
	struct fuse_write_in win = {.size = n};
	struct fuse_read_in rin = {.size = n};
	struct fuse_entry_out e;
	unsigned good = 0, all = 0;
	uint64_t fh;

	door_open(BY_MODE, false);
	session();
	need(ask_create(ROOT, "data", 0, &e, &fh) == 0);
	win.fh = rin.fh = fh;
	for (size_t i = 0; i <= HDR_IN + sizeof(win) + n; i++, all += 2) {
		struct sent *s = sent_make(FUSE_WRITE, e.nodeid, &win, sizeof(win), text, n,
					   sizeof(struct fuse_write_out));

		good += in_pieces(s, i, i % s->wr_len) == sizeof(struct fuse_write_out);
		sent_free(s);
		s = sent_make(FUSE_READ, e.nodeid, &rin, sizeof(rin), NULL, 0, n);
		good += in_pieces(s, i % s->rd_len, i % s->wr_len) == (int)n &&
			!memcmp(s->wr + HDR_OUT, text, n);
		sent_free(s);
		need(ask_write(e.nodeid, fh, 0, "----------------------------------", n) == (int)n);
	}
	is(good, all, "data is written and read whole wherever the buffers are cut");
	door_close();
}

static void test_data_bytes(void)
{
	static const char text[] = "every byte in a buffer of its own";
	struct fuse_write_in win = {.size = sizeof(text)};
	struct fuse_read_in rin = {.size = sizeof(text)};
	struct fuse_entry_out e;
	struct sent *s;

	door_open(BY_MODE, false);
	session();
	need(ask_create(ROOT, "bytes", 0, &e, &win.fh) == 0);
	rin.fh = win.fh;
	s = sent_make(FUSE_WRITE, e.nodeid, &win, sizeof(win), text, sizeof(text),
		      sizeof(struct fuse_write_out));
	is(in_bytes(s), sizeof(struct fuse_write_out), "data in single bytes is written");
	sent_free(s);
	s = sent_make(FUSE_READ, e.nodeid, &rin, sizeof(rin), NULL, 0, sizeof(text));
	is(in_bytes(s), sizeof(text), "and read");
	ok(!memcmp(s->wr + HDR_OUT, text, sizeof(text)), "unchanged");
	sent_free(s);
	door_close();
}

/* A guest may lay its buffers over each other: what is said is read before anything is written. */
static void test_overlap(void)
{
	const struct fuse_getattr_in get = {0};
	struct fuse_read_in rin = {.size = 64};
	uint8_t data[64];
	uint64_t f;
	struct sent *s;

	memset(data, 'o', sizeof(data));
	host_write("over", data, sizeof(data));
	door_open(BY_MODE, false);
	session();
	f = find(ROOT, "over");
	for (size_t shift = 0; shift < HDR_IN; shift++) {
		s = sent_make(FUSE_GETATTR, f, &get, sizeof(get), data, 64,
			      sizeof(struct fuse_attr_out));
		free(s->wr);
		/* The reply begins inside the message, at any byte of it. */
		s->rd = realloc(s->rd, shift + s->rd_len + s->wr_len);
		need(s->rd);
		s->rd[0] -= 64; /* of the length: what is behind it is room */
		s->wr = s->rd + shift;
		s->iov[0].iov_base = s->rd;
		s->iov[1].iov_base = s->wr;
		loop_call(door.io, sent_serve, s);
		always(sent_judge(s) == sizeof(struct fuse_attr_out),
		       "a reply over its request is whole");
		s->wr = NULL;
		sent_free(s);
	}
	rin.fh = open_file(f, O_RDONLY);
	s = sent_make(FUSE_READ, f, &rin, sizeof(rin), NULL, 0, 64);
	s->iov[1] = (struct iovec){s->wr, HDR_OUT};
	s->iov = realloc(s->iov, 5 * sizeof(*s->iov));
	need(s->iov);
	/* The same bytes twice, and then the header's. */
	s->iov[2] = (struct iovec){s->wr + HDR_OUT, 32};
	s->iov[3] = (struct iovec){s->wr + HDR_OUT, 16};
	s->iov[4] = (struct iovec){s->wr, 16};
	s->req.rd = s->iov;
	s->req.wr = s->iov + 1;
	s->req.nwr = 4;
	loop_call(door.io, sent_serve, s);
	is(sent_judge(s), 64, "data may go where it likes, the header comes last");
	sent_free(s);
	host_clear(door.dir);
	door_close();
}

/* ---- too short, too small, too long ---- */

/* GETATTR of the root with these lengths in place of the true ones. */
static int with_lengths(size_t rd_len, uint32_t said, size_t wr_len)
{
	const struct fuse_getattr_in in = {0};
	struct sent *s = sent_make(FUSE_GETATTR, ROOT, &in, sizeof(in), "behind the message", 18,
				   sizeof(struct fuse_attr_out));
	struct fuse_in_header h;
	int r;

	memcpy(&h, s->rd, sizeof(h));
	h.len = said;
	memcpy(s->rd, &h, sizeof(h));
	s->req.rd->iov_len = rd_len;
	s->req.wr->iov_len = wr_len;
	s->wr_len = wr_len;
	loop_call(door.io, sent_serve, s);
	r = sent_judge(s);
	for (size_t i = wr_len; i < HDR_OUT + sizeof(struct fuse_attr_out); i++)
		always(s->wr[i] == DOOR_CANARY, "nothing is written behind the room");
	sent_free(s);
	return r;
}

static void test_envelope(void)
{
	const uint32_t whole = HDR_IN + sizeof(struct fuse_getattr_in);
	const size_t room = HDR_OUT + sizeof(struct fuse_attr_out);
	unsigned silent = 0, i;

	door_open(BY_MODE, false);
	session();
	is(with_lengths(whole, whole, room), room - HDR_OUT, "a message as it should be");
	for (i = 0; i < HDR_IN; i++)
		silent += with_lengths(i, whole, room) == DOOR_SILENCE;
	is(silent, i, "a message shorter than a header is no message");
	for (i = 0, silent = 0; i < HDR_IN; i++)
		silent += with_lengths(whole, i, room) == DOOR_SILENCE;
	is(silent, i, "nor one that says it is");
	is(with_lengths(whole, whole + 1, room), DOOR_SILENCE,
	   "nor one that says it is longer than it is");
	is(with_lengths(whole, UINT32_MAX, room), DOOR_SILENCE, "or much longer");
	is(with_lengths(whole + 18, whole, room), room - HDR_OUT,
	   "what lies behind a message is left alone");
	is(with_lengths(whole, whole - 1, room), -EINVAL, "and does not belong to its body");
	for (i = 0, silent = 0; i < HDR_OUT; i++)
		silent += with_lengths(whole, whole, i) == DOOR_SILENCE;
	is(silent, i, "without room for a header there is no reply");
	for (i = HDR_OUT; i < room; i++)
		always(with_lengths(whole, whole, i) == -EINVAL,
		       "a reply that does not fit is EINVAL");
	ok(i == room, "a room of any size in between is answered with an error");
	door_close();
}

/* Every opcode there is, and some that are not, with bodies of zeros of every length. */
static void sweep_bodies(uint64_t node)
{
	static const uint8_t zeros[128];
	unsigned wrong = 0;

	for (uint32_t opcode = 0; opcode < 70; opcode++) {
		const uint8_t is_ = kind(opcode);
		const uint16_t least = opcode < ARRAY_LEN(protocol) ? protocol[opcode].body : 0;

		for (size_t n = 0; n < sizeof(zeros); n++) {
			int r;

			if (opcode == FUSE_INIT || opcode == FUSE_DESTROY)
				continue;
			r = ask(opcode, node, zeros, n, NULL, 512);
			if (!(is_ & SERVED))
				wrong += r != -ENOSYS;
			else if (is_ & NO_REPLY)
				wrong += r != 0;
			else if (n < least)
				wrong += r != -EINVAL;
			else if (is_ & ON_NODE && node != ROOT)
				wrong += r != -ESTALE;
			else if (is_ & ON_HANDLE)
				wrong += r != -EBADF;
			if (wrong == 1)
				printf("# opcode %u, %zu bytes: %d\n", opcode, n, r);
		}
	}
	is(wrong, 0, "every opcode answers every length, for a node that is %s",
	   node == ROOT ? "known" : "not known");
}

static void test_sweep(void)
{
	static const uint32_t odd[] = {
		0, 7, 19, 54, 63, 9999, CUSE_INIT, FUSE_INIT_BSWAP_RESERVED, UINT32_MAX};
	unsigned served = 0;

	door_open(BY_MODE, false);
	session();
	sweep_bodies(ROOT);
	sweep_bodies(4711);
	for (unsigned i = 0; i < ARRAY_LEN(odd); i++)
		is(ask(odd[i], ROOT, NULL, 0, NULL, 0), -ENOSYS, "opcode %u is not one", odd[i]);
	for (uint32_t i = 0; i < ARRAY_LEN(protocol); i++)
		served += protocol[i].is & SERVED;
	is(served, 47, "so many opcodes are served");
	is(held().nodes, 0, "none of it counts a lookup");
	session();
	ok(nothing_held(), "and none stays");
	host_clear(door.dir);
	door_close();
}

/* Every opcode with bodies of ones: every number is as large as it can be, every flag set, no name ends. */
static void sweep_ones(struct fuse_config cfg, struct share_config share, const char *what)
{
	const unsigned fds = host_descriptors();
	unsigned answered = 0, all = 0;
	uint8_t ones[256];
	uint64_t node;

	memset(ones, 0xff, sizeof(ones));
	host_write("f", "x", 1);
	door_open_share(cfg, share);
	session_of(45, UINT64_MAX);
	node = find(ROOT, "f");
	for (uint32_t opcode = 0; opcode < 60; opcode++)
		for (size_t n = 0; n < sizeof(ones); n += n < 64 ? 1 : 17, all++) {
			if (opcode == FUSE_INIT || opcode == FUSE_DESTROY) {
				answered++;
				continue;
			}
			answered += ask(opcode, n % 2 ? ROOT : node, ones, n, NULL, 600) <= 600;
		}
	is(answered, all, "%s: every opcode answers ones of every length", what);
	ok(held().nodes <= 1, "%s: and counts no lookup", what);
	session_of(45, UINT64_MAX);
	ok(nothing_held(), "%s: and nothing stays", what);
	door_close();
	is(host_descriptors(), fds, "%s: of the host's neither", what);
	host_clear(door.dir);
}

static void test_ones(void)
{
	const bool root = share_owner_passes();

	sweep_ones(BY_MODE, PLAIN, "plain");
	sweep_ones(IN_MODE(FUSE_CACHE_ALWAYS), PLAIN, "always");
	sweep_ones(IN_MODE(FUSE_CACHE_NEVER),
		   (struct share_config){.xattr = true,
					 .locks = SHARE_LOCKS_HOST,
					 .posix_acl = root,
					 .security_label = root},
		   "with all there is");
	sweep_ones(BY_MODE, (struct share_config){.readonly = true}, "read-only");
}

/* A good request of each kind that has a reply of fixed length, in rooms from none to a byte too few. */
static void too_small(uint32_t opcode, uint64_t node, const void *arg, size_t arg_len,
		      const char *what)
{
	const uint16_t room = protocol[opcode].room;
	unsigned refused = 0;
	uint8_t out[256];
	struct held h = held();

	for (size_t n = 0; n < room; n++)
		refused += ask(opcode, node, arg, arg_len, out, n) == -EINVAL;
	is(refused, room, "a reply to %s that does not fit is EINVAL", what);
	ok(h.nodes == held().nodes && h.handles == held().handles && h.inodes == held().inodes,
	   "and nothing is counted");
	is(ask(opcode, node, arg, arg_len, out, room), room, "with enough room it is served");
}

/* A fixed part and a name behind it. */
#define NAMED(type, ...)        \
	struct {                \
		struct type in; \
		char name[8];   \
	} __VA_ARGS__

static void test_small_rooms(void)
{
	const struct fuse_getattr_in getattr = {0};
	const struct fuse_setattr_in setattr = {0};
	const struct fuse_open_in open_in = {.flags = O_RDONLY};
	const NAMED(fuse_mknod_in, fifo = {{.mode = S_IFIFO | 0600}, "fifo"});
	const NAMED(fuse_mkdir_in, dir = {.name = "dir"});
	const NAMED(fuse_create_in, new = {.name = "new"});
	NAMED(fuse_link_in, link_in = {.name = "link"});
	uint64_t file;

	door_open(BY_MODE, false);
	session();
	host_write("file", "x", 1);
	file = find(ROOT, "file");
	link_in.in.oldnodeid = file;
	too_small(FUSE_LOOKUP, ROOT, "file", 5, "LOOKUP");
	too_small(FUSE_GETATTR, file, &getattr, sizeof(getattr), "GETATTR");
	too_small(FUSE_SETATTR, file, &setattr, sizeof(setattr), "SETATTR");
	too_small(FUSE_OPEN, file, &open_in, sizeof(open_in), "OPEN");
	too_small(FUSE_OPENDIR, ROOT, &open_in, sizeof(open_in), "OPENDIR");
	too_small(FUSE_STATFS, ROOT, NULL, 0, "STATFS");
	too_small(FUSE_SYMLINK, ROOT, "sym\0to", 7, "SYMLINK");
	too_small(FUSE_MKNOD, ROOT, &fifo, sizeof(fifo), "MKNOD");
	too_small(FUSE_MKDIR, ROOT, &dir, sizeof(dir), "MKDIR");
	too_small(FUSE_CREATE, ROOT, &new, sizeof(new), "CREATE");
	too_small(FUSE_LINK, ROOT, &link_in, sizeof(link_in), "LINK");
	host_clear(door.dir);
	door_close();
}

/* ---- names ---- */

/* With the opcode's fixed part of zeros before the name; the second name of two is a good one. */
static int with_name(uint32_t opcode, const void *name, size_t n)
{
	uint8_t body[2048] = {0}, out[256];
	size_t at = 0;

	switch (opcode) {
	case FUSE_MKNOD:
		at = sizeof(struct fuse_mknod_in);
		break;
	case FUSE_CREATE:
		at = sizeof(struct fuse_create_in);
		break;
	case FUSE_RENAME2:
		at = sizeof(struct fuse_rename2_in);
		body[0] = ROOT;
		break;
	case FUSE_MKDIR:
	case FUSE_RENAME:
	case FUSE_LINK:
		at = 8;
		body[0] = opcode == FUSE_MKDIR ? 0 : ROOT;
		break;
	}
	memcpy(body + at, name, n);
	at += n;
	if (opcode == FUSE_RENAME || opcode == FUSE_RENAME2 || opcode == FUSE_SYMLINK) {
		memcpy(body + at, "z", 2);
		at += 2;
	}
	return ask(opcode, ROOT, body, at, out, sizeof(out));
}

/* As the second of two names. */
static int with_second(uint32_t opcode, const void *name, size_t n)
{
	uint8_t body[2048] = {0};
	size_t at = opcode == FUSE_RENAME ? sizeof(struct fuse_rename_in)
					  : sizeof(struct fuse_rename2_in);

	body[0] = ROOT;
	memcpy(body + at, "there", 6);
	memcpy(body + at + 6, name, n);
	return ask(opcode, ROOT, body, at + 6 + n, NULL, 0);
}

static const uint32_t name_ops[] = {FUSE_LOOKUP, FUSE_SYMLINK, FUSE_MKNOD,  FUSE_MKDIR,
				    FUSE_UNLINK, FUSE_RMDIR,   FUSE_RENAME, FUSE_RENAME2,
				    FUSE_LINK,   FUSE_CREATE};

static unsigned refused_everywhere(const void *name, size_t n, int want)
{
	unsigned good = 0;

	for (unsigned i = 0; i < ARRAY_LEN(name_ops); i++) {
		int r = with_name(name_ops[i], name, n);

		good += r == want;
		if (r != want)
			printf("# opcode %u: %d\n", name_ops[i], r);
	}
	good += with_second(FUSE_RENAME, name, n) == want;
	good += with_second(FUSE_RENAME2, name, n) == want;
	return good;
}

static void test_names(void)
{
	static const struct {
		const char *s;
		size_t n;
	} bad[] = {{"..", 3}, {"a/b", 4}, {"/", 2}, {"../x", 5}, {"/etc/passwd", 12}, {"xx/", 4}};
	const unsigned all = ARRAY_LEN(name_ops) + 2;
	struct fuse_entry_out e;
	char longest[257];

	door_open(BY_MODE, false);
	session();
	host_write("there", "x", 1);
	for (unsigned i = 0; i < ARRAY_LEN(bad); i++)
		is(refused_everywhere(bad[i].s, bad[i].n, -EINVAL), all, "'%s' is a name nowhere",
		   bad[i].s);
	is(refused_everywhere(".", 2, -EINVAL), all, "'.' is a name nowhere");
	memset(longest, 'n', sizeof(longest));
	longest[256] = 0;
	is(refused_everywhere(longest, 257, -ENAMETOOLONG), all, "256 bytes are a name nowhere");
	is(ask(FUSE_LOOKUP, ROOT, "\0\0", 2, &e, sizeof(e)), -EINVAL, "the empty name neither");
	is(ask(FUSE_LOOKUP, ROOT, "there", 5, &e, sizeof(e)), -EINVAL, "nor one that does not end");
	is(with_second(FUSE_RENAME, "there", 5), -EINVAL, "nor a second one");
	is(with_second(FUSE_RENAME, "", 1), -EINVAL, "or one that is empty");
	longest[255] = 0;
	is(ask_mkdir(ROOT, longest, &e), 0, "255 bytes are a name");
	is(ask_lookup(ROOT, longest, &e), sizeof(e), "and found");
	is(ask(FUSE_LOOKUP, ROOT, "there\0and more", 14, &e, sizeof(e)), sizeof(e),
	   "what follows a name is ignored");
	is(host_size("there"), 1, "all the others changed nothing");
	host_clear(door.dir);
	door_close();
}

/* ---- nodes and handles that are lies ---- */

static void test_forget(void)
{
	struct fuse_attr attr;
	uint64_t node, other;

	door_open(BY_MODE, false);
	session();
	host_write("f", "x", 1);
	node = find(ROOT, "f");
	is(find(ROOT, "f"), node, "the same object is the same node");
	is(find(ROOT, "f"), node, "each time");
	forget(node, 2);
	is(ask_attr(node, &attr), 0, "two of three lookups forgotten: it is still known");
	forget(node, 0);
	is(held().nodes, 1, "forgetting none changes nothing");
	forget(node, 1);
	is(ask_attr(node, &attr), -ESTALE, "the last one: it is not");
	ok(nothing_held(), "and nothing of it is left");
	host_write("next", "x", 1);
	other = find(ROOT, "next");
	ok(other != node && !ask_attr(other, &attr), "the next object has an id of its own");
	is(ask_attr(node, &attr), -ESTALE, "and the old one does not come to mean it");
	forget(node, 1);
	is(held().nodes, 1, "nor does forgetting that");
	forget(other, 1);
	is(ask_attr(other + (1ull << 28), &attr), -ESTALE, "an id not given yet means nothing");
	is(ask_attr(ROOT + (1ull << 28), &attr), -ESTALE,
	   "also the root's place with another count");
	forget(node, 1);
	forget(999999, 5);
	forget(0, UINT64_MAX);
	ok(nothing_held(), "forgetting what is not known does nothing");
	node = find(ROOT, "f");
	forget(node, UINT64_MAX);
	ok(nothing_held(), "a count that is too high means all");
	forget(ROOT, UINT64_MAX);
	is(ask_attr(ROOT, &attr), 0, "the root is never forgotten");
	door_close();
}

static int batch(uint32_t said, const struct fuse_forget_one *one, unsigned n)
{
	const struct fuse_batch_forget_in in = {.count = said};
	struct sent *s = sent_make(FUSE_BATCH_FORGET, 0, &in, sizeof(in), one, n * sizeof(*one), 0);

	s->req.nwr = 0;
	loop_call(door.io, sent_serve, s);
	return sent_finish(s, NULL, 0);
}

static void test_batch_forget(void)
{
	struct fuse_forget_one one[3] = {
		{.nlookup = 1}, {.nlookup = 1}, {.nodeid = 77, .nlookup = 9}};

	door_open(BY_MODE, false);
	session();
	host_write("a", "x", 1);
	host_write("b", "x", 1);
	one[0].nodeid = find(ROOT, "a");
	one[1].nodeid = find(ROOT, "b");
	is(batch(1, one, 3), 0, "a batch has no reply");
	is(held().nodes, 1, "its count is kept to");
	one[0].nodeid = find(ROOT, "a");
	is(batch(UINT32_MAX, one, 3), 0, "a count of four thousand millions");
	ok(nothing_held(), "ends with the message");
	one[0].nodeid = find(ROOT, "a");
	is(batch(0, one, 3), 0, "a count of none");
	is(held().nodes, 1, "forgets none");
	forget(one[0].nodeid, 1);
	door_close();
}

static void test_wrong_handles(void)
{
	static const uint32_t ops[] = {FUSE_READ,  FUSE_READDIR,         FUSE_READDIRPLUS,
				       FUSE_FSYNC, FUSE_FSYNCDIR,        FUSE_FALLOCATE,
				       FUSE_LSEEK, FUSE_COPY_FILE_RANGE, FUSE_COPY_FILE_RANGE_64};
	uint64_t body[8] = {0}, a, b, fh, dh;
	struct fuse_getattr_in get = {.getattr_flags = FUSE_GETATTR_FH};
	struct fuse_setattr_in set = {.valid = FATTR_FH | FATTR_SIZE};
	uint8_t out[256];

	door_open(BY_MODE, false);
	session();
	host_write("a", "aaa", 3);
	host_write("b", "bbb", 3);
	a = find(ROOT, "a");
	b = find(ROOT, "b");
	fh = open_file(a, O_RDWR);
	dh = open_dir(ROOT);
	body[0] = get.fh = set.fh = fh;
	for (unsigned i = 0; i < ARRAY_LEN(ops); i++)
		is(ask(ops[i], b, body, sizeof(body), out, sizeof(out)), -EBADF,
		   "a handle is not good on another node (opcode %u)", ops[i]);
	is(ask_write(b, fh, 0, "x", 1), -EBADF, "not for writing either");
	is(ask(FUSE_GETATTR, b, &get, sizeof(get), out, sizeof(out)), -EBADF,
	   "nor to ask for attributes");
	is(ask(FUSE_SETATTR, b, &set, sizeof(set), out, sizeof(out)), -EBADF, "nor to set them");
	is(host_size("a") + host_size("b"), 6, "and no file was changed");
	is(ask_read(FUSE_READ, ROOT, dh, 0, out, 16), -EISDIR, "a directory is not read");
	is(ask_write(ROOT, dh, 0, "x", 1), -EBADF, "nor written");
	is(ask_read(FUSE_READDIR, a, fh, 0, out, 256), -ENOTDIR, "a file is not listed");
	is(ask_read(FUSE_READDIRPLUS, a, fh, 0, out, 256), -ENOTDIR, "with attributes neither");
	is(release(a, fh), 0, "a handle is released");
	is(release(a, fh), -EBADF, "once");
	is(ask_read(FUSE_READ, a, fh, 0, out, 16), -EBADF, "and is none then");
	get.fh = set.fh = fh;
	is(ask(FUSE_GETATTR, a, &get, sizeof(get), out, sizeof(out)), -EBADF, "for GETATTR too");
	is(ask(FUSE_SETATTR, a, &set, sizeof(set), out, sizeof(out)), -EBADF, "and for SETATTR");
	door_close();
}

static void test_late_release(void)
{
	uint64_t node, fh;
	uint8_t out[4];

	door_open(BY_MODE, false);
	session();
	host_write("late", "x", 1);
	node = find(ROOT, "late");
	fh = open_file(node, O_RDONLY);
	forget(node, 1);
	is(ask_read(FUSE_READ, node, fh, 0, out, 4), -ESTALE,
	   "a node that was forgotten is stale, though it is open");
	is(find(ROOT, "late") != node, 1, "found again it is another");
	is(release(node, fh), 0, "its handle is released late");
	is(held().files, 0, "and the file is closed");
	door_close();
}

static void test_wrong_nodes(void)
{
	const NAMED(fuse_rename_in, rename_in = {{4711}, "f\0g"});
	const NAMED(fuse_link_in, link_in = {{4711}, "g"});
	struct fuse_entry_out e;

	door_open(BY_MODE, false);
	session();
	host_write("f", "x", 1);
	is(ask(FUSE_RENAME, ROOT, &rename_in, 12, NULL, 0), -ESTALE,
	   "a new directory that is not known is stale");
	is(ask(FUSE_LINK, ROOT, &link_in, 10, &e, sizeof(e)), -ESTALE,
	   "so is what is to be linked");
	is(ask_lookup(find(ROOT, "f"), "x", &e), -ENOTDIR, "nothing is found in a file");
	is(ask_lookup(0, "x", &e), -ESTALE, "nor in node 0");
	is(ask_lookup(UINT64_MAX, "x", &e), -ESTALE, "nor in the last one");
	ok(host_has("f") && !host_has("g"), "and nothing was done");
	door_close();
}

/* ---- in flight ---- */

/* Several at once: none can be done before all were served, as done() comes from the loop. */
struct volley {
	struct sent *s[8];
	unsigned n;
	void (*then)(struct volley *);
	struct held after;
	unsigned answered;
};

static void volley_fire(void *arg)
{
	struct volley *v = arg;

	for (unsigned i = 0; i < v->n; i++)
		sent_serve(v->s[i]);
	if (v->then)
		v->then(v);
	held_look(&v->after);
	for (unsigned i = 0; i < v->n; i++)
		v->answered += v->s[i]->replies;
}

static struct sent *read_of(uint64_t node, uint64_t fh, uint32_t n)
{
	const struct fuse_read_in in = {.fh = fh, .size = n};

	return sent_make(FUSE_READ, node, &in, sizeof(in), NULL, 0, n);
}

static struct sent *write_of(uint64_t node, uint64_t fh, uint64_t off, const char *s)
{
	const struct fuse_write_in in = {.fh = fh, .offset = off, .size = (uint32_t)strlen(s)};

	return sent_make(FUSE_WRITE, node, &in, sizeof(in), s, strlen(s),
			 sizeof(struct fuse_write_out));
}

static struct sent *fsync_of(uint64_t node, uint64_t fh)
{
	const struct fuse_fsync_in in = {.fh = fh};

	return sent_make(FUSE_FSYNC, node, &in, sizeof(in), NULL, 0, 0);
}

static void test_release_in_flight(void)
{
	struct fuse_release_in release_in = {0};
	struct volley v = {.n = 2};
	uint64_t node, fh;

	door_open(BY_MODE, false);
	session();
	host_write("f", "contents", 8);
	node = find(ROOT, "f");
	fh = release_in.fh = open_file(node, O_RDWR);
	make_slow(fh);
	v.s[0] = read_of(node, fh, 100);
	v.s[1] = sent_make(FUSE_RELEASE, node, &release_in, sizeof(release_in), NULL, 0, 0);
	loop_call(door.io, volley_fire, &v);
	is(v.answered, 1, "a RELEASE overtakes a read");
	ok(!v.after.handles && v.after.files == 1, "the handle is gone, the file is open still");
	is(sent_finish(v.s[1], NULL, 0), 0, "the RELEASE is answered");
	is(sent_judge(v.s[0]), 8, "the read as well");
	ok(!memcmp(v.s[0]->wr + HDR_OUT, "contents", 8), "with what was in the file");
	sent_free(v.s[0]);
	is(held().files, 0, "then the file is closed");
	door_close();
}

static void then_reset(struct volley *v)
{
	(void)v;
	fuse_reset(door.fuse);
}

static void end_in_flight(bool reset, const char *what)
{
	struct volley v = {.n = 4, .then = reset ? then_reset : NULL};
	struct fuse_entry_out e;
	uint64_t fh;
	unsigned fds;

	door_open(BY_MODE, false);
	session();
	host_write("f", "contents", 8);
	fds = host_descriptors();
	need(ask_lookup(ROOT, "f", &e) == sizeof(e));
	fh = open_file(e.nodeid, O_RDWR);
	make_slow(fh);
	v.s[0] = write_of(e.nodeid, fh, 8, " and more");
	v.s[1] = fsync_of(e.nodeid, fh);
	v.s[2] = read_of(e.nodeid, fh, 4);
	v.s[3] = reset ? fsync_of(e.nodeid, fh) : sent_make(FUSE_DESTROY, 0, NULL, 0, NULL, 0, 0);
	loop_call(door.io, volley_fire, &v);
	is(v.answered, reset ? 0 : 1, "%s: a write, a read and an fsync are in flight", what);
	ok(!v.after.handles && !v.after.nodes, "%s: the guest holds nothing any more", what);
	ok(v.after.files == 1 && v.after.inodes == 2, "%s: they still do", what);
	is(sent_finish(v.s[0], NULL, 0), sizeof(struct fuse_write_out), "%s: the write is done",
	   what);
	is(sent_finish(v.s[1], NULL, 0), 0, "%s: the fsync too", what);
	is(sent_finish(v.s[2], NULL, 0), 4, "%s: and the read", what);
	is(sent_finish(v.s[3], NULL, 0), 0, "%s: and the last one", what);
	ok(nothing_held(), "%s: then nothing is held", what);
	is(host_descriptors(), fds, "%s: of the host's neither", what);
	is(host_size("f"), 17, "%s: the data arrived", what);
	door_close();
}

/* The slow way must say the same as the quick one. */
static void test_slow_errors(void)
{
	struct fuse_entry_out e;
	uint64_t fh;
	uint8_t out[16];

	door_open(BY_MODE, false);
	session();
	host_write("f", "contents", 8);
	need(ask_lookup(ROOT, "f", &e) == sizeof(e));
	fh = open_file(e.nodeid, O_RDONLY);
	make_slow(fh);
	is(ask_read(FUSE_READ, e.nodeid, fh, 4, out, 16), 4,
	   "a read to the end that takes its time");
	is(ask_read(FUSE_READ, e.nodeid, fh, 8, out, 16), 0, "one behind it");
	is(ask_write(e.nodeid, fh, 0, "x", 1), -EBADF, "a write to what was opened for reading");
	door_close();
}

int main(void)
{
	door_set_up("t_fuse");
	test_sessions();
	test_reset();
	test_pieces();
	test_data_pieces();
	test_data_bytes();
	test_envelope();
	test_sweep();
	test_ones();
	test_overlap();
	test_small_rooms();
	test_names();
	test_forget();
	test_batch_forget();
	test_wrong_handles();
	test_late_release();
	test_wrong_nodes();
	for (unsigned i = 0; i < 2; i++) {
		setenv("WHERRY_ENGINE", i ? "epoll" : "uring", 1);
		test_release_in_flight();
		end_in_flight(true, "reset");
		end_in_flight(false, "DESTROY");
		test_slow_errors();
	}
	door_tear_down();
	return done();
}
