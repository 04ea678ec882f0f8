// SPDX-License-Identifier: Apache-2.0
/*
 * t_p9.c - the 9P protocol: what each message has to be, how sessions begin and end, how fids come and go, and everything
 * that is wrong with a message.
 *
 * The table below says once more, and by itself, what devices/p9.c says in its own. What messages do to files is in
 * t_p9_ops.c, attributes, locks and flushes in files of their own. Hard cases E1 to E7, E12, E13, E28, E29.
 */
#include "p9_door.h"
#include <sys/stat.h>

enum { F_FID = 1, F_OPEN = 2, F_CLOSED = 4, F_XATTR = 8, F_ANYTIME = 16 };

/* body: the shortest; room: of the shortest good answer; string: where the first one is in the body. */
static const struct told {
	const char *name;
	uint8_t type, flags;
	uint16_t body, room, string;
} table[] = {
	{"Tstatfs", 8, F_FID, 4, 60, 0},
	{"Tlopen", 12, F_FID | F_CLOSED, 8, 17, 0},
	{"Tlcreate", 14, F_FID | F_CLOSED, 18, 17, 4},
	{"Tsymlink", 16, F_FID, 12, 13, 4},
	{"Tmknod", 18, F_FID, 22, 13, 4},
	{"Trename", 20, F_FID, 10, 0, 8},
	{"Treadlink", 22, F_FID, 4, 2, 0},
	{"Tgetattr", 24, F_FID, 12, 153, 0},
	{"Tsetattr", 26, F_FID, 60, 0, 0},
	{"Txattrwalk", 30, F_FID, 10, 8, 8},
	{"Txattrcreate", 32, F_FID | F_CLOSED, 18, 0, 4},
	{"Treaddir", 40, F_FID | F_OPEN, 16, 4, 0},
	{"Tfsync", 50, F_FID | F_OPEN, 4, 0, 0},
	{"Tlock", 52, F_FID | F_OPEN, 31, 1, 29},
	{"Tgetlock", 54, F_FID | F_OPEN, 27, 23, 25},
	{"Tlink", 70, F_FID, 10, 0, 8},
	{"Tmkdir", 72, F_FID, 14, 13, 4},
	{"Trenameat", 74, F_FID, 12, 0, 4},
	{"Tunlinkat", 76, F_FID, 10, 0, 4},
	{"Tversion", 100, F_ANYTIME, 6, 14, 4},
	{"Tauth", 102, 0, 0, 0, 0},
	{"Tattach", 104, 0, 16, 13, 8},
	{"Tflush", 108, F_ANYTIME, 2, 0, 0},
	{"Twalk", 110, F_FID, 10, 2, 0},
	{"Tread", 116, F_FID | F_OPEN | F_XATTR, 16, 4, 0},
	{"Twrite", 118, F_FID | F_OPEN | F_XATTR, 16, 4, 0},
	{"Tclunk", 120, F_FID | F_XATTR, 4, 0, 0},
	{"Tremove", 122, F_FID | F_XATTR, 4, 0, 0},
};

/* The first n bytes of a body that is a fid and zeros. */
static int ask_zeros(uint8_t type, uint32_t fid, size_t n, size_t room)
{
	uint8_t body[512] = {0}, out[512];

	memcpy(body, &fid, sizeof(fid));
	return ask(type, out, room, "d", body, n);
}

/* ---- the table ---- */

/* Files 10 (not open), 11 (open), 12 (for an attribute). */
static void fids_of_each_kind(void)
{
	session();
	walk(ROOT, 10, "f");
	open_at(11, "f", O_RDWR);
	walk(ROOT, 12, "f");
	need(!tell(P9_TXATTRCREATE, "4s84", 12u, "user.t", (uint64_t)4, 0u));
}

static void test_row(const struct told *t)
{
	const uint32_t good = t->flags & F_OPEN ? 11 : 10;
	uint8_t body[512] = {0};

	if (t->body)
		is(ask_zeros(t->type, good, t->body - 1u, 300), -EINVAL, "%s a byte too short",
		   t->name);
	if (t->room > 4)
		is(ask_zeros(t->type, good, t->body, t->room - 1u), -EINVAL,
		   "%s with a byte too little room", t->name);
	if (t->string) {
		memcpy(body, &good, sizeof(good));
		body[t->string] = 1;
		is(ask(t->type, NULL, 300, "d", body, (size_t)t->body), -EINVAL,
		   "%s with a string over its end", t->name);
		fids_of_each_kind(); /* it may have been a Tversion */
		body[t->string] = body[t->string + 1] = 0xff;
		is(ask(t->type, NULL, 300, "d", body, (size_t)t->body), -EINVAL,
		   "%s with one far over it", t->name);
		fids_of_each_kind();
	}
	if (!(t->flags & F_FID))
		return;
	is(ask_zeros(t->type, 99, t->body, 300), -EBADF, "%s on a fid that is none", t->name);
	is(ask_zeros(t->type, P9_NOFID, t->body, 300), -EBADF, "%s on no fid", t->name);
	if (t->flags & F_OPEN)
		is(ask_zeros(t->type, 10, t->body, 300), -EBADF, "%s on what is not open", t->name);
	if (t->flags & F_CLOSED)
		is(ask_zeros(t->type, 11, t->body, 300), -EBADF, "%s on what is", t->name);
	if (!(t->flags & F_XATTR))
		is(ask_zeros(t->type, 12, t->body, 300), -EBADF, "%s on an attribute", t->name);
}

