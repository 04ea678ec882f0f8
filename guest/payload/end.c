// SPDX-License-Identifier: Apache-2.0
/*
 * end.c - the ways in which a machine ends, each by itself for the tests that tell them apart.
 */
#include "payload.h"
#include "start.h"

#define SLEEP_CONTROL  0x600
#define SLEEP_S5       (5 << 2 | 1 << 5) /* type and SLP_EN, ACPI 6.4, 4.8.3.7 */
#define ACPI_RESET     0x602
#define PCI_RESET      0xcf9
#define I8042          0x64
#define I8042_RESET    0xfe
#define PVPANIC        0x505
#define PVPANIC_PANIC  1
#define PM1A_CONTROL   0x604 /* QEMU's PCs */
#define ISA_DEBUG_EXIT 0xf4  /* QEMU */

static void __attribute__((noreturn)) triple_fault(void)
{
	start_quiet = true;
	for (;;)
		asm volatile("ud2");
}

void end_power_off(void)
{
	port_out8(ISA_DEBUG_EXIT, 0);
	port_out16(PM1A_CONTROL, 0x2000);
	port_out8(SLEEP_CONTROL, SLEEP_S5);
	port_out8(I8042, I8042_RESET);
	triple_fault();
}

void give_up(const char *f, ...)
{
	va_list ap;

	print("\nBail out! ");
	va_start(ap, f);
	print_args(f, ap);
	va_end(ap);
	print("\n");
	end_power_off();
}

/* Asks once, in one way, and then does nothing: a machine that does not end by that runs into its time limit. */
void end_job(const char *how)
{
	print("payload: end by %s\n", how);
	if (text_equal(how, "poweroff"))
		port_out8(SLEEP_CONTROL, SLEEP_S5);
	else if (text_equal(how, "acpi-reset"))
		port_out8(ACPI_RESET, 1);
	else if (text_equal(how, "pci-reset"))
		port_out8(PCI_RESET, 6);
	else if (text_equal(how, "i8042-reset"))
		port_out8(I8042, I8042_RESET);
	else if (text_equal(how, "panic"))
		port_out8(PVPANIC, PVPANIC_PANIC);
	else if (text_equal(how, "triple-fault"))
		triple_fault();
	for (;;)
		cpu_pause();
}
