// SPDX-License-Identifier: Apache-2.0
/*
 * host.c - what the host does meanwhile: its changes are seen, an object is never another, and nothing leads out.
 *
 * Where the share holds few descriptors, what is known is crowded out first, so that it has to be found again. Hard cases
 * D13, D21, D53, D54, D57, D58, D65.
 */
#include "suite.h"
#include <pthread.h>
#include <sys/xattr.h>

/* It is what it was, or it is known to be gone: 0 or -ESTALE. */
static int still(struct fs_obj *o, uint64_t ino, const char *text)
{
	struct statx st;
	int err = fs->getattr(o, NULL, &st);

	if (err) {
		want(err, -ESTALE);
		want(try_open(o, O_RDONLY), -ESTALE);
		return err;
	}
	want(st.stx_ino, ino);
	if (text)
		must(holds(o, text));
	return 0;
}

/* ---- changes are seen ---- */

static void seen(void)
{
	struct fs_obj *o = make_file(bed.dir, "f", "guest's");
	struct statx st;

	must(host_holds(bed.host, "f", "guest's"));
	host_put(bed.host, "f", "the host's");
	want(attr_of(o).stx_size, 10);
	must(holds(o, "the host's"));
	host_put(bed.host, "new", "x");
	want(look(bed.dir, "new", &st), 0);
	want(st.stx_size, 1);
	host(unlinkat(bed.host, "new", 0));
	want(look(bed.dir, "new", NULL), -ENOENT);
	host(renameat(bed.host, "f", bed.host, "g"));
	want(look(bed.dir, "f", NULL), -ENOENT);
	must(name_holds(bed.dir, "g", "the host's"));
	want(fs->unlink(bed.dir, "f"), -ENOENT);
	fs->forget(o);
}

/* ---- D53, D13: replaced ---- */

static void replaced(void)
{
	struct fs_obj *o = make_file(bed.dir, "f", "old"), *now;
	const uint64_t ino = attr_of(o).stx_ino;
	struct crowd c;

	crowd_in(&c);
	host_put(bed.host, "g", "new");
	host(renameat(bed.host, "g", bed.host, "f"));
	if (still(o, ino, "old") && !bed.tight)
		fail_at(__FILE__, __LINE__, "an object with a descriptor is gone");
	now = find(bed.dir, "f");
	must(!fs->same(o, now) && holds(now, "new"));
	still(o, ino, "old");
	crowd_out(&c);
	fs->forget(o);
	fs->forget(now);
}

static void number_taken(void)
{
	struct fs_obj *o = make_file(bed.dir, "f", "old");
	const ino_t host_ino = host_stat("f").st_ino;
	const uint64_t ino = attr_of(o).stx_ino;
	struct fs_obj *now;
	struct crowd c;

	crowd_in(&c);
	host(unlinkat(bed.host, "f", 0));
	for (unsigned i = 0; i < 100; i++) {
		host_put(bed.host, "f", "new");
		if (host_stat("f").st_ino == host_ino)
			break;
		host(renameat(bed.host, "f", bed.host, "other"));
	}
	if (!host_has("f"))
		host_put(bed.host, "f", "new");
	still(o, ino, "old");
	now = find(bed.dir, "f");
	must(!fs->same(o, now) && holds(now, "new"));
	still(o, ino, "old");
	crowd_out(&c);
	fs->forget(o);
	fs->forget(now);
}

/* D65: what was a file stays one for who knows it, whatever is there now. */
static void other_kind(void)
{
	struct fs_obj *o = make_file(bed.dir, "x", "text"), *d = make_dir(bed.dir, "y"), *now;
	struct statx st;
	struct crowd c;

	crowd_in(&c);
	host(unlinkat(bed.host, "x", 0));
	host(mkdirat(bed.host, "x", 0755));
	host(unlinkat(bed.host, "y", AT_REMOVEDIR));
	host_put(bed.host, "y", "a file");
	must(fs->getattr(o, NULL, &st) == -ESTALE || S_ISREG(st.stx_mode));
	must(fs->getattr(d, NULL, &st) == -ESTALE || S_ISDIR(st.stx_mode));
	now = find(bed.dir, "x");
	must(S_ISDIR(attr_of(now).stx_mode) && !fs->same(now, o));
	fs->forget(now);
	must(name_holds(bed.dir, "y", "a file"));
	crowd_out(&c);
	fs->forget(o);
	fs->forget(d);
}

