// SPDX-License-Identifier: Apache-2.0
/*
 * share_handle.c - objects found again by the file system's own handles for them.
 *
 * A handle is a few bytes that name an inode and its generation, whatever it is called by now. Going
 * from the object to the handle is open to everyone; coming back takes CAP_DAC_READ_SEARCH, a file
 * system that does that, and a real descriptor on the same mount. So each mount is tried when its
 * first object comes to be known, and where it does not serve, names do. Like a descriptor that was
 * kept, a handle reaches what has left the share meanwhile, and nothing else: the guest never sees
 * one. Thread: the owner's. Calls: map.h, share_path.c. Spec: open_by_handle_at(2).
 */
#include "share_int.h"

struct share_mount {
	int fd; /* a directory on it, open for I/O; -1: objects are found again by name */
	size_t nobjects;
};

union handle {
	struct file_handle h;
	unsigned char room[sizeof(struct file_handle) + MAX_HANDLE_SZ];
};

static size_t handle_size(const struct file_handle *h)
{
	return sizeof(*h) + h->handle_bytes;
}

static int handle_of(int fd, union handle *handle)
{
	int mount;

	handle->h.handle_bytes = MAX_HANDLE_SZ;
	return name_to_handle_at(fd, "", &handle->h, &mount, AT_EMPTY_PATH) < 0 ? -errno : 0;
}

static int handle_open(int mount_fd, struct file_handle *h, int *fd)
{
	int opened = open_by_handle_at(mount_fd, h, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	if (opened < 0)
		return errno == ENOENT ? -ESTALE : -errno;
	*fd = opened;
	return 0;
}

/* ---- mounts ---- */

/* Nearly all objects are on the root's, which stays as long as the share. */
static struct share_mount *mount_find(const struct share *s, uint32_t mnt)
{
	return s->root && mnt == s->root->key.mnt ? s->root_mount : map_get(&s->mounts, &mnt);
}

/* They stay open as long as objects of theirs are known, and what is known may be nothing but mounts. */
static bool mount_affordable(struct share *s)
{
	return s->nmounts < MAX(s->budget / 8, 1u) && share_has_room(s);
}

/*
 * That a handle is given does not mean that it opens (overlayfs, network file systems, containers):
 * it is really done once.
 */
static int mount_probe(struct share *s, int fd, int *mount_fd)
{
	auto_fd dir = -1;
	auto_fd again = -1;
	union handle handle;
	int err = handle_of(fd, &handle);

	if (!err)
		err = share_path_dir(s, fd, &dir);
	if (!err)
		err = handle_open(dir, &handle.h, &again);
	if (!err)
		*mount_fd = take_fd(&dir);
	return err;
}

static int mount_new(struct share *s, int fd, const struct statx *st, struct share_mount **out)
{
	const uint32_t mnt = share_inode_key(st).mnt;
	struct share_mount *m = calloc(1, sizeof(*m));
	int err = 0;

	if (!m)
		return -ENOMEM;
	m->fd = -1;
	/* Only a directory may be opened just like that; a mount of anything else has that one object. */
	if (s->handles && S_ISDIR(st->stx_mode) && mount_affordable(s))
		err = mount_probe(s, fd, &m->fd);
	if (err != -ENOMEM)
		err = map_put(&s->mounts, &mnt, m);
	if (err) {
		close_fd(&m->fd);
		free(m);
		return err;
	}
	s->nmounts += m->fd >= 0;
	if (!s->root)
		s->root_mount = m;
	*out = m;
	return 0;
}

int share_mount_enter(struct share *s, int fd, const struct statx *st, bool *by_name)
{
	const uint32_t mnt = share_inode_key(st).mnt;
	struct share_mount *m = mount_find(s, mnt);
	int err = m ? 0 : mount_new(s, fd, st, &m);

	if (err)
		return err;
	m->nobjects++;
	*by_name = m->fd < 0 || !s->handles;
	return 0;
}

void share_mount_leave(struct share *s, uint32_t mnt)
{
	struct share_mount *m = mount_find(s, mnt);

	if (--m->nobjects)
		return;
	map_del(&s->mounts, &mnt);
	s->nmounts -= m->fd >= 0;
	close_fd(&m->fd);
	free(m);
}

void share_mounts_free(struct share *s)
{
	const void *key;
	size_t iter = 0;
	void *value;

	while (map_next(&s->mounts, &iter, &key, &value)) {
		struct share_mount *m = value;

		close_fd(&m->fd);
		free(m);
	}
	map_fini(&s->mounts);
}

/* ---- objects ---- */

/* An object's handle never changes, so it is asked for once. */
int share_handle_keep(struct share_inode *inode)
{
	union handle handle;
	struct file_handle *h;
	int err;

	if (inode->back.handle)
		return 0;
	err = handle_of(inode->fd, &handle);
	if (err)
		return err;
	h = malloc(handle_size(&handle.h));
	if (!h)
		return -ENOMEM;
	memcpy(h, &handle, handle_size(&handle.h));
	inode->back.handle = h;
	return 0;
}

/* The generation in it tells an inode from another that was given its number (D13). */
int share_handle_same(const struct share_inode *inode, int fd)
{
	const struct file_handle *h = inode->back.handle;
	union handle handle = {0};
	int err = handle_of(fd, &handle);

	if (err)
		return err;
	return handle_size(h) == handle_size(&handle.h) && !memcmp(h, &handle, handle_size(h));
}

int share_handle_open(const struct share_inode *inode, int *fd)
{
	const struct share_mount *m = mount_find(inode->share, inode->key.mnt);

	return handle_open(m->fd, inode->back.handle, fd);
}
