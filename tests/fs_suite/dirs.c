// SPDX-License-Identifier: Apache-2.0
/*
 * dirs.c - making and removing in directories, what each verb says when it cannot, and listings.
 *
 * Hard cases D15, D16, D17, D18, D19, D20, D70.
 */
#include "suite.h"

#define SMALL 280 /* bytes: room for the longest name, and no more */

static void errors(void)
{
	struct fs_obj *f = make_file(bed.dir, "f", "x"), *d = make_dir(bed.dir, "d"), *o = NULL;
	struct fs_file *file = NULL;
	struct statx st;

	want(try_make(S_IFLNK, bed.dir, "l", 0, &as_root, NULL), 0);
	put_file(d, "x", "");
	for (unsigned i = 0; i < 3; i++) {
		static const char *const taken[] = {"f", "d", "l"};
		static const mode_t kinds[] = {S_IFDIR, S_IFLNK, S_IFIFO, S_IFREG};

		for (unsigned k = 0; k < ARRAY_LEN(kinds); k++)
			want(try_make(kinds[k], bed.dir, taken[i], 0755, &as_root, NULL), -EEXIST);
	}
	want(fs->rmdir(bed.dir, "d"), -ENOTEMPTY);
	want(fs->rmdir(bed.dir, "f"), -ENOTDIR);
	want(fs->rmdir(bed.dir, "l"), -ENOTDIR);
	want(fs->unlink(bed.dir, "d"), -EISDIR);
	want(fs->unlink(bed.dir, "missing"), -ENOENT);
	want(fs->rmdir(bed.dir, "missing"), -ENOENT);
	want(look(f, "x", NULL), -ENOTDIR);
	want(try_make(S_IFREG, f, "x", 0644, &as_root, NULL), -ENOTDIR);
	want(try_make(S_IFDIR, f, "x", 0755, &as_root, NULL), -ENOTDIR);
	want(fs->unlink(f, "x"), -ENOTDIR);
	want(fs->create(f, "x", O_RDWR, 0644, &as_root, &o, &file, &st), -ENOTDIR);
	want(fs->unlink(d, "x"), 0);
	want(fs->rmdir(bed.dir, "d"), 0);
	fs->forget(f);
	fs->forget(d);
}

/* As the host's file system counts: some count no directories. */
static void links_counted(void)
{
	const nlink_t before = host_stat(".").st_nlink;
	struct fs_obj *d = make_dir(bed.dir, "d");

	want(attr_of(bed.dir).stx_nlink, host_stat(".").st_nlink);
	want(attr_of(d).stx_nlink, host_stat("d").st_nlink);
	put_dir(d, "e");
	want(attr_of(d).stx_nlink, host_stat("d").st_nlink);
	want(fs->rmdir(d, "e"), 0);
	want(fs->rmdir(bed.dir, "d"), 0);
	want(attr_of(bed.dir).stx_nlink, before);
	want(attr_of(d).stx_nlink, 0);
	fs->forget(d);
}

/* ---- listings ---- */

static void put_many(struct fs_obj *dir, unsigned n)
{
	char name[32];

	for (unsigned i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "entry %u", i);
		put_file(dir, name, "");
	}
}

static void all_there(const struct fs_dirent *all, size_t n, unsigned number)
{
	bool *seen = calloc(number, sizeof(*seen));
	unsigned dots = 0;

	must(seen);
	want(n, number + 2);
	for (size_t i = 0; i < n; i++) {
		unsigned k;

		if (sscanf(all[i].name, "entry %u", &k) != 1) {
			dots++;
			continue;
		}
		must(k < number && !seen[k]);
		seen[k] = true;
	}
	want(dots, 2);
	free(seen);
}

