// SPDX-License-Identifier: Apache-2.0
/*
 * map.c - the hash map: linear probing over slots of { value, key }.
 *
 *   value NULL: never used, a search ends here     value DEAD: deleted, a search goes on     else:
 * live
 *
 * The table is a power of two and at least three eighths of it are never-used, so every search ends. It
 * is rebuilt, and the dead are dropped, only in map_put(): map_del() moves nothing, which is what
 * makes it legal during a walk. Not thread-safe. Calls: libc only.
 */
#include "map.h"
#include <assert.h>
#include <sys/random.h>

#define FIRST_CAP 16

static const char dead_mark;
#define DEAD ((void *)&dead_mark)

static size_t slot_size(const struct map *m)
{
	return sizeof(void *) +
	       ALIGN_UP(m->key_size, sizeof(void *)); /* every value stays aligned */
}

static void **slot_value(const struct map *m, size_t i)
{
	return (void **)(m->slots + i * slot_size(m));
}

static unsigned char *slot_key(const struct map *m, size_t i)
{
	return m->slots + i * slot_size(m) + sizeof(void *);
}

static bool is_live(const void *value)
{
	return value && value != DEAD;
}

void map_init(struct map *m, size_t key_size)
{
	*m = (struct map){.key_size = key_size};
	/* Early in a boot there may be no randomness yet; the address is then the best secret there
	 * is. */
	if (getrandom(&m->seed, sizeof(m->seed), GRND_NONBLOCK) != sizeof(m->seed))
		m->seed = (uintptr_t)m * 0x9e3779b97f4a7c15u;
}

void map_fini(struct map *m)
{
	free(m->slots);
	m->slots = NULL;
	m->cap = m->used = m->dead = 0;
}

/* Both halves of the product: the low bits, which choose the slot, depend on all of the key. */
static uint64_t fold(uint64_t a, uint64_t b)
{
	unsigned __int128 p = (unsigned __int128)a * b;

	return (uint64_t)p ^ (uint64_t)(p >> 64);
}

static uint64_t hash(const struct map *m, const void *key)
{
	const unsigned char *p = key;
	uint64_t h = m->seed;

	for (size_t left = m->key_size; left;) {
		size_t n = MIN(left, sizeof(uint64_t));
		uint64_t word = 0;

		memcpy(&word, p, n);
		h = fold(h ^ word, 0x9e3779b97f4a7c15u ^ left);
		p += n;
		left -= n;
	}
	return fold(h ^ m->seed, 0xd6e8feb86659fd93u);
}

/* Most keys are a number or two: those are compared as such. */
static bool same_key(const struct map *m, const unsigned char *a, const void *b)
{
	uint64_t x[2], y[2];

	if (m->key_size != sizeof(x[0]) && m->key_size != sizeof(x))
		return !memcmp(a, b, m->key_size);
	x[1] = y[1] = 0;
	memcpy(x, a, m->key_size == sizeof(x) ? sizeof(x) : sizeof(x[0]));
	memcpy(y, b, m->key_size == sizeof(y) ? sizeof(y) : sizeof(y[0]));
	return x[0] == y[0] && x[1] == y[1];
}

/* The slot of key, or the one where it belongs: the first dead one on the way, else the empty one. */
static size_t find(const struct map *m, const void *key)
{
	const size_t mask = m->cap - 1, size = slot_size(m);
	size_t place = SIZE_MAX;

	for (size_t i = hash(m, key) & mask;; i = (i + 1) & mask) {
		const unsigned char *slot = m->slots + i * size;
		const void *value = *(void *const *)slot;

		if (!value)
			return place == SIZE_MAX ? i : place;
		if (value == DEAD && place == SIZE_MAX)
			place = i;
		if (value != DEAD && same_key(m, slot + sizeof(void *), key))
			return i;
	}
}

void *map_get(const struct map *m, const void *key)
{
	void *value;

	if (!m->slots)
		return NULL;
	value = *slot_value(m, find(m, key));
	return is_live(value) ? value : NULL;
}

/* Into a table that the live entries and one more fill to at most half: it may be a smaller one. */
static int rebuild(struct map *m)
{
	struct map old = *m;

	m->cap = FIRST_CAP;
	while (m->cap / 2 < m->used + 1)
		m->cap *= 2;
	m->slots = calloc(m->cap, slot_size(m));
	if (!m->slots) {
		*m = old;
		return -ENOMEM;
	}
	m->dead = 0;
	for (size_t i = 0; i < old.cap; i++) {
		void *value = *slot_value(&old, i);
		size_t to;

		if (!is_live(value))
			continue;
		to = find(m, slot_key(&old, i));
		*slot_value(m, to) = value;
		memcpy(slot_key(m, to), slot_key(&old, i), m->key_size);
	}
	free(old.slots);
	return 0;
}

int map_put(struct map *m, const void *key, void *value)
{
	size_t i = m->slots ? find(m, key) : 0;

	assert(value);
	if (m->slots && is_live(*slot_value(m, i)))
		return -EEXIST;
	/* Beyond five eighths used or dead, searches for what is not there get long. */
	if (m->used + m->dead + 1 > m->cap / 8 * 5) {
		int r = rebuild(m);

		if (r < 0)
			return r;
		i = find(m, key);
	}
	if (*slot_value(m, i) == DEAD)
		m->dead--;
	*slot_value(m, i) = value;
	memcpy(slot_key(m, i), key, m->key_size);
	m->used++;
	return 0;
}

void *map_swap(struct map *m, const void *key, void *value)
{
	void **slot = slot_value(m, find(m, key)), *old = *slot;

	assert(value && is_live(old));
	*slot = value;
	return old;
}

void *map_del(struct map *m, const void *key)
{
	void **slot, *value;

	if (!m->slots)
		return NULL;
	slot = slot_value(m, find(m, key));
	value = *slot;
	if (!is_live(value))
		return NULL;
	*slot = DEAD;
	m->used--;
	m->dead++;
	return value;
}

bool map_next(const struct map *m, size_t *iter, const void **key, void **value)
{
	while (*iter < m->cap) {
		size_t i = (*iter)++;

		if (!is_live(*slot_value(m, i)))
			continue;
		*key = slot_key(m, i);
		*value = *slot_value(m, i);
		return true;
	}
	return false;
}
