// SPDX-License-Identifier: Apache-2.0
/*
 * platform_test.c - what a PC does where there is no device, and its oldest devices.
 *
 * Reads of nothing are all ones, writes to nothing have no effect, in every width and as string instructions.
 */
#include "virtio.h"
#include <linux/pci_regs.h>
#include <linux/serial_reg.h>

#define COM1          0x3f8
#define CMOS_INDEX    0x70
#define CMOS_DATA     0x71
#define CMOS_STATUS_A 0x0a
#define CMOS_MONTH    8
#define I8042_STATUS  0x64
#define PVPANIC       0x505
#define NO_MMIO       0xd8000000u /* in the 32-bit PCI window, far above what is ever assigned */

static void test_no_port(void)
{
	static const uint16_t ports[] = {0x2e8, 0x1230, 0x8004, 0xfff8};
	uint8_t bytes[8] = {0};
	unsigned bad = 0;

	for (unsigned i = 0; i < ARRAY_LEN(ports); i++) {
		port_out8(ports[i], 0);
		port_out16(ports[i], 0);
		port_out32(ports[i], 0);
		bad += port_in8(ports[i]) != 0xff || port_in16(ports[i]) != 0xffff ||
		       port_in32(ports[i]) != ~0u;
	}
	is(bad, 0, "platform: ports without a device read all ones in every width");
	port_in_bytes(ports[1], bytes, sizeof(bytes));
	ok(bytes[0] == 0xff && !memcmp(bytes, bytes + 1, sizeof(bytes) - 1),
	   "platform: also as a string");
}

static void test_no_memory(void)
{
	mmio_write32(NO_MMIO, 0);
	ok(mmio_read8(NO_MMIO) == 0xff && mmio_read16(NO_MMIO + 2) == 0xffff &&
		   mmio_read32(NO_MMIO) == ~0u,
	   "platform: addresses without a device read all ones");
}

static void test_serial(void)
{
	port_out8(COM1 + UART_SCR, 0xa5);
	is(port_in8(COM1 + UART_SCR), 0xa5,
	   "platform: the serial port's scratch register keeps its value");
	ok(port_in8(COM1 + UART_LSR) & UART_LSR_THRE, "platform: and its transmitter is ready");
}

static uint8_t cmos(uint8_t index)
{
	port_out8(CMOS_INDEX, index);
	return port_in8(CMOS_DATA);
}

static void test_old_devices(void)
{
	uint8_t month = cmos(CMOS_MONTH);

	ok(month >= 1 && month <= 0x12, "platform: the clock knows the month (%x)", month);
	ok(!(cmos(CMOS_STATUS_A) & 0x80), "platform: and is not being updated for ever");
	ok(!(port_in8(I8042_STATUS) & 1), "platform: the keyboard controller has nothing to say");
	ok(port_in8(PVPANIC) & 1, "platform: pvpanic takes panics");
}

static void test_pci(void)
{
	uint32_t absent = 31u << 3;

	if (!pci_is_there()) {
		is(port_in32(0xcf8), ~0u, "platform: without PCI its ports are empty");
		return;
	}
	ok(pci_read(0, PCI_VENDOR_ID, 4) != ~0u, "platform: there is a host bridge");
	is(pci_read(0, PCI_CLASS_DEVICE, 2), 0x0600, "platform: of that class");
	ok(pci_read(absent, PCI_VENDOR_ID, 4) == ~0u && pci_read(absent, PCI_COMMAND, 2) == 0xffff,
	   "platform: a function that is absent reads all ones");
	pci_write(absent, PCI_COMMAND, 2, 0);
	ok(pci_read(1u << 8, PCI_VENDOR_ID, 4) == ~0u, "platform: and so does another bus");
}

void platform_test(void)
{
	test_no_port();
	test_no_memory();
	test_serial();
	test_old_devices();
	test_pci();
}
