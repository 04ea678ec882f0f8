// SPDX-License-Identifier: Apache-2.0
/*
 * names.c - names as they come, what is none, and that an object is the same one whatever leads to it.
 *
 * Hard cases D8, D12, D13, D15, D58, D62.
 */
#include "suite.h"

/* D62: newline, invalid UTF-8 and all others. */
static void every_byte(void)
{
	struct fs_dirent *all;
	struct fs_file *d;
	size_t n;

	for (int b = 1; b < 256; b++) {
		const char name[] = {(char)b, 'x', (char)b, 0};

		if (b != '/')
			put_file(bed.dir, name, "");
	}
	d = open_dir(bed.dir);
	all = list_all(d, 0, 4096, &n);
	want(n, 2 + 254);
	for (int b = 1; b < 256; b++) {
		const char name[] = {(char)b, 'x', (char)b, 0};
		struct statx st;

		if (b == '/')
			continue;
		must(host_has(name));
		want(look(bed.dir, name, &st), 0);
		want(entry_of(all, n, name)->ino, st.stx_ino);
		want(fs->unlink(bed.dir, name), 0);
	}
	free(all);
	fs->release(d);
}

/* A way that is no name may still be one to walk: to nothing, or up. */
static int lookup_error(const char *name, int err)
{
	if (err != -EINVAL || !lacks(FS_BAD_LOOKUPS))
		return err;
	return strcmp(name, "..") != 0 ? -ENOENT : 0;
}

/* What each verb says to a name; "there" exists. */
static void all_verbs_say(const char *name, int err)
{
	static const mode_t kinds[] = {S_IFREG, S_IFDIR, S_IFLNK, S_IFIFO};
	struct fs_obj *there = find(bed.dir, "there");
	struct statx st;

	want(look(bed.dir, name, NULL), lookup_error(name, err));
	for (unsigned i = 0; i < ARRAY_LEN(kinds); i++)
		want(try_make(kinds[i], bed.dir, name, 0755, &as_root, NULL), err);
	want(fs->link(there, bed.dir, name, &st), err);
	want(fs->unlink(bed.dir, name), err);
	want(fs->rmdir(bed.dir, name), err);
	want(fs->rename(bed.dir, name, bed.dir, "to", 0), err);
	want(fs->rename(bed.dir, "there", bed.dir, name, 0), err);
	if (!lacks(FS_FLAGS))
		want(fs->rename(bed.dir, "there", bed.dir, name, RENAME_NOREPLACE), err);
	must(fs->same(there, there) && look(bed.dir, "there", NULL) == 0);
	fs->forget(there);
}

static void no_names(void)
{
	static const char *const bad[] = {"", ".", "..", "/", "a/b", "/etc", "there/", "../there"};

	put_file(bed.dir, "there", "x");
	for (unsigned i = 0; i < ARRAY_LEN(bad); i++)
		all_verbs_say(bad[i], -EINVAL);
}

static void too_long(void)
{
	char name[300];

	put_file(bed.dir, "there", "x");
	memset(name, 'n', sizeof(name));
	name[256] = '\0';
	all_verbs_say(name, -ENAMETOOLONG);
	name[256] = 'n';
	name[299] = '\0';
	all_verbs_say(name, -ENAMETOOLONG);
}

static void longest(void)
{
	static const mode_t kinds[] = {S_IFREG, S_IFDIR, S_IFLNK, S_IFIFO};
	char name[256], other[256];
	struct fs_obj *o;
	struct statx st;

	memset(name, 'n', 255);
	name[255] = '\0';
	memset(other, 'o', 255);
	other[255] = '\0';
	for (unsigned i = 0; i < ARRAY_LEN(kinds); i++) {
		want(try_make(kinds[i], bed.dir, name, 0755, &as_root, NULL), 0);
		o = find(bed.dir, name);
		if (kinds[i] != S_IFDIR) {
			want(fs->link(o, bed.dir, other, &st), 0);
			want(fs->unlink(bed.dir, other), 0);
		}
		want(fs->rename(bed.dir, name, bed.dir, other, 0), 0);
		want(look(bed.dir, name, NULL), -ENOENT);
		want(kinds[i] == S_IFDIR ? fs->rmdir(bed.dir, other) : fs->unlink(bed.dir, other),
		     0);
		fs->forget(o);
	}
}

