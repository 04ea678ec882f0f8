// SPDX-License-Identifier: Apache-2.0
/*
 * serial.c - COM1: the registers of a 16550A at ports 0x3f8..0x3ff, interrupt 4.
 *
 * There is no line and no speed: what the guest sends is sent at once, and "transmitter empty"
 * means that the ring to the host has room for a FIFO full of bytes. The interrupt is a level of
 * (pending and enabled) whose rising edge is the ISA interrupt; it is recomputed after every access
 * (hard case G1). Called by vCPUs, under the device's lock.
 * Spec: PC16550D data sheet, 8.0. Calls: serial_host.c, irq.h.
 */
#include "serial.h"
#include "table.h"
#include "../vmm/vm.h"
#include <linux/serial_reg.h>

#define SERIAL_BASE 0x3f8
#define SERIAL_LEN  8
#define SERIAL_GSI  4

/* The cause the guest is told of: received data goes before transmitter empty (8.5). */
static uint8_t uart_iir(const struct serial *s)
{
	if (s->rx_n && s->ier & UART_IER_RDI)
		return UART_IIR_RDI;
	if (s->thre_pending && s->ier & UART_IER_THRI)
		return UART_IIR_THRI;
	return UART_IIR_NO_INT;
}

void serial_update(struct serial *s)
{
	bool line = uart_iir(s) != UART_IIR_NO_INT;

	if (line && !s->line)
		irq_raise(&s->irq);
	s->line = line;
}

static bool looped_back(const struct serial *s)
{
	return s->mcr & UART_MCR_LOOP;
}

static uint8_t read_rbr(struct serial *s)
{
	uint8_t b = 0;

	if (s->rx_n) {
		b = s->rx[s->rx_head];
		s->rx_head = (s->rx_head + 1) % SERIAL_RX_SIZE;
		s->rx_n--;
	}
	serial_rx_resume(s);
	return b;
}

static uint8_t read_iir(struct serial *s)
{
	uint8_t iir = uart_iir(s);

	/* Reading acknowledges; or a guest that has nothing to send would get a storm (G2). */
	if (iir == UART_IIR_THRI)
		s->thre_pending = false;
	return iir | (s->fifo ? 0xc0 : 0);
}

static uint8_t read_lsr(const struct serial *s)
{
	uint8_t lsr = s->rx_n ? UART_LSR_DR : 0;

	if (looped_back(s) || serial_tx_ready(s))
		lsr |= UART_LSR_THRE | UART_LSR_TEMT;
	return lsr;
}

/* A modem that is always ready; looped back, our own outputs (Linux knows a UART by that). */
static uint8_t read_msr(const struct serial *s)
{
	if (!looped_back(s))
		return UART_MSR_CTS | UART_MSR_DSR | UART_MSR_DCD;
	return (uint8_t)((s->mcr & UART_MCR_RTS ? UART_MSR_CTS : 0) |
			 (s->mcr & UART_MCR_DTR ? UART_MSR_DSR : 0) |
			 (s->mcr & UART_MCR_OUT1 ? UART_MSR_RI : 0) |
			 (s->mcr & UART_MCR_OUT2 ? UART_MSR_DCD : 0));
}

static uint8_t reg_read(struct serial *s, uint64_t reg)
{
	bool dlab = s->lcr & UART_LCR_DLAB;

	switch (reg) {
	case UART_RX:
		return dlab ? (uint8_t)s->divisor : read_rbr(s);
	case UART_IER:
		return dlab ? (uint8_t)(s->divisor >> 8) : s->ier;
	case UART_IIR:
		return read_iir(s);
	case UART_LCR:
		return s->lcr;
	case UART_MCR:
		return s->mcr;
	case UART_LSR:
		return read_lsr(s);
	case UART_MSR:
		return read_msr(s);
	default:
		return s->scr;
	}
}

static void write_thr(struct serial *s, uint8_t b)
{
	if (!looped_back(s))
		serial_tx_put(s, b);
	else
		serial_rx_put(s, b);
	s->thre_pending = looped_back(s) || serial_tx_ready(s);
}

static void write_ier(struct serial *s, uint8_t v)
{
	/* Enabling it with an empty transmitter is a cause of its own (G2). */
	if (~s->ier & v & UART_IER_THRI && serial_tx_ready(s))
		s->thre_pending = true;
	s->ier = v & 0x0f;
	serial_rx_resume(s);
}

/*
 * Clearing the receiver takes what fits into a UART; what lies behind that is still on its way.
 * Bytes that were sent have left already.
 */
static void write_fcr(struct serial *s, uint8_t v)
{
	bool fifo = v & UART_FCR_ENABLE_FIFO;

	if (fifo != s->fifo || v & UART_FCR_CLEAR_RCVR) {
		unsigned n = MIN(s->rx_n, (unsigned)UART_FIFO);

		s->rx_head = (s->rx_head + n) % SERIAL_RX_SIZE;
		s->rx_n -= n;
		serial_rx_resume(s);
	}
	s->fifo = fifo;
}