/* D16, D18: by hundreds of requests, each entry once, and what it says is what a lookup says. */
static void crowd(void)
{
	const unsigned N = bed.passes && !bed.tight && !SANITIZED ? 2000 : 400;
	struct fs_obj *d = make_dir(bed.dir, "d");
	struct fs_dirent *all;
	struct fs_file *f;
	struct statx st;
	size_t n;

	for (unsigned i = 0; i < N; i++) { /* by the host, to save time */
		char name[32];

		snprintf(name, sizeof(name), "d/entry %u", i);
		host(mknodat(bed.host, name, S_IFREG | 0644, 0));
	}
	f = open_dir(d);
	all = list_all(f, 0, SMALL, &n);
	all_there(all, n, N);
	for (size_t i = 0; i < n; i += 37) {
		if (all[i].name[0] == '.')
			continue;
		want(look(d, all[i].name, &st), 0);
		want(all[i].ino, st.stx_ino);
		want(all[i].type, IFTODT(st.stx_mode));
	}
	fs->release(f);
	free(all);
	fs->forget(d);
}

/* D15, D20. */
static void kinds(void)
{
	static const mode_t types[] = {S_IFREG, S_IFDIR, S_IFLNK, S_IFIFO, S_IFSOCK};
	struct fs_obj *d = make_dir(bed.dir, "d"), *root = fs->root();
	const struct fs_dirent *e;
	struct fs_dirent *all;
	struct fs_file *f;
	struct statx st;
	char name[8];
	size_t n;

	for (unsigned i = 0; i < ARRAY_LEN(types); i++) {
		snprintf(name, sizeof(name), "k%u", i);
		want(try_make(types[i], d, name, 0755, &as_root, NULL), 0);
	}
	f = open_dir(d);
	all = list_all(f, 0, 4096, &n);
	want(n, ARRAY_LEN(types) + 2);
	for (unsigned i = 0; i < ARRAY_LEN(types); i++) {
		snprintf(name, sizeof(name), "k%u", i);
		e = entry_of(all, n, name);
		must(e);
		want(look(d, name, &st), 0);
		want(e->ino, st.stx_ino);
		want(e->type, IFTODT(types[i]));
		want(IFTODT(st.stx_mode), e->type);
	}
	want(entry_of(all, n, ".")->ino, attr_of(d).stx_ino);
	want(entry_of(all, n, "..")->ino, attr_of(bed.dir).stx_ino);
	want(entry_of(all, n, "..")->type, DT_DIR);
	free(all);
	fs->release(f);
	/* Above the root there is nothing. */
	f = open_dir(root);
	all = list_all(f, 0, 4096, &n);
	want(entry_of(all, n, ".")->ino, attr_of(root).stx_ino);
	want(entry_of(all, n, "..")->ino, attr_of(root).stx_ino);
	free(all);
	fs->release(f);
	fs->forget(root);
	fs->forget(d);
}

/* The guest keeps what it likes of a reply, and comes back with any cookie, after any other request. */
static void resumed(void)
{
	enum { N = 300 };
	struct fs_obj *d = make_dir(bed.dir, "d");
	struct fs_dirent *all, *rest;
	struct fs_file *f, *other;
	size_t n, nrest;

	put_many(d, N);
	f = open_dir(d);
	other = open_dir(bed.dir);
	all = list_all(f, 0, 1000, &n);
	all_there(all, n, N);
	for (size_t i = 0; i < n; i += 23) {
		struct fs_dirent entry[4];

		must(fs->readdir(other, 0, SMALL, entry, 4) > 0);
		rest = list_all(f, all[i].next, i % 2 ? SMALL : 4096, &nrest);
		want(nrest, n - i - 1);
		for (size_t k = 0; k < nrest; k++)
			must(!strcmp(rest[k].name, all[i + 1 + k].name));
		free(rest);
	}
	free(all);
	fs->release(f);
	fs->release(other);
	fs->forget(d);
}

