// SPDX-License-Identifier: Apache-2.0
/*
 * model_names.c - the operations that make, move and remove names, on both sides. See model.h.
 */
#include "model.h"

/* ---- making ---- */

/* What open(O_CREAT) would say of a name that is taken, were it to follow nothing and to wait for nothing. */
static int host_open_existing(int dir, const char *name, int flags)
{
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW))
		return -errno;
	switch (st.st_mode & S_IFMT) {
	case S_IFDIR:
		return -EISDIR;
	case S_IFLNK:
		return -ELOOP;
	case S_IFREG: {
		int fd = openat(dir, name, flags | O_NOFOLLOW | O_CLOEXEC);

		return fd < 0 ? -errno : fd;
	}
	default:
		return -ENXIO;
	}
}

static int host_create(const struct spot *s, int flags, mode_t mode)
{
	int fd = openat(s->host, s->name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);

	if (fd >= 0 || errno != EEXIST || flags & O_EXCL)
		return fd < 0 ? -errno : fd;
	return host_open_existing(s->host, s->name, O_RDWR | (flags & O_TRUNC));
}

static void op_create(struct model *m)
{
	const struct cred *who = pick_caller(m);
	const int flags =
		O_RDWR | (who->uid || chance(m, 2) ? O_EXCL : 0) | (chance(m, 3) ? O_TRUNC : 0);
	const mode_t mode = pick_mode(m, false) & (who->uid ? 0777 : 07777);
	struct spot s = spot_find(m);
	struct opened f = {.writes = true};
	struct statx st;
	int err;

	note(m, "create %s, flags %#x, mode %o, by %u", s.name, flags, mode, who->uid);
	err = fs->create(s.dir, s.name, flags, mode, who, &f.p.o, &f.f, &st);
	f.host = host_create(&s, flags, mode);
	agree(m, err, MIN(f.host, 0), "create");
	if (!err) {
		host_give(s.host, s.name, who, mode);
		host(f.p.host = openat(s.host, s.name, O_PATH | O_NOFOLLOW | O_CLOEXEC));
		agree_stat(m, &st, f.p.host);
		open_keep(m, &f);
	}
	spot_drop(&s);
}

/* Compares what was made, and perhaps holds it. */
static void made(struct model *m, const struct spot *s, struct fs_obj *o, const struct statx *st)
{
	struct pair p = {.o = o};

	host(p.host = openat(s->host, s->name, O_PATH | O_NOFOLLOW | O_CLOEXEC));
	agree_stat(m, st, p.host);
	if (chance(m, 2))
		pair_keep(m, &p);
	else
		pair_drop(&p);
}

static void op_mkdir(struct model *m)
{
	const struct cred *who = pick_caller(m);
	const mode_t mode = pick_mode(m, true) & 01777;
	struct spot s = spot_find(m);
	struct fs_obj *o = NULL;
	struct statx st;
	int err, h;

	note(m, "mkdir %s, mode %o, by %u", s.name, mode, who->uid);
	err = fs->mkdir(s.dir, s.name, mode, who, &o, &st);
	h = mkdirat(s.host, s.name, mode) ? -errno : 0;
	agree(m, err, h, "mkdir");
	if (!err) {
		host_give(s.host, s.name, who, mode);
		made(m, &s, o, &st);
	}
	spot_drop(&s);
}

static void op_mknod(struct model *m)
{
	static const mode_t types[] = {S_IFIFO, S_IFSOCK, S_IFREG, S_IFCHR};
	const mode_t type = types[pick(m, m->devices ? 4 : 3)];
	const struct cred *who = type == S_IFCHR ? &as_root : pick_caller(m);
	const mode_t mode = pick_mode(m, false) & (who->uid ? 0777 : 07777);
	const dev_t rdev = type == S_IFCHR ? makedev(1, pick(m, 300)) : 0;
	struct spot s = spot_find(m);
	struct fs_obj *o = NULL;
	struct statx st;
	int err, h;

	note(m, "mknod %s, mode %o, by %u", s.name, type | mode, who->uid);
	err = fs->mknod(s.dir, s.name, type | mode, rdev, who, &o, &st);
	h = mknodat(s.host, s.name, type | mode, rdev) ? -errno : 0;
	agree(m, err, h, "mknod");
	if (!err) {
		host_give(s.host, s.name, who, mode);
		made(m, &s, o, &st);
	}
	spot_drop(&s);
}