static void test_table(void)
{
	host_write("f", "0123456789", 10);
	for (unsigned i = 0; i < ARRAY_LEN(table); i++) {
		const struct told *t = &table[i];
		const int r = ask_zeros(t->type, 10, t->body, 300);

		if (t->flags & F_ANYTIME)
			is(r, t->type == 100 ? -EMSGSIZE : 0, "%s at any time", t->name);
		else
			is(r, -EIO, "%s before there is a session", t->name);
	}
	fids_of_each_kind();
	for (unsigned i = 0; i < ARRAY_LEN(table); i++)
		test_row(&table[i]);
}

static void test_unknown_types(void)
{
	unsigned known = 0, refused = 0;

	session();
	for (unsigned type = 0; type < 256; type++) {
		bool is_known = false;

		for (unsigned i = 0; i < ARRAY_LEN(table); i++)
			is_known |= table[i].type == type;
		known += is_known;
		if (!is_known)
			refused += ask_zeros((uint8_t)type, ROOT, 200, 300) == -EOPNOTSUPP;
	}
	is(known, ARRAY_LEN(table), "every message of the table has a type");
	is(refused, 256 - known, "every other type is refused, answers and errors among them");
	is(ask_zeros(P9_TAUTH, ROOT, 200, 300), -EOPNOTSUPP, "nobody has to say who he is");
}

/* ---- sizes ---- */

/* size: what the header says; rd, wr: what there is. A Tgetattr of the root. */
static int ask_sized(uint32_t size, size_t rd, size_t wr)
{
	uint8_t bytes[64] = {0};
	struct msg m = {0};
	struct sent *s;

	memcpy(bytes, &size, 4);
	bytes[4] = P9_TGETATTR;
	bytes[5] = 77;
	bytes[7] = ROOT;
	msg_add(&m, bytes, rd);
	s = sent_of(&m, P9_TGETATTR, 77, wr);
	return sent_finish(sent_send(s), NULL, 0);
}

static void test_sizes(void)
{
	static uint8_t big[DOOR_MSIZE];

	session();
	is(ask_sized(19, 19, 160), 153, "a message that is what it says");
	is(ask_sized(19, 30, 160), 153, "one with something behind it");
	is(ask_sized(18, 30, 160), -EINVAL, "which is not part of it");
	is(ask_sized(20, 19, 160), -EINVAL, "one that says more than there is");
	is(ask_sized(UINT32_MAX, 19, 160), -EINVAL, "or much more");
	is(ask_sized(6, 19, 160), -EINVAL, "one shorter than its header");
	is(ask_sized(0, 19, 160), -EINVAL, "or of nothing");
	is(ask_sized(7, 7, 160), -EINVAL, "a header alone");
	is(ask_sized(19, 6, 160), DOOR_SILENCE, "less than a header");
	is(ask_sized(19, 0, 160), DOOR_SILENCE, "nothing at all");
	is(ask_sized(19, 19, 10), DOOR_SILENCE, "no room for an error");
	is(ask_sized(19, 19, 0), DOOR_SILENCE, "or for anything");
	is(ask_sized(19, 19, 11), -EINVAL, "room for an error alone");
	is(ask_sized(19, 19, 159), -EINVAL, "a byte less than for the answer");
	session_of(P9_MSIZE_MIN);
	is(ask(P9_TGETATTR, NULL, 153, "48d", ROOT, (uint64_t)0, big, (size_t)P9_MSIZE_MIN - 19),
	   153, "a message as long as was agreed");
	is(ask(P9_TGETATTR, NULL, 153, "48d", ROOT, (uint64_t)0, big, (size_t)P9_MSIZE_MIN - 18),
	   -EINVAL, "and one that is longer");
}

