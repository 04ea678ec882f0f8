// SPDX-License-Identifier: Apache-2.0
/*
 * door_share.c - the file layer by its own door.
 *
 * The caller's thread becomes one that uses the share: what is answered at once is asked for here, in as many calls as
 * there are functions in share.h. What may complete later goes by an iothread, and is waited for.
 */
#include "door.h"
#include "../tap.h"
#include "../../devices/share_int.h"
#include <dirent.h>
#include <semaphore.h>

static struct {
	struct share *s;
	struct iothread *io;
} door;

static struct share_inode *inode_of(struct fs_obj *o)
{
	return (struct share_inode *)o;
}

static struct share_file *file_of(struct fs_file *f)
{
	return (struct share_file *)f;
}

/* ---- its life ---- */

static int ride_init(void *arg)
{
	return share_thread_init(arg);
}

static int door_mount(const struct fs_setup *setup, const char *path)
{
	struct share_config cfg = setup->share;
	char copy[PATH_MAX];
	int err;

	snprintf(copy, sizeof(copy), "%s", path);
	cfg.path = copy;
	err = share_open(&door.s, "fs0", &cfg);
	if (err)
		return err;
	if (setup->by_name)
		door.s->handles = false;
	need(!iothread_create(&door.io, "fs0", LOOP_AUTO, 64, &share_syscalls));
	need(!iothread_start(door.io, ride_init, door.s));
	need(!share_thread_init(door.s));
	return 0;
}

static void door_unmount(void)
{
	share_unlock_all(door.s);
	iothread_destroy(door.io);
	share_close(door.s);
}

static struct fs_held door_held(void)
{
	return (struct fs_held){.objects = share_ninodes(door.s) - 1, .files = door.s->nfiles};
}

/* ---- objects ---- */

static struct fs_obj *door_root(void)
{
	return (struct fs_obj *)share_root(door.s);
}

static bool door_same(const struct fs_obj *a, const struct fs_obj *b)
{
	return a == b;
}

static int made(int err, struct share_inode *inode, struct fs_obj **out)
{
	if (!err)
		*out = (struct fs_obj *)inode;
	return err;
}

/* 0 if it is one; else what is said of it. */
static int name_of(struct name *name, const char *s)
{
	return name_check(name, s, strlen(s));
}

static int door_lookup(struct fs_obj *dir, const char *s, struct fs_obj **out, struct statx *st)
{
	struct share_inode *inode = NULL;
	struct name name;
	int err = name_of(&name, s);

	if (!err)
		err = share_lookup(inode_of(dir), &name, &inode, st);
	return made(err, inode, out);
}

static void door_forget(struct fs_obj *o)
{
	share_put(inode_of(o));
}

static int door_getattr(struct fs_obj *o, struct fs_file *f, struct statx *st)
{
	return share_getattr(inode_of(o), file_of(f), st);
}

static int door_setattr(struct fs_obj *o, struct fs_file *f, const struct share_attr *attr,
			struct statx *st)
{
	return share_setattr(inode_of(o), file_of(f), attr, st);
}

static ssize_t door_readlink(struct fs_obj *o, char *buf, size_t n)
{
	return share_readlink(inode_of(o), buf, n);
}

static int door_statfs(struct fs_obj *o, struct statfs *st)
{
	return share_statfs(inode_of(o), st);
}

/* ---- names ---- */

static int door_mknod(struct fs_obj *dir, const char *s, mode_t mode, dev_t rdev,
		      const struct cred *cred, struct fs_obj **out, struct statx *st)
{
	struct share_inode *inode = NULL;
	struct name name;
	int err = name_of(&name, s);

	if (!err)
		err = share_mknod(inode_of(dir), &name, mode, rdev, cred, &inode, st);
	return made(err, inode, out);
}

static int door_mkdir(struct fs_obj *dir, const char *s, mode_t mode, const struct cred *cred,
		      struct fs_obj **out, struct statx *st)
{
	struct share_inode *inode = NULL;
	struct name name;
	int err = name_of(&name, s);

