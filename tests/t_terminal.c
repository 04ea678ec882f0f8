// SPDX-License-Identifier: Apache-2.0
/*
 * t_terminal.c - the console on a terminal that somebody else has a hand on: its mode, its pace, a guest that blocks it.
 *
 * Each case runs on both engines in a process of its own, with an alarm: standard input and output become a pseudo
 * terminal there.
 */
#include "bounded.h"
#include "../devices/serial.h"
#include "../devices/table.h"
#include "../vmm/vm.h"
#include <fcntl.h>
#include <linux/serial_reg.h>
#include <poll.h>
#include <termios.h>

#define COM1       0x3f8
#define SLOW_BYTES 200000u

struct console {
	int master, slave;
	struct vm *vm;
	struct device *port;
};

static struct console console_on_terminal(void)
{
	struct serial_config cfg = {.input = true};
	struct vm_params params = {.mem_size = MIB(2), .pages = MEM_PAGES_SMALL, .ncpus = 1};
	struct console c = {.master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)};
	int out = dup(STDOUT_FILENO);
	struct termios raw;

	need(c.master >= 0 && !grantpt(c.master) && !unlockpt(c.master));
	c.slave = open(ptsname(c.master), O_RDWR | O_NOCTTY | O_CLOEXEC);
	need(c.slave >= 0 && !tcgetattr(c.slave, &raw));
	cfmakeraw(&raw);
	need(!tcsetattr(c.slave, TCSANOW, &raw));
	need(dup2(c.slave, STDIN_FILENO) == STDIN_FILENO);
	need(dup2(c.slave, STDOUT_FILENO) == STDOUT_FILENO);
	need(!vm_create_bare(&c.vm, &params));
	need(!serial_device.create(c.vm, &cfg, 0, &c.port) && !c.port->run(c.port));
	need(dup2(out, STDOUT_FILENO) == STDOUT_FILENO); /* our own words go where they went */
	close(out);
	return c;
}

static void console_end(struct console *c)
{
	c->port->destroy(c->port);
	vm_destroy(c->vm);
	close(c->slave);
	close(c->master);
}

static void out8(struct console *c, uint16_t reg, uint8_t v)
{
	bus_write(&c->vm->pio, COM1 + reg, &v, 1);
}

static uint8_t in8(struct console *c, uint16_t reg)
{
	uint8_t v = 0;

	bus_read(&c->vm->pio, COM1 + reg, &v, 1);
	return v;
}

static void type(struct console *c, const char *keys)
{
	need(write(c->master, keys, strlen(keys)) == (ssize_t)strlen(keys));
}

/* Returns when the guest has got just that. */
static bool guest_gets(struct console *c, const char *text)
{
	for (; *text; text++) {
		wait_until(in8(c, UART_LSR) & UART_LSR_DR);
		if (in8(c, UART_RX) != (uint8_t)*text)
			return false;
	}
	return true;
}

static void escape(struct console *c)
{
	type(c, "\001x");
	wait_until(vm_get_end(c->vm) != VM_RUNNING);
}

/* The guest loops its transmitter back until the receiver is full, and never reads. */
static bool receiver_full(void)
{
	struct console c = console_on_terminal();
	bool good;

	out8(&c, UART_MCR, UART_MCR_LOOP);
	for (unsigned i = 0; i < 2 * SERIAL_RX_SIZE; i++)
		out8(&c, UART_TX, 'x');
	escape(&c);
	good = vm_get_end(c.vm) == VM_USER;
	console_end(&c);
	return good;
}

/* As stty in another window does, or a job of the same shell. */
static bool mode_changes(void)
{
	struct console c = console_on_terminal();
	struct termios t;
	bool good = true;

	need(!tcgetattr(c.slave, &t));
	for (unsigned i = 0; i < 40 && good; i++) {
		t.c_lflag ^= i % 2 ? ICANON : ECHO;
		need(!tcsetattr(c.slave, TCSANOW, &t));
		type(&c, "k\n");
		good = guest_gets(&c, "k\n");
	}
	escape(&c);
	good = good && vm_get_end(c.vm) == VM_USER;
	console_end(&c);
	return good;
}

static void send_while_ready(struct console *c, size_t *sent)
{
	for (; *sent < SLOW_BYTES && in8(c, UART_LSR) & UART_LSR_THRE; (*sent)++)
		out8(c, UART_TX, 'x');
}

/* A terminal that is stopped now and then wakes its writer when there is no room yet. */
static bool slow_terminal(void)
{
	struct console c = console_on_terminal();
	struct pollfd p = {.fd = c.master, .events = POLLIN};
	size_t sent = 0, got = 0;
	char buf[100];

	for (unsigned turn = 1; got < SLOW_BYTES; turn++) {
		ssize_t n;

		send_while_ready(&c, &sent);
		if (turn % 64 == 0)
			need(!tcflow(c.slave, TCOOFF) && !tcflow(c.slave, TCOON));
		if (poll(&p, 1, 1) != 1)
			continue;
		n = read(c.master, buf, sizeof(buf));
		need(n > 0);
		got += (size_t)n;
	}
	console_end(&c);
	return got == SLOW_BYTES;
}

static void on_engine(const char *engine)
{
	setenv("WHERRY_ENGINE", engine, 1);
	ok(bounded(receiver_full), "%s: the escape works whatever the guest did to its receiver",
	   engine);
	ok(bounded(mode_changes), "%s: the terminal's mode may be changed while the guest has it",
	   engine);
	ok(bounded(slow_terminal), "%s: a terminal that stops now and then gets everything",
	   engine);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	need(!sandbox_init());
	on_engine("epoll");
	on_engine("uring");
	return done();
}
