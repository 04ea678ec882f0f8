// SPDX-License-Identifier: Apache-2.0
/*
 * renames.c - moving names, with and without flags.
 *
 * Hard cases D29, D43, D44, D70.
 */
#include "suite.h"

static int move(const char *from, const char *to)
{
	return fs->rename(bed.dir, from, bed.dir, to, 0);
}

static void files(void)
{
	struct fs_obj *a = make_file(bed.dir, "a", "A"), *b = make_file(bed.dir, "b", "B");
	struct fs_obj *d = make_dir(bed.dir, "d");
	struct statx st;

	want(move("a", "c"), 0);
	want(look(bed.dir, "a", NULL), -ENOENT);
	must(name_holds(bed.dir, "c", "A"));
	want(move("c", "b"), 0);
	must(name_holds(bed.dir, "b", "A"));
	must(holds(b, "B"));
	want(attr_of(b).stx_nlink, 0);
	want(fs->rename(bed.dir, "b", d, "e", 0), 0);
	must(name_holds(d, "e", "A") && !host_has("b"));
	want(move("missing", "x"), -ENOENT);
	want(fs->rename(a, "x", bed.dir, "y", 0), -ENOTDIR);
	/* Two names of one object: nothing happens, as POSIX has it. */
	want(fs->link(a, d, "f", &st), 0);
	want(fs->rename(d, "e", d, "f", 0), 0);
	must(host_has("d/e") && host_has("d/f"));
	want(attr_of(a).stx_nlink, 2);
	fs->forget(a);
	fs->forget(b);
	fs->forget(d);
}

static void directories(void)
{
	struct fs_obj *d = make_dir(bed.dir, "d"), *e = make_dir(bed.dir, "e"), *sub;
	const nlink_t links = host_stat(".").st_nlink;

	put_file(d, "f", "x");
	put_file(bed.dir, "file", "x");
	sub = make_dir(d, "sub");
	want(move("e", "d"), -ENOTEMPTY);
	want(move("file", "e"), -EISDIR);
	want(move("e", "file"), -ENOTDIR);
	want(fs->rename(bed.dir, "d", sub, "x", 0), -EINVAL); /* below itself */
	want(fs->rename(bed.dir, "d", d, "x", 0), -EINVAL);
	want(fs->rename(d, "sub", bed.dir, "d", 0), -ENOTEMPTY);
	want(move("d", "e"), 0); /* over an empty one */
	want(host_stat(".").st_nlink, links > 2 ? links - 1 : links);
	must(name_holds(d, "f", "x"));
	want(attr_of(e).stx_nlink, 0);
	want(fs->rename(d, "sub", bed.dir, "up", 0), 0);
	want(look(sub, "x", NULL), -ENOENT);
	put_file(sub, "g", "y");
	must(host_has("up/g"));
	fs->forget(d);
	fs->forget(e);
	fs->forget(sub);
}

/* What is known below a directory that moves stays what it is. */
static void known_below(void)
{
	enum { N = 12 };
	struct fs_obj *d = make_dir(bed.dir, "d"), *s = make_dir(d, "s"), *o[N], *again;
	char name[16], text[16];

	for (unsigned i = 0; i < N; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		snprintf(text, sizeof(text), "text %u", i);
		o[i] = make_file(s, name, text);
	}
	want(move("d", "e"), 0);
	want(fs->rename(d, "s", bed.dir, "t", 0), 0);
	for (unsigned i = 0; i < N; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		snprintf(text, sizeof(text), "text %u", i);
		must(holds(o[i], text));
		again = find(s, name);
		must(fs->same(o[i], again));
		fs->forget(again);
		fs->forget(o[i]);
	}
	fs->forget(s);
	fs->forget(d);
}

