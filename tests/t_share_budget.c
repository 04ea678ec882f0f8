// SPDX-License-Identifier: Apache-2.0
/*
 * t_share_budget.c - a guest that knows more than there are descriptors: what is idle gives its own
 * up, and is the same object when it is asked for again.
 *
 * Everything runs both ways, found again by file handle (root, on file systems that have them) and
 * by name (anyone). crowd() makes all that is idle give up, so that a test says which object is
 * without a descriptor at which moment; nothing waits. The trees are made under $TMPDIR, the big
 * one in memory where there is such a file system.
 */
#include "host_dir.h"
#include "tap.h"
#include "../devices/share_int.h"
#include "../vmm/sandbox.h"
#include <linux/fs.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static char top[512];
static int share_dir; /* the host's view of the share */
static bool own_mounts;
static bool acts; /* has other users to act as */
static const struct cred ROOT = {.uid = 0, .gid = 0};

enum { FILES = 100, CROWD = 40 };

/* One way of one share. */
struct ground {
	struct share *s;
	struct share_inode *root;
	bool handles;
	const char *way;
};

/* ---- helpers ---- */

static struct name nm(const char *s)
{
	struct name n;

	need(name_check(&n, s, strlen(s)) == 0);
	return n;
}

/* Sizes tell files apart: the number of an object is what its table says, whatever it was found again as. */
static void host_file(int dir, const char *name, unsigned size)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	need(fd >= 0 && ftruncate(fd, size) == 0);
	close(fd);
}

static int host_mkdir(int dir, const char *name)
{
	int fd;

	need(mkdirat(dir, name, 0755) == 0);
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	need(fd >= 0);
	return fd;
}

static void host_move(const char *from, const char *to)
{
	need(renameat(share_dir, from, share_dir, to) == 0);
}

