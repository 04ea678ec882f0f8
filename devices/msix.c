// SPDX-License-Identifier: Apache-2.0
/*
 * msix.c - vector table, masks and pending bits (hard cases B2 to B5).
 *
 * The iothread raises, vCPUs mask and program; they meet in two atomics per vector. A raise that finds the vector
 * masked leaves a pending bit and looks at the mask again; an unmask clears the mask and then looks for the bit. Both
 * do store, then load, sequentially consistent: at least one of them sees the other, and the exchange lets only one
 * deliver. A route is given to KVM when an unmasked vector is not where its entry says: at once for a write to a live
 * entry, and once, at the unmask, for the usual order of mask, three writes, unmask.
 */
#include "msix.h"
#include "../vmm/vm.h"
#include <assert.h>

#define ENTRY_SIZE 16ull
#define PBA_OFF    0x800u

enum { ADDR_LO, ADDR_HI, DATA, CONTROL };

/* ---- vectors ---- */

static void deliver_pending(struct msix_vector *v)
{
	if (__atomic_exchange_n(&v->pending, false, __ATOMIC_SEQ_CST))
		irq_raise(&v->irq);
}

void msix_raise(struct msix *m, unsigned v)
{
	struct msix_vector *vec;

	if (v >= m->n)
		return;
	vec = &m->vec[v];
	if (!__atomic_load_n(&vec->masked, __ATOMIC_SEQ_CST)) {
		irq_raise(&vec->irq);
		return;
	}
	/* Partner: the store of masked in vector_update(). */
	__atomic_store_n(&vec->pending, true, __ATOMIC_SEQ_CST);
	if (!__atomic_load_n(&vec->masked, __ATOMIC_SEQ_CST))
		deliver_pending(vec);
}

/* Under the lock: after a change of the entry or of the function's mask. */
static void vector_update(struct msix *m, struct msix_vector *v)
{
	bool masked = (v->word[CONTROL] & PCI_MSIX_ENTRY_CTRL_MASKBIT) ||
		      m->flags != PCI_MSIX_FLAGS_ENABLE;
	int r = 0;

	/* Before it is unmasked: the first message must find its way. Not changed: irq.c does nothing. */
	if (!masked)
		r = irq_msi_route(&v->irq, (uint64_t)v->word[ADDR_HI] << 32 | v->word[ADDR_LO],
				  v->word[DATA]);
	if (r)
		log_limited(&m->no_route, LOG_WARN, "%s: interrupt vector: no route: %s",
			    m->pci->name, strerror(-r));
	/* Partner: the store of pending in msix_raise(). */
	__atomic_store_n(&v->masked, masked, __ATOMIC_SEQ_CST);
	if (!masked)
		deliver_pending(v);
}

bool msix_enabled(const struct msix *m)
{
	return __atomic_load_n(&m->enabled, __ATOMIC_ACQUIRE);
}

