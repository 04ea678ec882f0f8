// SPDX-License-Identifier: Apache-2.0
/*
 * config.c - the model's fixed sections, flags into device sections, and what only the whole can tell.
 *
 * Reading and printing JSON is config_json.c. Everything a key means stands in an option table: here for boot-source
 * and machine-config, beside each device for the rest.
 */
#include "cmdline.h"
#include "config.h"
#include "config_int.h"
#include "../devices/table.h"
#include "../devices/virtio_blk.h"
#include "../vmm/arch.h"
#include "../vmm/log.h"
#include <linux/limits.h>

static const char *const transport_names[] = {"auto", "pci", "mmio", NULL};
static const char *const pages_names[] = {"Transparent", "None", "2M", NULL};

#define B(member) offsetof(struct boot_source, member)
static const struct opt boot_opts[] = {
	{.key = "kernel_image_path",
	 .kind = OPT_STR,
	 .offset = B(kernel_image_path),
	 .required = true,
	 .min = 1,
	 .max = PATH_MAX - 1,
	 .help = "bzImage or ELF vmlinux"},
	{.key = "initrd_path",
	 .kind = OPT_STR,
	 .offset = B(initrd_path),
	 .min = 1,
	 .max = PATH_MAX - 1,
	 .help = "initial RAM disk"},
	{.key = "boot_args",
	 .kind = OPT_STR,
	 .offset = B(boot_args),
	 .max = 4000,
	 .help = "kernel command line, in place of the default one"},
};

static bool check_cpu_mask(const void *text, char err[OPT_ERR_MAX])
{
	return arch_cpu_mask_check(text, err, OPT_ERR_MAX);
}

#define M(member) offsetof(struct machine_config, member)
static const struct opt machine_opts[] = {
	{.key = "vcpu_count",
	 .kind = OPT_U32,
	 .offset = M(vcpu_count),
	 .def = "1",
	 .min = 1,
	 .max = 32,
	 .help = "virtual CPUs"},
	{.key = "mem_size_mib",
	 .kind = OPT_U32,
	 .offset = M(mem_size_mib),
	 .def = "128",
	 .min = 16,
	 .max = 1 << 20,
	 .help = "guest RAM in MiB"},
	{.key = "huge_pages",
	 .kind = OPT_ENUM,
	 .offset = M(huge_pages),
	 .def = "Transparent",
	 .names = pages_names,
	 .help = "pages behind guest RAM; 2M takes reserved ones"},
	{.key = "transport",
	 .kind = OPT_ENUM,
	 .offset = M(transport),
	 .def = "auto",
	 .names = transport_names,
	 .help = "how virtio devices are found; auto: pci, unless boot_args say pci=off"},
	{.key = "cpu_mask",
	 .kind = OPT_STR,
	 .offset = M(cpu_mask),
	 .max = 1000,
	 .check = check_cpu_mask,
	 .help = "CPU features hidden from the guest, as in /proc/cpuinfo, with commas"},
	{.key = "smt", .kind = OPT_IGNORE, .help = "accepted; each vCPU is a core"},
	{.key = "track_dirty_pages",
	 .kind = OPT_IGNORE,
	 .help = "accepted; snapshots are not built"},
	{.key = "cpu_template",
	 .kind = OPT_LATER,
	 .help = "CPU templates are not built; see cpu_mask"},
};

const struct config_fixed config_fixed[] = {
	{"boot-source",
	 "what is booted",
	 offsetof(struct config, boot),
	 {boot_opts, ARRAY_LEN(boot_opts), sizeof(struct boot_source)}},
	{"machine-config",
	 "CPUs, memory, transport",
	 offsetof(struct config, machine),
	 {machine_opts, ARRAY_LEN(machine_opts), sizeof(struct machine_config)}},
};
const unsigned config_nfixed = ARRAY_LEN(config_fixed);

const struct opt_table *config_section(unsigned i, const char **key, const char **help)
{
	if (i >= config_nfixed)
		return NULL;
	*key = config_fixed[i].key;
	*help = config_fixed[i].help;
	return &config_fixed[i].table;
}

int config_init(struct config *c)
{
	*c = (struct config){0};
	for (unsigned i = 0; i < config_nfixed; i++) {
		int r = opt_defaults(&config_fixed[i].table, config_fixed_of(c, i));

		if (r) {
			config_fini(c);
			return r;
		}
	}
	return 0;
}

void config_fini(struct config *c)
{
	for (unsigned i = 0; i < config_nfixed; i++)
		opt_fini(&config_fixed[i].table, config_fixed_of(c, i));
	for (unsigned i = 0; i < c->ndev; i++) {
		opt_fini(&c->dev[i].type->opts, c->dev[i].cfg);
		free(c->dev[i].cfg);
	}
	free(c->dev);
	*c = (struct config){0};
}

/* Platform devices are in every machine, whether the file names them or not. */
static unsigned nvirtio(const struct config *c)
{
	unsigned n = 0;

	for (unsigned i = 0; i < c->ndev; i++)
		n += c->dev[i].type->class == DEVICE_VIRTIO;
	return n;
}

