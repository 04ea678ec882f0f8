// SPDX-License-Identifier: Apache-2.0
/*
 * model_data.c - the operations on what objects are and hold, on both sides; and whole trees compared. See model.h.
 */
#include "model.h"
#include <sys/xattr.h>

#define MOST  KIB(160) /* no file is longer */
#define PIECE KIB(12)

/* ---- attributes ---- */

static void set(struct model *m, struct pair *p, const struct share_attr *attr,
		int (*host_set)(const char *, const struct share_attr *), const char *what)
{
	struct statx st;
	char path[64];
	int err = fs->setattr(p->o, NULL, attr, &st);

	if (pair_lost(m, p, err))
		return;
	agree(m, err, host_set(host_path(path, p->host), attr), what);
	if (!err)
		agree_stat(m, &st, p->host);
	pair_drop(p);
}

static int host_mode(const char *path, const struct share_attr *attr)
{
	return chmod(path, attr->mode) ? -errno : 0;
}

static void op_chmod(struct model *m)
{
	struct share_attr attr = {.mask = SHARE_MODE};
	struct pair p;
	mode_t type;

	if (!pair_find(m, &p))
		return;
	type = pair_type(&p);
	if (type == S_IFLNK) {
		pair_drop(&p);
		return;
	}
	attr.mode = pick_mode(m, type == S_IFDIR);
	note(m, "chmod %o", attr.mode);
	set(m, &p, &attr, host_mode, "chmod");
}

/* By the name of the descriptor, which leads to a link itself. */
static int host_owner(const char *path, const struct share_attr *attr)
{
	return chown(path, attr->mask & SHARE_UID ? attr->uid : (uid_t)-1,
		     attr->mask & SHARE_GID ? attr->gid : (gid_t)-1)
		       ? -errno
		       : 0;
}

static void op_chown(struct model *m)
{
	static const uint32_t ids[] = {0, 1000, 1001, 70000};
	const struct share_attr attr = {
		.mask = chance(m, 3)   ? SHARE_UID
			: chance(m, 2) ? SHARE_GID
				       : SHARE_UID | SHARE_GID,
		.uid = ids[pick(m, ARRAY_LEN(ids))],
		.gid = ids[pick(m, ARRAY_LEN(ids))],
	};
	struct pair p;

	if (!bed.root || bed.squash || !pair_find(m, &p))
		return;
	note(m, "chown %u:%u, of %u", attr.uid, attr.gid, attr.mask);
	set(m, &p, &attr, host_owner, "chown");
}

static int host_times(const char *path, const struct share_attr *attr)
{
	const struct timespec t[2] = {attr->atime, attr->mtime};

	return utimensat(AT_FDCWD, path, t, 0) ? -errno : 0;
}

static void op_times(struct model *m)
{
	const struct share_attr attr = {
		.mask = SHARE_ATIME | SHARE_MTIME,
		.atime = {.tv_sec = pick(m, 1u << 30), .tv_nsec = pick(m, 1000000000)},
		.mtime = {.tv_sec = pick(m, 1u << 30), .tv_nsec = pick(m, 1000000000)},
	};
	struct pair p;

	if (!pair_find(m, &p))
		return;
	note(m, "times");
	set(m, &p, &attr, host_times, "times");
}

static int host_size(const char *path, const struct share_attr *attr)
{
	return truncate(path, (off_t)attr->size) ? -errno : 0;
}

static void op_truncate(struct model *m)
{
	const struct share_attr attr = {.mask = SHARE_SIZE, .size = pick(m, MOST)};
	struct pair p;

	if (!pair_find(m, &p))
		return;
	if (pair_type(&p) != S_IFREG) {
		pair_drop(&p);
		return;
	}
	note(m, "truncate to %llu", (unsigned long long)attr.size);
	set(m, &p, &attr, host_size, "truncate");
}

/* ---- extended attributes ---- */

static int user_names(const char *list, ssize_t n)
{
	int count = 0;

	for (ssize_t at = 0; at < n; at += (ssize_t)strlen(list + at) + 1)
		count += !strncmp(list + at, "user.", 5);
	return count;
}

static void agree_value(struct model *m, struct pair *p, const char *path, const char *name)
{
	char a[256], b[256];
	const ssize_t n = fs->getxattr(p->o, name, a, sizeof(a));
	const ssize_t h = getxattr(path, name, b, sizeof(b));

	agree(m, n, h < 0 ? -errno : h, "getxattr");
	if (n > 0 && memcmp(a, b, (size_t)n))
		disagree(m, "value");
}