static void test_pieces(void)
{
	struct p9_rgetattr o;
	unsigned good = 0;

	session();
	door.layout = CUT;
	for (door.cut = 0; door.cut <= P9_HEADER + sizeof(o); door.cut++)
		good += !ask_getattr(ROOT, &o) && S_ISDIR(le32_get(o.mode));
	is(good, P9_HEADER + sizeof(o) + 1, "a message is served wherever its buffers are cut");
	for (door.cut = 0, good = 0; door.cut < 40; door.cut++)
		good += ask_walk(ROOT, 9, "none/none", NULL) == -ENOENT;
	is(good, 40, "an error too");
	door.layout = BYTES;
	ok(!ask_getattr(ROOT, &o) && S_ISDIR(le32_get(o.mode)), "or in single bytes");
	is(ask_walk(ROOT, 9, "none", NULL), -ENOENT, "with errors of single bytes");
	is(ask_version(8192, "9P2000.L"), 8192, "from the first one on");
	door.layout = WHOLE;
}

/* ---- Tversion ---- */

static void test_version(void)
{
	static const char *const others[] = {"9P2000",  "9P2000.u",  "9P2000.l",
					     "9P2000.", "9P2000.L.", "9P",
					     "",        "unknown",   "9P2000.L9P2000.L9P2000.L"};

	is(ask_version(4095, "9P2000.L"), -EMSGSIZE, "less than 4 KiB a message is refused");
	is(ask_version(0, "9P2000.L"), -EMSGSIZE, "and nothing");
	is(ask_version(4096, "9P2000.L"), 4096, "4 KiB are enough");
	is(ask_version(1 << 20, "9P2000.L"), 1 << 20, "a mebibyte is agreed on");
	is(ask_version((1 << 20) + 1, "9P2000.L"), 1 << 20, "no more");
	is(ask_version(UINT32_MAX, "9P2000.L"), 1 << 20, "however much is offered");
	for (unsigned i = 0; i < ARRAY_LEN(others); i++) {
		session();
		is(ask_version(8192, others[i]), 0, "\"%s\" is another protocol", others[i]);
		is(ask_attach(5, "", 0), -EIO, "which begins no session");
	}
	is(ask(P9_TVERSION, NULL, 64, "42d", 8192u, 8u, "9P2000\0L", (size_t)8), 4 + 2 + 7,
	   "a NUL does not hide anything");
	door.tag = NO_TAG - 1;
	is(ask_version(8192, "9P2000.L"), 8192, "any tag will do");
}

static void test_version_again(void)
{
	struct p9_rgetattr o;

	session();
	for (uint32_t i = 10; i < 20; i++)
		walk(ROOT, i, "d");
	need(!ask_lopen(10, O_RDONLY));
	need(!tell(P9_TXATTRCREATE, "4s84", 11u, "user.never", (uint64_t)0, 0u));
	is(held().fids, 11, "a session has fids");
	need(ask_version(8192, "9P2000.L") == 8192);
	ok(held_only(0), "the next one has none of them");
	is(ask_getattr(10, &o), -EBADF, "not by its number either");
	is(ask_version(100, "9P2000.L"), -EMSGSIZE, "what cannot be agreed on");
	is(ask_attach(5, "", 0), -EIO, "ends the session too");
	ok(ask_sized(19, 19, 160) == -EIO, "until there is another");
	session();
	walk(ROOT, 10, "d");
	is(ask(P9_TXATTRWALK, NULL, 8, "44s", 10u, 11u, "user.never"), -ENODATA,
	   "a half-written attribute ends with its session");
}

/* ---- Tattach ---- */

static void test_attach(void)
{
	struct p9_rgetattr root, d;

	need(ask_version(8192, "9P2000.L") > 0);
	is(ask_attach(1, "", 0), 0, "a user attaches");
	is(ask_attach(2, "", 1000), 0, "and another");
	root = attr_of(1);
	d = attr_of(2);
	ok(root.qid.path.raw == d.qid.path.raw, "to the same directory");
	is(ask_attach(2, "", 0), -EINVAL, "a fid that is there is not taken away");
	ok(!ask_getattr(1, &d) && !ask_getattr(2, &d), "neither of them");
	is(ask_attach(P9_NOFID, "", 0), -EINVAL, "no fid is none");
	is(ask(P9_TATTACH, NULL, 13, "44ss4", 3u, 1u, "u", "", 0u), -EINVAL,
	   "nobody was asked who he is, so no fid can say it");
	is(ask_attach(3, "/d", 0), 0, "one may begin below");
	is(ask_attach(4, "d//e/", 0), 0, "and further down, with any number of slashes");
	is(ask_attach(5, "///", 0), 0, "which alone are the root");
	ok(attr_of(5).qid.path.raw == root.qid.path.raw, "the same one");
	ok(attr_of(3).qid.path.raw != root.qid.path.raw, "the other is another");
	is(ask_attach(6, "none", 0), -ENOENT, "not where nothing is");
	is(ask_attach(6, "d/none/e", 0), -ENOENT, "nor below it");
	is(ask_attach(6, "f", 0), -ENOTDIR, "nor at a file");
	is(ask_attach(6, "f/x", 0), -ENOTDIR, "nor below one");
	is(ask_attach(6, "s", 0), -ENOTDIR, "nor by a link");
	is(ask_attach(6, "s/e", 0), -ENOTDIR, "anywhere on the way");
	is(ask_attach(6, ".", 0), -ENOENT, "and nothing has this name");
	is(ask_attach(6, "..", 0), 0, "nothing is above the root");
	ok(attr_of(6).qid.path.raw == root.qid.path.raw, "but itself");
	is(held().fids, 6, "what failed has made no fid");
}

