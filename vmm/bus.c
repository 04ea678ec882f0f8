// SPDX-License-Identifier: Apache-2.0
/*
 * bus.c - finds who answers an access of a vCPU.
 *
 * The ranges are sorted and never overlap, so the last one that begins at or below an address is
 * the only one that can hold it. The lock covers the search; the owner is called on a copy of the
 * range, so he may himself add or remove ranges, and a slow owner holds nobody up. Whatever finds
 * no owner reads as all ones, the write is dropped, and debugging shows one limited line (hard case
 * B19). Any thread. Calls: log.h.
 */
#include "bus.h"
#include <assert.h>

void bus_init(struct bus *b, const char *name)
{
	pthread_rwlockattr_t attr;

	*b = (struct bus){.name = name};
	/* vCPUs that poll a register would otherwise keep a vCPU that moves a BAR out for as long
	 * as they like. */
	pthread_rwlockattr_init(&attr);
	pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&b->lock, &attr);
	pthread_rwlockattr_destroy(&attr);
}

void bus_fini(struct bus *b)
{
	pthread_rwlock_destroy(&b->lock);
}

/* How many ranges begin at or below addr. The caller holds the lock. */
static unsigned count_upto(const struct bus *b, uint64_t addr)
{
	unsigned lo = 0, hi = b->n;

	while (lo < hi) {
		unsigned mid = (lo + hi) / 2;

		if (b->range[mid].base <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static int add_locked(struct bus *b, const struct bus_range *r)
{
	unsigned i = count_upto(b, r->base);

	if (i > 0 && r->base - b->range[i - 1].base < b->range[i - 1].len)
		return -EEXIST;
	if (i < b->n && b->range[i].base - r->base < r->len)
		return -EEXIST;
	if (b->n == BUS_RANGES)
		return -ENOSPC;
	memmove(&b->range[i + 1], &b->range[i], (b->n - i) * sizeof(*r));
	b->range[i] = *r;
	b->n++;
	return 0;
}

int bus_add(struct bus *b, const struct bus_range *r)
{
	uint64_t end;
	int ret;

	assert(r->ops && r->ops->read && r->ops->write);
	/* The guest places its BARs itself: base is any number. */
	if (!r->len || __builtin_add_overflow(r->base, r->len, &end))
		return -EINVAL;
	pthread_rwlock_wrlock(&b->lock);
	ret = add_locked(b, r);
	pthread_rwlock_unlock(&b->lock);
	return ret;
}

void bus_remove(struct bus *b, uint64_t base, const void *owner)
{
	unsigned i;

	pthread_rwlock_wrlock(&b->lock);
	i = count_upto(b, base);
	if (i > 0 && b->range[i - 1].base == base && b->range[i - 1].owner == owner) {
		memmove(&b->range[i - 1], &b->range[i], (b->n - i) * sizeof(b->range[0]));
		b->n--;
	}
	pthread_rwlock_unlock(&b->lock);
}

/* A copy of the range that holds all of [addr, addr + len). */
static bool find(struct bus *b, uint64_t addr, unsigned len, struct bus_range *out)
{
	const struct bus_range *r;
	bool found = false;
	unsigned i;

	if (len < 1 || len > 8)
		return false;
	pthread_rwlock_rdlock(&b->lock);
	i = count_upto(b, addr);
	if (i > 0) {
		r = &b->range[i - 1];
		found = addr - r->base < r->len && len <= r->len - (addr - r->base);
		*out = *r;
	}
	pthread_rwlock_unlock(&b->lock);
	return found;
}

void bus_read(struct bus *b, uint64_t addr, void *data, unsigned len)
{
	struct bus_range r;

	/* First, so that bytes an owner leaves alone are ones too and never what lay in our memory. */
	memset(data, 0xff, len);
	if (find(b, addr, len, &r))
		r.ops->read(r.owner, addr - r.base, data, len);
	else
		log_limited(&b->unknown, LOG_DEBUG, "%s: nobody answers a read of %u at 0x%llx",
			    b->name, len, (unsigned long long)addr);
}

void bus_write(struct bus *b, uint64_t addr, const void *data, unsigned len)
{
	struct bus_range r;

	if (find(b, addr, len, &r))
		r.ops->write(r.owner, addr - r.base, data, len);
	else
		log_limited(&b->unknown, LOG_DEBUG, "%s: nobody answers a write of %u at 0x%llx",
			    b->name, len, (unsigned long long)addr);
}