	if (!err)
		err = share_mkdir(inode_of(dir), &name, mode, cred, &inode, st);
	return made(err, inode, out);
}

/* The length is for the caller to see to. */
static int door_symlink(struct fs_obj *dir, const char *s, const char *target,
			const struct cred *cred, struct fs_obj **out, struct statx *st)
{
	const size_t len = strlen(target);
	struct share_inode *inode = NULL;
	struct name name;
	int err = name_of(&name, s);

	if (!err && (!len || len >= PATH_MAX))
		err = len ? -ENAMETOOLONG : -ENOENT;
	if (!err)
		err = share_symlink(inode_of(dir), &name, target, cred, &inode, st);
	return made(err, inode, out);
}

static int door_link(struct fs_obj *o, struct fs_obj *dir, const char *s, struct statx *st)
{
	struct name name;
	int err = name_of(&name, s);

	return err ? err : share_link(inode_of(o), inode_of(dir), &name, st);
}

static int door_unlink(struct fs_obj *dir, const char *s)
{
	struct name name;
	int err = name_of(&name, s);

	return err ? err : share_unlink(inode_of(dir), &name, 0);
}

static int door_rmdir(struct fs_obj *dir, const char *s)
{
	struct name name;
	int err = name_of(&name, s);

	return err ? err : share_unlink(inode_of(dir), &name, AT_REMOVEDIR);
}

static int door_rename(struct fs_obj *dir, const char *s, struct fs_obj *newdir, const char *news,
		       unsigned flags)
{
	struct name name, newname;
	int err = name_of(&name, s);

	if (!err)
		err = name_of(&newname, news);
	return err ? err : share_rename(inode_of(dir), &name, inode_of(newdir), &newname, flags);
}

/* ---- open files ---- */

static int opened(int err, struct share_file *file, struct fs_file **out)
{
	if (!err)
		*out = (struct fs_file *)file;
	return err;
}

static int door_open(struct fs_obj *o, int flags, struct fs_file **out)
{
	struct share_file *file = NULL;
	int err = share_open_inode(inode_of(o), flags, &file);

	return opened(err, file, out);
}

static int door_create(struct fs_obj *dir, const char *s, int flags, mode_t mode,
		       const struct cred *cred, struct fs_obj **out, struct fs_file **f,
		       struct statx *st)
{
	struct share_inode *inode = NULL;
	struct share_file *file = NULL;
	struct name name;
	int err = name_of(&name, s);

	if (!err)
		err = share_create(inode_of(dir), &name, flags, mode, cred, &inode, &file, st);
	return opened(made(err, inode, out), file, f);
}

static int door_tmpfile(struct fs_obj *dir, int flags, mode_t mode, const struct cred *cred,
			struct fs_obj **out, struct fs_file **f, struct statx *st)
{
	struct share_inode *inode = NULL;
	struct share_file *file = NULL;
	int err = share_tmpfile(inode_of(dir), flags, mode, cred, &inode, &file, st);

	return opened(made(err, inode, out), file, f);
}

static void door_release(struct fs_file *f)
{
	share_file_close(file_of(f));
}

static int door_fallocate(struct fs_file *f, int mode, uint64_t off, uint64_t len)
{
	return share_fallocate(file_of(f), mode, off, len);
}

static int64_t door_lseek(struct fs_file *f, uint64_t off, int whence)
{
	return share_lseek(file_of(f), off, whence);
}

static ssize_t door_ioctl(struct fs_file *f, unsigned cmd, void *arg, size_t in, size_t out)
{
	return share_ioctl(share_file_inode(file_of(f)), file_of(f), cmd, arg, in, out);
}

/* ---- what may complete later ---- */

/* What a call takes; not all of them use all. */
struct call {
	int (*fn)(struct call *);
	struct share_file *file;
	struct share_inode *inode;
	struct iovec iov;
	uint64_t off;
	unsigned how;
	struct share_copy copy;
	struct io_op op;
	sem_t done;
	int r, late;
};

