// SPDX-License-Identifier: Apache-2.0
/*
 * t_fuse_create.c - what a creating request says of the new object beside its name: umask, label, group; files without
 * a name; set-id bits that go.
 *
 * What the file layer makes of it is in t_share_owner.c. Hard cases D8, D31, D33, D36, D39, D40, D66.
 */
#include "fuse_door.h"
#include <sys/xattr.h>

/* ---- extensions ---- */

/* What follows the name of a creating request. */
struct tail {
	uint8_t bytes[8192];
	size_t n;
};

static void tail_put(struct tail *t, const void *p, size_t n)
{
	need(t->n + n <= sizeof(t->bytes));
	memcpy(t->bytes + t->n, p, n);
	t->n += n;
}

static void tail_align(struct tail *t)
{
	while (t->n % 8)
		t->bytes[t->n++] = 0;
}

/* As Linux puts it: the length of the whole, and of the value. */
static void put_label(struct tail *t, const char *name, const void *value, size_t n)
{
	const size_t body = sizeof(struct fuse_secctx) + strlen(name) + 1 + n;
	const struct fuse_secctx_header h = {.size = (uint32_t)(sizeof(h) + ALIGN_UP(body, 8)),
					     .nr_secctx = 1};
	const struct fuse_secctx ctx = {.size = (uint32_t)n};

	tail_put(t, &h, sizeof(h));
	tail_put(t, &ctx, sizeof(ctx));
	tail_put(t, name, strlen(name) + 1);
	tail_put(t, value, n);
	tail_align(t);
}

static void put_no_label(struct tail *t)
{
	tail_put(t, &(struct fuse_secctx_header){.size = 8}, 8);
}

static void put_group(struct tail *t, uint32_t group)
{
	const uint32_t ext[] = {16, FUSE_EXT_GROUPS, 1, group};

	tail_put(t, ext, sizeof(ext));
}

/* A creating request of a caller; extlen: what the header says of the tail, in its units. */
static int make(uint32_t opcode, const char *name, const struct tail *t, uint16_t extlen,
		uint32_t uid, uint32_t mode, uint32_t umask)
{
	uint8_t body[9000] = {0}, out[256];
	const struct fuse_mknod_in mknod_in = {.mode = S_IFREG | mode, .umask = umask};
	const struct fuse_mkdir_in mkdir_in = {.mode = mode, .umask = umask};
	const struct fuse_create_in create_in = {
		.flags = O_RDWR | O_CREAT, .mode = S_IFREG | mode, .umask = umask};
	struct fuse_in_header h;
	struct sent *s;
	size_t n = 0;
	int r;

#define PUT(x) memcpy(body, &(x), sizeof(x)), n = sizeof(x)
	if (opcode == FUSE_MKNOD)
		PUT(mknod_in);
	else if (opcode == FUSE_MKDIR)
		PUT(mkdir_in);
	else if (opcode != FUSE_SYMLINK)
		PUT(create_in);
#undef PUT
	memcpy(body + n, name, strlen(name) + 1);
	n += strlen(name) + 1;
	if (opcode == FUSE_SYMLINK) {
		memcpy(body + n, "to", 3);
		n += 3;
	}
	s = sent_make(opcode, ROOT, body, n, t->bytes, t->n, sizeof(out));
	memcpy(&h, s->rd, sizeof(h));
	h.total_extlen = extlen;
	h.uid = h.gid = uid;
	memcpy(s->rd, &h, sizeof(h));
	loop_call(door.io, sent_serve, s);
	r = sent_finish(s, out, sizeof(out));
	return MIN(r, 0);
}

/* By root, with a tail of the length it has. */
static int make_with(uint32_t opcode, const char *name, const struct tail *t)
{
	return make(opcode, name, t, (uint16_t)(t->n / 8), 0, 0644, 0);
}

static const uint32_t ops[] = {FUSE_CREATE, FUSE_MKNOD, FUSE_MKDIR, FUSE_SYMLINK};

/* ---- labels ---- */

static const char label[] = "system_u:object_r:user_home_t:s0";

