// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_fuse.c - the FUSE server fed with messages by libFuzzer, on a real directory beside one that must not change.
 *
 * An input says how the share is configured and then what is asked of it:
 *
 *   mode | share | owner | (opcode | node | spoil | room / 4 | fields of the body ...) ...
 *
 * A body is built from the input by the shape of its opcode, so that nodes, handles, names and lengths mean something
 * most of the time; spoil says what is then broken of it. Every request must be answered or refused, whatever it says,
 * and nothing may be left when the session ends. What was changed is taken back before the next input; files cannot grow
 * beyond RLIMIT_FSIZE.
 */
#include "../fuse_door.h"
#include "tree.h"
#include <linux/capability.h>
#include <linux/fs.h>
#include <sys/syscall.h>

#define PARKED_MAX 16

enum {
	CUT_READABLE = 1,
	CUT_WRITABLE = 2,
	LIE = 4, /* the length in the header */
	SHORT = 8,
	NO_ROOM = 16,
	AGAIN = 32, /* a new session first */
	RAW = 64,   /* a body of plain bytes */
	EXTRA = 128,
};

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct sent *parked[PARKED_MAX];
static unsigned nparked;

/* A file that nobody may change could not be taken away. */
static void drop_immutable(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[2];

	must(!syscall(SYS_capget, &head, caps));
	for (unsigned i = 0; i < 2; i++) {
		caps[0].effective &= ~(1u << CAP_LINUX_IMMUTABLE);
		caps[0].permitted &= ~(1u << CAP_LINUX_IMMUTABLE);
	}
	must(!syscall(SYS_capset, &head, caps));
}

/* ---- the server ---- */

static void agree(bool tells)
{
	session_of(45, tells ? TELLS : UINT64_MAX);
}

static void server_open(struct input *in)
{
	const uint8_t mode = (uint8_t)take(in, 1), bits = (uint8_t)take(in, 1);
	struct share_config share = share_of(bits, (uint8_t)take(in, 1));

	share.submounts = bits & 16;
	share.security_label = share_owner_passes() && bits & 32;
	door.cfg = IN_MODE(mode % 3);
	door.cfg.writeback = mode & 4 && door.cfg.cache != FUSE_CACHE_NEVER;
	must(!share_open(&door.share, "fs0", &share));
	must(!fuse_create(&door.fuse, door.share, NULL, &door.cfg, DOOR_IO, false));
	agree(mode & 8);
	/* Nodes 2 to 5; what the session lets be opened is. */
	for (unsigned i = 0; i < 4; i++) {
		static const char *const names[] = {"f", "d", "s", "p"};
		struct fuse_entry_out e;
		struct fuse_open_out o;

		must(ask_lookup(ROOT, names[i], &e) == sizeof(e));
		if (i == 0 && ask_open_as(FUSE_OPEN, e.nodeid, O_RDWR, &o) > 0 && mode & 16)
			make_slow(o.fh);
		if (i == 1)
			(void)!ask_open_as(FUSE_OPENDIR, e.nodeid, 0, &o);
	}
}

static void server_close(void)
{
	size_t nodes, handles, kept;

	loop_call(door.io, door_end, NULL);
	for (; nparked; nparked--) {
		sent_judge(parked[nparked - 1]);
		sent_free(parked[nparked - 1]);
	}
	fuse_counts(door.fuse, &nodes, &handles, &kept);
	must(!nodes && !handles && !kept && share_ninodes(door.share) == 1 && !door.share->nfiles);
	fuse_destroy(door.fuse);
	share_close(door.share);
}

/* ---- bodies ---- */

/*
 * What a body is made of:
 *
 *   n node   h handle   o 64-bit number, small   O 64-bit number   w 32-bit number, small   W 32-bit number
 *   m mode   f flags of open   c an ioctl   t type of a lock   z 32 bits of zeros
 *   N name   X name of an attribute   T target   D data   L its length   E extensions
 */