static void test_attach_strings(void)
{
	static char longest[PATH_MAX + 1];
	char name[257];

	need(ask_version(65536, "9P2000.L") > 0);
	memset(name, 'n', sizeof(name));
	name[256] = 0;
	is(ask_attach(1, name, 0), -ENAMETOOLONG, "a name of 256 bytes is none");
	memset(longest, '/', sizeof(longest));
	longest[PATH_MAX - 1] = 0;
	is(ask_attach(1, longest, 0), 0, "a path of 4095 bytes is one");
	longest[PATH_MAX - 1] = '/';
	longest[PATH_MAX] = 0;
	is(ask_attach(2, longest, 0), -ENAMETOOLONG, "a longer one is not");
	is(ask(P9_TATTACH, NULL, 13, "44s2d4", 2u, P9_NOFID, "u", 3u, "d\0e", (size_t)3, 0u),
	   -EINVAL, "nor one with a NUL");
	is(ask(P9_TATTACH, NULL, 13, "44ss4", 2u, P9_NOFID, longest, "", 0u), 13,
	   "what the user is called is not looked at");
	is(ask(P9_TATTACH, NULL, 13, "44ssd", 3u, P9_NOFID, "u", "dd", "\0\0", (size_t)2), -EINVAL,
	   "one without a number is nobody");
	is(held().fids, 2, "and has no fid");
}

/* ---- Twalk ---- */

static void test_walk(void)
{
	struct p9_qid q[P9_WALK_MAX] = {0};
	struct p9_rgetattr o;

	session();
	is(ask_walk(ROOT, 2, "d/e/g", q), 3, "three names are walked");
	ok(q[0].type == P9_QTDIR && q[1].type == P9_QTDIR && q[2].type == P9_QTFILE,
	   "and each is told what it is");
	ok(attr_of(2).qid.path.raw == q[2].path.raw, "the last is what the fid stands for");
	is(ask_walk(ROOT, 3, "d/none/g", q), 1, "half a way is told");
	is(ask_getattr(3, &o), -EBADF, "and makes no fid");
	is(ask_walk(ROOT, 3, "none/e/g", q), -ENOENT, "none at all is an error");
	is(ask_walk(ROOT, 3, "d/e/g/h", q), 3, "nothing is below a file");
	is(ask_getattr(3, &o), -EBADF, "so that makes none either");
	is(ask_walk(2, 3, "h", q), -ENOTDIR, "from there it is no way at all");
	is(ask_walk(2, 3, "", q), 0, "no name is the same object");
	ok(attr_of(3).qid.path.raw == attr_of(2).qid.path.raw, "again");
	is(ask_walk(2, 3, "", q), -EINVAL, "but not by a fid that is there");
	is(ask_walk(ROOT, 3, "d", q), -EINVAL, "for no way whatever");
	is(ask_walk(ROOT, P9_NOFID, "d", q), -EINVAL, "no fid is none");
	is(ask_walk(ROOT, 4, "s", q), 1, "a link is an object");
	ok(q[0].type == P9_QTSYMLINK, "of its own kind");
	is(ask_walk(4, 5, "e", q), -ENOTDIR, "which leads nowhere");
	is(ask_walk(ROOT, ROOT, "d", q), 1, "a fid may go itself");
	ok(attr_of(ROOT).qid.path.raw == q[0].path.raw, "to stand for something else");
	is(ask_walk(ROOT, ROOT, "e/none", q), 1, "but not half of the way");
	is(ask_walk(ROOT, 6, "e", q), 1, "then it stays where it was");
	is(held().fids, 5, "these were five");
}