static void reg_write(struct serial *s, uint64_t reg, uint8_t v)
{
	bool dlab = s->lcr & UART_LCR_DLAB;

	switch (reg) {
	case UART_TX:
		if (dlab)
			s->divisor = (uint16_t)((s->divisor & 0xff00) | v);
		else
			write_thr(s, v);
		break;
	case UART_IER:
		if (dlab)
			s->divisor = (uint16_t)((s->divisor & 0x00ff) | v << 8);
		else
			write_ier(s, v);
		break;
	case UART_FCR:
		write_fcr(s, v);
		break;
	case UART_LCR:
		s->lcr = v;
		break;
	case UART_MCR:
		s->mcr = v & 0x1f;
		break;
	case UART_SCR:
		s->scr = v;
		break;
	default: /* line and modem status are read-only */
		break;
	}
}

/* A wide access to 8-bit ports is one access to each port after the other, as on an ISA bus. */
static void serial_read(void *owner, uint64_t off, void *data, unsigned len)
{
	struct serial *s = owner;
	uint8_t *out = data;

	pthread_mutex_lock(&s->lock);
	for (unsigned i = 0; i < len; i++)
		out[i] = off + i < SERIAL_LEN ? reg_read(s, off + i) : 0xff;
	serial_update(s);
	pthread_mutex_unlock(&s->lock);
}

static void serial_write(void *owner, uint64_t off, const void *data, unsigned len)
{
	struct serial *s = owner;
	const uint8_t *in = data;

	pthread_mutex_lock(&s->lock);
	for (unsigned i = 0; i < len && off + i < SERIAL_LEN; i++)
		reg_write(s, off + i, in[i]);
	serial_update(s);
	pthread_mutex_unlock(&s->lock);
}

static const struct bus_ops serial_ops = {.read = serial_read, .write = serial_write};

/* ---- life ---- */

static void serial_destroy(struct device *d)
{
	struct serial *s = container_of(d, struct serial, base);

	bus_remove(&s->vm->pio, SERIAL_BASE, s);
	serial_host_close(s);
	irq_fini(&s->irq);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

static int serial_run(struct device *d)
{
	return serial_host_run(container_of(d, struct serial, base));
}

static int serial_plug(struct serial *s)
{
	const struct bus_range range = {.base = SERIAL_BASE,
					.len = SERIAL_LEN,
					.ops = &serial_ops,
					.owner = s,
					.name = s->base.name};
	const struct vm_platform node = {.hid = "PNP0501",
					 .base = SERIAL_BASE,
					 .len = SERIAL_LEN,
					 .is_pio = true,
					 .gsi = SERIAL_GSI};
	int r = irq_edge_init(&s->irq, s->vm, SERIAL_GSI);

	if (!r)
		r = bus_add(&s->vm->pio, &range);
	if (!r)
		r = vm_platform_add(s->vm, &node);
	if (r)
		log_err("%s: ports 0x3f8 or interrupt 4 (%s): %s", s->base.name,
			log_remedy(-r, "another device has them"), strerror(-r));
	return r;
}

static int serial_create(struct vm *vm, const void *cfg, unsigned index, struct device **out)
{
	struct serial *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	device_init(&s->base, &serial_device, index, serial_destroy);
	s->base.run = serial_run;
	s->vm = vm;
	s->irq = IRQ_INIT;
	s->tx_fd = s->rx_fd = -1;
	pthread_mutex_init(&s->lock, NULL);
	r = serial_host_open(s, cfg);
	if (r)
		goto fail;
	r = serial_plug(s);
	if (r)
		goto fail;
	*out = &s->base;
	return 0;
fail:
	serial_destroy(&s->base);
	return r;
}

static const struct opt serial_opts[] = {
	{.key = "output",
	 .kind = OPT_STR,
	 .offset = offsetof(struct serial_config, output),
	 .min = 1,
	 .max = 4095,
	 .help = "file (emptied when the machine starts, and locked), fifo or terminal; without it "
		 "standard output"},
	{.key = "input",
	 .kind = OPT_BOOL,
	 .offset = offsetof(struct serial_config, input),
	 .def = "true",
	 .help = "standard input goes to the guest; on a terminal Ctrl-A x ends the machine, "
		 "Ctrl-A a is Ctrl-A"},
};

const struct device_type serial_device = {
	.name = "serial",
	.section = "serial",
	.flag = "serial",
	.help = "16550 UART on COM1 (ttyS0): the first console",
	.class = DEVICE_PLATFORM,
	.opts = {.opts = serial_opts,
		 .n = ARRAY_LEN(serial_opts),
		 .size = sizeof(struct serial_config)},
	.syscalls = &SYSCALLS(serial_host_rules),
	.create = serial_create,
};
