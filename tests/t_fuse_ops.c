// SPDX-License-Identifier: Apache-2.0
/*
 * t_fuse_ops.c - what each opcode of the FUSE server does to files, names and directories, and what it counts.
 *
 * The protocol around it is in t_fuse.c, the file layer below in t_share.c. As root it also tries devices, owners and a
 * full file system. Hard cases D9, D15, D16, D19 to D24, D29, D32, D44 to D47, D49, D60 to D65.
 */
#include "fuse_door.h"
#include <linux/fs.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/sysmacros.h>

static const uint32_t entry_len = sizeof(struct fuse_entry_out);

/* A fixed part, and a name behind it. */
static int ask_named(uint32_t opcode, uint64_t node, const void *arg, size_t n, const char *name,
		     struct fuse_entry_out *e)
{
	struct fuse_entry_out own;

	return ask2(opcode, node, arg, n, name, strlen(name) + 1, e ? e : &own, sizeof(own));
}

static int ask_mknod(const char *name, uint32_t mode, uint32_t rdev, struct fuse_entry_out *e)
{
	const struct fuse_mknod_in in = {.mode = mode, .rdev = rdev};

	return ask_named(FUSE_MKNOD, ROOT, &in, sizeof(in), name, e);
}

static int ask_link(uint64_t node, const char *name, struct fuse_entry_out *e)
{
	const struct fuse_link_in in = {node};

	return ask_named(FUSE_LINK, ROOT, &in, sizeof(in), name, e);
}

/* n: of the target, which is sent with a NUL behind it. */
static int ask_symlink(const char *name, const char *target, size_t n, struct fuse_entry_out *e)
{
	struct fuse_entry_out own;

	return ask2(FUSE_SYMLINK, ROOT, name, strlen(name) + 1, target, n + 1, e ? e : &own,
		    sizeof(own));
}

static int ask_rename(const char *from, uint64_t newdir, const char *to)
{
	const struct fuse_rename_in in = {newdir};
	char names[64];
	size_t n = strlen(from) + 1;

	strcpy(names, from);
	strcpy(names + n, to);
	return ask2(FUSE_RENAME, ROOT, &in, sizeof(in), names, n + strlen(to) + 1, NULL, 0);
}

static int ask_rename2(const char *from, const char *to, uint32_t flags)
{
	const struct fuse_rename2_in in = {ROOT, flags, 0};
	char names[64];
	size_t n = strlen(from) + 1;

	strcpy(names, from);
	strcpy(names + n, to);
	return ask2(FUSE_RENAME2, ROOT, &in, sizeof(in), names, n + strlen(to) + 1, NULL, 0);
}

static int ask_remove(uint32_t opcode, const char *name)
{
	return ask(opcode, ROOT, name, strlen(name) + 1, NULL, 0);
}

/* ---- lookup counts ---- */

/* The object was told of so many times, no more and no less. */
static void counted(uint64_t node, uint64_t n, const char *what)
{
	struct fuse_attr attr;

	if (n > 1)
		forget(node, n - 1);
	is(ask_attr(node, &attr), 0, "%s: not one lookup too few", what);
	forget(node, 1);
	is(ask_attr(node, &attr), -ESTALE, "%s: nor one too many", what);
}

static void test_counts(void)
{
	struct fuse_entry_out e, l;
	uint64_t fh;

	need(ask_create(ROOT, "c", 0, &e, &fh) == 0 && release(e.nodeid, fh) == 0);
	counted(e.nodeid, 1, "CREATE");
	need(ask_create(ROOT, "c", 0, &e, &fh) == 0 && release(e.nodeid, fh) == 0);
	need(ask_lookup(ROOT, "c", &l) == (int)entry_len && l.nodeid == e.nodeid);
	need(ask_link(e.nodeid, "c2", &l) == (int)entry_len && l.nodeid == e.nodeid);
	need(ask_lookup(ROOT, "c2", &l) == (int)entry_len && l.nodeid == e.nodeid);
	is(l.attr.nlink, 2, "a linked file has two names");
	counted(e.nodeid, 4, "CREATE, LOOKUP, LINK, LOOKUP");
	need(ask_mkdir(ROOT, "d", &e) == 0);
	counted(e.nodeid, 1, "MKDIR");
	need(ask_mknod("p", S_IFIFO | 0600, 0, &e) == (int)entry_len);
	counted(e.nodeid, 1, "MKNOD");
	need(ask_symlink("s", "anywhere", 8, &e) == (int)entry_len);
	counted(e.nodeid, 1, "SYMLINK");
	is(ask_mkdir(ROOT, "d", &e), -EEXIST, "what fails");
	is(ask_create(ROOT, "c", O_RDWR | O_EXCL, &e, &fh), -EEXIST, "in one way");
	is(ask_lookup(ROOT, "none", &e), -ENOENT, "or another");
	ok(nothing_held(), "is not counted: the server holds the root alone");
}

/* Walks the directory with READDIRPLUS; nodes gets what it was told of. */
static unsigned list_plus(uint64_t dir, uint32_t size, uint64_t *nodes, unsigned max,
			  unsigned *dots)
{
	uint64_t fh = open_dir(dir), off = 0;
	uint8_t buf[8192];
	unsigned n = 0;
	int len;

	while ((len = ask_read(FUSE_READDIRPLUS, dir, fh, off, buf, size)) > 0) {
		for (int at = 0; at < len;) {
			struct fuse_direntplus *d = (void *)(buf + at);

			off = d->dirent.off;
			at += (int)FUSE_DIRENTPLUS_SIZE(d);
			if (d->dirent.name[0] == '.') {
				*dots += !d->entry_out.nodeid;
				continue;
			}
			need(n < max && d->entry_out.nodeid);
			always(d->entry_out.attr.ino == d->dirent.ino,
			       "a listed number is that of the object");
			nodes[n++] = d->entry_out.nodeid;
		}
	}
	is(len, 0, "the end is an empty reply");
	need(!release(dir, fh));
	return n;
}