static void test_walk_up(void)
{
	struct p9_qid q[P9_WALK_MAX];
	struct p9_qid root, e;

	session();
	root = attr_of(ROOT).qid;
	is(ask_walk(ROOT, 2, "..", q), 1, "above the root");
	ok(q[0].path.raw == root.path.raw, "is itself");
	is(ask_walk(ROOT, 3, "d/e/../../..", q), 5, "down and up");
	ok(q[2].path.raw == q[0].path.raw && q[4].path.raw == root.path.raw, "leads back");
	is(ask_walk(ROOT, 4, "d/e/g/..", q), 3, "nothing is above a file");
	need(!ask_attach(5, "d/e", 0));
	e = attr_of(5).qid;
	is(ask_walk(5, 6, "../..", q), 2, "who began below");
	ok(q[0].path.raw == e.path.raw && q[1].path.raw == e.path.raw, "goes no further up");
	is(ask_walk(5, 7, "i/../../i/..", q), 5, "by whatever way");
	ok(q[2].path.raw == e.path.raw && q[4].path.raw == e.path.raw, "he tries");
	walk(5, 8, "i");
	need(!renameat(door.dir, "d/e/i", door.dir, "i"));
	is(ask_walk(8, 9, "../..", q), 2, "what the host has moved out from under him");
	ok(q[1].path.raw == root.path.raw, "is where it is, and so is what is above it");
	need(!renameat(door.dir, "i", door.dir, "d/e/i"));
	walk(ROOT, 10, "d/gone");
	need(!unlinkat(door.dir, "d/gone", AT_REMOVEDIR));
	ok(ask_walk(10, 11, "none", q) < 0, "nothing is in what is gone");
}

static void test_walk_out(void)
{
	char away[96];
	struct p9_qid q[2];

	snprintf(away, sizeof(away), "%s.away", door.top);
	session();
	walk(ROOT, 2, "d/e/i");
	need(!renameat(door.dir, "d/e/i", AT_FDCWD, away));
	is(ask_walk(2, 3, "..", q), -ENOENT, "nothing is above what the host has taken out");
	need(!renameat(AT_FDCWD, away, door.dir, "d/e/i"));
	is(ask_walk(2, 3, "..", q), 1, "when it is back there is");
}

static void test_walk_names(void)
{
	static const char dots[] = "../../../../../../../../../../../../../../..";
	char way[64], name[257];
	struct p9_qid q[P9_WALK_MAX];

	session();
	snprintf(way, sizeof(way), "%s/..", dots);
	is(ask_walk(ROOT, 2, way, q), 16, "sixteen names are a walk");
	snprintf(way, sizeof(way), "%s/../..", dots);
	is(ask_walk(ROOT, 3, way, q), -EINVAL, "seventeen are none");
	is(ask(P9_TWALK, NULL, 300, "442", ROOT, 3u, 0xffffu), -EINVAL, "nor are 65535");
	is(ask(P9_TWALK, NULL, 300, "4422d", ROOT, 3u, 2u, 1u, "d", (size_t)1), -EINVAL,
	   "nor are two of which one is there");
	is(ask(P9_TWALK, NULL, 300, "4422d2", ROOT, 3u, 2u, 1u, "d", (size_t)1, 5u), -EINVAL,
	   "nor one that ends before its end");
	is(ask(P9_TWALK, NULL, 2 + 13, "442ss", ROOT, 3u, 2u, "d", "e"), -EINVAL,
	   "nor with room for one");
	is(ask(P9_TWALK, NULL, 2 + 26, "442ss", ROOT, 3u, 2u, "d", "e"), 2 + 26, "for two it is");
	is(ask(P9_TWALK, NULL, 300, "442s", ROOT, 4u, 1u, ""), -ENOENT, "nothing has no name");
	is(ask(P9_TWALK, NULL, 300, "442s", ROOT, 4u, 1u, "."), -ENOENT, "or a dot");
	is(ask(P9_TWALK, NULL, 300, "442s", ROOT, 4u, 1u, "d/e"), -ENOENT, "or a slash in it");
	is(ask(P9_TWALK, NULL, 300, "442s", ROOT, 4u, 1u, "../x"), -ENOENT, "wherever it is");
	is(ask(P9_TWALK, NULL, 300, "4422d", ROOT, 4u, 1u, 3u, "d\0e", (size_t)3), -EINVAL,
	   "or a NUL");
	memset(name, 'n', sizeof(name));
	name[256] = 0;
	is(ask_walk(ROOT, 4, name, NULL), -ENAMETOOLONG, "a name has 255 bytes");
	name[255] = 0;
	is(ask_walk(ROOT, 4, name, NULL), -ENOENT, "at most");
	is(held().fids, 3, "no fid came of all that");
}

/* Linux lists what it has open by fids that it walks from there (E7). */
static void test_walk_open(void)
{
	struct p9_rgetattr o;
	char c;

	session();
	open_at(2, "d/e/g", O_RDONLY);
	is(ask_walk(2, 3, "", NULL), 0, "one may walk from what is open");
	is(ask_read(3, 0, &c, 1), -EBADF, "to what is not");
	is(ask_walk(2, 2, "", NULL), -EBADF, "an open fid stays what it is");
	is(ask_read(2, 0, &c, 1), 1, "and open");
	open_at(4, "d", O_RDONLY);
	is(ask_walk(4, 5, "e", NULL), 1, "from a directory too");
	is(ask_getattr(5, &o), 0, "to what is in it");
	is(ask_walk(4, 4, "e", NULL), -EBADF, "which is no other by that");
}

