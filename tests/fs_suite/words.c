// SPDX-License-Identifier: Apache-2.0
/*
 * words.c - what the tests say often, in a few words: through the door on top, on the host below.
 *
 * Unless it says otherwise, what a helper does must work: else it ends the test, with its own line as the place.
 */
#include "suite.h"
#include <sys/stat.h>

const struct cred as_root = {0};

/* ---- through the door ---- */

struct fs_obj *find(struct fs_obj *dir, const char *name)
{
	struct fs_obj *o = NULL;
	struct statx st;

	want(fs->lookup(dir, name, &o, &st), 0);
	return o;
}

int look(struct fs_obj *dir, const char *name, struct statx *st)
{
	struct fs_obj *o = NULL;
	struct statx own;
	int err = fs->lookup(dir, name, &o, st ? st : &own);

	if (!err)
		fs->forget(o);
	return err;
}

struct statx attr_of(struct fs_obj *o)
{
	struct statx st;

	want(fs->getattr(o, NULL, &st), 0);
	return st;
}

struct fs_file *open_obj(struct fs_obj *o, int flags)
{
	struct fs_file *f = NULL;

	want(fs->open(o, flags, &f), 0);
	return f;
}

struct fs_file *open_dir(struct fs_obj *o)
{
	return open_obj(o, O_RDONLY | O_DIRECTORY);
}

struct fs_obj *make_file(struct fs_obj *dir, const char *name, const char *text)
{
	struct fs_file *f = NULL;
	struct fs_obj *o = NULL;
	struct statx st;

	want(fs->create(dir, name, O_RDWR | O_EXCL, 0644, &as_root, &o, &f, &st), 0);
	want(fs->write(f, text, strlen(text), 0, 0), strlen(text));
	fs->release(f);
	return o;
}

struct fs_obj *make_dir(struct fs_obj *dir, const char *name)
{
	struct fs_obj *o = NULL;
	struct statx st;

	want(fs->mkdir(dir, name, 0755, &as_root, &o, &st), 0);
	return o;
}

void put_file(struct fs_obj *dir, const char *name, const char *text)
{
	fs->forget(make_file(dir, name, text));
}

void put_dir(struct fs_obj *dir, const char *name)
{
	fs->forget(make_dir(dir, name));
}

bool holds(struct fs_obj *o, const char *text)
{
	struct fs_file *f = open_obj(o, O_RDONLY);
	char buf[256];
	ssize_t n = fs->read(f, buf, sizeof(buf), 0);

	fs->release(f);
	return n == (ssize_t)strlen(text) && !memcmp(buf, text, (size_t)n);
}

bool name_holds(struct fs_obj *dir, const char *name, const char *text)
{
	struct fs_obj *o = find(dir, name);
	bool good = holds(o, text);

	fs->forget(o);
	return good;
}

int try_make(mode_t kind, struct fs_obj *dir, const char *name, mode_t mode, const struct cred *who,
	     struct statx *st)
{
	struct fs_file *f = NULL;
	struct fs_obj *o = NULL;
	struct statx own;
	int err;

	st = st ? st : &own;
	if (kind == S_IFREG)
		err = fs->create(dir, name, O_RDWR | O_EXCL, mode, who, &o, &f, st);
	else if (kind == S_IFDIR)
		err = fs->mkdir(dir, name, mode, who, &o, st);
	else if (kind == S_IFLNK)
		err = fs->symlink(dir, name, "target", who, &o, st);
	else
		err = fs->mknod(dir, name, kind | mode, makedev(1, 3), who, &o, st);
	if (f)
		fs->release(f);
	if (!err)
		fs->forget(o);
	return err;
}

int try_open(struct fs_obj *o, int flags)
{
	struct fs_file *f = NULL;
	char byte;
	int err = fs->open(o, flags, &f);

	if (err)
		return err;
	err = (int)fs->read(f, &byte, 1, 0);
	fs->release(f);
	return MIN(err, 0);
}

struct fs_dirent *list_all(struct fs_file *dir, uint64_t from, size_t room, size_t *n)
{
	struct fs_dirent *all = NULL;
	size_t have = 0, most = 0;
	ssize_t got;

	do {
		if (most - have < 64) {
			most += 1024;
			all = realloc(all, most * sizeof(*all));
			must(all);
		}
		got = fs->readdir(dir, have ? all[have - 1].next : from, room, all + have, 64);
		must(got >= 0);
		have += (size_t)got;
	} while (got > 0);
	*n = have;
	return all;
}

