// SPDX-License-Identifier: Apache-2.0
/*
 * share_number.c - the 64-bit numbers that objects are shown by.
 *
 * The guest sees one file system where the host may have many, so a number must tell what lies on
 * different mounts and devices apart, stay the same as long as the share is open, and be the one
 * that a listing shows (D12, D14, D15). It is made from the key alone: nothing is looked up, and an
 * object that was forgotten has it again. Thread: the owner's. Calls: map.h.
 */
#include "share_int.h"

/*
 * The number shown:
 *
 *   on the root's mount and device    the host's inode number
 *   elsewhere                         0 | index of (mount, device), 15 bits | inode number, 48 bits
 *   what does not fit there           1 | 63 bits mixed from mount, device and inode number
 *
 * The first two never meet as long as the root's file system numbers below 2^48, as all that number
 * in sequence do; for those that hash to 64 bits, and for the third line, two files meet with the
 * odds of two random 63-bit numbers. An index is kept as long as the share, so a number stays what
 * it was after the guest forgot the object.
 */

#define INO_BITS   48
#define PLACES_MAX 0x7fff

static uint64_t mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15ull;
	h ^= h >> 32;
	h *= 0xd6e8feb86659fd93ull;
	return h ^ h >> 29;
}

/* 0 in *index: there are too many. */
static int place_index(struct share *s, const struct inode_key *key, uint64_t *index)
{
	const uint64_t place[2] = {key->mnt, key->dev};
	uintptr_t found = (uintptr_t)map_get(&s->places, place);
	int err;

	if (!found && s->places.used < PLACES_MAX) {
		found = s->places.used + 1;
		err = map_put(&s->places, place, (void *)found);
		if (err)
			return err;
	}
	*index = found;
	return 0;
}

int share_inode_number(struct share *s, const struct inode_key *key, uint64_t *ino)
{
	const struct inode_key *root = s->root ? &s->root->key : key;
	uint64_t index = 0;
	int err;

	if (key->mnt == root->mnt && key->dev == root->dev && key->ino) {
		*ino = key->ino;
		return 0;
	}
	err = place_index(s, key, &index);
	if (err)
		return err;
	if (index && key->ino && key->ino >> INO_BITS == 0)
		*ino = index << INO_BITS | key->ino;
	else
		*ino = mix(mix(mix(0, key->mnt), key->dev), key->ino) | 1ull << 63;
	return 0;
}