static bool label_is(const char *name, const char *want)
{
	char path[128], buf[128];
	ssize_t n;

	snprintf(path, sizeof(path), "%s/%s", door.top, name);
	n = lgetxattr(path, "security.wherry", buf, sizeof(buf));
	return want ? n == (ssize_t)strlen(want) && !memcmp(buf, want, strlen(want)) : n < 0;
}

static void test_labels(void)
{
	const struct share_config labels = {.xattr = true, .security_label = true};

	if (geteuid() || !share_owner_passes()) {
		skip("not root, or without other ids", "labels");
		return;
	}
	door_open_share(BY_MODE, labels);
	session_of(38, UINT64_MAX & ~(FUSE_CREATE_SUPP_GROUP));
	for (unsigned i = 0; i < ARRAY_LEN(ops); i++) {
		struct tail t = {.n = 0};
		char name[16];

		put_label(&t, "security.wherry", label, strlen(label));
		snprintf(name, sizeof(name), "l%u", ops[i]);
		is(make_with(ops[i], name, &t), 0, "opcode %u makes an object with a label",
		   ops[i]);
		ok(label_is(name, label), "which it has");
		snprintf(name, sizeof(name), "m%u", ops[i]);
		is(make(ops[i], name, &t, 0, 0, 0644, 0), 0,
		   "also for a guest whose header does not say so");
		ok(label_is(name, label), "which knows the first extension only");
		t.n = 0;
		put_no_label(&t);
		snprintf(name, sizeof(name), "n%u", ops[i]);
		is(make_with(ops[i], name, &t), 0, "or without one");
		ok(label_is(name, NULL), "which it has not");
	}
	host_clear(door.dir);
	door_close();
}

/* Each of these is refused before anything is made. */
static void refuse(const struct tail *t, uint16_t extlen, const char *what)
{
	unsigned good = 0;

	for (unsigned i = 0; i < ARRAY_LEN(ops); i++) {
		const int r = make(ops[i], "bad", t, extlen, 0, 0644, 0);

		good += r == -EINVAL || r == -EOPNOTSUPP;
		if (r >= 0)
			printf("# opcode %u: %d\n", ops[i], r);
	}
	is(good, ARRAY_LEN(ops), "%s", what);
	always(!host_has("bad"), "nothing is made");
}

static void refuse_words(const uint32_t *w, size_t n, const char *what)
{
	struct tail t = {.n = 0};

	tail_put(&t, w, n * sizeof(*w));
	refuse(&t, (uint16_t)(t.n / 8), what);
}