const struct fs_dirent *entry_of(const struct fs_dirent *all, size_t n, const char *name)
{
	const struct fs_dirent *found = NULL;

	for (size_t i = 0; i < n; i++)
		if (!strcmp(all[i].name, name)) {
			must(!found); /* once */
			found = &all[i];
		}
	return found;
}

void crowd_in(struct crowd *c)
{
	char name[16];

	for (unsigned i = 0; i < ARRAY_LEN(c->o); i++) {
		snprintf(name, sizeof(name), "crowd%u", i);
		c->o[i] = make_file(bed.dir, name, "");
	}
}

void crowd_out(struct crowd *c)
{
	for (unsigned i = 0; i < ARRAY_LEN(c->o); i++)
		fs->forget(c->o[i]);
}

/* ---- on the host ---- */

struct stat host_stat(const char *name)
{
	struct stat st;

	host(fstatat(bed.host, name, &st, AT_SYMLINK_NOFOLLOW));
	return st;
}

bool host_has(const char *name)
{
	struct stat st;

	return !fstatat(bed.host, name, &st, AT_SYMLINK_NOFOLLOW);
}

void host_put(int dir, const char *name, const char *text)
{
	int fd;

	host(fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
	must(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

bool host_holds(int dir, const char *name, const char *text)
{
	char buf[256];
	ssize_t n;
	int fd;

	host(fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
	n = read(fd, buf, sizeof(buf));
	close(fd);
	return n == (ssize_t)strlen(text) && !memcmp(buf, text, (size_t)n);
}

const char *host_path(char path[64], int fd)
{
	snprintf(path, 64, "/proc/self/fd/%d", fd);
	return path;
}

void fill(void *buf, size_t n, uint64_t seed)
{
	uint8_t *p = buf;

	for (size_t i = 0; i < n; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		p[i] = (uint8_t)(seed >> 56);
	}
}

/* ---- sums ---- */

static uint64_t mix(uint64_t sum, const void *data, size_t n)
{
	const uint8_t *p = data;

	while (n--)
		sum = (sum ^ *p++) * 1099511628211u;
	return sum;
}

static uint64_t sum_stat(uint64_t sum, const struct stat *st)
{
	const uint64_t parts[] = {
		st->st_ino,
		st->st_mode,
		st->st_nlink,
		st->st_uid,
		st->st_gid,
		(uint64_t)st->st_size,
		(uint64_t)st->st_mtim.tv_sec,
		(uint64_t)st->st_mtim.tv_nsec,
		(uint64_t)st->st_ctim.tv_sec, /* of attributes too */
		(uint64_t)st->st_ctim.tv_nsec,
	};

	return mix(sum, parts, sizeof(parts));
}

static uint64_t sum_data(uint64_t sum, int dir, const char *name, const struct stat *st)
{
	char buf[4096];
	ssize_t n;
	int fd;

	if (S_ISLNK(st->st_mode)) {
		host(n = readlinkat(dir, name, buf, sizeof(buf)));
		return mix(sum, buf, (size_t)n);
	}
	if (!S_ISREG(st->st_mode))
		return sum;
	host(fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
	while ((n = read(fd, buf, sizeof(buf))) > 0)
		sum = mix(sum, buf, (size_t)n);
	close(fd);
	return sum;
}

/* Of the entries in any order. */
uint64_t tree_sum(int dir)
{
	uint64_t all = 0;
	struct dirent *e;
	struct stat st;
	DIR *d;
	int fd;

	host(fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	must((d = fdopendir(fd)));
	while ((e = readdir(d))) {
		uint64_t sum = mix(14695981039346656037u, e->d_name, strlen(e->d_name));

		if (!strcmp(e->d_name, ".."))
			continue;
		host(fstatat(dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW));
		sum = sum_data(sum_stat(sum, &st), dir, e->d_name, &st);
		if (S_ISDIR(st.st_mode) && strcmp(e->d_name, ".") != 0) {
			host(fd = openat(dir, e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
			sum = mix(sum, &(uint64_t){tree_sum(fd)}, sizeof(uint64_t));
			close(fd);
		}
		all += sum;
	}
	closedir(d);
	return all;
}