static void op_xattr(struct model *m)
{
	static const char *const names[] = {"user.a", "user.b", "user.c"};
	const char *name = names[pick(m, ARRAY_LEN(names))];
	const int flags = (int)pick(m, 3); /* XATTR_CREATE, XATTR_REPLACE */
	size_t n = pick(m, 40);
	const bool take = chance(m, 3);
	char value[40], path[64], list[4096];
	struct pair p;
	ssize_t h;
	int err;

	if (!pair_find(m, &p))
		return;
	if (!n && flags == XATTR_REPLACE && lacks(FS_EMPTY_VALUES))
		n = 1;
	note(m, take ? "removexattr %s" : "setxattr %s", name);
	fill(value, sizeof(value), m->seed);
	err = take ? fs->removexattr(p.o, name) : fs->setxattr(p.o, name, value, n, flags, false);
	if (pair_lost(m, &p, err))
		return;
	host_path(path, p.host);
	h = take ? removexattr(path, name) : setxattr(path, name, value, n, flags);
	agree(m, err, h ? -errno : 0, "attribute");
	agree_value(m, &p, path, name);
	h = fs->listxattr(p.o, list, sizeof(list));
	if (h < 0)
		disagree(m, "listxattr");
	err = user_names(list, h);
	h = listxattr(path, list, sizeof(list));
	agree(m, err, user_names(list, h), "number of attributes");
	pair_drop(&p);
}

/* ---- open files ---- */

static void op_open(struct model *m)
{
	const bool writes = !chance(m, 4);
	struct opened f = {.writes = writes};
	char path[64];
	int err;

	if (!pair_find(m, &f.p))
		return;
	note(m, "open, %s", writes ? "to write" : "to read");
	if (f.p.borrowed || pair_type(&f.p) != S_IFREG) {
		err = f.p.borrowed ? 0 : try_open(f.p.o, O_RDONLY);
		if (!f.p.borrowed && !err)
			disagree(m, "what is no file was opened");
		pair_drop(&f.p);
		return;
	}
	err = fs->open(f.p.o, writes ? O_RDWR : O_RDONLY, &f.f);
	f.host = open(host_path(path, f.p.host), (writes ? O_RDWR : O_RDONLY) | O_CLOEXEC);
	agree(m, err, f.host < 0 ? -errno : 0, "open");
	if (err)
		pair_drop(&f.p);
	else
		open_keep(m, &f);
}

static void op_close(struct model *m)
{
	struct opened *f = open_any(m, false);

	note(m, "close");
	if (f)
		open_drop(f);
}

static void op_write(struct model *m)
{
	struct opened *f = open_any(m, true);
	const size_t at = pick(m, MOST - PIECE), n = pick(m, PIECE);
	static char data[PIECE];

	if (!f)
		return;
	note(m, "write %zu at %zu", n, at);
	fill(data, n, m->seed);
	agree(m, fs->write(f->f, data, n, at, 0), pwrite(f->host, data, n, (off_t)at), "write");
}

static void agree_data(struct model *m, struct fs_file *f, int host_fd, size_t at, size_t n)
{
	static char a[MOST + PIECE], b[MOST + PIECE];
	const ssize_t got = fs->read(f, a, n, at), h = pread(host_fd, b, n, (off_t)at);

	agree(m, got, h < 0 ? -errno : h, "read");
	if (got > 0 && memcmp(a, b, (size_t)got))
		disagree(m, "data");
}

static void op_read(struct model *m)
{
	struct opened *f = open_any(m, false);
	const size_t at = pick(m, MOST), n = pick(m, PIECE);

	if (!f)
		return;
	note(m, "read %zu at %zu", n, at);
	agree_data(m, f->f, f->host, at, n);
}

static void op_ftruncate(struct model *m)
{
	struct opened *f = open_any(m, true);
	const struct share_attr attr = {.mask = SHARE_SIZE, .size = pick(m, MOST)};
	struct statx st;

	if (!f)
		return;
	note(m, "ftruncate to %llu", (unsigned long long)attr.size);
	agree(m, fs->setattr(f->p.o, f->f, &attr, &st),
	      ftruncate(f->host, (off_t)attr.size) ? -errno : 0, "ftruncate");
	agree_stat(m, &st, f->p.host);
}

static void op_fallocate(struct model *m)
{
	static const int modes[] = {
		0,
		FALLOC_FL_KEEP_SIZE,
		FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		FALLOC_FL_ZERO_RANGE,
		FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE,
		FALLOC_FL_COLLAPSE_RANGE,
		FALLOC_FL_INSERT_RANGE,
	};
	struct opened *f = open_any(m, true);
	int mode = modes[pick(m, ARRAY_LEN(modes))];
	uint64_t at = pick(m, MOST / 2), n = 1 + pick(m, PIECE);
	struct stat st;

	if (!f || lacks(FS_SPACE))
		return;
	if (chance(m, 2)) {
		at &= ~4095ull;
		n = ALIGN_UP(n, 4096);
	}
	host(fstat(f->host, &st));
	if (mode == FALLOC_FL_INSERT_RANGE && (uint64_t)st.st_size + n > MOST)
		mode = 0;
	note(m, "fallocate %#x, %llu at %llu", mode, (unsigned long long)n, (unsigned long long)at);
	agree(m, fs->fallocate(f->f, mode, at, n),
	      fallocate(f->host, mode, (off_t)at, (off_t)n) ? -errno : 0, "fallocate");
	agree_data(m, f->f, f->host, at > 100 ? at - 100 : 0, PIECE);
}