static void op_symlink(struct model *m)
{
	static const char *const targets[] = {"a", "../b", "/etc/passwd", "missing/../x"};
	const char *target = targets[pick(m, ARRAY_LEN(targets))];
	const struct cred *who = pick_caller(m);
	struct spot s = spot_find(m);
	struct fs_obj *o = NULL;
	struct statx st;
	int err, h;

	note(m, "symlink %s to %s, by %u", s.name, target, who->uid);
	err = fs->symlink(s.dir, s.name, target, who, &o, &st);
	h = symlinkat(target, s.host, s.name) ? -errno : 0;
	agree(m, err, h, "symlink");
	if (!err) {
		host_give(s.host, s.name, who, 0);
		made(m, &s, o, &st);
	}
	spot_drop(&s);
}

static void op_link(struct model *m)
{
	char path[64];
	struct pair p;
	struct spot s;
	struct statx st;
	int err, h;

	if (!pair_find(m, &p))
		return;
	s = spot_find(m);
	note(m, "link to %s", s.name);
	err = fs->link(p.o, s.dir, s.name, &st);
	if (!pair_lost(m, &p, err)) {
		h = linkat(AT_FDCWD, host_path(path, p.host), s.host, s.name, AT_SYMLINK_FOLLOW)
			    ? -errno
			    : 0;
		agree(m, err, h, "link");
		if (!err)
			agree_stat(m, &st, p.host);
		for (unsigned i = 0; !err && i < HELD; i++)
			if (m->held[i].o && fs->same(m->held[i].o, p.o))
				m->held[i].linked = true;
		p.linked = true;
		pair_drop(&p);
	}
	spot_drop(&s);
}

static void op_tmpfile(struct model *m)
{
	const mode_t mode = pick_mode(m, false) & 0777;
	struct spot s;
	struct opened f = {.writes = true};
	struct statx st;
	char path[64];
	int err;

	if (lacks(FS_TMPFILE))
		return;
	s = spot_find(m);
	note(m, "tmpfile, mode %o, linked as %s", mode, s.name);
	err = fs->tmpfile(s.dir, O_RDWR, mode, &as_root, &f.p.o, &f.f, &st);
	f.host = openat(s.host, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
	agree(m, err, f.host < 0 ? -errno : 0, "tmpfile");
	if (!err) {
		host(f.p.host = open(host_path(path, f.host), O_PATH | O_CLOEXEC));
		agree_stat(m, &st, f.p.host);
		err = fs->link(f.p.o, s.dir, s.name, &st);
		agree(m, err,
		      linkat(AT_FDCWD, path, s.host, s.name, AT_SYMLINK_FOLLOW) ? -errno : 0,
		      "link of a tmpfile");
		open_keep(m, &f);
	}
	spot_drop(&s);
}

/* ---- removing and moving ---- */

static void op_unlink(struct model *m)
{
	struct spot s = spot_find(m);

	note(m, "unlink %s", s.name);
	agree(m, fs->unlink(s.dir, s.name), unlinkat(s.host, s.name, 0) ? -errno : 0, "unlink");
	spot_drop(&s);
}

static void op_rmdir(struct model *m)
{
	struct spot s = spot_find(m);

	note(m, "rmdir %s", s.name);
	agree(m, fs->rmdir(s.dir, s.name), unlinkat(s.host, s.name, AT_REMOVEDIR) ? -errno : 0,
	      "rmdir");
	spot_drop(&s);
}

static void op_rename(struct model *m)
{
	static const unsigned some[] = {
		0, 0, 0, RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_WHITEOUT};
	/* A whiteout of the host's has no place for what a mapped share knows of it. */
	const unsigned nsome = ARRAY_LEN(some) - bed.mapped;
	const unsigned flags = lacks(FS_FLAGS) ? 0 : some[pick(m, nsome)];
	struct spot from = spot_find(m), to = spot_find(m);
	int err, h;

	note(m, "rename %s to %s, flags %u", from.name, to.name, flags);
	err = fs->rename(from.dir, from.name, to.dir, to.name, flags);
	h = renameat2(from.host, from.name, to.host, to.name, flags) ? -errno : 0;
	agree(m, err, h, "rename");
	spot_drop(&from);
	spot_drop(&to);
}

/* ---- looking ---- */

static void op_hold(struct model *m)
{
	struct spot s = spot_find(m);
	struct pair p = {0};

	note(m, "look up %s", s.name);
	if (pair_in(m, &s, &p))
		pair_keep(m, &p);
	spot_drop(&s);
}

static void op_stat(struct model *m)
{
	struct pair p;
	struct statx st;
	int err;

	if (!pair_find(m, &p))
		return;
	note(m, "getattr");
	err = fs->getattr(p.o, NULL, &st);
	if (pair_lost(m, &p, err))
		return;
	agree(m, err, 0, "getattr");
	agree_stat(m, &st, p.host);
	pair_drop(&p);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct fs_dirent *)a)->name, ((const struct fs_dirent *)b)->name);
}

