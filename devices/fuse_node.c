// SPDX-License-Identifier: Apache-2.0
/*
 * fuse_node.c - what the guest holds: nodes with their lookup counts, and handles.
 *
 * The counts are exact in both directions: one too few frees an object the guest still names, one
 * too many leaks a descriptor (hard case D9). Found-or-entered and dropped-at-zero cannot overlap,
 * as all of it is on one iothread (D10). Calls: share.h, map.h.
 */
#include "fuse_int.h"

/* ---- nodes ---- */

struct fuse_node *fuse_node_find(struct fuse *f, uint64_t id)
{
	return id == FUSE_ROOT_ID ? &f->root : map_get(&f->nodes, &id);
}

static void node_free(struct fuse *f, struct fuse_node *n)
{
	map_del(&f->nodes, &n->id);
	map_del(&f->by_inode, &n->inode);
	share_put(n->inode);
	free(n);
}

static struct fuse_node *node_new(struct fuse *f, struct share_inode *inode)
{
	struct fuse_node *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	*n = (struct fuse_node){.id = f->next_node++, .inode = inode};
	if (map_put(&f->nodes, &n->id, n))
		goto fail;
	if (map_put(&f->by_inode, &n->inode, n)) {
		map_del(&f->nodes, &n->id);
		goto fail;
	}
	return n;
fail:
	free(n);
	return NULL;
}

int fuse_node_enter(struct fuse *f, struct share_inode *inode, uint64_t *id)
{
	struct fuse_node *n = inode == f->root.inode ? &f->root : map_get(&f->by_inode, &inode);

	if (!n)
		n = node_new(f, inode);
	else
		share_put(inode); /* the node holds one already */
	if (!n) {
		share_put(inode);
		return -ENOMEM;
	}
	n->nlookup++;
	*id = n->id;
	return 0;
}

/*
 * A count above what was given is a lie and means all; an unknown id means nothing; the root stays
 * (D1).
 */
void fuse_node_forget(struct fuse *f, uint64_t id, uint64_t count)
{
	struct fuse_node *n = fuse_node_find(f, id);

	if (!n || n == &f->root)
		return;
	n->nlookup -= MIN(count, n->nlookup);
	if (!n->nlookup)
		node_free(f, n);
}

/* ---- handles ---- */

void fuse_handle_put(struct fuse_handle *h)
{
	if (--h->refs)
		return;
	share_file_close(h->file);
	free(h);
}

int fuse_handle_new(struct fuse *f, struct share_file *file, uint64_t *id)
{
	struct fuse_handle *h = calloc(1, sizeof(*h));

	if (!h) {
		share_file_close(file);
		return -ENOMEM;
	}
	*h = (struct fuse_handle){.id = f->next_handle++, .refs = 1, .file = file};
	if (map_put(&f->handles, &h->id, h)) {
		fuse_handle_put(h);
		return -ENOMEM;
	}
	*id = h->id;
	return 0;
}

/* On its own node only: the share is then never asked about a file and an object that differ. */
struct fuse_handle *fuse_handle_find(const struct fuse_call *c, uint64_t id)
{
	struct fuse_handle *h = map_get(&c->f->handles, &id);

	return h && share_file_inode(h->file) == c->inode ? h : NULL;
}

int fuse_handle_release(struct fuse *f, uint64_t id)
{
	struct fuse_handle *h = map_del(&f->handles, &id);

	if (!h)
		return -EBADF;
	fuse_handle_put(h);
	return 0;
}

/* ---- session ---- */

void fuse_session_init(struct fuse *f, struct share_inode *root)
{
	map_init(&f->nodes, sizeof(uint64_t));
	map_init(&f->by_inode, sizeof(struct share_inode *));
	map_init(&f->handles, sizeof(uint64_t));
	f->root = (struct fuse_node){.id = FUSE_ROOT_ID, .inode = root};
	f->next_node = FUSE_ROOT_ID + 1;
	f->next_handle = 1;
}

void fuse_session_fini(struct fuse *f)
{
	fuse_reset(f);
	share_put(f->root.inode);
	map_fini(&f->nodes);
	map_fini(&f->by_inode);
	map_fini(&f->handles);
}

/* The counters of ids go on: what an old session was told never comes to mean something new. */
void fuse_reset(struct fuse *f)
{
	const void *key;
	void *value;
	size_t i = 0;

	while (map_next(&f->handles, &i, &key, &value)) {
		struct fuse_handle *h = value;

		map_del(&f->handles, &h->id);
		fuse_handle_put(h);
	}
	i = 0;
	while (map_next(&f->nodes, &i, &key, &value))
		node_free(f, value);
	f->root.nlookup = 0;
	f->ready = false;
}

void fuse_counts(const struct fuse *f, size_t *nodes, size_t *handles)
{
	*nodes = f->nodes.used;
	*handles = f->handles.used;
}