/* Of what was returned some is removed: what was not returned yet comes all the same. */
static void removed_meanwhile(void)
{
	enum { N = 300 };
	struct fs_obj *d = make_dir(bed.dir, "d");
	struct fs_dirent some[8];
	unsigned removed = 0;
	uint64_t at = 0;
	struct fs_file *f;
	ssize_t n;

	put_many(d, N);
	f = open_dir(d);
	while ((n = fs->readdir(f, at, 500, some, ARRAY_LEN(some))) > 0) {
		for (ssize_t i = 0; i < n; i++)
			if (some[i].name[0] != '.') {
				want(fs->unlink(d, some[i].name), 0);
				removed++;
			}
		at = some[n - 1].next;
	}
	want(n, 0);
	want(removed, N);
	want(fs->rmdir(bed.dir, "d"), 0);
	fs->release(f);
	fs->forget(d);
}

/* D17: from the start is from what is there now. */
static void rewound(void)
{
	struct fs_obj *d = make_dir(bed.dir, "d");
	struct fs_dirent *all;
	struct fs_file *f;
	size_t n;

	put_many(d, 3);
	f = open_dir(d);
	all = list_all(f, 0, 4096, &n);
	all_there(all, n, 3);
	free(all);
	put_file(d, "entry 3", "");
	host_put(bed.host, "d/entry 4", "");
	all = list_all(f, 0, 4096, &n);
	all_there(all, n, 5);
	free(all);
	fs->release(f);
	fs->forget(d);
}

/* D19: nothing is lost to one that has no room for it; a name of 255 needs it all. */
static void no_room(void)
{
	struct fs_obj *d = make_dir(bed.dir, "d");
	struct fs_dirent *all, one[2];
	char name[256];
	struct fs_file *f;
	size_t n;

	memset(name, 'n', 255);
	name[255] = '\0';
	put_file(d, name, "");
	f = open_dir(d);
	want(fs->readdir(f, 0, 16, one, 2), -EINVAL);
	all = list_all(f, 0, SMALL, &n);
	want(n, 3);
	must(entry_of(all, n, name));
	free(all);
	fs->release(f);
	fs->forget(d);
}

static void no_directory(void)
{
	struct fs_obj *o = make_file(bed.dir, "f", "x");
	struct fs_dirent one[2];
	struct fs_file *f = NULL;
	ssize_t err = fs->open(o, O_RDONLY | O_DIRECTORY, &f);

	if (!err) { /* a door that is not told may say so later */
		err = fs->readdir(f, 0, 4096, one, 2);
		fs->release(f);
	}
	must(err == -ENOTDIR || err == -EBADF);
	f = NULL;
	want(try_open(bed.dir, O_RDWR) < 0, true);
	fs->forget(o);
}

/* Whoever may not read it is told so, be it when it is opened or when it is read. */
static void unreadable(void)
{
	const int err = bed.root || bed.mapped ? 0 : -EACCES;
	struct fs_dirent some[4];
	struct fs_file *f = NULL;
	struct fs_obj *d;
	ssize_t n;

	want(try_make(S_IFDIR, bed.dir, "d", 0300, &as_root, NULL), 0);
	d = find(bed.dir, "d");
	n = fs->open(d, O_RDONLY | O_DIRECTORY, &f);
	if (!n) {
		n = fs->readdir(f, 0, 4096, some, ARRAY_LEN(some));
		fs->release(f);
	}
	want(MIN(n, 0), err);
	fs->forget(d);
}

const struct fs_test dir_tests[] = {
	{"names that are taken, missing, or of another kind", errors, 0, 0},
	{"directories are counted as links", links_counted, 0, 0},
	{0},
};

const struct fs_test list_tests[] = {
	{"a crowd of entries, by little room at a time", crowd, 0, 0},
	{"numbers and kinds of entries are those of objects", kinds, 0, 0},
	{"a listing goes on anywhere", resumed, 0, 0},
	{"a listing goes on while entries are removed", removed_meanwhile, 0, 0},
	{"from the start shows what is there now", rewound, 0, 0},
	{"too little room loses nothing", no_room, 0, 0},
	{"what is no directory is not listed", no_directory, 0, 0},
	{"a directory that may not be read", unreadable, 0, 0},
	{0},
};