static void op_copy(struct model *m)
{
	struct opened *from = open_any(m, false), *to = open_any(m, true);
	off_t a = pick(m, MOST), b = pick(m, MOST - PIECE);
	const size_t n = pick(m, PIECE);
	const off_t was = b;
	int64_t got;
	ssize_t h;

	if (!from || !to || lacks(FS_COPY))
		return;
	note(m, "copy %zu from %lld to %lld", n, (long long)a, (long long)b);
	got = fs->copy(from->f, (uint64_t)a, to->f, (uint64_t)b, n);
	h = copy_file_range(from->host, &a, to->host, &b, n, 0);
	agree(m, got, h < 0 ? -errno : h, "copy");
	agree_data(m, to->f, to->host, (size_t)was, n);
}

static void op_fstat(struct model *m)
{
	struct opened *f = open_any(m, false);
	struct statx st;

	if (!f)
		return;
	note(m, "fstat");
	agree(m, fs->getattr(f->p.o, f->f, &st), 0, "fstat");
	agree_stat(m, &st, f->p.host);
}

/* On one side, and what is seen stays. */
static void op_fsync(struct model *m)
{
	struct opened *f = open_any(m, false);

	if (!f)
		return;
	note(m, "fsync");
	agree(m, fs->fsync(f->f, chance(m, 2)), 0, "fsync");
}

/* ---- trees ---- */

/* So that whoever we are can look into it. */
static void unlock(struct model *m, struct pair *p)
{
	const struct share_attr attr = {.mask = SHARE_MODE, .mode = 0700};
	struct statx st;
	char path[64];

	if (bed.root || pair_type(p) == S_IFLNK)
		return;
	agree(m, fs->setattr(p->o, NULL, &attr, &st), 0, "chmod");
	host(chmod(host_path(path, p->host), 0700));
}

static void agree_file(struct model *m, struct pair *p)
{
	struct fs_file *f = open_obj(p->o, O_RDONLY);
	char path[64];
	int fd;

	host(fd = open(host_path(path, p->host), O_RDONLY | O_CLOEXEC));
	agree_data(m, f, fd, 0, MOST + PIECE);
	fs->release(f);
	close(fd);
}

static void agree_link(struct model *m, struct pair *p)
{
	char a[PATH_MAX], b[PATH_MAX];
	const ssize_t n = readlinkat(p->host, "", b, sizeof(b));

	agree(m, fs->readlink(p->o, a, sizeof(a)), n, "readlink");
	if (memcmp(a, b, (size_t)n))
		disagree(m, "target");
}

static void agree_object(struct model *m, struct pair *p, unsigned depth)
{
	static const char *const names[] = {"user.a", "user.b", "user.c"};
	const mode_t type = pair_type(p);
	char path[64];

	unlock(m, p);
	for (unsigned i = 0; i < ARRAY_LEN(names); i++)
		agree_value(m, p, host_path(path, p->host), names[i]);
	if (type == S_IFREG)
		agree_file(m, p);
	else if (type == S_IFLNK)
		agree_link(m, p);
	else if (type == S_IFDIR)
		tree_agree(m, p->o, p->host, depth + 1);
}

void tree_agree(struct model *m, struct fs_obj *dir, int host_dir, unsigned depth)
{
	struct fs_file *d = open_dir(dir);
	struct fs_dirent *all;
	unsigned entries = 0;
	struct dirent *e;
	char path[64];
	size_t n;
	DIR *h;

	must(depth < 100);
	all = list_all(d, 0, 1000, &n);
	fs->release(d);
	for (size_t i = 0; i < n; i++) {
		struct spot s = {.dir = dir, .host = host_dir};
		struct pair p;

		if (all[i].name[0] == '.')
			continue;
		note(m, "the trees: %s, %u deep", all[i].name, depth);
		snprintf(s.name, sizeof(s.name), "%.3s", all[i].name);
		must(pair_in(m, &s, &p));
		agree_object(m, &p, depth);
		pair_drop(&p);
	}
	must((h = opendir(host_path(path, host_dir))));
	while ((e = readdir(h)))
		entries++;
	closedir(h);
	free(all);
	agree(m, (long long)n, entries, "entries");
}

const struct model_op model_data_ops[] = {
	{op_chmod, 6},     {op_chown, 5}, {op_times, 4},  {op_truncate, 5}, {op_xattr, 8},
	{op_open, 14},     {op_close, 4}, {op_write, 18}, {op_read, 12},    {op_ftruncate, 5},
	{op_fallocate, 7}, {op_copy, 6},  {op_fstat, 4},  {op_fsync, 1},    {0},
};