/* ---- fids ---- */

static void test_fids(void)
{
	static const uint32_t numbers[] = {0, 2, 0x7fffffff, 0x80000000, UINT32_MAX - 1};
	struct p9_rgetattr o;

	session();
	for (unsigned i = 0; i < ARRAY_LEN(numbers); i++) {
		is(ask_walk(ROOT, numbers[i], "", NULL), 0, "fid %u is a fid", numbers[i]);
		is(ask_getattr(numbers[i], &o), 0, "that is known");
	}
	for (unsigned i = 0; i < ARRAY_LEN(numbers); i++) {
		is(ask_clunk(numbers[i]), 0, "fid %u is let go of", numbers[i]);
		is(ask_clunk(numbers[i]), -EBADF, "once");
	}
	ok(held_only(1), "and the root is left");
	for (uint32_t i = 0; i < 5000; i++)
		always(ask_walk(ROOT, 100 + i * 977, "d", NULL) == 1, "there may be many");
	is(held().fids, 5001, "thousands are held");
	is(held().inodes, 2, "of two objects");
	for (uint32_t i = 0; i < 5000; i++)
		always(!ask_clunk(100 + i * 977), "and let go of");
	ok(held_only(1), "and none is left");
}

static void pretend(void *arg)
{
	door.p9->fids.used = *(size_t *)arg;
}

/* As if the table were full: to fill it would take minutes. */
static void test_fid_limit(void)
{
	size_t full = 1u << 22, real;

	session();
	walk(ROOT, 2, "d");
	real = held().fids;
	loop_call(door.io, pretend, &full);
	is(ask_walk(ROOT, 3, "d", NULL), -ENFILE, "there are no more fids than four million");
	is(ask_attach(3, "", 0), -ENFILE, "for whomever");
	is(ask(P9_TXATTRWALK, NULL, 8, "44s", 2u, 3u, ""), -ENFILE, "or for an attribute");
	is(ask_walk(2, 2, "e", NULL), 1, "one may still go on");
	loop_call(door.io, pretend, &real);
	is(ask_walk(ROOT, 3, "d", NULL), 1, "and when there are less there is another");
}

static void test_open_limit(void)
{
	struct share_config few = PLAIN;
	uint32_t n = 0;
	int r = 0;

	few.fd_budget = 16;
	door_open_share(PLAIN_9P, few);
	session();
	walk(ROOT, 2, "d/e/g");
	while (n < 50) {
		walk(2, 10 + n, "");
		r = ask_lopen(10 + n, O_RDONLY);
		if (r)
			break;
		n++;
	}
	ok(n > 4 && n < 16, "so many files may be open as there are descriptors");
	is(r, -ENFILE, "the next is one too many in the host's words");
	is(ask_walk(2, 9, "", NULL), 0, "one can still walk to what is known");
	is(ask_clunk(10), 0, "when one is closed");
	is(ask_lopen(10 + n, O_RDONLY), 0, "the next can be opened");
	door_close();
}

/* ---- letting go, removing and renaming by fid ---- */

static void test_remove(void)
{
	struct p9_rgetattr o;

	session();
	host_write("r", "x", 1);
	need(!mkdirat(door.dir, "rd", 0755) && !mkdirat(door.dir, "rd/in", 0755));
	walk(ROOT, 2, "r");
	walk(ROOT, 3, "r");
	is(ask_remove(2), 0, "a file is removed by its fid");
	ok(!host_has("r"), "it is gone");
	is(ask_getattr(2, &o), -EBADF, "and the fid");
	is(ask_getattr(3, &o), 0, "another fid still has it");
	is(ask_remove(3), -ENOENT, "but not by that name");
	is(ask_getattr(3, &o), -EBADF, "and is gone now too");
	walk(ROOT, 2, "rd");
	is(ask_remove(2), -ENOTEMPTY, "what is in use is not removed");
	is(ask_getattr(2, &o), -EBADF, "the fid is gone all the same");
	walk(ROOT, 2, "rd/in");
	is(ask_remove(2), 0, "a directory is removed");
	walk(ROOT, 2, "");
	is(ask_remove(2), -EBUSY, "the root is not");
	is(ask_remove(2), -EBADF, "and no fid is left of it");
	host_write("r", "x", 1);
	walk(ROOT, 2, "r");
	need(!unlinkat(door.dir, "r", 0));
	host_write("r", "another", 7);
	is(ask_remove(2), -ENOENT, "what has the name now is not it");
	ok(host_has("r"), "and stays");
	open_at(2, "r", O_RDWR);
	is(ask_remove(2), 0, "what is open is removed");
	ok(held_only(1) && !host_has("r"), "and closed");
	is(ask_remove(77), -EBADF, "what is not known is not");
	need(!unlinkat(door.dir, "rd", AT_REMOVEDIR));
}