static void call_run(void *arg)
{
	struct call *c = arg;

	c->r = c->fn(c);
}

static void call_done(struct io_op *op, int res)
{
	struct call *c = container_of(op, struct call, op);

	c->late = res;
	sem_post(&c->done);
}

static void copy_done(struct io_op *op, int res)
{
	struct call *c = container_of(op, struct call, copy.op);

	c->late = res;
	sem_post(&c->done);
}

static int via(struct call *c, int (*fn)(struct call *))
{
	c->fn = fn;
	c->op.done = call_done;
	c->copy.op.done = copy_done;
	sem_init(&c->done, 0, 0);
	loop_call(door.io, call_run, c);
	if (c->r == -EINPROGRESS) {
		sem_wait(&c->done);
		c->r = c->late;
	}
	sem_destroy(&c->done);
	return c->r;
}

static int do_read(struct call *c)
{
	return share_readv(c->file, door.io, &c->op, &c->iov, 1, c->off);
}

static ssize_t door_read(struct fs_file *f, void *buf, size_t n, uint64_t off)
{
	struct call c = {.file = file_of(f), .iov = {buf, n}, .off = off};

	return via(&c, do_read);
}

static int do_write(struct call *c)
{
	int err = c->how & FS_KILL_PRIV ? share_kill_priv(c->file) : 0;

	return err ? err : share_writev(c->file, door.io, &c->op, &c->iov, 1, c->off);
}

static ssize_t door_write(struct fs_file *f, const void *buf, size_t n, uint64_t off, unsigned how)
{
	struct call c = {.file = file_of(f), .iov = {(void *)buf, n}, .off = off, .how = how};

	return via(&c, do_write);
}

static int do_fsync(struct call *c)
{
	return share_fsync(c->file, door.io, &c->op, c->how);
}

static int door_fsync(struct fs_file *f, bool data_only)
{
	struct call c = {.file = file_of(f), .how = data_only};

	return via(&c, do_fsync);
}

static int do_copy(struct call *c)
{
	return share_copy(&c->copy, door.io);
}

static int64_t door_copy(struct fs_file *from, uint64_t from_off, struct fs_file *to,
			 uint64_t to_off, uint64_t len)
{
	struct call c = {.copy = {.from = file_of(from),
				  .to = file_of(to),
				  .from_off = from_off,
				  .to_off = to_off,
				  .len = len}};

	return via(&c, do_copy);
}

static int do_syncfs(struct call *c)
{
	return share_syncfs(c->inode, door.io, &c->op, c->inode == door.s->root);
}

static int door_syncfs(struct fs_obj *o)
{
	struct call c = {.inode = inode_of(o)};

	return via(&c, do_syncfs);
}

/* ---- listing ---- */

struct listing {
	struct fs_dirent *out;
	size_t n, max, room;
	bool full;
};

static enum share_put list_entry(void *ctx, const struct share_dirent *d)
{
	struct listing *l = ctx;
	const size_t size = ALIGN_UP(offsetof(struct dirent64, d_name) + d->len + 1, 8);

	l->full = l->n == l->max || size > l->room;
	if (l->full)
		return SHARE_NO_ROOM;
	l->room -= size;
	l->out[l->n] = (struct fs_dirent){.ino = d->ino, .next = d->next, .type = d->type};
	memcpy(l->out[l->n++].name, d->name, d->len);
	return SHARE_PUT;
}

static ssize_t door_readdir(struct fs_file *f, uint64_t off, size_t room, struct fs_dirent *out,
			    size_t max)
{
	struct listing l = {.out = out, .max = max, .room = room};
	int r = share_readdir(file_of(f), off, list_entry, &l);

	if (r)
		return r;
	return l.full && !l.n ? -EINVAL : (ssize_t)l.n;
}

/* ---- attributes ---- */

static ssize_t door_getxattr(struct fs_obj *o, const char *name, void *buf, size_t n)
{
	return share_getxattr(inode_of(o), name, buf, n);
}