static void test_counts_plus(void)
{
	uint64_t nodes[64];
	unsigned dots = 0, n;
	char name[16];

	need(!mkdirat(door.dir, "many", 0755));
	for (unsigned i = 0; i < 50; i++) {
		snprintf(name, sizeof(name), "many/f%u", i);
		host_write(name, "x", 1);
	}
	n = list_plus(find(ROOT, "many"), 700, nodes, ARRAY_LEN(nodes), &dots);
	is(n, 50, "all entries are listed with attributes, four to a reply");
	is(dots, 2, "the directory and its parent without");
	is(held().nodes, 51, "each is counted");
	for (unsigned i = 0; i < n; i++)
		forget(nodes[i], 1);
	is(held().nodes, 1, "once");
	n = list_plus(find(ROOT, "many"), 4096, nodes, ARRAY_LEN(nodes), &dots);
	is(list_plus(find(ROOT, "many"), 4096, nodes, ARRAY_LEN(nodes), &dots), n, "listed again");
	for (unsigned i = 0; i < n; i++)
		forget(nodes[i], 1);
	is(held().nodes, 51, "they are counted again");
	for (unsigned i = 0; i < n; i++)
		forget(nodes[i], 1);
	is(held().nodes, 1, "just as often");
}

/* ---- listing ---- */

static void test_listing_small(void)
{
	uint64_t fh = open_dir(ROOT);
	uint8_t buf[600];
	struct fuse_dirent *d = (void *)buf;
	int n;

	host_write("a-name-of-some-length", "x", 1);
	for (uint32_t size = 0; size < 32; size++)
		always(ask_read(FUSE_READDIR, ROOT, fh, 0, buf, size) == -EINVAL,
		       "no room is not the end");
	n = ask_read(FUSE_READDIR, ROOT, fh, 0, buf, 32);
	is(n, 32, "room for one entry brings one");
	is(d->type << 12, S_IFDIR, "which is a directory");
	ok(d->namelen <= 2 && d->name[0] == '.', "and not the file, which is longer");
	for (uint32_t size = 0; size < 160; size++)
		always(ask_read(FUSE_READDIRPLUS, ROOT, fh, 0, buf, size) == -EINVAL,
		       "nor is it with attributes");
	is(ask_read(FUSE_READDIRPLUS, ROOT, fh, 0, buf, 160), 160,
	   "with attributes it takes 160 bytes");
	is(held().nodes, 0, "what did not fit was not counted");
	need(!release(ROOT, fh));
}

static bool seen[500];

/* One reply: marks what it names, and removes each third of it from under the listing. */
static unsigned list_and_remove(const uint8_t *buf, int len, uint64_t *off)
{
	unsigned n = 0;

	for (int at = 0; at < len; n++) {
		const struct fuse_dirent *d = (const void *)(buf + at);
		char name[64] = "big/";
		unsigned i;

		need(at + (int)FUSE_NAME_OFFSET <= len && at + (int)FUSE_DIRENT_SIZE(d) <= len);
		always(d->ino, "a listed number is never 0");
		memcpy(name + 4, d->name, d->namelen);
		at += (int)FUSE_DIRENT_SIZE(d);
		*off = d->off;
		if (sscanf(name, "big/entry-%u", &i) != 1)
			continue;
		need(i < ARRAY_LEN(seen));
		always(!seen[i], "no entry is listed twice");
		seen[i] = true;
		if (i % 3 == 0)
			need(!unlinkat(door.dir, name, 0));
	}
	return n;
}

static void test_listing_deletions(void)
{
	unsigned replies = 0, listed = 0, missing = 0;
	uint64_t dir, fh, off = 0;
	uint8_t buf[500];
	char name[64];
	int n;

	need(!mkdirat(door.dir, "big", 0755));
	for (unsigned i = 0; i < ARRAY_LEN(seen); i++) {
		snprintf(name, sizeof(name), "big/entry-%03u", i);
		host_write(name, "", 0);
	}
	dir = find(ROOT, "big");
	fh = open_dir(dir);
	for (; (n = ask_read(FUSE_READDIR, dir, fh, off, buf, sizeof(buf))) > 0; replies++)
		listed += list_and_remove(buf, n, &off);
	for (unsigned i = 0; i < ARRAY_LEN(seen); i++)
		missing += !seen[i];
	is(n, 0, "a long listing in small replies ends");
	is(missing, 0, "no entry is left out though others are deleted meanwhile");
	is(listed, ARRAY_LEN(seen) + 2, "with the directory and its parent");
	ok(replies > 30, "in many replies");
	host_write("big/late", "", 0);
	off = 0;
	for (listed = 0; (n = ask_read(FUSE_READDIR, dir, fh, off, buf, sizeof(buf))) > 0;) {
		memset(seen, 0, sizeof(seen));
		listed += list_and_remove(buf, n, &off);
	}
	is(listed, 500 - 167 + 3, "from the start again it is read anew");
	need(!release(dir, fh));
}

/* The rest of a listing that began with one entry: how many have a node, and how many have none. */
static void list_rest(uint64_t fh, uint64_t off, unsigned *known, unsigned *bare)
{
	uint8_t buf[8192];
	int len;

	*known = *bare = 0;
	while ((len = ask_read(FUSE_READDIRPLUS, ROOT, fh, off, buf, sizeof(buf))) > 0) {
		for (int at = 0; at < len;) {
			const struct fuse_direntplus *d = (const void *)(buf + at);

			at += (int)FUSE_DIRENTPLUS_SIZE(d);
			off = d->dirent.off;
			if (d->dirent.name[0] == 'f')
				++*(d->entry_out.nodeid ? known : bare);
		}
	}
	always(!len, "a listing ends");
}

/* With 0: nothing can be opened; and of a mapped share nothing is listed without. */
static void set_budget(void *arg)
{
	door.share->budget = *(uint32_t *)arg;
	door.share->mapped = !door.share->budget;
}