static int ask_rename(uint32_t fid, uint32_t dir, const char *name)
{
	return tell(P9_TRENAME, "44s", fid, dir, name);
}

static void test_rename(void)
{
	session();
	host_write("a", "12345", 5);
	walk(ROOT, 2, "a");
	walk(ROOT, 3, "a");
	walk(ROOT, 4, "d");
	is(ask_rename(2, ROOT, "b"), 0, "a file is renamed by its fid");
	ok(!host_has("a") && host_has("b"), "it has that name");
	is(ask_rename(2, 4, "c"), 0, "which the fid knows");
	ok(host_has("d/c"), "in any directory");
	is(ask_rename(3, ROOT, "x"), -ENOENT, "another fid does not");
	is(le64_get(attr_of(3).size), 5, "but still has it");
	is(ask_rename(2, 77, "x"), -EBADF, "to no directory it goes nowhere");
	is(ask_rename(2, 3, "x"), -ENOTDIR, "nor into a file");
	is(ask_rename(2, ROOT, ""), -EINVAL, "nor to no name");
	is(ask_rename(2, ROOT, ".."), -EINVAL, "or that of another");
	is(ask_rename(2, ROOT, "x/y"), -EINVAL, "or two");
	is(ask_rename(ROOT, 4, "root"), -EBUSY, "the root has none");
	is(ask_rename(4, 4, "d"), -EINVAL, "nothing goes into itself");
	is(ask_rename(2, 4, "e"), -EISDIR, "a file does not take a directory's place");
	is(ask_remove(2), 0, "by its new name it is removed");
	ok(!host_has("d/c"), "at last");
	is(tell(P9_TRENAME, "44d", ROOT, ROOT, "\377\377", (size_t)2), -EINVAL,
	   "a lie renames nothing");
}

/* A directory on the way has another name: what stands below it does not mind (E12). */
static void test_rename_parent(void)
{
	char c = 0;

	session();
	host_write("d/low", "z", 1);
	open_at(2, "d/low", O_RDONLY);
	walk(ROOT, 3, "d/low");
	walk(ROOT, 4, "d");
	is(ask_rename(4, ROOT, "dd"), 0, "a directory gets another name");
	is(ask_read(2, 0, &c, 1), 1, "what is open in it is read");
	is(ask_rename(3, 4, "low2"), 0, "what is known in it is renamed");
	ok(host_has("dd/low2"), "where it is now");
	is(ask_rename(4, ROOT, "d"), 0, "and back");
	is(ask_remove(3), 0, "and removed");
	ok(!host_has("d/low2"), "from there");
}

/* ---- leaks ---- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#define FAILING 25
static struct sent *failing[FAILING];
static unsigned nfailing;

static void fails(struct sent *s)
{
	need(nfailing < FAILING);
	failing[nfailing++] = s;
}

/* Fid 10 is a file, 11 one that is open, 12 is for an attribute, 13 a directory that is open. */
static void make_failing(void)
{
	fails(sent_make(P9_TATTACH, 13, "44ss4", 50u, P9_NOFID, "u", "d/e/none", 0u));
	fails(sent_make(P9_TATTACH, 13, "44ss4", 10u, P9_NOFID, "u", "d/e", 0u));
	fails(sent_make(P9_TWALK, 300, "442ss", ROOT, 10u, 2u, "d", "e"));
	fails(sent_make(P9_TWALK, 300, "442ss", 10u, 50u, 2u, "d", "e"));
	fails(sent_make(P9_TWALK, 300, "442sss", ROOT, P9_NOFID, 3u, "d", "e", ".."));
	fails(sent_make(P9_TLOPEN, 17, "44", ROOT, (unsigned)O_RDWR));
	fails(sent_make(P9_TLCREATE, 17, "4s444", ROOT, "f", (unsigned)P9_O_EXCL, 0644u, 0u));
	fails(sent_make(P9_TLCREATE, 17, "4s444", 10u, "x", 0u, 0644u, 0u));
	fails(sent_make(P9_TSYMLINK, 13, "4ss4", ROOT, "f", "target", 0u));
	fails(sent_make(P9_TMKNOD, 13, "4s4444", ROOT, "f", S_IFIFO | 0600u, 0u, 0u, 0u));
	fails(sent_make(P9_TMKDIR, 13, "4s44", ROOT, "f", 0755u, 0u));
	fails(sent_make(P9_TRENAME, 0, "44s", 10u, 11u, "x"));
	fails(sent_make(P9_TREADLINK, 100, "4", 10u));
	fails(sent_make(
		P9_TSETATTR, 0, "444448dd", 10u, 0x90u, 0u, 0u, 0u, (uint64_t)0,
		"\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377", (size_t)16,
		"\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377", (size_t)16));
	fails(sent_make(P9_TXATTRWALK, 8, "44s", 10u, 50u, "user.none"));
	fails(sent_make(P9_TXATTRWALK, 8, "44s", 10u, 10u, ""));
	fails(sent_make(P9_TXATTRCREATE, 0, "4s84", 10u, "user.big", (uint64_t)70000, 0u));
	fails(sent_make(P9_TREADDIR, 100, "484", 11u, (uint64_t)0, 100u));
	fails(sent_make(P9_TREADDIR, 100, "484", 13u, (uint64_t)0, 5u));
	fails(sent_make(P9_TWRITE, 4, "484d", 12u, (uint64_t)0, 9u, "123456789", (size_t)9));
	fails(sent_make(P9_TREAD, 100, "484", 12u, (uint64_t)0, 100u));
	fails(sent_make(P9_TLINK, 0, "44s", ROOT, 10u, "f"));
	fails(sent_make(P9_TRENAMEAT, 0, "4s4s", ROOT, "none", ROOT, "x"));
	fails(sent_make(P9_TUNLINKAT, 0, "4s4", ROOT, "none", 0u));
	fails(sent_make(P9_TGETLOCK, 23, "418884s", 11u, 9u, (uint64_t)0, (uint64_t)0, (uint64_t)0,
			0u, "me"));
}