static ssize_t door_listxattr(struct fs_obj *o, char *buf, size_t n)
{
	return share_listxattr(inode_of(o), buf, n);
}

static int door_setxattr(struct fs_obj *o, const char *name, const void *value, size_t n, int flags,
			 bool kill_sgid)
{
	return share_setxattr(inode_of(o), name, value, n, flags, kill_sgid);
}

static int door_removexattr(struct fs_obj *o, const char *name)
{
	return share_removexattr(inode_of(o), name);
}

/* ---- locks ---- */

static int door_getlk(struct fs_file *f, uint64_t owner, struct share_lock *lock)
{
	return share_getlk(share_file_inode(file_of(f)), owner, lock);
}

static int door_setlk(struct fs_file *f, uint64_t owner, const struct share_lock *lock)
{
	return share_setlk(share_file_inode(file_of(f)), owner, lock, door.io, NULL);
}

static void door_flush(struct fs_file *f, uint64_t owner)
{
	share_unlock(share_file_inode(file_of(f)), owner, false);
}

/* It is the iothread that waits. */
struct fs_wait {
	struct share_wait wait;
	struct share_inode *inode;
	uint64_t owner;
	struct share_lock lock;
	sem_t done;
	int r;
	bool over;
};

static void wait_done(struct share_wait *wait, int error)
{
	struct fs_wait *w = container_of(wait, struct fs_wait, wait);

	w->r = error;
	w->over = true;
	sem_post(&w->done);
}

static void wait_begin(void *arg)
{
	struct fs_wait *w = arg;
	int r = share_setlk(w->inode, w->owner, &w->lock, door.io, &w->wait);

	if (r != -EINPROGRESS)
		wait_done(&w->wait, r);
}

static struct fs_wait *door_setlkw(struct fs_file *f, uint64_t owner, const struct share_lock *lock)
{
	struct fs_wait *w = calloc(1, sizeof(*w));

	need(w);
	w->wait.done = wait_done;
	w->inode = share_file_inode(file_of(f));
	w->owner = owner;
	w->lock = *lock;
	sem_init(&w->done, 0, 0);
	loop_call(door.io, wait_begin, w);
	return w;
}

static void wait_cancel(void *arg)
{
	struct fs_wait *w = arg;

	if (!w->over)
		share_lock_cancel(&w->wait);
}

static int door_waited(struct fs_wait *w, bool cancel)
{
	int r;

	if (cancel)
		loop_call(door.io, wait_cancel, w);
	sem_wait(&w->done);
	r = w->r;
	sem_destroy(&w->done);
	free(w);
	return r;
}

const struct fs_door door_share = {
	.name = "share",
	.mount = door_mount,
	.unmount = door_unmount,
	.held = door_held,
	.root = door_root,
	.same = door_same,
	.lookup = door_lookup,
	.forget = door_forget,
	.getattr = door_getattr,
	.setattr = door_setattr,
	.readlink = door_readlink,
	.statfs = door_statfs,
	.syncfs = door_syncfs,
	.mknod = door_mknod,
	.mkdir = door_mkdir,
	.symlink = door_symlink,
	.link = door_link,
	.unlink = door_unlink,
	.rmdir = door_rmdir,
	.rename = door_rename,
	.open = door_open,
	.create = door_create,
	.tmpfile = door_tmpfile,
	.release = door_release,
	.read = door_read,
	.write = door_write,
	.fsync = door_fsync,
	.fallocate = door_fallocate,
	.lseek = door_lseek,
	.copy = door_copy,
	.readdir = door_readdir,
	.ioctl = door_ioctl,
	.getxattr = door_getxattr,
	.listxattr = door_listxattr,
	.setxattr = door_setxattr,
	.removexattr = door_removexattr,
	.getlk = door_getlk,
	.setlk = door_setlk,
	.setlkw = door_setlkw,
	.waited = door_waited,
	.flush = door_flush,
};