/* The server has read names ahead that are gone by the time they are looked up. */
static void test_listing_gone(void)
{
	uint64_t fh = open_dir(ROOT);
	uint32_t none = 0, enough = 1000;
	unsigned known, bare;
	_Alignas(8) uint8_t first[160]; /* one entry */
	char name[16];

	for (unsigned i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		host_write(name, "", 0);
	}
	loop_call(door.io, set_budget, &none);
	list_rest(fh, 0, &known, &bare);
	loop_call(door.io, set_budget, &enough);
	ok(!known && bare == 20, "what cannot be looked up is listed all the same");
	is(held().nodes, 0, "and not counted");
	need(ask_read(FUSE_READDIRPLUS, ROOT, fh, 0, first, sizeof(first)) == sizeof(first));
	for (unsigned i = 0; i < 20; i += 2) {
		snprintf(name, sizeof(name), "f%u", i);
		need(!unlinkat(door.dir, name, 0));
	}
	list_rest(fh, ((struct fuse_direntplus *)first)->dirent.off, &known, &bare);
	ok(known >= 9 && known <= 10 && !bare, "what was deleted meanwhile is not listed");
	need(!release(ROOT, fh));
}

/* ---- attributes ---- */

static int set(uint64_t node, struct fuse_setattr_in in, struct fuse_attr *attr)
{
	struct fuse_attr_out o = {0};
	int r = ask(FUSE_SETATTR, node, &in, sizeof(in), &o, sizeof(o));

	*attr = o.attr;
	return MIN(r, 0);
}

static void test_setattr(void)
{
	struct fuse_attr a;
	uint64_t f, fh;

	host_write("f", "0123456789", 10);
	f = find(ROOT, "f");
	fh = open_file(f, O_RDWR);
	is(set(f, (struct fuse_setattr_in){.valid = FATTR_MODE, .mode = S_IFREG | 0741}, &a), 0,
	   "a mode is set");
	is(a.mode, S_IFREG | 0741, "and told");
	is(set(f, (struct fuse_setattr_in){.valid = FATTR_SIZE, .size = 4}, &a), 0,
	   "a size is set");
	ok(a.size == 4 && host_size("f") == 4, "on the host too");
	need(!unlinkat(door.dir, "f", 0));
	is(set(f, (struct fuse_setattr_in){.valid = FATTR_SIZE | FATTR_FH, .size = 7, .fh = fh},
	       &a),
	   0, "also of a file that is open and has no name");
	ok(a.size == 7 && !a.nlink, "which is told");
	is(set(f, (struct fuse_setattr_in){.valid = FATTR_SIZE, .size = UINT64_MAX}, &a), -EINVAL,
	   "no file is that large");
	is(set(ROOT, (struct fuse_setattr_in){.valid = FATTR_SIZE, .size = 1}, &a), -EISDIR,
	   "no directory has a size");
	is(set(f, (struct fuse_setattr_in){0}, &a), 0, "nothing to set is nothing wrong");
	need(!release(f, fh));
}

static void test_times(void)
{
	struct fuse_setattr_in in = {.valid = FATTR_ATIME | FATTR_MTIME,
				     .atime = (uint64_t)-5,
				     .atimensec = 1,
				     .mtime = 1000000000,
				     .mtimensec = 999999999};
	struct fuse_attr a;
	uint64_t f;

	host_write("t", "x", 1);
	f = find(ROOT, "t");
	is(set(f, in, &a), 0, "times are set");
	ok((int64_t)a.atime == -5 && a.atimensec == 1, "also before 1970");
	ok(a.mtime == 1000000000 && a.mtimensec == 999999999, "to the nanosecond");
	in.valid = FATTR_ATIME | FATTR_ATIME_NOW;
	in.atimensec = UINT32_MAX;
	is(set(f, in, &a), 0, "one of them to now");
	ok(a.atime > 1700000000 && a.mtime == 1000000000, "which leaves the other alone");
	in.valid = FATTR_MTIME;
	for (unsigned i = 0; i < 3; i++) {
		in.mtimensec = (uint32_t[]){1000000000, UTIME_NOW, UTIME_OMIT}[i];
		is(set(f, in, &a), -EINVAL, "%u nanoseconds are none", in.mtimensec);
	}
	in.valid = FATTR_MODE;
	in.mode = 0600;
	is(set(f, in, &a), 0, "unless they are not meant");
}

static void test_owner(void)
{
	struct fuse_setattr_in in = {.valid = FATTR_UID | FATTR_GID, .uid = 7, .gid = 8};
	struct fuse_attr a;
	uint64_t f;

	if (door.share->squash) {
		skip("not root, or without other ids", "owners");
		return;
	}
	host_write("o", "x", 1);
	f = find(ROOT, "o");
	is(set(f, in, &a), 0, "an owner is set");
	ok(a.uid == 7 && a.gid == 8, "and told");
	in.valid = FATTR_GID;
	in.gid = 9;
	is(set(f, in, &a), 0, "a group alone");
	ok(a.uid == 7 && a.gid == 9, "leaves the owner");
}

static void test_statfs(void)
{
	struct fuse_statfs_out o;
	struct statfs host;

	need(!fstatfs(door.dir, &host));
	is(ask(FUSE_STATFS, ROOT, NULL, 0, &o, sizeof(o)), sizeof(o), "the file system is told of");
	is(o.st.blocks, host.f_blocks, "its size");
	ok(o.st.bsize == host.f_bsize && o.st.frsize == host.f_frsize, "in which unit");
	is(o.st.namelen, 255, "and how long names may be");
}

/* ---- names ---- */

