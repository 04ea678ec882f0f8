// SPDX-License-Identifier: Apache-2.0
/*
 * fuse_node.c - what the guest knows: nodes with their lookup counts; and the end of a session.
 *
 * The counts are exact in both directions: one too few frees an object the guest still names, one too many leaks a
 * descriptor (hard case D9). Found-or-entered and dropped-at-zero cannot overlap, as all of it is under the session lock
 * (D10). Calls: share.h, dax.h, map.h, fuse_handle.c, fuse_kept.c.
 */
#include "fuse_int.h"
#include "dax.h"

/* ---- nodes ---- */

struct fuse_node *fuse_node_find(struct fuse *f, uint64_t id)
{
	return id == FUSE_ROOT_ID ? &f->root : map_get(&f->nodes, &id);
}

static void node_free(struct fuse *f, struct fuse_node *n)
{
	fuse_kept_drop(f, n);
	map_del(&f->nodes, &n->id);
	*share_inode_user(n->inode) = NULL;
	share_put(n->inode);
	free(n);
}

static struct fuse_node *node_new(struct fuse *f, struct share_inode *inode)
{
	struct fuse_node *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	*n = (struct fuse_node){.id = f->next_node++, .inode = inode};
	if (map_put(&f->nodes, &n->id, n)) {
		free(n);
		return NULL;
	}
	*share_inode_user(inode) = n;
	return n;
}

int fuse_node_enter(struct fuse *f, struct share_inode *inode, struct fuse_node **out)
{
	struct fuse_node *n = *share_inode_user(inode);

	if (!n)
		n = node_new(f, inode);
	else
		share_put(inode); /* the node holds one already */
	if (!n) {
		share_put(inode);
		return -ENOMEM;
	}
	n->nlookup++;
	*out = n;
	return 0;
}

/* A count above what was given is a lie and means all; an unknown id means nothing; the root stays (D1). */
void fuse_node_forget(struct fuse *f, uint64_t id, uint64_t count)
{
	struct fuse_node *n = fuse_node_find(f, id);

	if (!n || n == &f->root)
		return;
	n->nlookup -= MIN(count, n->nlookup);
	if (!n->nlookup)
		node_free(f, n);
}

/* ---- session ---- */

void fuse_session_init(struct fuse *f, struct share_inode *root)
{
	map_init(&f->nodes, sizeof(uint64_t));
	f->root = (struct fuse_node){.id = FUSE_ROOT_ID, .inode = root};
	*share_inode_user(root) = &f->root;
	f->next_node = FUSE_ROOT_ID + 1;
}

void fuse_session_fini(struct fuse *f)
{
	fuse_reset(f);
	*share_inode_user(f->root.inode) = NULL;
	share_put(f->root.inode);
	fuse_handle_fini(f);
	map_fini(&f->nodes);
}

/* The counters of ids go on: what an old session was told never comes to mean something new. */
void fuse_session_end(struct fuse *f)
{
	const void *key;
	void *node;
	size_t i = 0;

	if (f->mode->locks == SHARE_LOCKS_HOST)
		share_unlock_all(f->share);
	if (f->dax)
		dax_reset(f->dax);
	fuse_handle_close_all(f);
	fuse_kept_drop_all(f);
	while (map_next(&f->nodes, &i, &key, &node))
		node_free(f, node);
	f->root.nlookup = 0;
	f->ready = f->no_open = f->no_opendir = false;
	f->flags = 0;
}

void fuse_reset(struct fuse *f)
{
	fuse_lock(f);
	fuse_session_end(f);
	fuse_unlock(f);
}

void fuse_counts(struct fuse *f, size_t *nodes, size_t *handles, size_t *kept)
{
	fuse_lock(f);
	*nodes = f->nodes.used;
	*handles = f->handles.open;
	*kept = f->kept.n;
	fuse_unlock(f);
}
