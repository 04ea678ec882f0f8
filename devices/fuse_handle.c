// SPDX-License-Identifier: Apache-2.0
/*
 * fuse_handle.c - open files the guest has numbers for, and their places.
 *
 * A number is the place of the handle and how often that place was given away, so it is found without a search and, for
 * four thousand millions of openings there, never means another file. A handle lives until the guest has closed it and
 * no operation is on it, whatever the guest releases or resets meanwhile. There are no more places than the share lets
 * files be open, and closing gives none of them back to the C library. Under the session lock. Calls: share.h.
 */
#include "fuse_int.h"
#include <assert.h>

#define PLACE_BITS 32

static int piece_add(struct fuse_handles *t)
{
	struct fuse_handle **pieces, *piece = calloc(FUSE_PIECE, sizeof(*piece));

	if (!piece)
		return -ENOMEM;
	pieces = realloc(t->pieces, (t->npieces + 1) * sizeof(*pieces));
	if (!pieces) {
		free(piece);
		return -ENOMEM;
	}
	t->pieces = pieces;
	t->pieces[t->npieces] = piece;
	for (uint32_t i = FUSE_PIECE; i--;) {
		piece[i].id = t->npieces * FUSE_PIECE + i + 1;
		piece[i].older = t->unused;
		t->unused = &piece[i];
	}
	t->npieces++;
	return 0;
}

int fuse_handle_new(struct fuse *f, struct share_file *file, struct fuse_handle **out)
{
	struct fuse_handles *t = &f->handles;
	struct fuse_handle *h;

	if (!t->unused && piece_add(t)) {
		share_file_close(file);
		return -ENOMEM;
	}
	h = t->unused;
	t->unused = h->older;
	*h = (struct fuse_handle){.id = h->id, .refs = 1, .file = file};
	*out = h;
	return 0;
}

void fuse_handle_put(struct fuse *f, struct fuse_handle *h)
{
	assert(h->refs);
	if (--h->refs)
		return;
	share_file_close(h->file);
	h->file = NULL;
	h->id += 1ull << PLACE_BITS;
	h->older = f->handles.unused;
	f->handles.unused = h;
}

int fuse_handle_open(struct fuse *f, struct share_file *file, uint64_t *id)
{
	struct fuse_handle *h;
	int r = fuse_handle_new(f, file, &h);

	if (r)
		return r;
	h->open = true;
	f->handles.open++;
	*id = h->id;
	return 0;
}

struct fuse_handle *fuse_handle_get(const struct fuse *f, uint64_t id)
{
	const uint32_t place = (uint32_t)id - 1;
	struct fuse_handle *h;

	if (place / FUSE_PIECE >= f->handles.npieces)
		return NULL;
	h = &f->handles.pieces[place / FUSE_PIECE][place % FUSE_PIECE];
	return h->open && h->id == id ? h : NULL;
}

/* On its own node only: the share is then never asked about a file and an object that differ. */
struct fuse_handle *fuse_handle_find(const struct fuse *f, uint64_t id,
				     const struct share_inode *inode)
{
	struct fuse_handle *h = fuse_handle_get(f, id);

	return h && share_file_inode(h->file) == inode ? h : NULL;
}

void fuse_handle_close(struct fuse *f, struct fuse_handle *h)
{
	h->open = false;
	f->handles.open--;
	fuse_handle_put(f, h);
}

void fuse_handle_close_all(struct fuse *f)
{
	struct fuse_handles *t = &f->handles;

	for (uint32_t i = 0; t->open && i < t->npieces; i++)
		for (unsigned k = 0; k < FUSE_PIECE; k++)
			if (t->pieces[i][k].open)
				fuse_handle_close(f, &t->pieces[i][k]);
}

/* Nothing is open and no operation is out. */
void fuse_handle_fini(struct fuse *f)
{
	for (uint32_t i = 0; i < f->handles.npieces; i++)
		free(f->handles.pieces[i]);
	free(f->handles.pieces);
	f->handles = (struct fuse_handles){0};
}
