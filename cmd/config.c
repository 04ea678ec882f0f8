// SPDX-License-Identifier: Apache-2.0
/*
 * config.c - the model's fixed sections, flags into device sections, and what only the whole can tell.
 *
 * Reading and printing JSON is config_json.c. Everything a key means stands in an option table: here for boot-source
 * and machine-config, beside each device for the rest.
 */
#include "config.h"
#include "config_int.h"
#include "../devices/table.h"
#include "../devices/virtio_blk.h"
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
	if (c->ndev == CONFIG_MAX_DEVICES) {
		log_err("more than %d devices", CONFIG_MAX_DEVICES);
		return -ENOSPC;
	}
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

int config_add_flag(struct config *c, const struct device_type *type, const char *text)
{
	auto_free bool *seen = calloc(type->opts.n + 1, sizeof(*seen));
	char err[OPT_ERR_MAX];
	void *cfg;
	int r;

	if (!seen)
		return -ENOMEM;
	r = config_add_device(c, type, &cfg);
	if (r)
		return r;
	r = opt_parse_list(&type->opts, cfg, text, seen, err);
	if (r) {
		log_err("--%s %s: %s", type->flag, text, err);
		return r;
	}
	for (unsigned i = 0; i < type->opts.n; i++)
		if (type->opts.opts[i].required && !seen[i]) {
			log_err("--%s %s: %s= is missing (%s)", type->flag, text,
				type->opts.opts[i].key, type->opts.opts[i].help);
			return -EINVAL;
		}
	return 0;
}

static const char *id_of(const struct config_device *d)
{
	const struct opt *o = opt_find(&d->type->opts, d->type->id_key, strlen(d->type->id_key));

	return o ? *(char **)((char *)d->cfg + o->offset) : NULL;
}

/* The first device's position among those of its own type, for messages that name "drives[1]". */
static unsigned nth_of_type(const struct config *c, unsigned i)
{
	unsigned n = 0;

	for (unsigned j = 0; j < i; j++)
		n += c->dev[j].type == c->dev[i].type;
	return n;
}

static int check_ids(const struct config *c)
{
	for (unsigned i = 0; i < c->ndev; i++)
		for (unsigned j = i + 1; j < c->ndev && c->dev[i].type->id_key; j++) {
			const char *a = id_of(&c->dev[i]), *b;

			if (c->dev[i].type != c->dev[j].type || !a)
				continue;
			b = id_of(&c->dev[j]);
			if (!b || strcmp(a, b))
				continue;
			log_err("%s[%u].%s: \"%s\" is used by %s[%u] already: choose another",
				c->dev[j].type->section, nth_of_type(c, j), c->dev[j].type->id_key,
				b, c->dev[i].type->section, nth_of_type(c, i));
			return -EINVAL;
		}
	return 0;
}

static int root_first(struct config *c)
{
	unsigned first = c->ndev, root = c->ndev;

	for (unsigned i = 0; i < c->ndev; i++) {
		const struct blk_config *blk = c->dev[i].cfg;

		if (c->dev[i].type != &blk_device)
			continue;
		first = MIN(first, i);
		if (blk->is_root_device && root < c->ndev) {
			log_err("drives: \"%s\" and \"%s\" are both the root device: at most one "
				"can be",
				((const struct blk_config *)c->dev[root].cfg)->drive_id,
				blk->drive_id);
			return -EINVAL;
		}
		if (blk->is_root_device)
			root = i;
	}
	if (root < c->ndev) {
		struct config_device d = c->dev[root];

		memmove(&c->dev[first + 1], &c->dev[first], (root - first) * sizeof(d));
		c->dev[first] = d;
	}
	return 0;
}

int config_check(struct config *c)
{
	int r;

	if (!c->boot.kernel_image_path) {
		log_err("boot-source.kernel_image_path is missing: name the kernel to boot");
		return -EINVAL;
	}
	r = check_ids(c);
	return r ? r : root_first(c);
}
