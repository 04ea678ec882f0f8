// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_fuse.c - the FUSE server fed with messages by libFuzzer, on a small tree.
 *
 * An input is a row of requests, each a few bytes of how and then its body, with zeros for what is missing of it:
 *
 *   opcode | node | flags | room / 4 | length of the body | body ...
 *
 * So that much of it means something, opcodes, nodes and (most bodies have it first) handles are brought down to small
 * numbers, and a write is given the size it has, unless flags say otherwise. Flags also cut the buffers and spoil the
 * length in the header. Every request must be answered or refused, whatever it says. What it changed is taken back
 * before the next input; files cannot grow beyond RLIMIT_FSIZE.
 */
#include "../fuse_door.h"
#include <signal.h>
#include <sys/resource.h>

#define FILE_MAX MIB(4)

enum {
	RAW = 1,
	CUT_READABLE = 2,
	CUT_WRITABLE = 4,
	LIE = 8,
	NEW_SESSION = 16,
	NO_ROOM = 32,
};

struct how {
	uint8_t opcode, node, flags, room, len;
};

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Takes what was changed back. */
static void tree_make(void)
{
	need(!fchmod(door.dir, 0755));
	host_clear(door.dir);
	host_write("f", "contents of a file", 18);
	need(!mkdirat(door.dir, "d", 0755));
	host_write("d/g", "", 0);
	need(!symlinkat("f", door.dir, "s"));
}

/* A session in which nodes 2 to 4 and a few handles are known, whatever the server counted up to before. */
static void session_begin(void *arg)
{
	(void)arg;
	fuse_reset(door.fuse);
	door.fuse->next_node = FUSE_ROOT_ID + 1;
	door.fuse->next_handle = 1;
}

static void session_make(void)
{
	uint64_t f, d;

	loop_call(door.io, session_begin, NULL);
	session();
	f = find(ROOT, "f");
	d = find(ROOT, "d");
	find(ROOT, "s");
	make_slow(open_file(f, O_RDWR));
	open_file(f, O_RDWR);
	open_file(f, O_RDONLY);
	open_dir(ROOT);
	open_dir(d);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const struct rlimit limit = {FILE_MAX, FILE_MAX};

	(void)argc;
	(void)argv;
	/* The sanitizers make calls that no thread of ours may. */
	setenv("WHERRY_SECCOMP", "off", 1);
	setrlimit(RLIMIT_FSIZE, &limit);
	signal(SIGXFSZ, SIG_IGN);
	door_set_up("fuzz_fuse");
	tree_make();
	door_open(BY_MODE, false);
	atexit(door_tear_down);
	return 0;
}

static void cut(struct sent *s, const struct how *h, uint8_t at)
{
	const size_t rd = h->flags & CUT_READABLE ? MIN((size_t)at, s->rd_len) : 0;
	const size_t wr = h->flags & CUT_WRITABLE ? MIN((size_t)at, s->wr_len) : 0;

	s->iov = realloc(s->iov, 4 * sizeof(*s->iov));
	need(s->iov);
	s->iov[0] = (struct iovec){s->rd, rd};
	s->iov[1] = (struct iovec){s->rd + rd, s->rd_len - rd};
	s->iov[2] = (struct iovec){s->wr, wr};
	s->iov[3] = (struct iovec){s->wr + wr, s->wr_len - wr};
	s->req.rd = s->iov;
	s->req.wr = s->iov + 2;
	s->req.nrd = s->req.nwr = 2;
}

/* Numbers that mean something. */
static void make_sense(struct how *h, uint8_t body[UINT8_MAX])
{
	struct fuse_write_in in;

	h->opcode %= 56;
	h->node %= 8;
	if (h->opcode == FUSE_LOOKUP || h->opcode == FUSE_SYMLINK)
		return;
	body[0] %= 8;
	memset(body + 1, 0, 7);
	memcpy(&in, body, sizeof(in));
	in.size = (uint32_t)MAX(h->len, sizeof(in)) - (uint32_t)sizeof(in);
	if (h->opcode == FUSE_WRITE)
		memcpy(body, &in, sizeof(in));
}

static void one_request(struct how h, const uint8_t *data, size_t n)
{
	uint8_t body[UINT8_MAX] = {0};
	const uint8_t at = n ? data[n - 1] : 0;
	struct sent *s;

	if (n)
		memcpy(body, data, n);
	if (!(h.flags & RAW))
		make_sense(&h, body);
	s = sent_make(h.opcode, h.node, body, h.len, NULL, 0, h.room * 4u);
	if (h.flags & LIE)
		s->rd[0] = at;
	cut(s, &h, at);
	if (h.flags & NO_ROOM)
		s->req.nwr = 0;
	loop_call(door.io, sent_serve, s);
	sent_judge(s);
	sent_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct how h;

	session_make();
	while (size >= sizeof(h)) {
		size_t n;

		memcpy(&h, data, sizeof(h));
		data += sizeof(h);
		size -= sizeof(h);
		n = MIN(size, (size_t)h.len);
		if (h.flags & NEW_SESSION)
			session_make();
		one_request(h, data, n);
		data += n;
		size -= n;
	}
	tree_make();
	if (tap_failed)
		abort();
	return 0;
}