static void no_replace(void)
{
	put_file(bed.dir, "a", "A");
	put_file(bed.dir, "b", "B");
	put_dir(bed.dir, "d");
	want(fs->rename(bed.dir, "a", bed.dir, "b", RENAME_NOREPLACE), -EEXIST);
	want(fs->rename(bed.dir, "a", bed.dir, "d", RENAME_NOREPLACE), -EEXIST);
	want(fs->rename(bed.dir, "a", bed.dir, "c", RENAME_NOREPLACE), 0);
	must(name_holds(bed.dir, "b", "B") && name_holds(bed.dir, "c", "A"));
	want(fs->rename(bed.dir, "x", bed.dir, "y", RENAME_NOREPLACE), -ENOENT);
}

static void exchange(void)
{
	struct fs_obj *a = make_file(bed.dir, "a", "A"), *d = make_dir(bed.dir, "d");
	struct fs_obj *s = make_dir(d, "s"), *again;

	put_file(s, "f", "in d");
	want(fs->rename(bed.dir, "a", bed.dir, "d", RENAME_EXCHANGE), 0);
	again = find(bed.dir, "d");
	must(fs->same(again, a) && holds(a, "A"));
	fs->forget(again);
	again = find(bed.dir, "a");
	must(fs->same(again, d) && name_holds(s, "f", "in d"));
	fs->forget(again);
	want(attr_of(a).stx_nlink, 1);
	want(fs->rename(bed.dir, "a", bed.dir, "missing", RENAME_EXCHANGE), -ENOENT);
	want(fs->rename(bed.dir, "missing", bed.dir, "a", RENAME_EXCHANGE), -ENOENT);
	want(fs->rename(bed.dir, "a", d, "s", RENAME_EXCHANGE), -EINVAL); /* with its own child */
	/* Across directories, each is found where it is now. */
	want(fs->rename(bed.dir, "d", s, "f", RENAME_EXCHANGE), 0);
	must(name_holds(bed.dir, "d", "in d") && name_holds(s, "f", "A") && holds(a, "A"));
	fs->forget(a);
	fs->forget(d);
	fs->forget(s);
}

/* D43: what overlayfs needs of its upper layer. */
static void whiteout(void)
{
	struct fs_obj *a = make_file(bed.dir, "a", "A");
	struct statx st;
	int err = fs->rename(bed.dir, "a", bed.dir, "b", RENAME_WHITEOUT);

	if (err == -EINVAL || err == -EPERM)
		skip_test("the host has no whiteouts");
	want(err, 0);
	must(name_holds(bed.dir, "b", "A") && holds(a, "A"));
	want(look(bed.dir, "a", &st), 0);
	must(S_ISCHR(st.stx_mode));
	want(st.stx_rdev_major, 0);
	want(st.stx_rdev_minor, 0);
	want(fs->unlink(bed.dir, "a"), 0);
	fs->forget(a);
}

static void bad_flags(void)
{
	static const unsigned bad[] = {RENAME_EXCHANGE | RENAME_NOREPLACE,
				       RENAME_EXCHANGE | RENAME_WHITEOUT, 8, 1u << 31};

	put_file(bed.dir, "a", "A");
	put_file(bed.dir, "b", "B");
	for (unsigned i = 0; i < ARRAY_LEN(bad); i++)
		want(fs->rename(bed.dir, "a", bed.dir, "b", bad[i]), -EINVAL);
	must(name_holds(bed.dir, "a", "A") && name_holds(bed.dir, "b", "B"));
}

const struct fs_test rename_tests[] = {
	{"files are renamed, also over others", files, 0, 0},
	{"directories are renamed where that may be", directories, 0, 0},
	{"what is known below a directory moves with it", known_below, 0, 0},
	{"RENAME_NOREPLACE", no_replace, 0, FS_FLAGS},
	{"RENAME_EXCHANGE", exchange, 0, FS_FLAGS},
	{"RENAME_WHITEOUT", whiteout, 0, FS_FLAGS},
	{"flags that cannot go together", bad_flags, 0, FS_FLAGS},
	{0},
};
