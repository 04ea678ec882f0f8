// SPDX-License-Identifier: Apache-2.0
/*
 * p9_fid.c - the numbers that the guest gives to what it holds.
 *
 * A fid has an object and, once it is open, a file, so both stay usable when names change or go (hard cases E10, E12). A
 * fid that an operation is on outlives its number. How many there may be is bounded, as the guest's word is all that one
 * costs it (E13). On the thread that serves. Calls: share.h, map.h, p9_xattr.c, p9_lock.c.
 */
#include "p9_int.h"
#include <assert.h>

/* Linux holds one for each name in its cache. */
#define FIDS_MAX (1u << 22)

static void place_free(struct p9_place *place)
{
	if (place)
		share_unnote(place->dir);
	free(place);
}

int p9_fid_move(struct p9_fid *fid, struct share_inode *dir, const struct name *name)
{
	const size_t size = strlen(name->s) + 1;
	struct p9_place *place = malloc(sizeof(*place) + size);

	if (!place)
		return -ENOMEM;
	place->dir = share_note(dir);
	memcpy(place->name, name->s, size);
	place_free(fid->place);
	fid->place = place;
	return 0;
}

/* Takes found->inode over, also on failure. */
static struct p9_fid *fid_new(struct p9 *p9, uint32_t number, const struct p9_found *found)
{
	struct p9_fid *fid = malloc(sizeof(*fid));

	if (!fid) {
		share_put(found->inode);
		return NULL;
	}
	*fid = (struct p9_fid){.fid = number, .refs = 1, .uid = found->uid, .inode = found->inode};
	fid->top = share_get(found->top);
	if (!found->dir || !p9_fid_move(fid, found->dir, found->name))
		return fid;
	p9_fid_put(p9, fid);
	return NULL;
}

int p9_fid_put_new(struct p9 *p9, uint32_t number, bool replace, const struct p9_found *found,
		   struct p9_fid **out)
{
	struct p9_fid *old = p9_fid_find(p9, number), *fid = NULL;
	int r = -EINVAL;

	if (number == P9_NOFID || (old && !replace))
		goto fail;
	r = -ENFILE;
	if (!old && p9->fids.used >= FIDS_MAX)
		goto fail;
	fid = fid_new(p9, number, found);
	if (!fid)
		return -ENOMEM;
	r = old ? 0 : map_put(&p9->fids, &number, fid);
	if (r) {
		p9_fid_put(p9, fid);
		return r;
	}
	if (old)
		p9_fid_put(p9, map_swap(&p9->fids, &number, fid));
	*out = fid;
	return 0;
fail:
	share_put(found->inode);
	return r;
}

struct p9_fid *p9_fid_find(const struct p9 *p9, uint32_t number)
{
	return map_get(&p9->fids, &number);
}

struct p9_fid *p9_fid_get(struct p9_fid *fid)
{
	fid->refs++;
	return fid;
}

static void xattr_free(struct p9 *p9, struct p9_fid *fid)
{
	if (!fid->xattr)
		return;
	free(fid->xattr);
	p9->nxattrs--;
}

void p9_fid_put(struct p9 *p9, struct p9_fid *fid)
{
	assert(fid->refs);
	if (--fid->refs)
		return;
	share_file_close(fid->file);
	xattr_free(p9, fid);
	place_free(fid->place);
	share_put(fid->top);
	share_put(fid->inode);
	free(fid);
}

/*
 * The file itself is closed when no operation is on it any more; locks that nobody else gives up go now: a guest takes
 * a file that it has closed for unlocked.
 */
int p9_fid_clunk(struct p9 *p9, struct p9_fid *fid)
{
	int r = fid->xattr && fid->xattr->writing ? p9_xattr_set(fid) : 0;

	if (fid->locks)
		p9_lock_leave(p9, fid);
	map_del(&p9->fids, &fid->fid);
	p9_fid_put(p9, fid);
	return r;
}

/* Nothing is set that was not asked for by name: half-written attributes are dropped. */
void p9_fid_clunk_all(struct p9 *p9)
{
	const void *key;
	void *fid;

	for (size_t iter = 0; map_next(&p9->fids, &iter, &key, &fid);) {
		const uint32_t number = *(const uint32_t *)key;

		map_del(&p9->fids, &number);
		p9_fid_put(p9, fid);
	}
}