static void test_symlinks(void)
{
	struct fuse_entry_out e;
	char target[PATH_MAX], got[PATH_MAX];

	memset(target, 't', sizeof(target));
	target[4095] = 0;
	is(ask_symlink("long", target, 4095, &e), (int)entry_len, "a target of 4095 bytes");
	ok(S_ISLNK(e.attr.mode) && e.attr.size == 4095, "is a link");
	is(ask(FUSE_READLINK, e.nodeid, NULL, 0, got, sizeof(got)), 4095,
	   "and read back without a NUL");
	ok(!memcmp(got, target, 4095), "unchanged");
	is(ask(FUSE_READLINK, e.nodeid, NULL, 0, got, 4095), 4095, "room for just that will do");
	is(ask(FUSE_READLINK, e.nodeid, NULL, 0, got, 4094), -EINVAL, "a byte less will not");
	target[4095] = 't';
	is(ask2(FUSE_SYMLINK, ROOT, "l2", 3, target, 4096, &e, sizeof(e)), -ENAMETOOLONG,
	   "4096 bytes are too long");
	is(ask_symlink("l3", "", 0, &e), -ENOENT, "an empty target is none");
	is(ask2(FUSE_SYMLINK, ROOT, "l4", 3, "open", 4, &e, sizeof(e)), -EINVAL,
	   "nor one that does not end");
	ok(!host_has("l2") && !host_has("l3") && !host_has("l4"), "and no link is made");
	is(ask_symlink("out", "/etc/passwd", 11, &e), (int)entry_len, "a target may be any path");
	is(ask_lookup(e.nodeid, "x", &e), -ENOTDIR, "which leads nowhere here");
	is(ask(FUSE_READLINK, ROOT, NULL, 0, got, sizeof(got)), -EINVAL,
	   "what is no link is not read as one");
}

static void test_mknod(void)
{
	const uint32_t major_nr = 0xabc, minor_nr = 0xfedcb;
	const uint32_t rdev = (minor_nr & 0xff) | major_nr << 8 | (minor_nr & ~0xffu) << 12;
	struct fuse_entry_out e;
	struct fuse_open_out o;
	struct stat st;

	is(ask_mknod("fifo", S_IFIFO | 0640, 0, &e), (int)entry_len, "a fifo is made");
	is(e.attr.mode, S_IFIFO | 0640, "with its mode");
	is(ask_open_as(FUSE_OPEN, e.nodeid, O_RDONLY, &o), -ENXIO, "and is never opened");
	is(ask_mknod("reg", S_IFREG | 0600, 0, &e), (int)entry_len, "a file is made");
	is(ask_mknod("dir", S_IFDIR | 0700, 0, &e), -EINVAL, "a directory is not made this way");
	if (geteuid()) {
		skip("not root", "device nodes");
		return;
	}
	if (ask_mknod("dev", S_IFCHR | 0600, rdev, &e) == -EPERM) {
		skip("no CAP_MKNOD", "device nodes");
		return;
	}
	is(e.attr.rdev, rdev, "a device keeps its number");
	need(!fstatat(door.dir, "dev", &st, AT_SYMLINK_NOFOLLOW));
	ok(major(st.st_rdev) == major_nr && minor(st.st_rdev) == minor_nr, "which is the host's");
	is(ask_open_as(FUSE_OPEN, e.nodeid, O_RDONLY, &o), -ENXIO, "and is never opened");
}

static void test_remove(void)
{
	host_write("f", "x", 1);
	need(!mkdirat(door.dir, "d", 0755));
	host_write("d/x", "x", 1);
	is(ask_remove(FUSE_UNLINK, "d"), -EISDIR, "a directory is not unlinked");
	is(ask_remove(FUSE_RMDIR, "f"), -ENOTDIR, "a file is no directory to remove");
	is(ask_remove(FUSE_RMDIR, "d"), -ENOTEMPTY, "nor is one that is not empty");
	need(!unlinkat(door.dir, "d/x", 0));
	is(ask_remove(FUSE_RMDIR, "d"), 0, "an empty one is removed");
	is(ask_remove(FUSE_UNLINK, "f"), 0, "a file is unlinked");
	is(ask_remove(FUSE_UNLINK, "f"), -ENOENT, "once");
	ok(!host_has("f") && !host_has("d"), "on the host");
}

static void test_rename(void)
{
	struct fuse_entry_out d;
	uint64_t old;
	struct fuse_attr a;

	host_write("a", "a", 1);
	host_write("b", "bb", 2);
	need(!ask_mkdir(ROOT, "into", &d));
	old = find(ROOT, "b");
	is(ask_rename("a", ROOT, "b"), 0, "a file is renamed over another");
	is(host_size("b"), 1, "and is there");
	is(ask_attr(old, &a), 0, "the other is still known");
	is(a.nlink, 0, "without a name");
	is(ask_rename("b", d.nodeid, "c"), 0, "into another directory");
	is(host_size("into/c"), 1, "it is there");
	is(ask_rename("none", ROOT, "c"), -ENOENT, "what is not there is not renamed");
	host_write("a", "a", 1);
	host_write("b", "bb", 2);
	is(ask_rename2("a", "b", RENAME_NOREPLACE), -EEXIST, "NOREPLACE replaces nothing");
	is(ask_rename2("a", "b", RENAME_EXCHANGE), 0, "EXCHANGE exchanges");
	ok(host_size("a") == 2 && host_size("b") == 1, "both");
	is(ask_rename2("a", "b", 0x80), -EINVAL, "a flag that is not one is refused");
	is(ask_rename2("a", "b", RENAME_EXCHANGE | RENAME_NOREPLACE), -EINVAL,
	   "so are two that exclude each other");
	is(ask_rename2("a", "b", 0), 0, "no flag is a plain rename");
}

/* Every byte but two is good in a name, and comes back in a listing as it went (D62). */
static void test_odd_names(void)
{
	uint64_t nodes[300];
	unsigned made = 0, found = 0, dots = 0;
	struct fuse_entry_out e;

	need(!ask_mkdir(ROOT, "odd", &e));
	for (unsigned c = 1; c < 256; c++) {
		const char name[] = {'-', (char)c, 0};
		struct fuse_entry_out own;

		if (c == '/')
			continue;
		made += !ask_mkdir(e.nodeid, name, &own);
		found += ask_lookup(e.nodeid, name, &own) == (int)entry_len;
	}
	ok(made == 254 && found == 254, "a name may have any byte but two");
	is(list_plus(e.nodeid, 8192, nodes, ARRAY_LEN(nodes), &dots), 254, "and is listed");
}