static void test_bad_tails(void)
{
	struct share_config labels = {.xattr = true, .security_label = true};
	struct tail good = {.n = 0}, t;
	unsigned cut = 0;

	if (geteuid() || !share_owner_passes()) {
		skip("not root, or without other ids", "extensions that lie");
		return;
	}
	door_open_share(BY_MODE, labels);
	session_of(38, UINT64_MAX);
	put_label(&good, "security.wherry", label, strlen(label));
	put_group(&good, 7);
	is(make_with(FUSE_CREATE, "good", &good), 0, "a label and a group");
	for (t = good; t.n-- > 1;) {
		const int r = make(FUSE_MKDIR, "cut", &t, 0, 0, 0755, 0);

		/* The group may be missing as a whole. */
		if (!r)
			need(t.n == good.n - 16 && !unlinkat(door.dir, "cut", AT_REMOVEDIR));
		cut += r == -EINVAL || !r;
	}
	is(cut, good.n - 1, "cut off anywhere they are refused");
	refuse(&good, (uint16_t)(good.n / 8 + 1), "a header that says more than came");
	refuse(&good, (uint16_t)(good.n / 8 - 1), "or less");
	refuse(&good, UINT16_MAX, "or all there could be");
	refuse_words((uint32_t[]){0, 1}, 2, "an extension of no length");
	refuse_words((uint32_t[]){7, 1}, 2, "one shorter than its head");
	refuse_words((uint32_t[]){UINT32_MAX, 1}, 2, "one of four thousand millions");
	refuse_words((uint32_t[]){UINT32_MAX - 6, 1}, 2, "whose end wraps");
	refuse_words((uint32_t[]){8, 1}, 2, "a label that is not there");
	refuse_words((uint32_t[]){16, 1, UINT32_MAX, 0}, 4, "one longer than its extension");
	refuse_words((uint32_t[]){8, 2}, 2, "two labels");
	refuse_words((uint32_t[]){8, 31}, 2, "thirty-one labels");
	refuse_words((uint32_t[]){8, 33}, 2, "an extension that is not known");
	refuse_words((uint32_t[]){8, FUSE_EXT_GROUPS}, 2, "groups without a number");
	refuse_words((uint32_t[]){16, FUSE_EXT_GROUPS, 2, 7}, 4, "two groups of which one came");
	refuse_words((uint32_t[]){16, FUSE_EXT_GROUPS, UINT32_MAX, 7}, 4, "or very many");
	refuse_words((uint32_t[]){16, FUSE_EXT_GROUPS, 1, UINT32_MAX}, 4, "a group that is none");
	t.n = 0;
	put_label(&t, "user.wherry", label, strlen(label));
	refuse(&t, 0, "a label that is another attribute");
	t.n = 0;
	put_label(&t, "security.", label, strlen(label));
	refuse(&t, 0, "or has no name");
	t.n = 0;
	put_label(&t, "security.wherry", label, 0);
	refuse(&t, 0, "or no value");
	t.n = 0;
	put_label(&t, "security.wherry", good.bytes, 4097);
	refuse(&t, 0, "or is too long");
	t = good;
	put_label(&t, "security.wherry", label, strlen(label));
	refuse(&t, 0, "or comes twice");
	host_clear(door.dir);
	door_close();
	labels.security_label = false;
	door_open_share(BY_MODE, labels);
	session_of(38, UINT64_MAX);
	t.n = 0;
	put_label(&t, "security.wherry", label, strlen(label));
	refuse(&t, 0, "a label that was not agreed on");
	door_close();
}

/* ---- groups ---- */

static void test_groups(void)
{
	struct tail t = {.n = 0};
	struct stat st;

	if (geteuid() || !share_owner_passes()) {
		skip("not root, or without other ids", "groups of the caller");
		return;
	}
	need(!fchmod(door.dir, 02775) && !fchown(door.dir, 0, 4321));
	door_open(BY_MODE, false);
	session_of(38, UINT64_MAX);
	is(make(FUSE_CREATE, "without", &t, 0, 1234, 02755, 0), 0,
	   "a set-gid program in another's directory");
	need(!fstatat(door.dir, "without", &st, 0));
	ok(st.st_uid == 1234 && st.st_gid == 4321 && !(st.st_mode & S_ISGID),
	   "is not made set-gid by who is not in its group");
	put_group(&t, 4321);
	is(make(FUSE_CREATE, "with", &t, (uint16_t)(t.n / 8), 1234, 02755, 0), 0, "by who is");
	need(!fstatat(door.dir, "with", &st, 0));
	ok(st.st_gid == 4321 && st.st_mode & S_ISGID, "it is");
	need(!fchmod(door.dir, 0755) && !fchown(door.dir, 0, 0));
	host_clear(door.dir);
	door_close();
}

/* ---- umask ---- */

static mode_t mode_of(const char *name)
{
	struct stat st;

	need(!fstatat(door.dir, name, &st, AT_SYMLINK_NOFOLLOW));
	return st.st_mode & 07777;
}