/* On the host, in the door's words. */
static struct fs_dirent *host_list(int fd, size_t *n)
{
	struct fs_dirent *all = NULL;
	struct dirent *e;
	DIR *d = fdopendir(fd);

	must(d);
	*n = 0;
	while ((e = readdir(d))) {
		all = realloc(all, (*n + 1) * sizeof(*all));
		must(all);
		all[*n] = (struct fs_dirent){.type = e->d_type};
		snprintf(all[*n].name, sizeof(all[*n].name), "%s", e->d_name);
		++*n;
	}
	closedir(d);
	return all;
}

static void agree_lists(struct model *m, struct fs_file *f, int fd, size_t room)
{
	struct fs_dirent *a, *b;
	size_t na, nb;

	a = list_all(f, 0, room, &na);
	b = host_list(fd, &nb);
	agree(m, (long long)na, (long long)nb, "entries");
	qsort(a, na, sizeof(*a), by_name);
	qsort(b, nb, sizeof(*b), by_name);
	for (size_t i = 0; i < na; i++) {
		if (strcmp(a[i].name, b[i].name) != 0)
			disagree(m, "names of entries");
		agree(m, a[i].type, b[i].type, a[i].name);
	}
	free(a);
	free(b);
}

/* A door that does not tell when it opens is told no only when it reads. */
static int open_list(struct fs_obj *o, struct fs_file **f)
{
	struct fs_dirent some[16];
	ssize_t n = fs->open(o, O_RDONLY | O_DIRECTORY, f);

	if (n)
		return (int)n;
	n = fs->readdir(*f, 0, 280, some, ARRAY_LEN(some));
	if (n < 0)
		fs->release(*f);
	return (int)MIN(n, 0);
}

static void op_list(struct model *m)
{
	const size_t room = chance(m, 2) ? 280 : 4096;
	struct fs_file *f = NULL;
	struct pair p;
	char path[64];
	int err, fd;

	if (!pair_find(m, &p))
		return;
	/* Of one that was removed the host says that there is nothing, or that it is not there. */
	if (pair_type(&p) != S_IFDIR || pair_nameless(&p)) {
		pair_drop(&p);
		return;
	}
	note(m, "list, %zu bytes", room);
	err = open_list(p.o, &f);
	if (pair_lost(m, &p, err))
		return;
	fd = open(host_path(path, p.host), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 && errno == EACCES && !err && fs->untold && fs->untold()) {
		fs->release(f); /* it was opened while it might be */
		pair_drop(&p);
		return;
	}
	agree(m, err, fd < 0 ? -errno : 0, "opendir");
	if (!err) {
		agree_lists(m, f, fd, room);
		fs->release(f);
	}
	pair_drop(&p);
}

static void op_readlink(struct model *m)
{
	char a[64], b[64];
	struct pair p;
	ssize_t n, h;

	if (!pair_find(m, &p))
		return;
	note(m, "readlink");
	n = fs->readlink(p.o, a, sizeof(a));
	if (pair_lost(m, &p, (int)n))
		return;
	if (pair_type(&p) != S_IFLNK) {
		agree(m, n, -EINVAL, "readlink of what is none");
	} else {
		h = readlinkat(p.host, "", b, sizeof(b));
		agree(m, n, h, "readlink");
		if (memcmp(a, b, (size_t)n))
			disagree(m, "target");
	}
	pair_drop(&p);
}

const struct model_op model_name_ops[] = {
	{op_create, 20},  {op_mkdir, 14},
	{op_mknod, 6},    {op_symlink, 6},
	{op_link, 8},     {op_tmpfile, 3},
	{op_unlink, 10},  {op_rmdir, 5},
	{op_rename, 18},  {op_hold, 12},
	{op_stat, 12},    {op_list, 6},
	{op_readlink, 3}, {0},
};