static const char *const shapes[] = {
	[FUSE_LOOKUP] = "N",
	[FUSE_FORGET] = "o",
	[FUSE_GETATTR] = "wzh",
	[FUSE_SETATTR] = "Wzhoooooowwwmzwwz",
	[FUSE_READLINK] = "",
	[FUSE_SYMLINK] = "NTE",
	[FUSE_MKNOD] = "mWwzNE",
	[FUSE_MKDIR] = "mwNE",
	[FUSE_UNLINK] = "N",
	[FUSE_RMDIR] = "N",
	[FUSE_RENAME] = "nNN",
	[FUSE_LINK] = "nN",
	[FUSE_OPEN] = "fw",
	[FUSE_READ] = "howwozz",
	[FUSE_WRITE] = "hoLwozzD",
	[FUSE_STATFS] = "",
	[FUSE_RELEASE] = "hfwo",
	[FUSE_FSYNC] = "hwz",
	[FUSE_SETXATTR] = "LwwzXD",
	[FUSE_GETXATTR] = "wzX",
	[FUSE_LISTXATTR] = "wz",
	[FUSE_REMOVEXATTR] = "X",
	[FUSE_FLUSH] = "hzzo",
	[FUSE_INIT] = "wwWWWzzzzzzzzzzz",
	[FUSE_OPENDIR] = "fw",
	[FUSE_READDIR] = "howwozz",
	[FUSE_RELEASEDIR] = "hfwo",
	[FUSE_FSYNCDIR] = "hwz",
	[FUSE_GETLK] = "hoootzwz",
	[FUSE_SETLK] = "hoootzwz",
	[FUSE_SETLKW] = "hoootzwz",
	[FUSE_CREATE] = "fmwwNE",
	[FUSE_INTERRUPT] = "o",
	[FUSE_IOCTL] = "hwcoLwD",
	[FUSE_BATCH_FORGET] = "wznono",
	[FUSE_FALLOCATE] = "hoowz",
	[FUSE_READDIRPLUS] = "howwozz",
	[FUSE_RENAME2] = "nwzNN",
	[FUSE_LSEEK] = "howz",
	[FUSE_COPY_FILE_RANGE] = "honhoOo",
	[FUSE_SETUPMAPPING] = "hOOoO",
	[FUSE_REMOVEMAPPING] = "wOO",
	[FUSE_SYNCFS] = "o",
	[FUSE_TMPFILE] = "fmwwNE",
	[FUSE_STATX] = "wzhww",
	[FUSE_COPY_FILE_RANGE_64] = "honhoOo",
};

static const char *const names[] = {"f",    "d",  "g", "s",   "p", "new",
				    "new2", "..", ".", "d/g", "",  "outside"};
static const char *const attrs[] = {"user.a",
				    "user.virtfs.uid",
				    "security.capability",
				    "trusted.overlay",
				    "system.posix_acl_access",
				    "security.selinux",
				    "user.",
				    "a"};
static const char *const targets[] = {"f", "../outside/secret", "/etc/passwd", "d", "s", ""};
static const uint32_t ioctls[] = {FS_IOC_GETFLAGS, FS_IOC_SETFLAGS, FS_IOC_FSGETXATTR,
				  FS_IOC_FSSETXATTR, 0x5401};

struct body {
	uint8_t bytes[2048];
	size_t n, length_at; /* of the L; 0: none */
};

static void put(struct body *b, const void *p, size_t n)
{
	if (b->n + n > sizeof(b->bytes))
		return;
	memcpy(b->bytes + b->n, p, n);
	b->n += n;
}

static void put32(struct body *b, uint64_t v)
{
	put(b, &(uint32_t){(uint32_t)v}, 4);
}

static void put64(struct body *b, uint64_t v)
{
	put(b, &v, 8);
}

static void put_string(struct body *b, const char *const *from, size_t n, struct input *in)
{
	static const char longest[256] = {[0 ... 254] = 'n'};
	const uint64_t i = take(in, 1);
	const char *s = i == 255 ? longest : from[i % n];

	put(b, s, strlen(s) + 1);
}

static void put_data(struct body *b, struct input *in)
{
	const size_t n = MIN((size_t)take(in, 1), in->left);

	if (b->length_at)
		memcpy(b->bytes + b->length_at - 1, &(uint32_t){(uint32_t)n}, 4);
	put(b, in->p, n);
	in->p += n;
	in->left -= n;
}

static void put_extensions(struct body *b, struct input *in)
{
	const uint8_t which = (uint8_t)take(in, 1);
	const uint32_t text = (uint32_t)take(in, 1) % 40;

	if (which & 1) {
		const size_t n = 8 + 18 + text, all = ALIGN_UP(n, 8);

		put32(b, which & 8 ? take(in, 4) : 8 + all);
		put32(b, which & 16 ? take(in, 1) : 1);
		put32(b, which & 32 ? take(in, 4) : text);
		put32(b, 0);
		put(b, which & 64 ? "user.virtfs.uid\0\0" : "security.selinux\0", 18);
		put(b, shapes, text + all - n); /* any bytes */
	}
	if (which & 2) {
		put32(b, which & 8 ? take(in, 4) : 16);
		put32(b, FUSE_EXT_GROUPS);
		put32(b, which & 4 ? take(in, 4) : 1);
		put32(b, take(in, 4));
	}
}

