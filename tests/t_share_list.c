// SPDX-License-Identifier: Apache-2.0
/*
 * t_share_list.c - listings of directories: each change is seen by the next one, and one of what did not change is kept.
 *
 * How often the host is asked for entries is counted at getdents64().
 */
#include "share_bed.h"
#include <linux/magic.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>

static unsigned calls;

ssize_t getdents64(int fd, void *buf, size_t len)
{
	calls++;
	return syscall(SYS_getdents64, fd, buf, len);
}

/* As of a file system whose clock has ticks of 10 ms, which new kernels hide from who asks for the time. */
static bool ticks;

int statx(int fd, const char *restrict name, int flags, unsigned mask, struct statx *restrict st)
{
	int r = (int)syscall(SYS_statx, fd, name, flags, mask, st);

	if (!r && ticks)
		st->stx_ctime.tv_nsec -= st->stx_ctime.tv_nsec % 10000000;
	return r;
}

/* ---- a listing ---- */

#define MOST 8192u

struct listing {
	unsigned n, room; /* room: how many more there is room for now */
	uint64_t next;
	struct listed {
		uint64_t ino, next;
		char name[256];
	} at[MOST];
};

static enum share_put take(void *ctx, const struct share_dirent *d)
{
	struct listing *l = ctx;
	struct listed *e = &l->at[l->n];

	if (!l->room)
		return SHARE_NO_ROOM;
	need(l->n < MOST && d->len < sizeof(e->name));
	l->room--;
	l->n++;
	e->ino = d->ino;
	l->next = e->next = d->next;
	memcpy(e->name, d->name, d->len);
	e->name[d->len] = '\0';
	return SHARE_PUT;
}

/* Up to n more entries; how many there were. */
static unsigned go_on(struct share_file *file, struct listing *l, unsigned n)
{
	const unsigned before = l->n;

	l->room = n;
	need(share_readdir(file, l->next, take, l) == 0);
	return l->n - before;
}

/* All of it, so many at a time. */
static void list(struct share_file *file, struct listing *l, unsigned at_once)
{
	l->n = 0;
	l->next = 0;
	while (go_on(file, l, at_once))
		;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct listed *)a)->name, ((const struct listed *)b)->name);
}

/* Exactly what the host has. */
static bool is_true(struct listing *l, const char *path)
{
	static struct listing want;
	struct dirent *e;
	DIR *d = opendir(path);
	bool equal;

	need(d);
	want.n = 0;
	while ((e = readdir(d)))
		snprintf(want.at[want.n++].name, sizeof(want.at[0].name), "%s", e->d_name);
	closedir(d);
	qsort(want.at, want.n, sizeof(want.at[0]), by_name);
	qsort(l->at, l->n, sizeof(l->at[0]), by_name);
	equal = want.n == l->n;
	for (unsigned i = 0; i < want.n && equal; i++)
		equal = !strcmp(want.at[i].name, l->at[i].name);
	return equal;
}

/* ---- a place ---- */

static struct place place;
static struct share *s;
static struct share_file *root;
static char path[600];
static bool keeps; /* the place is such that listings are kept there */
static struct listing a, b;

static bool place_keeps(void)
{
	struct statfs fs;

	need(!fstatfs(place.dir, &fs));
	return fs.f_type == EXT4_SUPER_MAGIC || fs.f_type == TMPFS_MAGIC ||
	       fs.f_type == XFS_SUPER_MAGIC || fs.f_type == BTRFS_SUPER_MAGIC;
}

static int64_t age(int dir)
{
	struct timespec now;
	struct stat st;

	need(!fstat(dir, &st) && !clock_gettime(CLOCK_REALTIME_COARSE, &now));
	return (now.tv_sec - st.st_ctim.tv_sec) * 1000000000ll + now.tv_nsec - st.st_ctim.tv_nsec;
}

/* The last change of the directory has been long enough ago. */
static void rest(int dir)
{
	while (age(dir) < 20 * 1000000)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* It is kept now, where it can be. */
static void list_until_kept(unsigned at_once)
{
	rest(place.dir);
	list(root, &a, at_once);
	list(root, &a, at_once);
}

static void fill(unsigned n, const char *prefix)
{
	char name[256];

	for (unsigned i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "%s%u", prefix, i);
		host_file(place.dir, name, "");
	}
}

/* ---- tests ---- */

static bool same(const struct listing *x, const struct listing *y)
{
	for (unsigned i = 0; i < x->n && i < y->n; i++)
		if (x->at[i].ino != y->at[i].ino || x->at[i].next != y->at[i].next ||
		    strcmp(x->at[i].name, y->at[i].name) != 0)
			return false;
	return x->n == y->n;
}

