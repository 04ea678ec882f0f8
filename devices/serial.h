// SPDX-License-Identifier: Apache-2.0
/*
 * serial.h - what serial.c (the 16550 as the guest sees it) and serial_host.c (where its bytes come
 * from and go to) share; nobody else includes it but tests.
 *
 *   guest <-registers- serial.c <-rx ring- serial_host.c <- standard input
 *           (vCPUs)             -tx ring->  (iothread)   -> standard output
 *
 * Both rings and all registers are under one lock: this is a port, not a data path.
 */
#ifndef DEVICES_SERIAL_H
#define DEVICES_SERIAL_H

#include "../vmm/base.h"
#include "../vmm/irq.h"
#include "../vmm/log.h"
#include "../vmm/loop.h"
#include "device.h"
#include <pthread.h>

/* Bytes of a 16550A's own memory. */
#define UART_FIFO 16
/* What was typed ahead. */
#define SERIAL_RX_SIZE 4096
/* What the host has not taken yet; the guest waits when it is full (hard case G3). */
#define SERIAL_TX_SIZE 65536

struct serial_config {
	char *output; /* NULL: standard output */
	bool input;
};

struct serial {
	struct device base;
	struct vm *vm; /* borrowed */
	struct irq irq;
	struct iothread *io;
	/*
	 * Everything down to tx_lost. A leaf: interrupts are raised, the iothread is woken and the
	 * machine is ended under it, none of which blocks or takes a lock.
	 */
	pthread_mutex_t lock;

	uint8_t ier, lcr, mcr, scr;
	uint16_t divisor;
	bool fifo;
	bool thre_pending; /* "transmitter empty" was not yet acknowledged */
	bool line;         /* the interrupt line; its rising edge is the interrupt */

	uint8_t rx[SERIAL_RX_SIZE];
	unsigned rx_head, rx_n;
	bool rx_parked; /* input is not read: the guest's next read makes room and resumes it */

	uint8_t tx[SERIAL_TX_SIZE];
	unsigned tx_head, tx_n;
	bool tx_awake;  /* the iothread is at it, so it need not be woken */
	bool tx_closed; /* the output has gone: bytes are swallowed */
	uint64_t tx_lost;

	/* The iothread's. */
	struct log_once said_lost;
	struct loop_work tx_work, rx_work;
	struct watch tx_watch, rx_watch;
	int tx_fd, rx_fd; /* own descriptors; -1: none */
	bool tx_nonblock; /* a write that would block says so */
	bool tx_file;     /* a file of the host: emptied once the machine is known to start */
	char *tx_made; /* its path if it was not there before: until then it goes again; NULL: it stays */
	bool rx_terminal; /* looks for the escape */
	bool rx_prefix;   /* Ctrl-A was typed */
};

/* ---- serial.c: under the lock ---- */

/* Recomputes the interrupt line; after every change of what it depends on (G1). */
void serial_update(struct serial *);

/* ---- serial_host.c ---- */

/* Opens both ends; what an output file holds is kept. -errno (logged). */
int serial_host_open(struct serial *, const struct serial_config *) must_check;
/* Starts the thread and empties the output file. -errno (logged). */
int serial_host_run(struct serial *) must_check;
/*
 * Writes what is left, for as long as the reader goes on taking it (G5). A file made for a machine that never ran is
 * removed.
 */
void serial_host_close(struct serial *);
extern const struct syscall_rule serial_host_rules[1];

/* Under the lock: the transmitter takes a FIFO full of bytes. */
bool serial_tx_ready(const struct serial *);
/* Under the lock: sends a byte. */
void serial_tx_put(struct serial *, uint8_t);
/* Under the lock: input that had no room goes on if there is some now. */
void serial_rx_resume(struct serial *);

/* Under the lock: one byte into the rx ring; a guest that loops back may have filled it up. */
static inline void serial_rx_put(struct serial *s, uint8_t b)
{
	if (s->rx_n < SERIAL_RX_SIZE)
		s->rx[(s->rx_head + s->rx_n++) % SERIAL_RX_SIZE] = b;
}

#endif