static void test_umask(void)
{
	struct tail none = {.n = 0};

	door_open(BY_MODE, false);
	session_of(38, UINT64_MAX);
	need(!make(FUSE_CREATE, "a", &none, 0, 0, 0666, 077));
	is(mode_of("a"), 0666, "a guest that applies its umask has applied it");
	door_close();
	host_clear(door.dir);
	if (geteuid() || !share_owner_passes()) {
		skip("not root, or without other ids", "a umask that is ours to apply");
		return;
	}
	door_open_share(BY_MODE, (struct share_config){.xattr = true, .posix_acl = true});
	session_of(38, UINT64_MAX);
	need(!make(FUSE_CREATE, "a", &none, 0, 0, 0666, 027));
	need(!make(FUSE_MKNOD, "b", &none, 0, 0, 0666, 077));
	need(!make(FUSE_MKDIR, "c", &none, 0, 0, 0777, 022));
	ok(mode_of("a") == 0640 && mode_of("b") == 0600 && mode_of("c") == 0755,
	   "one that leaves it to us has it applied");
	need(!make(FUSE_CREATE, "d", &none, 0, 0, 0666, UINT32_MAX & ~0777u));
	is(mode_of("d"), 0666, "bits that are no permissions are none");
	host_clear(door.dir);
	door_close();
}

/* ---- files without a name ---- */

static void test_tmpfile(void)
{
	const struct fuse_create_in in = {.flags = O_RDWR | O_TMPFILE, .mode = S_IFREG | 0600};
	struct {
		struct fuse_entry_out e;
		struct fuse_open_out o;
	} out;
	struct fuse_link_in link_in;
	struct fuse_entry_out e;
	char buf[8];
	int r;

	door_open(BY_MODE, false);
	session_of(38, UINT64_MAX);
	r = ask2(FUSE_TMPFILE, ROOT, &in, sizeof(in), "/", 2, &out, sizeof(out));
	if (r == -EOPNOTSUPP) {
		skip("the file system of TMPDIR has none", "files without a name");
		door_close();
		return;
	}
	is(r, sizeof(out), "a file without a name is made");
	ok(S_ISREG(out.e.attr.mode) && !out.e.attr.nlink, "and has none");
	is(held().nodes, 1, "it is known");
	is(ask_write(out.e.nodeid, out.o.fh, 0, "data", 4), 4, "written");
	link_in.oldnodeid = out.e.nodeid;
	is(ask2(FUSE_LINK, ROOT, &link_in, sizeof(link_in), "named", 6, &e, sizeof(e)), sizeof(e),
	   "and given a name");
	is(e.nodeid, out.e.nodeid, "as the same object");
	is(host_size("named"), 4, "on the host");
	is(ask_read(FUSE_READ, out.e.nodeid, out.o.fh, 0, buf, 8), 4, "it is read still");
	need(!release(out.e.nodeid, out.o.fh));
	is(ask2(FUSE_TMPFILE, out.e.nodeid, &in, sizeof(in), "/", 2, &out, sizeof(out)), -ENOTDIR,
	   "none is made in a file");
	is(ask2(FUSE_TMPFILE, ROOT, &in, sizeof(in), "//", 2, &out, sizeof(out)), -EINVAL,
	   "nor by a message that does not end");
	forget(e.nodeid, 2);
	ok(nothing_held(), "nothing more was counted");
	host_clear(door.dir);
	door_close();
	if (!share_owner_passes())
		return;
	door_open(IN_MODE(FUSE_CACHE_ALWAYS), false);
	session_of(45, UINT64_MAX);
	is(ask2(FUSE_TMPFILE, ROOT, &in, sizeof(in), "/", 2, &out, sizeof(out)), sizeof(out),
	   "also for a guest that does not open");
	is(out.o.fh, 0, "without a handle");
	is(ask_write(out.e.nodeid, 0, 0, "data", 4), 4, "as it is kept");
	door_close();
}

/* ---- set-id bits ---- */

static uint64_t set_id_file(void)
{
	host_write("s", "12345678", 8);
	need(!fchmodat(door.dir, "s", 06755, 0));
	return find(ROOT, "s");
}

static bool kept(void)
{
	const bool is_set = (mode_of("s") & 06000) == 06000;

	need(!fchmodat(door.dir, "s", 06755, 0));
	return is_set;
}

static int write_as(uint64_t node, uint64_t fh, uint32_t flags)
{
	const struct fuse_write_in in = {.fh = fh, .size = 1, .write_flags = flags};
	struct fuse_write_out o;

	return ask2(FUSE_WRITE, node, &in, sizeof(in), "x", 1, &o, sizeof(o));
}