/* Nothing builds a path: a tree may be deeper than PATH_MAX. */
static void deep(void)
{
	enum { DEPTH = 80 };
	static const char name[] =
		"a directory's name that is as long as any in a deep tree would be";
	struct fs_obj *way[DEPTH + 1] = {bed.dir};
	struct statx st;

	for (unsigned i = 0; i < DEPTH; i++)
		way[i + 1] = make_dir(way[i], name);
	put_file(way[DEPTH], "f", "the bottom");
	must(name_holds(way[DEPTH], "f", "the bottom"));
	want(look(way[DEPTH / 2], name, &st), 0);
	want(st.stx_ino, attr_of(way[DEPTH / 2 + 1]).stx_ino);
	want(fs->unlink(way[DEPTH], "f"), 0);
	for (unsigned i = DEPTH; i--;) {
		want(fs->rmdir(way[i], name), 0);
		fs->forget(way[i + 1]);
	}
}

/* ---- identity ---- */

static void same_object(void)
{
	struct fs_obj *d = make_dir(bed.dir, "d"), *a = make_file(bed.dir, "a", "1"), *again;
	const uint64_t ino = attr_of(a).stx_ino;
	struct statx st;

	again = find(bed.dir, "a");
	must(fs->same(a, again));
	fs->forget(again);
	want(fs->link(a, d, "hard", &st), 0);
	want(st.stx_ino, ino);
	want(fs->rename(bed.dir, "a", d, "moved", 0), 0);
	want(attr_of(a).stx_ino, ino);
	for (unsigned i = 0; i < 2; i++) {
		again = find(d, i ? "hard" : "moved");
		must(fs->same(a, again));
		want(attr_of(again).stx_ino, ino);
		fs->forget(again);
	}
	must(!fs->same(a, d) && attr_of(d).stx_ino != ino);
	fs->forget(a);
	fs->forget(d);
}

/* D13: the name means another now, and so does perhaps the host's number. */
static void not_the_same(void)
{
	enum { ROUNDS = 40 };
	struct fs_obj *old = make_file(bed.dir, "f", "old"), *now;

	want(fs->unlink(bed.dir, "f"), 0);
	for (unsigned i = 0; i < ROUNDS; i++) {
		now = make_file(bed.dir, "f", "new");
		must(!fs->same(old, now));
		must(attr_of(old).stx_ino != attr_of(now).stx_ino);
		must(holds(now, "new"));
		want(fs->unlink(bed.dir, "f"), 0);
		fs->forget(now);
	}
	must(holds(old, "old"));
	fs->forget(old);
}

/* A lookup more does not hurt, a lookup less would. */
static void counted(void)
{
	struct fs_obj *o = make_file(bed.dir, "f", "x"), *more[8];

	for (unsigned i = 0; i < ARRAY_LEN(more); i++)
		more[i] = find(bed.dir, "f");
	want(fs->held().objects, 2);
	for (unsigned i = 0; i < ARRAY_LEN(more); i++)
		fs->forget(more[i]);
	must(holds(o, "x"));
	fs->forget(o);
	want(fs->held().objects, 1);
	must(name_holds(bed.dir, "f", "x"));
}

const struct fs_test name_tests[] = {
	{"every byte but two makes a name", every_byte, 0, 0},
	{"what is no name is refused by every verb", no_names, 0, 0},
	{"a name of 256 bytes is too long for every verb", too_long, 0, 0},
	{"a name of 255 bytes is not", longest, 0, 0},
	{"a tree deeper than any path", deep, 0, 0},
	{"an object is the same by whatever name", same_object, 0, 0},
	{"a new object of an old name is another", not_the_same, 0, 0},
	{"each lookup counts once", counted, 0, 0},
	{0},
};