/* Deeper than any path can say: nothing builds one. */
static void test_deep(void)
{
	struct fuse_entry_out e = {.nodeid = ROOT};
	char name[128];
	unsigned depth;
	uint64_t fh;

	memset(name, 'd', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	for (depth = 0; depth < 200 && !ask_mkdir(e.nodeid, name, &e); depth++)
		;
	is(depth, 200, "25000 bytes of directories are made");
	need(!ask_create(e.nodeid, "end", 0, &e, &fh));
	is(ask_write(e.nodeid, fh, 0, "deep", 4), 4, "and a file at their end");
	need(!release(e.nodeid, fh));
	is(held().nodes, 201, "all are known");
}

/* ---- data ---- */

static void pattern(uint8_t *p, uint32_t n, uint32_t seed)
{
	for (uint32_t i = 0; i < n; i++)
		p[i] = (uint8_t)((i + seed) * 2654435761u >> 24);
}

/* Reads or writes 1 MiB with the data part in 256 pieces, as a guest's pages are. */
static int in_pages(uint32_t opcode, uint64_t node, uint64_t fh, uint8_t *data)
{
	const struct fuse_read_in rin = {.fh = fh, .offset = 3, .size = DOOR_IO};
	const struct fuse_write_in win = {.fh = fh, .offset = 3, .size = DOOR_IO};
	const bool write = opcode == FUSE_WRITE;
	struct sent *s =
		sent_make(opcode, node, write ? (const void *)&win : &rin, sizeof(win), data,
			  write ? DOOR_IO : 0, write ? sizeof(struct fuse_write_out) : DOOR_IO);
	uint8_t *p = write ? s->rd + s->rd_len - DOOR_IO : s->wr + HDR_OUT;
	const unsigned lead = write ? 2 : 3; /* message; header of the reply */
	int r;

	s->iov = realloc(s->iov, 260 * sizeof(*s->iov));
	need(s->iov);
	s->iov[0] = (struct iovec){s->rd, HDR_IN};
	s->iov[1] = (struct iovec){s->rd + HDR_IN, sizeof(win)};
	s->iov[2] = (struct iovec){s->wr, HDR_OUT};
	for (unsigned i = 0; i < 256; i++)
		s->iov[lead + i] = (struct iovec){p + 4096 * i, 4096};
	s->iov[lead + 256] = (struct iovec){s->wr, s->wr_len};
	s->req.rd = s->iov;
	s->req.nrd = write ? 258 : 2;
	s->req.wr = s->iov + (write ? 258 : 2);
	s->req.nwr = write ? 1 : 257;
	loop_call(door.io, sent_serve, s);
	r = sent_judge(s);
	if (!write)
		memcpy(data, p, DOOR_IO);
	sent_free(s);
	return r;
}

static void test_data(void)
{
	static uint8_t out[MIB(1)], in[MIB(1)];
	struct fuse_entry_out e;
	uint64_t fh;

	pattern(out, DOOR_IO, 1);
	need(!ask_create(ROOT, "data", 0, &e, &fh));
	is(in_pages(FUSE_WRITE, e.nodeid, fh, out), sizeof(struct fuse_write_out),
	   "1 MiB in pages is written");
	is(host_size("data"), DOOR_IO + 3, "where it should be");
	is(in_pages(FUSE_READ, e.nodeid, fh, in), DOOR_IO, "and read");
	ok(!memcmp(in, out, DOOR_IO), "unchanged");
	is(ask_read(FUSE_READ, e.nodeid, fh, DOOR_IO, in, 4096), 3, "a read at the end is short");
	is(ask_read(FUSE_READ, e.nodeid, fh, DOOR_IO + 3, in, 4096), 0, "and behind it empty");
	is(ask_read(FUSE_READ, e.nodeid, fh, 0, in, 0), 0, "none may be read");
	is(ask_write(e.nodeid, fh, 0, out, 0), 0, "or written");
	is(ask_read(FUSE_READ, e.nodeid, fh, UINT64_MAX, in, 1), -EINVAL, "an offset is 63 bits");
	is(ask_write(e.nodeid, fh, UINT64_MAX, out, 1), -EINVAL, "for writing as well");
	is(ask_write(e.nodeid, fh, INT64_MAX, out, 1), -EINVAL, "up to the last byte");
	is(host_size("data"), DOOR_IO + 3, "the file is as it was");
	need(!release(e.nodeid, fh));
}

static void test_sizes_that_lie(void)
{
	static uint8_t data[MIB(1) + 4096], in[300];
	struct fuse_write_in win = {.size = 100};
	struct fuse_read_in rin = {.size = 1 << 20};
	struct fuse_write_out o;
	struct fuse_entry_out e;
	struct sent *behind;

	need(!ask_create(ROOT, "lies", 0, &e, &win.fh));
	rin.fh = win.fh;
	is(ask2(FUSE_WRITE, e.nodeid, &win, sizeof(win), data, 99, &o, sizeof(o)), -EINVAL,
	   "a write of more than came");
	is(ask2(FUSE_WRITE, e.nodeid, &win, sizeof(win), data, 101, &o, sizeof(o)), -EINVAL,
	   "or of less is refused");
	is(ask_write(e.nodeid, win.fh, 0, data, MIB(1) + 512), -EINVAL,
	   "one of more than was agreed too");
	is(host_size("lies"), 0, "and nothing is written");
	is(ask_write(e.nodeid, win.fh, 0, data, 1000), 1000, "a thousand bytes are");
	is(ask(FUSE_READ, e.nodeid, &rin, sizeof(rin), in, 300), 300,
	   "a read fills the room there is, whatever it asks");
	rin.size = 10;
	is(ask(FUSE_READ, e.nodeid, &rin, sizeof(rin), in, 300), 10, "and no more than it asks");
	behind = sent_make(FUSE_WRITE, e.nodeid, &win, sizeof(win), data, 150, sizeof(o));
	behind->rd[0] -= 50; /* of the length in the header: the message ends before the buffer */
	win.offset = 2000;
	memcpy(behind->rd + HDR_IN, &win, sizeof(win));
	loop_call(door.io, sent_serve, behind);
	is(sent_finish(behind, &o, sizeof(o)), sizeof(o),
	   "what lies behind a write is not refused");
	ok(o.size == 100 && host_size("lies") == 2100, "and not written");
	need(!release(e.nodeid, win.fh));
}

static void test_open(void)
{
	struct fuse_open_out o;
	uint64_t f, fh;

	host_write("f", "0123456789", 10);
	f = find(ROOT, "f");
	fh = open_file(f, O_WRONLY | O_APPEND);
	is(ask_write(f, fh, 2, "xx", 2), 2, "a file opened to append");
	is(host_size("f"), 10, "is written where the guest says");
	need(!release(f, fh));
	fh = open_file(f, O_RDWR | O_TRUNC);
	is(host_size("f"), 0, "O_TRUNC cuts it");
	need(!release(f, fh));
	is(ask_open_as(FUSE_OPEN, f, O_ACCMODE, &o), -EINVAL, "three is no way to open");
	is(ask_open_as(FUSE_OPEN, f, O_RDONLY | O_DIRECTORY, &o), -ENOTDIR,
	   "a file is no directory");
	is(ask_open_as(FUSE_OPENDIR, f, O_RDONLY, &o), -ENOTDIR, "and not opened as one");
	is(ask_open_as(FUSE_OPEN, ROOT, O_RDWR, &o), -EISDIR, "a directory is not written");
	is(held().handles, 0, "what fails leaves no handle");
}

static void test_create(void)
{
	struct fuse_entry_out e;
	uint64_t fh;

	is(ask_create(ROOT, "n", O_RDWR | O_EXCL, &e, &fh), 0, "a new file is made");
	ok(S_ISREG(e.attr.mode) && (e.attr.mode & 07777) == 0644, "with its mode");
	is(ask_write(e.nodeid, fh, 0, "123", 3), 3, "and is open");
	need(!release(e.nodeid, fh));
	is(ask_create(ROOT, "n", O_RDWR, &e, &fh), 0, "one that is there is opened");
	is(e.attr.size, 3, "as it is");
	need(!release(e.nodeid, fh));
	is(ask_create(ROOT, "n", O_RDWR | O_TRUNC, &e, &fh), 0, "or cut");
	is(e.attr.size, 0, "which is told");
	need(!release(e.nodeid, fh));
	need(!symlinkat("/etc/hostname", door.dir, "trap"));
	is(ask_create(ROOT, "trap", O_RDWR, &e, &fh), -ELOOP, "a link at the name is not followed");
	need(!mkdirat(door.dir, "isdir", 0755));
	is(ask_create(ROOT, "isdir", O_RDWR, &e, &fh), -EISDIR,
	   "a directory is not opened to write");
	is(ask_create(ROOT, "x", O_RDWR | O_DIRECTORY, &e, &fh), -EINVAL, "nor created this way");
	is(held().handles, 0, "what fails leaves no handle");
}

static void test_file_ops(void)
{
	struct fuse_fsync_in fsync_in = {.fsync_flags = FUSE_FSYNC_FDATASYNC};
	struct fuse_fallocate_in grow = {.length = 8192};
	struct fuse_lseek_in seek = {.whence = SEEK_HOLE};
	struct fuse_lseek_out at;
	struct fuse_entry_out e;
	uint64_t fh, dh = open_dir(ROOT);

	need(!ask_create(ROOT, "f", 0, &e, &fh));
	need(ask_write(e.nodeid, fh, 0, "data", 4) == 4);
	fsync_in.fh = grow.fh = seek.fh = fh;
	is(ask(FUSE_FSYNC, e.nodeid, &fsync_in, sizeof(fsync_in), NULL, 0), 0, "data is synced");
	fsync_in.fsync_flags = 0;
	is(ask(FUSE_FSYNC, e.nodeid, &fsync_in, sizeof(fsync_in), NULL, 0), 0, "all is synced");
	fsync_in.fh = dh;
	is(ask(FUSE_FSYNCDIR, ROOT, &fsync_in, sizeof(fsync_in), NULL, 0), 0,
	   "a directory is synced");
	is(ask(FUSE_FALLOCATE, e.nodeid, &grow, sizeof(grow), NULL, 0), 0, "a file is given space");
	is(host_size("f"), 8192, "and grows");
	grow.length = 4;
	is(ask(FUSE_FALLOCATE, e.nodeid, &grow, sizeof(grow), NULL, 0), 0, "less space");
	is(host_size("f"), 8192, "does not shrink it");
	grow.offset = INT64_MAX;
	is(ask(FUSE_FALLOCATE, e.nodeid, &grow, sizeof(grow), NULL, 0), -EFBIG,
	   "too far is too big");
	is(ask(FUSE_LSEEK, e.nodeid, &seek, sizeof(seek), &at, sizeof(at)), sizeof(at),
	   "a hole is looked for");
	ok(at.offset && at.offset <= 8192, "and found behind the data");
	seek.offset = 9000;
	is(ask(FUSE_LSEEK, e.nodeid, &seek, sizeof(seek), &at, sizeof(at)), -ENXIO,
	   "not behind the end");
	seek.whence = SEEK_CUR;
	is(ask(FUSE_LSEEK, e.nodeid, &seek, sizeof(seek), &at, sizeof(at)), -EINVAL,
	   "a file has no position");
	is(ask(FUSE_FLUSH, e.nodeid, &(struct fuse_flush_in){.fh = fh}, 24, NULL, 0), -ENOSYS,
	   "closing needs no request");
	need(!release(e.nodeid, fh) && !release(ROOT, dh));
}

/* ---- copying, and all at once to the disk ---- */

static int ask_copy(uint32_t opcode, uint64_t from, struct fuse_copy_file_range_in in)
{
	uint64_t copied = 0;
	int r = ask(opcode, from, &in, sizeof(in), &copied, sizeof(copied));

	always(r < 0 || r == sizeof(copied), "a copy is answered with its size");
	/* A little-endian number of either width. */
	return r < 0 ? r : (int)copied;
}

static void test_copy(void)
{
	static uint8_t data[KIB(300)], back[KIB(300)];
	struct fuse_copy_file_range_in in = {.len = KIB(300)};
	uint64_t a, b;

	pattern(data, sizeof(data), 5);
	host_write("a", data, sizeof(data));
	host_write("b", "", 0);
	a = find(ROOT, "a");
	b = in.nodeid_out = find(ROOT, "b");
	in.fh_in = open_file(a, O_RDONLY);
	in.fh_out = open_file(b, O_RDWR);
	is(ask_copy(FUSE_COPY_FILE_RANGE, a, in), KIB(300), "a file is copied");
	is(ask_read(FUSE_READ, b, in.fh_out, 0, back, sizeof(back)), sizeof(back), "and read");
	ok(!memcmp(data, back, sizeof(data)), "unchanged");
	in.off_in = 4096;
	in.off_out = KIB(300);
	is(ask_copy(FUSE_COPY_FILE_RANGE_64, a, in), KIB(296), "a part of it, by the wider reply");
	is(host_size("b"), KIB(596), "where it should be");
	in.len = UINT64_MAX;
	in.off_in = KIB(300) - 10;
	is(ask_copy(FUSE_COPY_FILE_RANGE, a, in), 10, "to the end, however long");
	in.off_in = KIB(300);
	is(ask_copy(FUSE_COPY_FILE_RANGE, a, in), 0, "and none behind it");
	in.off_in = UINT64_MAX;
	ok(ask_copy(FUSE_COPY_FILE_RANGE, a, in) < 0, "an offset is 63 bits");
	in.off_in = 0;
	in.flags = 1;
	is(ask_copy(FUSE_COPY_FILE_RANGE, a, in), -EINVAL, "there are no flags");
	in.flags = 0;
	in.nodeid_out = a;
	is(ask_copy(FUSE_COPY_FILE_RANGE, a, in), -EBADF, "a handle is not good on another node");
	in.nodeid_out = 4711;
	is(ask_copy(FUSE_COPY_FILE_RANGE, a, in), -ESTALE, "nor on one that is not known");
	in.nodeid_out = a;
	in.fh_out = in.fh_in;
	is(ask_copy(FUSE_COPY_FILE_RANGE, a, in), -EBADF, "what is open to read is not written");
	is(held().handles, 2, "and none of it holds a handle");
}

static void test_syncfs(void)
{
	const struct fuse_syncfs_in in = {0};

	is(ask(FUSE_SYNCFS, ROOT, &in, sizeof(in), NULL, 0), 0, "all is synced");
	need(!mkdirat(door.dir, "d", 0755));
	is(ask(FUSE_SYNCFS, find(ROOT, "d"), &in, sizeof(in), NULL, 0), 0, "from anywhere");
}

/* What the guest knows goes on, whatever the host did to the name (D29, D53). */
static void test_replaced(void)
{
	struct fuse_attr a;
	uint64_t old, fh;
	char buf[8];

	host_write("cfg", "old", 3);
	old = find(ROOT, "cfg");
	host_write("cfg.new", "newer", 5);
	need(!renameat(door.dir, "cfg.new", door.dir, "cfg"));
	is(ask_attr(old, &a), 0, "a file replaced on the host is still there");
	fh = open_file(old, O_RDONLY);
	is(ask_read(FUSE_READ, old, fh, 0, buf, 8), 3, "and read");
	ok(find(ROOT, "cfg") != old, "by its name there is the new one");
	need(!release(old, fh));
}

/* ---- a share that may not be changed ---- */

static void test_readonly(void)
{
	const struct fuse_fallocate_in falloc_in = {.length = 1};
	struct fuse_fallocate_in with_fh = falloc_in;
	struct fuse_entry_out e;
	struct fuse_open_out o;
	struct fuse_attr a;
	uint64_t f, fh;
	char buf[8];

	host_write("f", "fixed", 5);
	door_open(BY_MODE, true);
	session();
	f = find(ROOT, "f");
	fh = with_fh.fh = open_file(f, O_RDONLY);
	is(ask_read(FUSE_READ, f, fh, 0, buf, 8), 5, "a read-only share is read");
	is(ask_open_as(FUSE_OPEN, f, O_RDWR, &o), -EROFS, "not opened to write");
	is(ask_open_as(FUSE_OPEN, f, O_RDONLY | O_TRUNC, &o), -EROFS, "nor to cut");
	is(ask_write(f, fh, 0, "x", 1), -EROFS, "not written");
	is(ask_create(ROOT, "n", 0, &e, &fh), -EROFS, "nothing is created");
	is(ask_create(ROOT, "f", 0, &e, &fh), -EROFS, "also not what is there");
	is(ask_mkdir(ROOT, "n", NULL), -EROFS, "no directory");
	is(ask_mknod("n", S_IFIFO | 0600, 0, NULL), -EROFS, "no node");
	is(ask_symlink("n", "t", 1, NULL), -EROFS, "no symbolic link");
	is(ask_link(f, "n", NULL), -EROFS, "no link");
	is(ask_rename("f", ROOT, "n"), -EROFS, "no new name");
	is(ask_remove(FUSE_UNLINK, "f"), -EROFS, "and none less");
	is(ask_remove(FUSE_RMDIR, "f"), -EROFS, "nor a directory");
	is(set(f, (struct fuse_setattr_in){.valid = FATTR_MODE, .mode = 0}, &a), -EROFS, "no mode");
	is(ask(FUSE_FALLOCATE, f, &with_fh, sizeof(with_fh), NULL, 0), -EROFS, "and no space");
	is(ask_copy(FUSE_COPY_FILE_RANGE, f,
		    (struct fuse_copy_file_range_in){.fh_in = with_fh.fh,
						     .fh_out = with_fh.fh,
						     .nodeid_out = f,
						     .off_out = 5,
						     .len = 5}),
	   -EROFS, "and no copy");
	is(ask2(FUSE_TMPFILE, ROOT, &(struct fuse_create_in){.flags = O_RDWR}, 16, "/", 2, NULL,
		144),
	   -EROFS, "no file without a name");
	is(ask(FUSE_SYNCFS, ROOT, &(struct fuse_syncfs_in){0}, 8, NULL, 0), 0,
	   "to sync it changes nothing");
	ok(host_size("f") == 5 && !host_has("n"), "it is as it was");
	is(held().nodes, 1, "and nothing is counted");
	host_clear(door.dir);
	door_close();
}

/* ---- a file system that is full ---- */

static bool small_fs(const char *path)
{
	return !unshare(CLONE_NEWNS) && !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
	       !mount("tmpfs", path, "tmpfs", 0, "size=64k,nr_inodes=4");
}

static void test_full(void)
{
	static uint8_t data[KIB(256)];
	struct fuse_entry_out e;
	uint64_t fh;
	char path[96];
	int n;

	snprintf(path, sizeof(path), "%s/small", door.top);
	need(!mkdir(path, 0755));
	if (geteuid() || !small_fs(path)) {
		skip("no mounts of its own", "a full file system");
		host_clear(door.dir);
		return;
	}
	door_open_at(path, BY_MODE, false);
	session();
	need(!ask_create(ROOT, "f", 0, &e, &fh));
	n = ask_write(e.nodeid, fh, 0, data, sizeof(data));
	ok(n > 0 && n <= (int)KIB(64), "a write that does not fit is cut short");
	is(ask_write(e.nodeid, fh, (uint64_t)n, data, sizeof(data)), -ENOSPC,
	   "the next one finds no space");
	is(ask_read(FUSE_READ, e.nodeid, fh, 0, data, KIB(256)), n,
	   "what was told to be written is there");
	for (n = 0; n < 8 && !ask_mkdir(ROOT, (char[]){(char)('a' + n), 0}, NULL); n++)
		;
	ok(n < 4, "there are not many directories either");
	is(ask_mkdir(ROOT, "z", NULL), -ENOSPC, "for want of space");
	is(held().nodes, 1 + (unsigned)n, "what was not made is not counted");
	door_close();
	need(!umount2(path, MNT_DETACH));
	host_clear(door.dir);
}

/* ---- what is mounted below ---- */

static uint32_t flags_of(const char *name, struct fuse_entry_out *e)
{
	struct fuse_attr a = {0};

	need(ask_lookup(ROOT, name, e) == (int)entry_len && !ask_attr(e->nodeid, &a));
	always(a.flags == e->attr.flags && a.ino == e->attr.ino,
	       "a name and its object say the same");
	return a.flags;
}

static void test_submounts(void)
{
	struct fuse_statfs_out above, below;
	struct share_config share = PLAIN;
	struct fuse_entry_out sub, in, dir;
	char path[96];

	need(!mkdirat(door.dir, "small", 0755) && !mkdirat(door.dir, "dir", 0755));
	snprintf(path, sizeof(path), "%s/small", door.top);
	if (geteuid() || !small_fs(path)) {
		skip("no mounts of its own", "what is mounted below a share");
		host_clear(door.dir);
		return;
	}
	door_open_share(BY_MODE, share);
	session_of(45, TELLS);
	is(flags_of("small", &sub), FUSE_ATTR_SUBMOUNT, "a mount is told of");
	is(flags_of("dir", &dir), 0, "a directory is not one");
	need(!ask_mkdir(sub.nodeid, "in", &in));
	is(in.attr.flags, 0, "nor is one within");
	ok(sub.attr.ino != dir.attr.ino && in.attr.ino != dir.attr.ino, "they are told apart");
	need(ask(FUSE_STATFS, ROOT, NULL, 0, &above, sizeof(above)) == sizeof(above));
	need(ask(FUSE_STATFS, in.nodeid, NULL, 0, &below, sizeof(below)) == sizeof(below));
	ok(below.st.files == 4 && above.st.files != 4, "each is asked for its own space");
	is(ask(FUSE_SYNCFS, sub.nodeid, &(struct fuse_syncfs_in){0}, 8, NULL, 0), 0,
	   "and synced by itself");
	is(ask_link(in.nodeid, "x", NULL), -EXDEV, "nothing of it is linked outside");
	is(ask_rename("dir", sub.nodeid, "dir"), -EXDEV, "and none is moved across");
	session_of(31, UINT32_MAX & ~(uint32_t)FUSE_SUBMOUNTS);
	is(flags_of("small", &sub), 0, "a guest that does not know of mounts is not told");
	door_close();
	share.submounts = false;
	door_open_share(BY_MODE, share);
	session_of(45, TELLS);
	is(flags_of("small", &sub), 0, "nor one of a share that hides them");
	ok(sub.attr.ino != dir.attr.ino, "whose numbers are as different");
	door_close();
	need(!umount2(path, MNT_DETACH));
	host_clear(door.dir);
}

/* ---- the run ---- */

static void (*const tests[])(void) = {
	test_counts,       test_counts_plus, test_listing_small,  test_listing_deletions,
	test_listing_gone, test_setattr,     test_times,          test_owner,
	test_statfs,       test_symlinks,    test_mknod,          test_remove,
	test_rename,       test_data,        test_sizes_that_lie, test_open,
	test_create,       test_file_ops,    test_replaced,       test_copy,
	test_syncfs,       test_odd_names,   test_deep,
};

/* Each begins with an empty directory and a fresh server. */
static void run(void (*test)(void))
{
	unsigned fds = host_descriptors();

	door_open(BY_MODE, false);
	session();
	test();
	session();
	always(nothing_held(), "a new session holds nothing of the old");
	door_close();
	always(host_descriptors() == fds, "the server leaves nothing behind");
	host_clear(door.dir);
}

int main(void)
{
	door_set_up("t_fuse_ops");
	for (unsigned i = 0; i < ARRAY_LEN(tests); i++)
		run(tests[i]);
	test_readonly();
	setenv("WHERRY_ENGINE", "epoll", 1);
	run(test_data);
	run(test_file_ops);
	test_full();
	test_submounts();
	door_tear_down();
	return done();
}