/* On the iothread: all of them, over and over; the number that did not fail. */
static void fail_all(void *arg)
{
	unsigned *good = arg;

	for (unsigned i = 0; i < 100000; i++) {
		struct sent *s = failing[i % nfailing];

		s->req.rd[0] = (struct iovec){s->rd, s->rd_len};
		s->req.wr[0] = (struct iovec){s->wr, s->wr_len};
		s->req.io = door.io;
		*good += p9_serve(door.p9, &s->req) || s->wr[4] != P9_RLERROR;
	}
}

static size_t resident(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	size_t all = 0, n = 0;

	need(f && fscanf(f, "%zu %zu", &all, &n) == 2);
	fclose(f);
	return n * 4096;
}

static void test_leaks(void)
{
	const unsigned fds = host_descriptors();
	struct held before, after;
	unsigned good = 0;
	size_t rss;

	fids_of_each_kind();
	open_at(13, "d", O_RDONLY);
	make_failing();
	before = held();
	loop_call(door.io, fail_all, &good); /* what is only begun once */
	rss = resident();
	loop_call(door.io, fail_all, &good);
	after = held();
	is(good, 0, "200000 requests fail");
	ok(!memcmp(&before, &after, sizeof(before)), "and leave nothing in the tables");
	if (SANITIZED)
		skip("memory that was freed is kept to look at", "nor in memory");
	else
		ok(resident() < rss + KIB(512), "nor in memory");
	while (nfailing)
		sent_free(failing[--nfailing]);
	session();
	is(host_descriptors(), fds, "nor of descriptors");
}

/* ---- the run ---- */

static void (*const tests[])(void) = {
	test_table,    test_unknown_types, test_sizes,         test_pieces,         test_version,
	test_attach,   test_version_again, test_walk,          test_attach_strings, test_walk_up,
	test_walk_out, test_walk_names,    test_walk_open,     test_fids,           test_fid_limit,
	test_remove,   test_rename,        test_rename_parent, test_leaks,
};

static void tree_make(void)
{
	host_write("f", "0123456789", 10);
	need(!mkdirat(door.dir, "d", 0755) && !mkdirat(door.dir, "d/e", 0755));
	need(!mkdirat(door.dir, "d/e/i", 0755) && !mkdirat(door.dir, "d/gone", 0755));
	host_write("d/e/g", "g", 1);
	need(!symlinkat("d", door.dir, "s"));
}

int main(void)
{
	unsigned fds;

	door_set_up("t_p9");
	tree_make();
	fds = host_descriptors();
	for (unsigned i = 0; i < ARRAY_LEN(tests); i++) {
		door_open();
		tests[i]();
		need(ask_version(8192, "9P2000.L") == 8192);
		always(held_only(0), "a new session holds nothing of the old");
		door_close();
		if (!host_has("d/gone"))
			need(!mkdirat(door.dir, "d/gone", 0755));
		always(host_descriptors() == fds, "the server leaves nothing behind");
	}
	test_open_limit();
	is(host_descriptors(), fds, "nothing is left open");
	door_tear_down();
	return done();
}
