// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
/*
 * mmio_windows.c - a guest kernel module: virtio-mmio windows named on the command line become devices.
 *
 * A kernel with CONFIG_VIRTIO_MMIO_CMDLINE_DEVICES does this itself; Debian's has virtio_mmio without it. With
 * this module Debian's own driver can be tested on a machine that has neither ACPI nor PCI.
 * Reads every "virtio_mmio.device=SIZE[K]@BASE:IRQ" in the parameter "cmdline", where guest/init puts those words of
 * /proc/cmdline (modules cannot see the running kernel's). Never unloaded.
 */
#include <linux/ioport.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/platform_device.h>

static char *cmdline = "";
module_param(cmdline, charp, 0);

static int __init window_add(int id, const char *text)
{
	struct resource res[2] = {};
	struct platform_device *dev;
	unsigned long long base, size;
	unsigned int irq;
	char *at;

	size = memparse(text, &at);
	if (sscanf(at, "@%lli:%u", &base, &irq) != 2 || !size)
		return -EINVAL;
	res[0] = (struct resource)DEFINE_RES_MEM(base, size);
	res[1] = (struct resource)DEFINE_RES_IRQ(irq);
	dev = platform_device_register_simple("virtio-mmio", id, res, ARRAY_SIZE(res));
	return PTR_ERR_OR_ZERO(dev);
}

static int __init windows_init(void)
{
	static const char key[] = "virtio_mmio.device=";
	const char *at = cmdline;
	int id, err;

	for (id = 0; (at = strstr(at, key)); id++) {
		at += sizeof(key) - 1;
		err = window_add(id, at);
		if (err) {
			pr_err("mmio_windows: cannot add window %d: %d\n", id, err);
			return err;
		}
	}
	return 0;
}
module_init(windows_init);

MODULE_DESCRIPTION("virtio-mmio windows from the kernel command line");
MODULE_LICENSE("GPL");