static unsigned open_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	need(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static rlim_t highest_descriptor(void)
{
	rlim_t highest = 0;

	for (int fd = 0; fd < 1024; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			highest = (rlim_t)fd;
	return highest;
}

static int look(struct share_inode *dir, const char *name, struct share_inode **out)
{
	struct name n = nm(name);
	struct statx st;

	return share_lookup(dir, &n, out, &st);
}

static struct share_inode *find(struct share_inode *dir, const char *name)
{
	struct share_inode *inode = NULL;

	need(look(dir, name, &inode) == 0);
	return inode;
}

/* The name leads to this object still, or again. */
static bool leads_to(struct share_inode *dir, const char *name, struct share_inode *inode)
{
	uint64_t ino = share_ino(inode);
	struct share_inode *found;
	bool same;

	if (look(dir, name, &found))
		return false;
	same = found == inode && share_ino(found) == ino;
	share_put(found);
	return same;
}

/* -errno or the size. */
static long long size_of(struct share_inode *inode)
{
	struct statx st;
	int err = share_getattr(inode, NULL, &st);

	return err ? err : (long long)st.stx_size;
}

static long long links_of(struct share_inode *inode)
{
	struct statx st;
	int err = share_getattr(inode, NULL, &st);

	return err ? err : (long long)st.stx_nlink;
}

static int unlink_in(struct share_inode *dir, const char *name, int flags)
{
	struct name n = nm(name);

	return share_unlink(dir, &n, flags);
}

static int move(struct share_inode *dir, const char *name, struct share_inode *newdir,
		const char *newname, unsigned flags)
{
	struct name n = nm(name), m = nm(newname);

	return share_rename(dir, &n, newdir, &m, flags);
}

/* So many others are used that what is idle is without a descriptor afterwards. */
static void crowd(const struct ground *g)
{
	struct share_inode *dir = find(g->root, "crowd"), *one;
	char name[16];

	for (unsigned i = 0; i < CROWD; i++) {
		snprintf(name, sizeof(name), "%u", i);
		one = find(dir, name);
		need(size_of(one) == 0);
		share_put(one);
	}
	share_put(dir);
	need(g->s->nheld + g->s->nfiles + g->s->nmounts <= g->s->budget);
}

/* A budget below that of the crowd, whose members must be known to fill it. */
static struct share_inode *member[CROWD];

static void crowd_come(const struct ground *g)
{
	int fd = host_mkdir(share_dir, "crowd");
	struct share_inode *dir = find(g->root, "crowd");
	char name[16];

	for (unsigned i = 0; i < CROWD; i++) {
		snprintf(name, sizeof(name), "%u", i);
		host_file(fd, name, 0);
		member[i] = find(dir, name);
	}
	share_put(dir);
	close(fd);
}

static void crowd_go(void)
{
	for (unsigned i = 0; i < CROWD; i++)
		share_put(member[i]);
}

static bool idle(const struct share_inode *inode)
{
	return inode->fd == -1;
}

/* ---- a big tree ---- */

/* DIRS=10000 makes a million files of it. */
static unsigned ndirs = 200;
static struct share_inode **dirs, **files;

static unsigned dice(unsigned *seed)
{
	*seed = *seed * 1103515245u + 12345u;
	return *seed >> 8;
}

static void tree_make(void)
{
	const char *n = getenv("DIRS");
	char name[16];

	ndirs = n ? (unsigned)strtoul(n, NULL, 10) : ndirs;
	need(ndirs > 9);
	dirs = calloc(ndirs, sizeof(*dirs));
	files = calloc((size_t)ndirs * FILES, sizeof(*files));
	need(dirs && files);

	for (unsigned i = 0; i < ndirs; i++) {
		int fd;

		snprintf(name, sizeof(name), "d%u", i);
		fd = host_mkdir(share_dir, name);
		for (unsigned k = 0; k < FILES; k++) {
			snprintf(name, sizeof(name), "f%u", k);
			host_file(fd, name, i * FILES + k);
		}
		close(fd);
	}
}

/* How many cannot be had, of all that there is. */
static unsigned tree_walk(const struct ground *g)
{
	unsigned failed = 0;
	char name[16];

	for (unsigned i = 0; i < ndirs; i++) {
		snprintf(name, sizeof(name), "d%u", i);
		if (look(g->root, name, &dirs[i]))
			return ndirs * FILES;
		for (unsigned k = 0; k < FILES; k++) {
			snprintf(name, sizeof(name), "f%u", k);
			failed += look(dirs[i], name, &files[i * FILES + k]) != 0;
		}
	}
	return failed;
}

/* At random, by the objects and by their names: how many are not what they were. */
static unsigned tree_visit(unsigned n)
{
	unsigned seed = 1, failed = 0;
	char name[16];

	while (n--) {
		unsigned at = dice(&seed) % (ndirs * FILES);

		snprintf(name, sizeof(name), "f%u", at % FILES);
		failed += size_of(files[at]) != at;
		failed += !leads_to(dirs[at / FILES], name, files[at]);
	}
	return failed;
}

static void tree_forget(void)
{
	for (unsigned i = 0; i < ndirs; i++)
		share_put(dirs[i]);
	for (unsigned i = 0; i < ndirs * FILES; i++)
		share_put(files[i]);
}

static void test_tree(const struct ground *g)
{
	unsigned before = open_descriptors();

	is(tree_walk(g), 0, "%s: %u files are looked up with 64 descriptors", g->way,
	   ndirs * FILES);
	is(share_ninodes(g->s), 1 + ndirs + ndirs * FILES, "and all of them are known");
	ok(open_descriptors() - before <= 64, "with no more than 64 descriptors");
	is(tree_visit(3000), 0, "each is the same object, with its number, when it is asked again");
	ok(open_descriptors() - before <= 64, "and there are no more descriptors than before");
	is(move(g->root, "d7", dirs[9], "moved", 0), 0, "a directory of theirs is renamed");
	is(size_of(files[7 * FILES + 5]), 7 * FILES + 5, "and what is in it is found all the same");
	ok(leads_to(dirs[9], "moved", dirs[7]), "as the directory is");
	need(move(dirs[9], "moved", g->root, "d7", 0) == 0);
	tree_forget();
	is(share_ninodes(g->s), 1, "nothing is left over");
	ok(open_descriptors() <= before, "and no descriptor");
}

/* ---- names that go ---- */

static void test_unlinked(const struct ground *g)
{
	struct share_inode *f, *dir, *over, *by;
	const struct share_attr mode = {.mask = SHARE_MODE, .mode = 0600};
	struct statx st;

	host_file(share_dir, "f", 11);
	host_file(share_dir, "over", 12);
	host_file(share_dir, "by", 13);
	close(host_mkdir(share_dir, "dir"));
	f = find(g->root, "f");
	dir = find(g->root, "dir");
	over = find(g->root, "over");
	by = find(g->root, "by");
	crowd(g);
	ok(idle(f) && idle(dir) && idle(over) && idle(by), "%s: objects have given up", g->way);
	is(unlink_in(g->root, "f", 0), 0, "one is unlinked");
	is(unlink_in(g->root, "dir", AT_REMOVEDIR), 0, "and a directory");
	is(move(g->root, "by", g->root, "over", 0), 0, "another is renamed over");
	crowd(g);
	ok(!idle(f) && !idle(dir) && !idle(over), "they keep their descriptors whatever comes");
	ok(idle(by), "and what has a name does not");
	is(links_of(f), 0, "what was unlinked is there without a name");
	is(size_of(f), 11, "as it was");
	is(share_setattr(f, NULL, &mode, &st), 0, "and to be changed");
	ok((st.stx_mode & 07777) == 0600, "which is done");
	is(size_of(over), 12, "what was renamed over is there too");
	ok(size_of(dir) >= 0, "and the directory");
	is(size_of(by), 13, "and what was renamed");
	ok(leads_to(g->root, "over", by), "by its new name");
	share_put(f);
	share_put(dir);
	share_put(over);
	share_put(by);
}

/* Of who only remembers that something was found in it; also if someone else knew it when it lost its name. */
static void test_noted(const struct ground *g)
{
	struct share_inode *dir, *known, *root = g->root;
	struct statx st;

	close(host_mkdir(share_dir, "dir"));
	close(host_mkdir(share_dir, "known"));
	dir = share_note(find(root, "dir"));
	share_put(dir);
	known = share_note(find(root, "known"));
	is(unlink_in(root, "dir", AT_REMOVEDIR), 0, "%s: a directory that is noted is removed",
	   g->way);
	is(unlink_in(root, "known", AT_REMOVEDIR), 0, "and one that is known too");
	crowd(g);
	ok(idle(dir), "the first gives its descriptor up");
	is(share_getattr(dir, NULL, &st), -ESTALE, "and has gone");
	ok(!idle(known), "the second does not");
	is(links_of(known), 0, "and is there without a name");
	share_put(known);
	crowd(g);
	ok(idle(known), "until it is only noted");
	is(share_getattr(known, NULL, &st), -ESTALE, "then it has gone too");
	share_unnote(dir);
	share_unnote(known);
}

static void test_renamed(const struct ground *g)
{
	struct share_inode *a, *f, *other;
	int fd = host_mkdir(share_dir, "a");

	host_file(fd, "f", 21);
	host_file(share_dir, "other", 22);
	close(fd);
	a = find(g->root, "a");
	f = find(a, "f");
	other = find(g->root, "other");
	crowd(g);
	is(move(g->root, "a", g->root, "b", 0), 0, "%s: a directory that has given up is renamed",
	   g->way);
	crowd(g);
	ok(idle(a) && idle(f), "and gives up again, with what is in it");
	is(size_of(f), 21, "which is found where it is now");
	is(move(a, "f", g->root, "f2", 0), 0, "a file is moved to another directory");
	crowd(g);
	ok(idle(f), "and gives up");
	is(size_of(f), 21, "and is found");
	crowd(g);
	is(move(g->root, "f2", g->root, "other", RENAME_EXCHANGE), 0, "two are exchanged");
	crowd(g);
	ok(idle(f) && idle(other), "and both give up");
	is(size_of(f), 21, "the one is found");
	is(size_of(other), 22, "the other, too");
	ok(leads_to(g->root, "other", f) && leads_to(g->root, "f2", other), "by the right names");
	share_put(a);
	share_put(f);
	share_put(other);
}

static void test_links(const struct ground *g)
{
	struct share_inode *a;
	struct name b = nm("b");
	struct statx st;

	host_file(share_dir, "a", 31);
	a = find(g->root, "a");
	crowd(g);
	need(idle(a));
	is(share_link(a, g->root, &b, &st), 0, "%s: an object that has given up is linked", g->way);
	is(st.stx_nlink, 2, "and has two names");
	ok(leads_to(g->root, "b", a) && leads_to(g->root, "a", a), "which lead to one object");
	crowd(g);
	ok(idle(a), "that gives up");
	is(unlink_in(g->root, "a", 0), 0, "one of the names goes");
	host_file(share_dir, "a", 32); /* and means another file from then on */
	crowd(g);
	is(size_of(a), 31, "the object does not");
	ok(leads_to(g->root, "b", a), "its other name is found");
	crowd(g);
	ok(idle(a) && size_of(a) == 31, "and serves from then on");
	share_put(a);
}

/*
 * With the least budget there is, all that a call needs comes back while it runs: what it borrowed
 * first must still be there at the end.
 */
static void test_borrowed(const struct ground *g)
{
	struct share_inode *from, *to, *f, *over;
	int a = host_mkdir(share_dir, "from"), b = host_mkdir(share_dir, "to");
	struct name n = nm("link");
	unsigned failed = 0;
	struct statx st;

	host_file(a, "f", 35);
	host_file(b, "f", 36);
	from = find(g->root, "from");
	to = find(g->root, "to");
	f = find(from, "f");
	over = find(to, "f");
	crowd(g);
	need(idle(from) && idle(to) && idle(f) && idle(over));
	is(move(from, "f", to, "f", 0), 0, "%s: a rename works when all it needs has given up",
	   g->way);
	is(size_of(over), 36, "the object that was replaced is there");
	share_put(over);
	for (unsigned i = 0; i < 20; i++) {
		crowd(g);
		failed += !idle(from) || !idle(to) || !idle(f);
		failed += share_link(f, i % 2 ? from : to, &n, &st) != 0;
		failed += faccessat(i % 2 ? a : b, "link", F_OK, 0) != 0;
		crowd(g);
		failed += unlink_in(i % 2 ? from : to, "link", 0) != 0;
		crowd(g);
		failed += !leads_to(to, "f", f);
	}
	is(failed, 0, "and so does a link, in the right directory every time");
	share_put(from);
	share_put(to);
	share_put(f);
	close(a);
	close(b);
}

/* ---- what the host does ---- */

static void test_moved_by_host(const struct ground *g)
{
	struct share_inode *f, *held, *dir, *in;
	int fd = host_mkdir(share_dir, "dir");

	host_file(share_dir, "f", 41);
	host_file(share_dir, "held", 42);
	host_file(fd, "in", 43);
	close(fd);
	dir = find(g->root, "dir");
	in = find(dir, "in");
	f = find(g->root, "f");
	held = find(g->root, "held");
	host_move("held", "held2");
	crowd(g);
	ok(idle(held) == g->handles, "%s: what would not be found any more keeps its descriptor",
	   g->way);
	is(size_of(held), 42, "so what the host has moved before is there");
	need(idle(f) && idle(dir) && idle(in));
	host_move("f", "f2");
	host_move("dir", "dir2");
	if (g->handles) {
		is(size_of(f), 41, "and what it has moved after is found by its handle");
		is(size_of(in), 43, "in a directory that was moved, too");
	} else {
		is(size_of(f), -ESTALE, "what it has moved after is ESTALE");
		is(size_of(in), -ESTALE, "and what is below it");
		is(unlink_in(dir, "in", 0), -ESTALE, "which cannot be changed either");
	}
	ok(leads_to(g->root, "f2", f), "a lookup of the new name heals it");
	is(size_of(f), 41, "for good");
	ok(leads_to(g->root, "dir2", dir), "that of a directory");
	is(size_of(in), 43, "what is in it as well");
	share_put(f);
	share_put(held);
	share_put(dir);
	share_put(in);
}

/*
 * What is below a directory that has given up, and that the host moves then, cannot be found again:
 * it may not fill the budget for that.
 */
static void test_strays(const struct ground *g)
{
	enum { N = 30 };
	struct share_inode *dir, *in[N];
	int fd = host_mkdir(share_dir, "dir");
	unsigned held = 0, failed = 0;
	char name[16];

	dir = find(g->root, "dir");
	for (unsigned i = 0; i < N; i++) {
		snprintf(name, sizeof(name), "%u", i);
		host_file(fd, name, 100 + i);
		in[i] = find(dir, name);
	}
	close(fd);
	for (unsigned i = 0; i < 2 * N && (i < N || !idle(dir)); i++)
		failed += size_of(in[i % N]) != 100 + i % N;
	for (unsigned i = 0; i < N; i++)
		held += !idle(in[i]);
	ok(idle(dir) && held > 8 && !failed, "%s: a directory gives up before what is in it",
	   g->way);
	host_move("dir", "dir2");
	crowd(g);
	ok(leads_to(g->root, "dir2", dir), "the host moves it, and everything else goes on");
	for (unsigned i = 0; i < N; i++) {
		failed += size_of(in[i]) != 100 + i;
		share_put(in[i]);
	}
	is(failed, 0, "as does what is in it");
	share_put(dir);
}

/* A new file under the old name, with the old number if the file system is willing. */
static bool host_replace(const char *name, ino_t ino)
{
	struct stat st;

	for (unsigned i = 0; i < 20; i++) {
		need(unlinkat(share_dir, name, 0) == 0);
		host_file(share_dir, name, 52);
		need(fstatat(share_dir, name, &st, 0) == 0);
		if (st.st_ino == ino)
			return true;
	}
	return false;
}

static void test_replaced(const struct ground *g)
{
	struct share_inode *old, *new, *left;
	bool reused;

	host_file(share_dir, "f", 51);
	host_file(share_dir, "gone", 53);
	old = find(g->root, "f");
	left = find(g->root, "gone");
	crowd(g);
	need(idle(old) && idle(left));
	reused = host_replace("f", old->key.ino);
	new = find(g->root, "f");
	ok(new != old, "%s: a file in place of another is another object", g->way);
	is(size_of(old), -ESTALE, "the old one is ESTALE");
	is(size_of(new), 52, "the new one is not");
	if (reused)
		ok(share_ino(new) == share_ino(old), "though it has the number of the old one");
	else
		skip("this file system does not", "a number is given to another file");
	crowd(g);
	is(size_of(old), -ESTALE, "and so it stays");
	is(size_of(new), 52, "for both");
	ok(leads_to(g->root, "f", new), "and by name");
	need(unlinkat(share_dir, "gone", 0) == 0);
	is(size_of(left), -ESTALE, "what the host has deleted is ESTALE");
	is(unlink_in(g->root, "gone", 0), -ENOENT, "and its name unknown");
	share_put(new);
	/* What is left is dropped with the share: one in the table, and one that is in it no more. */
	if (!reused)
		share_put(old);
}

/* Places make a ring if the old ones are believed. */
static void test_ring(const struct ground *g)
{
	struct share_inode *a, *b, *again;

	close(host_mkdir(share_dir, "a"));
	close(host_mkdir(share_dir, "a/b"));
	a = find(g->root, "a");
	b = find(a, "b");
	host_move("a/b", "b");
	host_move("a", "b/a");
	again = find(b, "a");
	ok(again == a, "%s: two directories that the host has turned around are found", g->way);
	crowd(g);
	ok(size_of(a) >= 0 && size_of(b) >= 0, "and found again");
	share_put(again);
	share_put(a);
	share_put(b);
}

static void test_deep(const struct ground *g)
{
	enum { DEPTH = 400 };
	struct share_inode *level[DEPTH], *dir = g->root;
	struct name n = nm("deeper");
	unsigned made, failed = 0;
	struct statx st;

	for (made = 0; made < DEPTH; made++) {
		if (share_mkdir(dir, &n, 0755, &ROOT, &level[made], &st))
			break;
		dir = level[made];
	}
	is(made, DEPTH, "%s: a tree is made deeper than there are descriptors", g->way);
	for (unsigned i = 0; i < made; i++)
		failed += size_of(level[i * 7 % made]) < 0;
	is(failed, 0, "and found again on every level");
	crowd(g);
	ok(idle(level[made - 1]), "its bottom gives up");
	for (unsigned i = 0; i < made - 1; i++)
		share_put(level[i]);
	ok(size_of(level[made - 1]) >= 0, "and is found when the guest knows nothing above it");
	share_put(level[made - 1]);
}

/* ---- what is open, and who creates ---- */

static void test_open(const struct ground *g)
{
	struct share_inode *f[4];
	struct share_file *file[4];
	unsigned failed = 0;
	char name[16];

	crowd(g);
	for (unsigned i = 0; i < ARRAY_LEN(f); i++) {
		snprintf(name, sizeof(name), "open%u", i);
		host_file(share_dir, name, 60 + i);
		f[i] = find(g->root, name);
		failed += share_open_inode(f[i], O_RDWR, &file[i]) != 0;
	}
	is(failed, 0, "%s: what is idle makes room for what is opened", g->way);
	host_file(share_dir, "new", 0);
	host_move("new", "open0");
	crowd(g);
	for (unsigned i = 0; i < ARRAY_LEN(f); i++)
		failed += idle(f[i]);
	is(failed, 0, "what is open keeps its descriptor");
	is(size_of(f[0]), 60, "and is there when the host has replaced it");
	ok(!leads_to(g->root, "open0", f[0]), "as another");
	for (unsigned i = 0; i < ARRAY_LEN(f); i++)
		share_file_close(file[i]);
	crowd(g);
	ok(idle(f[1]) && idle(f[2]) && idle(f[3]), "and gives up when it is closed");
	ok(!idle(f[0]), "unless it has no name");
	is(size_of(f[3]), 63, "all the same it is found");
	for (unsigned i = 0; i < ARRAY_LEN(f); i++)
		share_put(f[i]);
}

static void test_create(const struct ground *g)
{
	const struct cred user = {.uid = acts ? 1 : 0, .gid = acts ? 1 : 0};
	struct share_inode *dir, *made[CROWD];
	struct share_file *file;
	struct statx st;
	unsigned failed = 0;
	char name[16];
	int fd = host_mkdir(share_dir, "dir");

	need(fchmod(fd, 0777) == 0);
	close(fd);
	dir = find(g->root, "dir");
	for (unsigned i = 0; i < CROWD; i++) {
		struct name n;

		snprintf(name, sizeof(name), "%u", i);
		n = nm(name);
		crowd(g);
		need(idle(dir));
		if (i % 2) {
			failed += share_create(dir, &n, O_RDWR, 0600, &user, &made[i], &file,
					       &st) != 0;
			share_file_close(file);
		} else {
			failed += share_mkdir(dir, &n, 0700, &user, &made[i], &st) != 0;
		}
	}
	is(failed, 0, "%s: a user creates in a directory that has given up", g->way);
	crowd(g);
	for (unsigned i = 0; i < CROWD; i++) {
		failed += !idle(made[i]) || share_getattr(made[i], NULL, &st) != 0;
		share_put(made[i]);
	}
	is(failed, 0, "and what was made gives up and is found");
	share_put(dir);
}

/* Its directory was closed to us: without the descriptor it could not be reached. */
static void test_locked_in(const struct ground *g)
{
	struct share_inode *dir, *f;
	int fd;

	if (geteuid() == 0) {
		skip("root searches everything", "what lies in a directory that was closed");
		return;
	}
	fd = host_mkdir(share_dir, "dir");
	host_file(fd, "f", 71);
	dir = find(g->root, "dir");
	f = find(dir, "f");
	need(fchmod(fd, 0) == 0);
	crowd(g);
	is(size_of(f), 71, "%s: what lies in a directory that was closed is there", g->way);
	need(fchmod(fd, 0755) == 0);
	close(fd);
	share_put(f);
	share_put(dir);
}

/* The process runs out before the budget does: no number may be used above those in use now. */
static void test_process_limit(const struct ground *g)
{
	const uint32_t budget = g->s->budget;
	struct rlimit old, low;
	unsigned failed = 0;

	need(getrlimit(RLIMIT_NOFILE, &old) == 0);
	low = (struct rlimit){.rlim_cur = highest_descriptor() + 1, .rlim_max = old.rlim_max};
	need(setrlimit(RLIMIT_NOFILE, &low) == 0);
	g->s->budget = 1000;
	for (unsigned i = 0; i < CROWD; i++) {
		failed += size_of(member[i]) != 0;
		failed += size_of(member[(i * 7) % CROWD]) != 0;
	}
	crowd(g);
	need(setrlimit(RLIMIT_NOFILE, &old) == 0);
	is(failed, 0, "%s: a process that is out of descriptors goes on with what it has", g->way);
	ok(g->s->nheld < CROWD, "which is less than it asked for");
	g->s->budget = budget;
}

/* ---- mounts ---- */

static bool is_mount(struct share_inode *inode)
{
	struct statx st;

	need(share_getattr(inode, NULL, &st) == 0);
	return share_is_mount(inode, &st);
}

static void test_mounts(const struct ground *g)
{
	struct share_inode *sub, *f;
	char path[600], option[2000];
	size_t mounts = g->s->nmounts;

	snprintf(path, sizeof(path), "%s/share/sub", top);
	close(host_mkdir(share_dir, "sub"));
	if (!own_mounts || mount("tmpfs", path, "tmpfs", 0, NULL)) {
		skip("no right to mount here", "%s: mounts", g->way);
		return;
	}
	host_file(share_dir, "sub/f", 81);
	sub = find(g->root, "sub");
	f = find(sub, "f");
	ok(is_mount(sub) && !is_mount(f) && !is_mount(g->root), "%s: a mount is known as such",
	   g->way);
	is(g->s->nmounts, mounts + g->handles,
	   "and has a descriptor for its handles, if it needs one");
	crowd(g);
	ok(idle(sub) && idle(f), "what is in it gives up");
	is(size_of(f), 81, "and is found");
	share_put(sub);
	share_put(f);
	is(g->s->nmounts, mounts, "when nothing of it is known the descriptor goes");
	need(umount(path) == 0);
	snprintf(option, sizeof(option), "lowerdir=%s/outside:%s/share/crowd", top, top);
	if (mount("overlay", path, "overlay", 0, option)) {
		skip("no overlayfs here", "%s: a mount without handles", g->way);
		return;
	}
	sub = find(g->root, "sub");
	f = find(sub, "1");
	is(g->s->nmounts, mounts, "a mount whose handles do not serve has none");
	ok(f->by_name, "it goes by names");
	crowd(g);
	ok(idle(sub) && idle(f), "what is in it gives up");
	is(size_of(f), 0, "and is found");
	share_put(sub);
	share_put(f);
	need(umount(path) == 0);
}

/* ---- under the filter ---- */

struct ride {
	const struct ground *g;
	unsigned failed;
};

static int thread_init(void *arg)
{
	return share_thread_init(arg);
}

static void ride(void *arg)
{
	struct ride *r = arg;
	const struct ground *g = r->g;
	struct share_inode *f, *dir;
	struct name n = nm("made"), d = nm("dir");
	struct share_file *file;
	struct statx st;

	r->failed += share_mkdir(g->root, &d, 0755, &ROOT, &dir, &st) != 0;
	r->failed += share_create(dir, &n, O_RDWR, 0644, &ROOT, &f, &file, &st) != 0;
	share_file_close(file);
	crowd(g);
	r->failed += !idle(dir) || !idle(f) || size_of(f) != 0;
	crowd(g);
	r->failed += move(dir, "made", g->root, "made", 0) != 0;
	crowd(g);
	r->failed += !idle(f) || unlink_in(g->root, "made", 0) != 0;
	crowd(g);
	r->failed += size_of(f) != 0;
	share_put(f);
	share_put(dir);
}

static void test_iothread(const struct ground *g)
{
	struct ride r = {.g = g};
	struct iothread *io;

	need(iothread_create(&io, "fs0", LOOP_EPOLL, 8, &share_syscalls) == 0);
	need(iothread_start(io, thread_init, g->s) == 0);
	loop_call(io, ride, &r);
	iothread_destroy(io);
	is(r.failed, 0, "%s: all of it works under the filter", g->way);
}

/* ---- the run ---- */

static struct share *open_share(uint32_t budget)
{
	char path[600];
	struct share_config cfg = {.path = path, .fd_budget = budget};
	struct share *s;

	snprintf(path, sizeof(path), "%s/share", top);
	need(share_open(&s, "fs0", &cfg) == 0);
	return s;
}

/* False if handles do not serve here. */
static bool ground_open(struct ground *g, uint32_t budget, bool handles)
{
	g->s = open_share(budget);
	g->handles = handles;
	g->way = handles ? "by handle" : "by name";
	if (handles && !g->s->nmounts) {
		share_close(g->s);
		return false;
	}
	g->s->handles = handles;
	g->root = share_root(g->s);
	return true;
}

typedef void (*budget_test)(const struct ground *);
static const budget_test tests[] = {
	test_unlinked,      test_noted,     test_renamed, test_links,    test_moved_by_host,
	test_strays,        test_ring,      test_deep,    test_open,     test_create,
	test_process_limit, test_locked_in, test_mounts,  test_iothread,
};

/* Each begins with an empty directory and a fresh share, and leaves nothing behind. */
static void run(budget_test test, uint32_t budget, bool handles, unsigned left)
{
	unsigned before = open_descriptors();
	struct ground g;

	need(ground_open(&g, budget, handles));
	crowd_come(&g);
	test(&g);
	crowd_go();
	is(share_ninodes(g.s), 1 + left, "nothing is left over");
	share_put(g.root);
	share_close(g.s);
	is(open_descriptors(), before, "nor any descriptor");
	host_clear(share_dir);
}

static void run_big(bool handles)
{
	struct ground g;

	if (!ground_open(&g, 64, handles)) {
		skip("this user or file system has none that open", "objects by their handles");
		return;
	}
	test_tree(&g);
	share_put(g.root);
	share_close(g.s);
}

static void run_small(bool handles)
{
	struct ground g;

	if (!ground_open(&g, 16, handles))
		return;
	share_put(g.root);
	share_close(g.s);
	for (unsigned i = 0; i < ARRAY_LEN(tests); i++)
		run(tests[i], 16, handles, 0);
	run(test_replaced, 16, handles, 1);
	run(test_deep, 8, handles, 0);
	run(test_borrowed, 8, handles, 0);
}

/* Asked of the host in a process of its own: root of a user namespace may be the only user there. */
static bool other_users(void)
{
	int status = -1;
	pid_t pid = fork();

	need(pid >= 0);
	if (pid == 0)
		_exit(setgid(1) || setuid(1));
	need(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool top_make(const char *where)
{
	char path[600];

	snprintf(top, sizeof(top), "%s/t_share_budget.XXXXXX", where);
	if (!mkdtemp(top))
		return false;
	snprintf(path, sizeof(path), "%s/outside", top);
	need(chmod(top, 0755) == 0 && mkdir(path, 0755) == 0);
	snprintf(path, sizeof(path), "%s/share", top);
	need(mkdir(path, 0755) == 0);
	share_dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	need(share_dir >= 0);
	return true;
}

static void top_remove(void)
{
	int dir = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	close(share_dir);
	need(dir >= 0);
	host_clear(dir);
	close(dir);
	need(rmdir(top) == 0);
}

static void set_up(const char *tmp)
{
	struct share *ready;

	/* What was inherited would lie in the way of test_process_limit(). */
	need(close_range(3, UINT32_MAX, 0) == 0);
	acts = geteuid() == 0 && other_users();
	own_mounts = geteuid() == 0 && unshare(CLONE_NEWNS) == 0 &&
		     mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
	need(top_make(tmp));
	ready = open_share(0);
	need(share_thread_init(ready) == 0);
	share_close(ready);
	top_remove();
	need(sandbox_init() == 0);
}

int main(void)
{
	const char *tmp = getenv("TMPDIR");

	tmp = tmp ? tmp : "/tmp";
	set_up(tmp);
	/* malloc() takes 96 for it. */
	ok(sizeof(struct share_inode) <= 88, "an object that is known is small");
	need(top_make("/dev/shm") || top_make(tmp));
	tree_make();
	run_big(true);
	run_big(false);
	top_remove();
	need(top_make(tmp));
	run_small(true);
	run_small(false);
	top_remove();
	return done();
}