/* The host's lock is held, so the capability's bytes stand still; the table's users see a copy. */
void msix_config_written(struct msix *m)
{
	uint16_t flags = (uint16_t)pci_get(m->pci->config, m->cap + PCI_MSIX_FLAGS, 2) &
			 (PCI_MSIX_FLAGS_ENABLE | PCI_MSIX_FLAGS_MASKALL);

	pthread_mutex_lock(&m->lock);
	if (flags != m->flags) {
		m->flags = flags;
		for (unsigned i = 0; i < m->n; i++)
			vector_update(m, &m->vec[i]);
		/* Last: who sees it finds vectors that are ready. Partner: msix_enabled(). */
		__atomic_store_n(&m->enabled, flags & PCI_MSIX_FLAGS_ENABLE, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&m->lock);
}

void msix_clear(struct msix *m)
{
	for (unsigned i = 0; i < m->n; i++)
		__atomic_store_n(&m->vec[i].pending, false, __ATOMIC_SEQ_CST);
}

/* ---- table and pending bits ---- */

static uint32_t pending_word(const struct msix *m, unsigned word)
{
	uint32_t bits = 0;

	for (unsigned i = 0; i < 32 && word * 32 + i < m->n; i++)
		if (__atomic_load_n(&m->vec[word * 32 + i].pending, __ATOMIC_ACQUIRE))
			bits |= 1u << i;
	return bits;
}

static uint32_t word_read(const struct msix *m, uint64_t off)
{
	if (off < m->n * ENTRY_SIZE)
		return m->vec[off / ENTRY_SIZE].word[off % ENTRY_SIZE / 4];
	if (off >= PBA_OFF && off < PBA_OFF + MSIX_MAX / 8)
		return pending_word(m, (unsigned)(off - PBA_OFF) / 4);
	return 0;
}

/* The pending bits are read-only; past the table there is nothing. */
static void word_write(struct msix *m, uint64_t off, uint32_t value)
{
	struct msix_vector *v;
	unsigned w = (unsigned)(off % ENTRY_SIZE) / 4;

	if (off >= m->n * ENTRY_SIZE)
		return;
	v = &m->vec[off / ENTRY_SIZE];
	v->word[w] = w == CONTROL ? value & PCI_MSIX_ENTRY_CTRL_MASKBIT : value;
	vector_update(m, v);
}

/* 6.8.2: whole aligned dwords or quadwords, anything else is undefined, and here nothing (B3). */
static bool is_access(uint64_t off, unsigned len)
{
	return (len == 4 || len == 8) && IS_ALIGNED(off, len) && off < MSIX_BAR_SIZE;
}

void msix_read(struct msix *m, uint64_t off, void *data, unsigned len)
{
	uint64_t v;

	memset(data, 0, len);
	if (!is_access(off, len))
		return;
	pthread_mutex_lock(&m->lock);
	v = word_read(m, off);
	if (len == 8)
		v |= (uint64_t)word_read(m, off + 4) << 32;
	pthread_mutex_unlock(&m->lock);
	bus_store(data, len, v);
}

/* The mask is in the entry's last word: a quadword that unmasks has brought its data first. */
void msix_write(struct msix *m, uint64_t off, const void *data, unsigned len)
{
	uint64_t v = bus_load(data, len);

	if (!is_access(off, len))
		return;
	pthread_mutex_lock(&m->lock);
	word_write(m, off, (uint32_t)v);
	if (len == 8)
		word_write(m, off + 4, (uint32_t)(v >> 32));
	pthread_mutex_unlock(&m->lock);
}

/* ---- life ---- */

int msix_init(struct msix *m, struct pci_dev *pci, struct vm *vm, unsigned bar, unsigned n)
{
	uint8_t cap[PCI_CAP_MSIX_SIZEOF] = {0};
	int r = 0;

	assert(n >= 1 && n <= MSIX_MAX);
	pthread_mutex_init(&m->lock, NULL);
	m->pci = pci;
	m->vec = calloc(n, sizeof(*m->vec));
	if (!m->vec)
		return -ENOMEM;
	for (m->n = 0; m->n < n && !r; m->n++) {
		struct msix_vector *v = &m->vec[m->n];

		v->word[CONTROL] = PCI_MSIX_ENTRY_CTRL_MASKBIT;
		v->masked = true;
		r = irq_msi_init(&v->irq, vm);
	}
	if (r)
		return r;
	pci_put(cap, PCI_MSIX_FLAGS, 2, n - 1);
	pci_put(cap, PCI_MSIX_TABLE, 4, bar);
	pci_put(cap, PCI_MSIX_PBA, 4, PBA_OFF | bar);
	m->cap = pci_add_cap(pci, PCI_CAP_ID_MSIX, cap, sizeof(cap));
	pci_put(pci->wmask, m->cap + PCI_MSIX_FLAGS, 2,
		PCI_MSIX_FLAGS_ENABLE | PCI_MSIX_FLAGS_MASKALL);
	return 0;
}

void msix_fini(struct msix *m)
{
	for (unsigned i = 0; i < m->n; i++)
		irq_fini(&m->vec[i].irq);
	m->n = 0;
	free(m->vec);
	m->vec = NULL;
}
