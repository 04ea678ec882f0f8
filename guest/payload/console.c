// SPDX-License-Identifier: Apache-2.0
/*
 * console.c - text to COM1.
 *
 * A byte to the port is an exit, so whole lines are gathered and sent 16 at a time, as many as the FIFO takes once the
 * line status says that it is empty: two exits instead of 32.
 * Spec: PC16550D data sheet.
 */
#include "payload.h"
#include <linux/serial_reg.h>

#define COM1     0x3f8
#define FIFO     16
#define PATIENCE 1000000

static char line[256];
static size_t line_len;

static void line_send(void)
{
	static bool begun;

	if (!begun)
		port_out8(COM1 + UART_FCR, UART_FCR_ENABLE_FIFO);
	begun = true;
	for (size_t i = 0, n; i < line_len; i += n) {
		n = MIN(line_len - i, (size_t)FIFO);
		for (int t = 0; t < PATIENCE && !(port_in8(COM1 + UART_LSR) & UART_LSR_THRE); t++)
			cpu_pause();
		port_out_bytes(COM1 + UART_TX, line + i, n);
	}
	line_len = 0;
}

/*
 * A host may read its end of a pipe only for a driver that asks for interrupts (none is taken), and an exit after the
 * other may keep its other threads out: the line is looked at now and then.
 */
void console_wait_key(void)
{
	port_out8(COM1 + UART_IER, UART_IER_RDI);
	while (!(port_in8(COM1 + UART_LSR) & UART_LSR_DR)) {
		uint64_t t0 = cpu_tsc();

		while (!clock_passed(t0, 1))
			cpu_pause();
	}
	port_out8(COM1 + UART_IER, 0);
	port_in8(COM1 + UART_RX);
}

static void put(char c)
{
	line[line_len++] = c;
	if (c == '\n' || line_len == sizeof(line))
		line_send();
}

static void put_number(uint64_t v, unsigned base, unsigned width)
{
	char digits[24];
	unsigned n = 0;

	do {
		digits[n++] = "0123456789abcdef"[v % base];
		v /= base;
	} while (v || n < width);
	while (n)
		put(digits[--n]);
}

static void put_signed(int64_t v)
{
	if (v < 0)
		put('-');
	put_number(v < 0 ? 0 - (uint64_t)v : (uint64_t)v, 10, 1);
}

void print_args(const char *f, va_list ap)
{
	for (; *f; f++) {
		unsigned width = 1;
		bool wide;

		if (*f != '%') {
			put(*f);
			continue;
		}
		while (*++f >= '0' && *f <= '9')
			width = (unsigned)(*f - '0');
		wide = *f == 'l';
		f += wide;
		if (*f == 's')
			for (const char *s = va_arg(ap, const char *); *s; s++)
				put(*s);
		else if (*f == 'c')
			put((char)va_arg(ap, int));
		else if (*f == 'd')
			put_signed(wide ? va_arg(ap, long) : va_arg(ap, int));
		else
			put_number(wide ? va_arg(ap, unsigned long) : va_arg(ap, unsigned),
				   *f == 'x' ? 16 : 10, width);
	}
}

void print(const char *f, ...)
{
	va_list ap;

	va_start(ap, f);
	print_args(f, ap);
	va_end(ap);
}