static void test_kept(unsigned at_once)
{
	list_until_kept(at_once);
	calls = 0;
	list(root, &b, at_once);
	ok(!calls == keeps, "%s: a listing of what did not change is %s", place.base,
	   keeps ? "kept" : "made anew, as it cannot be known there");
	ok(same(&a, &b), "%s: it is the same, with cookies and numbers, %u at a time", place.base,
	   at_once);
	ok(is_true(&b, path), "%s: and true", place.base);
}

static void change(unsigned i)
{
	char name[32], other[32];

	snprintf(name, sizeof(name), "c%u", i);
	snprintf(other, sizeof(other), "d%u", i);
	host_file(place.dir, name, "");
	if (i % 3 == 1)
		need(!renameat(place.dir, name, place.dir, other));
	if (i % 3 == 2)
		need(!unlinkat(place.dir, name, 0));
}

/* Right after the change, right after another one, and when all was at rest. */
static void test_changes(void)
{
	unsigned bad = 0;

	for (unsigned i = 0; i < 300; i++) {
		if (i % 20 == 0)
			list_until_kept(1000);
		change(i);
		list(root, &b, 50);
		bad += !is_true(&b, path);
		list(root, &b, 1000);
		bad += !is_true(&b, path);
	}
	is(bad, 0, "%s: each change of the host is in the next listing", place.base);
	list_until_kept(1000);
	need(!utimensat(place.dir, ".", (struct timespec[2]){{.tv_sec = 1}, {.tv_sec = 1}}, 0));
	calls = 0;
	list(root, &b, 1000);
	ok(calls && is_true(&b, path), "%s: times that are set hide nothing", place.base);
}

static void test_handles(void)
{
	struct share_file *other = open_file(s->root, O_RDONLY | O_DIRECTORY);
	unsigned got_a = 1, got_b = 1;
	uint64_t middle;

	list_until_kept(1000);
	a.n = b.n = 0;
	a.next = b.next = 0;
	while (got_a || got_b) {
		got_a = go_on(root, &a, 3);
		got_b = go_on(other, &b, 7);
	}
	ok(is_true(&a, path) && is_true(&b, path), "%s: two handles list in turn", place.base);
	list_until_kept(1000);
	middle = a.at[a.n / 2].next;
	list(other, &b, 1000);
	b.next = middle;
	b.n = 0;
	go_on(root, &b, 1000);
	ok(b.n == a.n - a.n / 2 - 1 && !strcmp(b.at[0].name, a.at[a.n / 2 + 1].name),
	   "%s: one goes on from any place of what is kept", place.base);
	share_file_close(other);

	list_until_kept(1000);
	other = open_file(s->root, O_RDONLY | O_DIRECTORY);
	b.n = 0;
	b.next = 0;
	go_on(other, &b, 5);
	share_file_close(other);
	list(root, &b, 10);
	ok(is_true(&b, path), "%s: one that is closed half-way leaves the whole to the next",
	   place.base);
}

/* What is there all the time comes exactly once. */
static void test_meanwhile(bool kept)
{
	unsigned seen = 0, twice = 0;

	fill(200, "stay");
	fill(200, "go");
	if (kept)
		list_until_kept(1000);
	else
		list(root, &a, 1000);
	b.n = 0;
	b.next = 0;
	for (unsigned i = 0; go_on(root, &b, 8); i++) {
		char name[32];

		snprintf(name, sizeof(name), "go%u", i);
		unlinkat(place.dir, name, 0);
		snprintf(name, sizeof(name), "new%u", i);
		host_file(place.dir, name, "");
	}
	qsort(b.at, b.n, sizeof(b.at[0]), by_name);
	for (unsigned i = 0; i < b.n; i++) {
		seen += !strncmp(b.at[i].name, "stay", 4);
		twice += i && !strcmp(b.at[i].name, b.at[i - 1].name);
	}
	ok(seen == 200 && !twice, "%s: what stays while others come and go is listed once",
	   place.base);
	list(root, &b, 1000);
	ok(is_true(&b, path), "%s: and the next listing is true", place.base);
}

static void test_large(void)
{
	char prefix[221] = "";

	memset(prefix, 'l', 220);
	fill(5000, prefix);
	list_until_kept(1000);
	calls = 0;
	list(root, &b, 1000);
	ok(is_true(&b, path) && calls > 1 && s->list.room <= MIB(1),
	   "%s: more than a megabyte is listed, and not kept", place.base);
}