static void allocate_as(uint64_t node, uint64_t fh, uint32_t uid)
{
	const struct fuse_fallocate_in in = {.fh = fh, .length = 100};
	struct sent *s = sent_make(FUSE_FALLOCATE, node, &in, sizeof(in), NULL, 0, 0);
	struct fuse_in_header h;

	memcpy(&h, s->rd, sizeof(h));
	h.uid = uid;
	memcpy(s->rd, &h, sizeof(h));
	loop_call(door.io, sent_serve, s);
	need(sent_finish(s, NULL, 0) == 0);
}

static void copy_as(uint64_t node, uint64_t fh, uint32_t uid)
{
	const struct fuse_copy_file_range_in in = {
		.fh_in = fh, .fh_out = fh, .nodeid_out = node, .off_out = 4, .len = 4};
	struct sent *s = sent_make(FUSE_COPY_FILE_RANGE, node, &in, sizeof(in), NULL, 0, 8);
	struct fuse_in_header h;

	memcpy(&h, s->rd, sizeof(h));
	h.uid = uid;
	memcpy(s->rd, &h, sizeof(h));
	loop_call(door.io, sent_serve, s);
	need(sent_finish(s, NULL, 0) == 8);
}

static void test_kill_priv(void)
{
	struct fuse_setattr_in cut = {.valid = FATTR_SIZE, .size = 4};
	const struct fuse_open_in open_in = {.flags = O_RDWR | O_TRUNC,
					     .open_flags = FUSE_OPEN_KILL_SUIDGID};
	struct fuse_attr_out a;
	struct fuse_open_out o;
	uint64_t f, fh;

	if (geteuid()) {
		skip("not root: the host takes them at every write", "set-id bits");
		return;
	}
	door_open(BY_MODE, false);
	session_of(38, UINT64_MAX);
	f = set_id_file();
	fh = open_file(f, O_RDWR);
	ok(write_as(f, fh, 0) == 8 && kept(), "a write that may keep set-id bits keeps them");
	ok(write_as(f, fh, FUSE_WRITE_KILL_SUIDGID) == 8 && !kept(), "one that may not does not");
	ok(ask(FUSE_SETATTR, f, &cut, sizeof(cut), &a, sizeof(a)) == sizeof(a) && kept(),
	   "so does cutting it");
	cut.valid |= FATTR_KILL_SUIDGID;
	ok(ask(FUSE_SETATTR, f, &cut, sizeof(cut), &a, sizeof(a)) == sizeof(a) && !kept(),
	   "or not");
	need(ask_open_as(FUSE_OPEN, f, O_RDWR | O_TRUNC, &o) == sizeof(o));
	ok(kept(), "and opening to cut it");
	need(ask(FUSE_OPEN, f, &open_in, sizeof(open_in), &o, sizeof(o)) == sizeof(o));
	ok(!kept(), "or not");
	allocate_as(f, fh, 0);
	ok(kept(), "space is given by root");
	allocate_as(f, fh, 1000);
	ok(!kept(), "and by a user");
	copy_as(f, fh, 0);
	ok(kept(), "a copy is made by root");
	copy_as(f, fh, 1000);
	ok(!kept(), "and by a user");
	session_of(31, UINT32_MAX & ~(uint32_t)FUSE_HANDLE_KILLPRIV_V2);
	f = find(ROOT, "s");
	fh = open_file(f, O_RDWR);
	ok(write_as(f, fh, 0) == 8 && kept(), "an older guest sees to it itself");
	ok(write_as(f, fh, FUSE_WRITE_KILL_SUIDGID) == 8 && !kept(),
	   "but for what it writes past its cache");
	host_clear(door.dir);
	door_close();
}

int main(void)
{
	door_set_up("t_fuse_create");
	test_labels();
	test_bad_tails();
	test_groups();
	test_umask();
	test_tmpfile();
	test_kill_priv();
	door_tear_down();
	return done();
}