/* ---- D58: nothing leads out ---- */

static void outside_put(void)
{
	int out;

	host(out = openat(bed.beside, "outside", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	host_put(out, "f", "outside");
	host(mkdirat(out, "sub", 0755));
	host_put(out, "sub/f", "outside");
	close(out);
}

static uint64_t outside_sum(void)
{
	uint64_t sum;
	int out;

	host(out = openat(bed.beside, "outside", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	sum = tree_sum(out);
	close(out);
	return sum;
}

/* A name below a directory is what was there, or there is none. */
static void never_outside(struct fs_obj *dir, const char *name)
{
	struct fs_obj *o = NULL;
	struct statx st;
	int err = fs->lookup(dir, name, &o, &st);

	if (err) {
		must(err == -ESTALE || err == -ENOENT || err == -ENOTDIR);
		return;
	}
	must(S_ISDIR(st.stx_mode) || holds(o, "inside"));
	fs->forget(o);
}

/* A known directory is moved away, and a link to the outside is where it was. */
static void link_for_directory(void)
{
	struct fs_obj *d = make_dir(bed.dir, "d"), *s = make_dir(d, "sub"), *f, *l;
	const uint64_t ino = attr_of(s).stx_ino;
	uint64_t sum;
	struct crowd c;
	int err;

	outside_put();
	put_file(d, "f", "inside");
	f = make_file(s, "f", "inside");
	crowd_in(&c);
	host(renameat(bed.host, "d", bed.host, "moved"));
	host(symlinkat("../../outside", bed.host, "d"));
	sum = outside_sum();
	never_outside(d, "f");
	never_outside(s, "f");
	still(s, ino, NULL);
	err = try_make(S_IFREG, s, "made", 0644, &as_root, NULL);
	must(err == 0 || err == -ESTALE);
	fs->forget(f);
	err = fs->unlink(s, "f");
	must(err == 0 || err == -ESTALE);
	err = fs->rename(d, "f", d, "g", 0);
	must(err == 0 || err == -ESTALE);
	l = find(bed.dir, "d");
	must(S_ISLNK(attr_of(l).stx_mode) && !fs->same(l, d));
	want(look(l, "f", NULL), -ENOTDIR);
	want(try_make(S_IFREG, l, "made", 0644, &as_root, NULL), -ENOTDIR);
	want(outside_sum(), sum);
	crowd_out(&c);
	fs->forget(l);
	fs->forget(s);
	fs->forget(d);
}

/* Every verb at a link that leads out acts on the link, or not at all. */
static void verbs_at_links(void)
{
	static const char *const targets[] = {"../../outside", "../../outside/f",
					      "/proc/self/root/etc", "/proc/self/cwd"};
	const struct share_attr attr[] = {
		{.mask = SHARE_SIZE},
		{.mask = SHARE_MODE, .mode = 0},
		{.mask = SHARE_MTIME, .mtime = {.tv_sec = 3}},
		{.mask = SHARE_KILL_PRIV},
		{.mask = SHARE_UID | SHARE_GID, .uid = 0, .gid = 0},
	};
	struct statx st;
	uint64_t sum;

	outside_put();
	sum = outside_sum();
	for (unsigned i = 0; i < ARRAY_LEN(targets); i++) {
		struct fs_file *f = NULL;
		struct fs_obj *l, *o = NULL;

		host(symlinkat(targets[i], bed.host, "l"));
		l = find(bed.dir, "l");
		want(look(l, "f", NULL), -ENOTDIR);
		want(look(l, "passwd", NULL), -ENOTDIR);
		want(try_make(S_IFDIR, l, "d", 0755, &as_root, NULL), -ENOTDIR);
		want(fs->rename(bed.dir, "l", l, "x", 0), -ENOTDIR);
		want(fs->unlink(l, "f"), -ENOTDIR);
		want(try_open(l, O_RDONLY) < 0 && try_open(l, O_RDWR) < 0, true);
		want(try_open(l, O_RDONLY | O_DIRECTORY) < 0, true);
		want(fs->create(bed.dir, "l", O_RDWR | O_TRUNC, 0644, &as_root, &o, &f, &st),
		     -ELOOP);
		for (unsigned k = 0; k < ARRAY_LEN(attr); k++)
			(void)!fs->setattr(l, NULL, &attr[k], &st);
		if (bed.setup->share.xattr)
			must(fs->setxattr(l, "user.x", "1", 1, 0, false) < 0);
		want(fs->link(l, bed.dir, "m", &st), 0);
		must(S_ISLNK(st.stx_mode));
		want(fs->unlink(bed.dir, "m"), 0);
		put_file(bed.dir, "n", "inside");
		want(fs->rename(bed.dir, "n", bed.dir, "l", 0), 0); /* over the link itself */
		must(name_holds(bed.dir, "l", "inside"));
		want(fs->unlink(bed.dir, "l"), 0);
		fs->forget(l);
	}
	want(outside_sum(), sum);
}

/* A known directory leaves the share: what is in it is served to who knows it, or it is gone; nothing more is. */
static void moved_out(void)
{
	struct fs_obj *d = make_dir(bed.dir, "d"), *f;
	const uint64_t ino = attr_of(d).stx_ino;
	struct crowd c;

	outside_put();
	f = make_file(d, "f", "inside");
	crowd_in(&c);
	host(renameat(bed.host, "d", bed.beside, "outside/d"));
	want(look(bed.dir, "d", NULL), -ENOENT);
	still(d, ino, NULL);
	never_outside(d, "f");
	must(look(d, "..", NULL) < 0);
	must(look(d, "sub", NULL) < 0);
	crowd_out(&c);
	fs->forget(f);
	fs->forget(d);
}

/* ---- D57: while a lookup goes on ---- */

static struct {
	bool stop; /* atomic */
	int dir;
} swapper;

/* A directory and a link change places, over and over. */
static void *swap(void *arg)
{
	(void)arg;
	while (!__atomic_load_n(&swapper.stop, __ATOMIC_ACQUIRE))
		(void)renameat2(swapper.dir, "d", swapper.dir, "l", RENAME_EXCHANGE);
	return NULL;
}

/* -errno, or 0: it was "inside". */
static int read_below(struct fs_obj *d)
{
	struct fs_obj *o = NULL;
	struct statx st;
	int err = fs->lookup(d, "f", &o, &st);

	if (err)
		return err;
	if (!holds(o, "inside"))
		err = -EXDEV;
	fs->forget(o);
	return err;
}

/* Nothing here may end the test while the thread runs. */
static const char *lookups(unsigned rounds)
{
	for (unsigned i = 0; i < rounds; i++) {
		struct fs_obj *d = NULL;
		struct statx st;
		int err = fs->lookup(bed.dir, "d", &d, &st);

		if (err)
			return "the name is always there";
		err = read_below(d);
		fs->forget(d);
		if (err && err != -ESTALE && err != -ENOTDIR)
			return "nothing but what is inside, or an honest error";
		if (S_ISLNK(st.stx_mode) && !err)
			return "a link was followed";
		if (S_ISDIR(st.stx_mode) && err == -ENOTDIR && !bed.setup->by_name)
			return "a directory was none";
	}
	return NULL;
}

static void swapped(void)
{
	const char *wrong;
	pthread_t t;

	outside_put();
	put_dir(bed.dir, "d");
	host_put(bed.host, "d/f", "inside");
	host(symlinkat("../../outside", bed.host, "l"));
	swapper.stop = false;
	swapper.dir = bed.host;
	must(!pthread_create(&t, NULL, swap, NULL));
	wrong = lookups(300);
	__atomic_store_n(&swapper.stop, true, __ATOMIC_RELEASE);
	pthread_join(t, NULL);
	if (wrong)
		fail_at(__FILE__, __LINE__, "%s", wrong);
}

const struct fs_test host_tests[] = {
	{"changes are seen on the other side", seen, 0, 0},
	{"a file that the host replaced is what it was, or stale", replaced, 0, 0},
	{"a number that the host gave to another file", number_taken, 0, 0},
	{"a name that the host gave to another kind", other_kind, 0, 0},
	{"a link to the outside in place of a known directory", link_for_directory, 0, 0},
	{"every verb at links that lead out", verbs_at_links, 0, 0},
	{"a directory that left the share", moved_out, 0, 0},
	{"a directory and a link that change places meanwhile", swapped, 0, 0},
	{0},
};