/* Another directory with the same name, and perhaps the number. */
static void test_replaced(void)
{
	struct share_inode *dir;
	struct share_file *file;
	unsigned bad = 0;

	for (unsigned i = 0; i < 20; i++) {
		char name[32];

		need(!mkdirat(place.dir, "sub", 0755));
		snprintf(name, sizeof(name), "sub/f%u", i);
		host_file(place.dir, name, "");
		dir = find(s->root, "sub");
		file = open_file(dir, O_RDONLY | O_DIRECTORY);
		for (unsigned k = 0; k < 3; k++) {
			list(file, &b, 10);
			qsort(b.at, b.n, sizeof(b.at[0]), by_name);
			bad += b.n != 3 || strcmp(b.at[2].name, name + 4) != 0;
		}
		share_file_close(file);
		share_put(dir);
		need(!unlinkat(place.dir, name, 0) && !unlinkat(place.dir, "sub", AT_REMOVEDIR));
	}
	is(bad, 0, "%s: a new directory of an old name has its own entries", place.base);
}

/* Changes that leave the same time, with a listing between them that might be kept. */
static void test_ticks(void)
{
	unsigned bad = 0;
	char name[32];

	ticks = true;
	for (unsigned i = 0; i < 20; i++) {
		list_until_kept(1000);
		for (unsigned k = 1; k < 4; k++) {
			snprintf(name, sizeof(name), "tick%u", k);
			host_file(place.dir, name, "");
			for (unsigned again = 0; again < 2; again++) {
				list(root, &b, 1000);
				bad += b.n != a.n + k;
			}
		}
		for (unsigned k = 1; k < 4; k++) {
			snprintf(name, sizeof(name), "tick%u", k);
			need(!unlinkat(place.dir, name, 0));
		}
	}
	ticks = false;
	is(bad, 0, "%s: also changes that have the same time", place.base);
}

/* Two that were last changed at the same time. */
static void test_twins(void)
{
	struct share_inode *dir[2];
	struct share_file *file[2];
	char name[2][16] = {"twin0", "twin1"};
	unsigned bad = 0;

	ticks = true;
	for (unsigned i = 0; i < 2; i++)
		need(!mkdirat(place.dir, name[i], 0755));
	host_file(place.dir, "twin1/one", "");
	for (unsigned i = 0; i < 2; i++) {
		dir[i] = find(s->root, name[i]);
		file[i] = open_file(dir[i], O_RDONLY | O_DIRECTORY);
		rest(file[i]->io.fd);
	}
	for (unsigned i = 0; i < 12; i++) {
		list(file[i / 3 % 2], &b, 10);
		bad += b.n != 2 + i / 3 % 2;
	}
	is(bad, 0, "%s: what is kept is told of no other directory", place.base);
	for (unsigned i = 0; i < 2; i++) {
		share_file_close(file[i]);
		share_put(dir[i]);
	}
	ticks = false;
}

static void test_place(void)
{
	s = place_open(&place, (struct share_config){0});
	root = open_file(s->root, O_RDONLY | O_DIRECTORY);
	snprintf(path, sizeof(path), "%s", place.top);
	keeps = place_keeps();
	fill(150, "f");
	test_kept(1000);
	test_kept(7);
	test_changes();
	test_ticks();
	test_twins();
	test_handles();
	test_meanwhile(true);
	test_meanwhile(false);
	test_replaced();
	test_large();
	share_file_close(root);
	share_close(s);
}

static struct share_inode *find_below(struct share_inode *dir, const char *name)
{
	struct share_inode *inode = find(dir, name);

	share_put(dir);
	return inode;
}

/* Its entries come and go, and its times stay: a share of a directory with a procfs mounted in it. */
static void test_made_up(void)
{
	struct share_inode *dir;
	unsigned bad = 0;
	char pid[16];
	int fds[5];

	need(!mkdirat(place.dir, "proc", 0755));
	snprintf(path, sizeof(path), "%s/proc", place.top);
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("proc", path, "proc", 0, NULL)) {
		skip("it may not be mounted here", "procfs is listed");
		return;
	}
	s = place_open(&place, (struct share_config){.submounts = true});
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	dir = find_below(find_below(find(s->root, "proc"), pid), "fdinfo");
	root = open_file(dir, O_RDONLY | O_DIRECTORY);
	rest(root->io.fd);
	list(root, &a, 1000);
	for (unsigned i = 0; i < ARRAY_LEN(fds); i++) {
		list(root, &b, 1000);
		list(root, &b, 1000);
		bad += b.n != a.n + i;
		fds[i] = dup(0);
		need(fds[i] >= 0);
	}
	is(bad, 0, "procfs: each entry that comes is listed at once");
	for (unsigned i = 0; i < ARRAY_LEN(fds); i++)
		close(fds[i]);
	share_file_close(root);
	share_put(dir);
	share_close(s);
	need(!umount2(path, 0));
}

int main(void)
{
	for (unsigned i = 0; place_base(i); i++) {
		if (!place_make(&place, place_base(i)))
			continue;
		test_place();
		if (i == 0)
			test_made_up();
		place_end(&place);
	}
	return done();
}
