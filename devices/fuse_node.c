// SPDX-License-Identifier: Apache-2.0
/*
 * fuse_node.c - what the guest knows: nodes with their lookup counts; and the end of a session.
 *
 * The counts are exact in both directions: one too few frees an object the guest still names, one too many leaks a
 * descriptor (hard case D9). Found-or-entered and dropped-at-zero cannot overlap, as all of it is under the session lock
 * (D10). An id is the place of the node and how often that place was given away: it is found without a search, and for
 * sixty thousand millions of objects at that place, never means another (D13). Places are a small part of what an object
 * takes; they are kept for the next ones. Calls: share.h, dax.h, fuse_handle.c, fuse_kept.c.
 */
#include "fuse_int.h"
#include "dax.h"

/* Places begin behind the root, which has none. */
#define PLACE_BITS  28
#define FIRST_PLACE (FUSE_ROOT_ID + 1)
#define PLACES_MAX  ((1u << PLACE_BITS) - FIRST_PLACE)

/* ---- nodes ---- */

struct fuse_node *fuse_node_find(struct fuse *f, uint64_t id)
{
	const uint64_t place = (id & ((1u << PLACE_BITS) - 1)) - FIRST_PLACE;
	struct fuse_node *n;

	if (id == FUSE_ROOT_ID)
		return &f->root;
	if (place / FUSE_NODE_PIECE >= f->nodes.npieces)
		return NULL;
	n = &f->nodes.pieces[place / FUSE_NODE_PIECE][place % FUSE_NODE_PIECE];
	return n->nlookup && n->id == id ? n : NULL;
}

static int piece_add(struct fuse_nodes *t)
{
	const uint32_t first = t->npieces * FUSE_NODE_PIECE;
	struct fuse_node **pieces, *piece;

	if (first > PLACES_MAX - FUSE_NODE_PIECE)
		return -ENOMEM;
	pieces = realloc(t->pieces, (t->npieces + 1) * sizeof(*pieces));
	if (!pieces)
		return -ENOMEM;
	t->pieces = pieces;
	piece = calloc(FUSE_NODE_PIECE, sizeof(*piece));
	if (!piece)
		return -ENOMEM;
	for (uint32_t i = FUSE_NODE_PIECE; i--;) {
		piece[i].id = FIRST_PLACE + first + i;
		piece[i].unused = t->unused;
		t->unused = &piece[i];
	}
	t->pieces[t->npieces++] = piece;
	return 0;
}

static void node_free(struct fuse *f, struct fuse_node *n)
{
	fuse_kept_drop(f, n);
	*share_inode_user(n->inode) = NULL;
	share_put(n->inode);
	n->nlookup = 0;
	n->id += 1ull << PLACE_BITS;
	n->unused = f->nodes.unused;
	f->nodes.unused = n;
	f->nodes.used--;
}

static struct fuse_node *node_new(struct fuse *f, struct share_inode *inode)
{
	struct fuse_nodes *t = &f->nodes;
	struct fuse_node *n;

	if (!t->unused && piece_add(t))
		return NULL;
	n = t->unused;
	t->unused = n->unused;
	t->used++;
	n->inode = inode;
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
	f->root = (struct fuse_node){.id = FUSE_ROOT_ID, .inode = root};
	*share_inode_user(root) = &f->root;
}

void fuse_session_fini(struct fuse *f)
{
	fuse_reset(f);
	*share_inode_user(f->root.inode) = NULL;
	share_put(f->root.inode);
	fuse_handle_fini(f);
	for (uint32_t i = 0; i < f->nodes.npieces; i++)
		free(f->nodes.pieces[i]);
	free(f->nodes.pieces);
}

static void forget_all(struct fuse *f)
{
	const struct fuse_nodes *t = &f->nodes;

	for (uint32_t i = 0; t->used && i < t->npieces; i++)
		for (unsigned k = 0; k < FUSE_NODE_PIECE; k++)
			if (t->pieces[i][k].nlookup)
				node_free(f, &t->pieces[i][k]);
}

/* The counters of ids go on: what an old session was told never comes to mean something new. */
void fuse_session_end(struct fuse *f)
{
	if (f->mode->locks == SHARE_LOCKS_HOST)
		share_unlock_all(f->share);
	if (f->dax)
		dax_reset(f->dax);
	fuse_handle_close_all(f);
	fuse_kept_drop_all(f);
	forget_all(f);
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