int config_add_device(struct config *c, const struct device_type *type, void **cfg)
{
	struct config_device *bigger;
	void *fresh;
	int r;

	for (unsigned i = 0; i < c->ndev && !type->many; i++)
		if (c->dev[i].type == type) {
			*cfg = c->dev[i].cfg;
			return 0;
		}
	if (type->class == DEVICE_VIRTIO && nvirtio(c) == CONFIG_MAX_DEVICES)
		return -ENOSPC;
	bigger = realloc(c->dev, (c->ndev + 1) * sizeof(*bigger));
	if (!bigger)
		return -ENOMEM;
	c->dev = bigger;
	fresh = calloc(1, MAX(type->opts.size, (size_t)1));
	if (!fresh)
		return -ENOMEM;
	r = opt_defaults(&type->opts, fresh);
	if (r) {
		free(fresh);
		return r;
	}
	c->dev[c->ndev++] = (struct config_device){.type = type, .cfg = fresh};
	*cfg = fresh;
	return 0;
}

static int flag_fault(const struct device_type *type, const char *text, int r, const char *what)
{
	log_err("--%s " CONFIG_FLAG_SHOWN ": %s", type->flag, text, what);
	return r;
}

int config_add_flag(struct config *c, const struct device_type *type, const char *text)
{
	auto_free bool *seen = calloc(opt_count(&type->opts) + 1, sizeof(*seen));
	char err[OPT_ERR_MAX];
	unsigned before = c->ndev;
	void *cfg = NULL;
	int r = seen ? config_add_device(c, type, &cfg) : -ENOMEM;

	if (r)
		return flag_fault(type, text, r, r == -ENOSPC ? CONFIG_TOO_MANY : strerror(-r));
	r = opt_parse_list(&type->opts, cfg, text, seen, err);
	if (r)
		return flag_fault(type, text, r, err);
	/* One that is changed has what is required already. */
	if (c->ndev > before && opt_missing(&type->opts, seen, err))
		return flag_fault(type, text, -EINVAL, err);
	return 0;
}

/* NULL: it has none. */
static const char *id_of(const struct config_device *d)
{
	const char *key = d->type->id_key;
	const struct opt *o = key ? opt_find(&d->type->opts, key, strlen(key)) : NULL;

	return o ? *(char **)((char *)d->cfg + o->offset) : NULL;
}

/* The position of device i among those of its type, for messages that name "drives[1]". */
static unsigned nth_of_type(const struct config *c, unsigned i)
{
	unsigned n = 0;

	for (unsigned j = 0; j < i; j++)
		n += c->dev[j].type == c->dev[i].type;
	return n;
}

static bool same_id(const struct config_device *a, const struct config_device *b)
{
	return a->type == b->type && id_of(a) && id_of(b) && !strcmp(id_of(a), id_of(b));
}

static int check_id(const struct config *c, unsigned i)
{
	const struct device_type *type = c->dev[i].type;

	for (unsigned j = 0; j < i; j++) {
		if (!same_id(&c->dev[i], &c->dev[j]))
			continue;
		log_err("%s[%u].%s: \"%s\" is used by %s[%u] already: choose another",
			type->section, nth_of_type(c, i), type->id_key, id_of(&c->dev[i]),
			type->section, nth_of_type(c, j));
		return -EINVAL;
	}
	return 0;
}

static const struct blk_config *blk_of(const struct config_device *d)
{
	return d->type == &blk_device ? d->cfg : NULL;
}

static int root_first(struct config *c)
{
	unsigned first = c->ndev, root = c->ndev;
	struct config_device d;

	for (unsigned i = 0; i < c->ndev; i++) {
		const struct blk_config *blk = blk_of(&c->dev[i]);

		if (!blk)
			continue;
		first = MIN(first, i);
		if (!blk->is_root_device)
			continue;
		if (root < c->ndev) {
			log_err("drives: \"%s\" and \"%s\" are both the root device: one can be",
				blk_of(&c->dev[root])->drive_id, blk->drive_id);
			return -EINVAL;
		}
		root = i;
	}
	if (root == c->ndev)
		return 0;
	d = c->dev[root];
	memmove(&c->dev[first + 1], &c->dev[first], (root - first) * sizeof(d));
	c->dev[first] = d;
	return 0;
}

static int check_machine(const struct config *c)
{
	if (!c->boot.kernel_image_path) {
		log_err("boot-source.kernel_image_path is missing: name the kernel to boot");
		return -EINVAL;
	}
	if (c->machine.huge_pages == PAGES_2M && c->machine.mem_size_mib % 2) {
		log_err("machine-config.mem_size_mib: %u: must be even with huge_pages 2M",
			c->machine.mem_size_mib);
		return -EINVAL;
	}
	if (cmdline_transport(c) == TRANSPORT_MMIO && nvirtio(c) > IRQ_FREE_PINS) {
		log_err("machine-config.transport: mmio has %d interrupt pins, one for each of %u "
			"devices: configure fewer, or use transport pci",
			IRQ_FREE_PINS, nvirtio(c));
		return -EINVAL;
	}
	return 0;
}

int config_check(struct config *c)
{
	int r = check_machine(c);

	if (r)
		return r;
	for (unsigned i = 0; i < c->ndev; i++) {
		r = check_id(c, i);
		if (r)
			return r;
	}
	return root_first(c);
}
