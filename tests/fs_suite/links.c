// SPDX-License-Identifier: Apache-2.0
/*
 * links.c - hard links, and symbolic links, whose targets are data.
 *
 * Hard cases D9, D30, D58, D62.
 */
#include "suite.h"

static void hard(void)
{
	struct fs_obj *o = make_file(bed.dir, "f", "text"), *d = make_dir(bed.dir, "d"), *l;
	struct statx st;

	want(fs->link(o, bed.dir, "g", &st), 0);
	want(st.stx_nlink, 2);
	want(fs->link(o, d, "f", &st), 0);
	want(st.stx_nlink, 3);
	must(name_holds(d, "f", "text") && host_stat("d/f").st_ino == host_stat("g").st_ino);
	want(fs->link(o, bed.dir, "g", &st), -EEXIST);
	want(fs->link(o, bed.dir, "d", &st), -EEXIST);
	want(fs->link(d, bed.dir, "e", &st), -EPERM);
	want(fs->link(o, o, "x", &st), -ENOTDIR);
	want(fs->unlink(bed.dir, "f"), 0);
	want(fs->unlink(bed.dir, "g"), 0);
	want(attr_of(o).stx_nlink, 1);
	l = find(d, "f");
	must(fs->same(o, l));
	fs->forget(l);
	fs->forget(o);
	fs->forget(d);
}

/* D30: of the link itself, and of what can not be opened. */
static void hard_of_others(void)
{
	static const mode_t kinds[] = {S_IFLNK, S_IFIFO, S_IFSOCK};

	for (unsigned i = 0; i < ARRAY_LEN(kinds); i++) {
		struct fs_obj *o;
		struct statx st;

		want(try_make(kinds[i], bed.dir, "x", 0644, &as_root, NULL), 0);
		o = find(bed.dir, "x");
		want(fs->link(o, bed.dir, "y", &st), 0);
		want(st.stx_nlink, 2);
		want(st.stx_mode & S_IFMT, kinds[i]);
		want(fs->unlink(bed.dir, "x"), 0);
		want(attr_of(o).stx_nlink, 1);
		want(fs->unlink(bed.dir, "y"), 0);
		fs->forget(o);
	}
}

static void read_back(const char *target)
{
	const size_t len = strlen(target);
	struct fs_obj *o = NULL;
	char buf[PATH_MAX];
	struct statx st;

	want(fs->symlink(bed.dir, "l", target, &as_root, &o, &st), 0);
	must(S_ISLNK(st.stx_mode));
	want(st.stx_size, len);
	memset(buf, 'z', sizeof(buf));
	want(fs->readlink(o, buf, sizeof(buf)), len);
	must(!memcmp(buf, target, len) && (len == sizeof(buf) || buf[len] == 'z'));
	want(try_open(o, O_RDONLY) < 0, true);
	want(look(o, "passwd", NULL), -ENOTDIR); /* never followed */
	want(fs->unlink(bed.dir, "l"), 0);
	want(fs->readlink(o, buf, sizeof(buf)), len);
	fs->forget(o);
}

static void targets(void)
{
	static const char *const some[] = {"x",
					   "missing",
					   "/etc",
					   "/",
					   ".",
					   "..",
					   "../../outside",
					   "/proc/self/root",
					   "a//b/./",
					   "new\nline \xff\x80"};
	char longest[PATH_MAX];
	char bytes[256];

	for (unsigned i = 0; i < ARRAY_LEN(some); i++)
		read_back(some[i]);
	for (unsigned i = 1; i < 256; i++)
		bytes[i - 1] = (char)i;
	bytes[255] = '\0';
	read_back(bytes);
	for (unsigned n = 1; n < PATH_MAX; n += n < 64 ? 9 : 1000) {
		memset(longest, 'a', n);
		longest[n] = '\0';
		read_back(longest);
	}
	memset(longest, 'a', PATH_MAX - 1);
	longest[PATH_MAX - 1] = '\0';
	read_back(longest);
}

static void no_targets(void)
{
	struct fs_obj *o = NULL;
	char longer[PATH_MAX + 1];
	struct statx st;

	memset(longer, 'a', PATH_MAX);
	longer[PATH_MAX] = '\0';
	want(fs->symlink(bed.dir, "l", "", &as_root, &o, &st), -ENOENT);
	want(fs->symlink(bed.dir, "l", longer, &as_root, &o, &st), -ENAMETOOLONG);
	must(!host_has("l"));
	put_file(bed.dir, "f", "x");
	want(fs->symlink(bed.dir, "f", "x", &as_root, &o, &st), -EEXIST);
	o = find(bed.dir, "f");
	want(fs->readlink(o, longer, sizeof(longer)), -EINVAL);
	fs->forget(o);
	want(fs->readlink(bed.dir, longer, sizeof(longer)), -EINVAL);
}

/* On the host they are links like any other, unless they stand for themselves in a mapped share. */
static void on_host(void)
{
	char buf[64];

	want(try_make(S_IFLNK, bed.dir, "l", 0, &as_root, NULL), 0);
	if (bed.mapped) {
		must(S_ISREG(host_stat("l").st_mode) && host_holds(bed.host, "l", "target"));
	} else {
		want(readlinkat(bed.host, "l", buf, sizeof(buf)), 6);
		must(!memcmp(buf, "target", 6));
	}
	host(symlinkat("/etc/passwd", bed.host, "m"));
	{
		struct fs_obj *o = find(bed.dir, "m");

		want(fs->readlink(o, buf, sizeof(buf)), 11);
		must(!memcmp(buf, "/etc/passwd", 11) && S_ISLNK(attr_of(o).stx_mode));
		want(try_open(o, O_RDONLY) < 0, true);
		fs->forget(o);
	}
}

const struct fs_test link_tests[] = {
	{"hard links are counted, and are one object", hard, 0, 0},
	{"hard links of links, fifos and sockets", hard_of_others, 0, 0},
	{"targets of symbolic links are data, of 1 to 4095 bytes", targets, 0, 0},
	{"what is no target", no_targets, 0, 0},
	{"symbolic links on the host", on_host, 0, 0},
	{0},
};