static void put_field(struct body *b, char kind, struct input *in)
{
	uint64_t v;

	switch (kind) {
	case 'n':
		return put64(b, take(in, 1) % 10);
	case 'h': /* place, and how often it was given away */
		v = take(in, 1);
		return put64(b, (v % 16) | (v >> 4 & 3) << 32);
	case 'o':
		v = take(in, 2);
		return put64(b, v == 0xffff ? UINT64_MAX : v == 0xfffe ? INT64_MAX : v);
	case 'O':
		return put64(b, take(in, 8));
	case 'w':
		return put32(b, take(in, 1));
	case 'W':
		return put32(b, take(in, 4));
	case 'm':
		return put32(b, take(in, 2) | (take(in, 1) & 1 ? S_IFREG : 0));
	case 'f':
		return put32(b, take(in, 1) & 1 ? take(in, 4) : O_RDWR);
	case 'c':
		return put32(b, ioctls[take(in, 1) % ARRAY_LEN(ioctls)]);
	case 't':
		return put32(b, take(in, 1) % 4);
	case 'z':
		return put32(b, 0);
	case 'L':
		b->length_at = b->n + 1;
		return put32(b, 0);
	case 'N':
		return put_string(b, names, ARRAY_LEN(names), in);
	case 'X':
		return put_string(b, attrs, ARRAY_LEN(attrs), in);
	case 'T':
		return put_string(b, targets, ARRAY_LEN(targets), in);
	case 'D':
		return put_data(b, in);
	case 'E':
		return put_extensions(b, in);
	}
}

/* ---- requests ---- */

static void cut(struct sent *s, uint8_t spoil, uint8_t at)
{
	const size_t rd = spoil & CUT_READABLE ? MIN((size_t)at, s->rd_len) : 0;
	const size_t wr = spoil & CUT_WRITABLE ? MIN((size_t)at, s->wr_len) : 0;

	s->iov = realloc(s->iov, 4 * sizeof(*s->iov));
	must(s->iov);
	s->iov[0] = (struct iovec){s->rd, rd};
	s->iov[1] = (struct iovec){s->rd + rd, s->rd_len - rd};
	s->iov[2] = (struct iovec){s->wr, wr};
	s->iov[3] = (struct iovec){s->wr + wr, s->wr_len - wr};
	s->req.rd = s->iov;
	s->req.wr = s->iov + 2;
	s->req.nrd = s->req.nwr = 2;
}

/* Who waits for a lock may wait until the session ends. */
static void judge(struct sent *s)
{
	uint32_t opcode;

	memcpy(&opcode, s->rd + offsetof(struct fuse_in_header, opcode), sizeof(opcode));
	if (opcode == FUSE_SETLKW && !s->refused &&
	    !__atomic_load_n(&s->replies, __ATOMIC_ACQUIRE)) {
		parked[nparked++] = s;
		return;
	}
	sent_judge(s);
	sent_free(s);
}

static void one_request(struct input *in)
{
	const uint32_t opcode = (uint32_t)take(in, 1) % 60;
	const uint64_t node = take(in, 1) % 10;
	const uint8_t spoil = (uint8_t)take(in, 1), room = (uint8_t)take(in, 1);
	const char *shape = opcode < ARRAY_LEN(shapes) && !(spoil & RAW) ? shapes[opcode] : NULL;
	struct body b = {.n = 0};
	struct sent *s;

	if (spoil & AGAIN)
		agree(room & 1);
	if (nparked == PARKED_MAX)
		return;
	for (; shape && *shape; shape++)
		put_field(&b, *shape, in);
	if (!shape || spoil & EXTRA)
		put_data(&b, in);
	if (spoil & SHORT)
		b.n -= MIN(b.n, (size_t)take(in, 1));
	s = sent_make(opcode, node, b.bytes, b.n, NULL, 0, room * 4u);
	if (spoil & LIE)
		s->rd[take(in, 1) % sizeof(struct fuse_in_header)] = (uint8_t)take(in, 1);
	memcpy(&s->unique, s->rd + offsetof(struct fuse_in_header, unique), sizeof(s->unique));
	cut(s, spoil, (uint8_t)(spoil & (CUT_READABLE | CUT_WRITABLE) ? take(in, 1) : 0));
	if (spoil & NO_ROOM)
		s->req.nwr = 0;
	loop_call(door.io, sent_serve, s);
	judge(s);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	drop_immutable();
	tree_set_up("fuzz_fuse");
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};

	tree_make();
	server_open(&in);
	while (in.left)
		one_request(&in);
	server_close();
	tree_clear();
	check_outside();
	if (tap_failed)
		abort();
	return 0;
}
