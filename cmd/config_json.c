// SPDX-License-Identifier: Apache-2.0
/*
 * config_json.c - the model's file: Firecracker's --config-file JSON plus our own keys.
 *
 * json-c parses; json_index.c says where things stand. Each fault is one line:
 *   FILE:LINE:COLUMN: drives[0].is_read_only: must be true or false
 * Values go through the option tables only. null is as good as absent everywhere, [] where an array belongs.
 * Start-up code: no threads, nothing from the guest.
 */
#include "config.h"
#include "config_int.h"
#include "json_index.h"
#include "../vmm/log.h"
#include <fcntl.h>
#include <json-c/json.h>
#include <linux/limits.h>
#include <sys/stat.h>

#define FILE_MAX MIB(1)
#define UTF8_BOM "\xef\xbb\xbf" /* some editors begin files with it */
#define PATH_LEN 512
#define LIST_MAX 600 /* a sentence with all keys of a table */
/* A value as JSON: no table lets in longer strings, and a control character takes six bytes. */
#define TEXT_MAX (6 * PATH_MAX + 3)

/* Sections of Firecracker's file that are not built. Present with a value, they are refused with the reason. */
static const struct {
	const char *key, *why;
} later[] = {
	{"network-interfaces", "virtio-net is not built yet"},
	{"vsock", "virtio-vsock is not built yet"},
	{"balloon", "virtio-balloon is not built yet"},
	{"pmem", "virtio-pmem is not built yet"},
	{"memory-hotplug", "memory hotplug is not built"},
	{"mmds-config", "the metadata service is not built yet"},
	{"cpu-config", "CPU templates are not built; see machine-config.cpu_mask"},
	{"logger", "log files are not built yet: messages go to standard error"},
	{"metrics", "metrics are not built yet"},
	{"console", "virtio-console is not built yet: the console is the serial port"},
};

struct reader {
	struct config *config;
	const char *file;
	struct json_index index;
};

static int fault(const struct reader *rd, const char *path, const char *what)
{
	struct json_place at = json_index_find(&rd->index, path);

	log_err("%s:%u:%u: %s: %s", rd->file, at.line, at.column, path, what);
	return -EINVAL;
}

/* A fault in the text itself, before it is known what stands where. */
static int syntax_fault(const struct reader *rd, const char *text, size_t off, const char *what)
{
	unsigned line, column;

	json_offset_place(text, off, &line, &column);
	log_err("%s:%u:%u: not JSON: %s", rd->file, line, column, what);
	return -EINVAL;
}

/* Adds word to a sentence of LIST_MAX bytes that began "...:"; what does not fit is cut. */
static void list_add(char *list, const char *word)
{
	size_t n = strlen(list);

	snprintf(list + n, LIST_MAX - n, "%s %s", list[n - 1] == ':' ? "" : ",", word);
}

/* The ways to write down something unbuilt without asking for it; "None" is Firecracker's no CPU template. */
static bool is_nothing(struct json_object *v)
{
	switch (json_object_get_type(v)) {
	case json_type_null:
		return true;
	case json_type_array:
		return !json_object_array_length(v);
	case json_type_object:
		return !json_object_object_length(v);
	case json_type_string:
		return !strcmp(json_object_get_string(v), "None");
	default:
		return false;
	}
}

static int read_object(struct reader *, const struct opt_table *, void *obj, struct json_object *,
		       const char *path);

static int wrong_type(const struct reader *rd, const char *path, const struct opt *o)
{
	char accepts[OPT_ERR_MAX], what[OPT_ERR_MAX + 16];

	opt_accepts(o, accepts, sizeof(accepts));
	snprintf(what, sizeof(what), "must be %s", accepts);
	return fault(rd, path, what);
}

static int read_scalar(struct reader *rd, const struct opt *o, void *obj, struct json_object *v,
		       const char *path)
{
	enum json_type type = json_object_get_type(v);
	char err[OPT_ERR_MAX] = "";
	int r;

	if (o->kind == OPT_BOOL && type == json_type_boolean)
		r = opt_set_bool(o, obj, json_object_get_boolean(v), err);
	else if ((o->kind == OPT_U32 || o->kind == OPT_U64) && type == json_type_int)
		r = opt_set_int(o, obj, json_object_get_int64(v), err);
	else if ((o->kind == OPT_STR || o->kind == OPT_ENUM) && type == json_type_string)
		r = opt_set_str(o, obj, json_object_get_string(v),
				(size_t)json_object_get_string_len(v), err);
	else
		return wrong_type(rd, path, o);
	return r ? fault(rd, path, err) : 0;
}

static int unknown_key(const struct reader *rd, const struct opt_table *t, const char *path)
{
	char what[LIST_MAX] = "unknown key; known here:";

	for (unsigned i = 0; i < t->n; i++)
		if (t->opts[i].kind != OPT_LATER && t->opts[i].kind != OPT_IGNORE)
			list_add(what, t->opts[i].key);
	return fault(rd, path, what);
}

static int read_key(struct reader *rd, const struct opt_table *t, void *obj, const char *key,
		    struct json_object *v, const char *path)
{
	const struct opt *o = opt_find(t, key, strlen(key));

	if (!o)
		return unknown_key(rd, t, path);
	if (!v || o->kind == OPT_IGNORE)
		return 0;
	if (o->kind == OPT_LATER)
		return is_nothing(v) ? 0 : fault(rd, path, o->help);
	if (o->kind != OPT_OBJECT)
		return read_scalar(rd, o, obj, v, path);
	if (!json_object_is_type(v, json_type_object))
		return wrong_type(rd, path, o);
	return read_object(rd, o->sub, (char *)obj + o->offset, v, path);
}

static int check_required(const struct reader *rd, const struct opt_table *t, struct json_object *v,
			  const char *path)
{
	for (unsigned i = 0; i < t->n; i++) {
		char what[PATH_LEN];

		if (!t->opts[i].required || json_object_object_get(v, t->opts[i].key))
			continue;
		snprintf(what, sizeof(what), "\"%s\" is missing (%s)", t->opts[i].key,
			 t->opts[i].help);
		return fault(rd, path, what);
	}
	return 0;
}

static int read_object(struct reader *rd, const struct opt_table *t, void *obj,
		       struct json_object *v, const char *path)
{
	char sub[PATH_LEN];

	json_object_object_foreach(v, key, val)
	{
		int r;

		snprintf(sub, sizeof(sub), "%s.%s", path, key);
		r = read_key(rd, t, obj, key, val, sub);
		if (r)
			return r;
	}
	return check_required(rd, t, v, path);
}

static int read_device(struct reader *rd, const struct device_type *type, struct json_object *v,
		       const char *path)
{
	void *cfg;
	int r;

	if (!json_object_is_type(v, json_type_object))
		return fault(rd, path, "must be an object");
	r = config_add_device(rd->config, type, &cfg);
	if (r == -ENOSPC)
		return fault(rd, path, CONFIG_TOO_MANY);
	return r ? r : read_object(rd, &type->opts, cfg, v, path);
}

static int read_devices(struct reader *rd, const struct device_type *type, struct json_object *v)
{
	char path[PATH_LEN];

	if (!v)
		return 0;
	if (!type->many)
		return read_device(rd, type, v, type->section);
	if (!json_object_is_type(v, json_type_array))
		return fault(rd, type->section, "must be an array of objects");
	for (size_t i = 0; i < json_object_array_length(v); i++) {
		int r;

		snprintf(path, sizeof(path), "%s[%zu]", type->section, i);
		r = read_device(rd, type, json_object_array_get_idx(v, i), path);
		if (r)
			return r;
	}
	return 0;
}

static int unknown_section(struct reader *rd, const char *key, struct json_object *v)
{
	char what[LIST_MAX] = "unknown section; known:";

	for (unsigned i = 0; i < ARRAY_LEN(later); i++)
		if (!strcmp(key, later[i].key))
			return is_nothing(v) ? 0 : fault(rd, key, later[i].why);
	for (unsigned i = 0; i < config_nfixed; i++)
		list_add(what, config_fixed[i].key);
	for (unsigned i = 0; device_types[i]; i++)
		list_add(what, device_types[i]->section);
	return fault(rd, key, what);
}

static int read_section(struct reader *rd, const char *key, struct json_object *v)
{
	for (unsigned i = 0; i < config_nfixed; i++) {
		if (strcmp(key, config_fixed[i].key))
			continue;
		if (!v)
			return 0;
		if (!json_object_is_type(v, json_type_object))
			return fault(rd, key, "must be an object");
		return read_object(rd, &config_fixed[i].table, config_fixed_of(rd->config, i), v,
				   key);
	}
	for (unsigned i = 0; device_types[i]; i++)
		if (!strcmp(key, device_types[i]->section))
			return read_devices(rd, device_types[i], v);
	return unknown_section(rd, key, v);
}

/* Logs what is wrong with the text. Strict: only the comments go beyond JSON, and they are blanks by now. */
static int parse(const struct reader *rd, const char *text, size_t len, struct json_object **root)
{
	struct json_tokener *tok = json_tokener_new_ex(JSON_DEPTH_MAX);
	enum json_tokener_error err;
	int r = 0;

	if (!tok)
		return -ENOMEM;
	json_tokener_set_flags(tok, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	/* With the NUL, which tells the parser that the text ends. */
	*root = json_tokener_parse_ex(tok, text, (int)len + 1);
	err = json_tokener_get_error(tok);
	if (err != json_tokener_success)
		r = syntax_fault(rd, text, MIN(json_tokener_get_parse_end(tok), len),
				 json_tokener_error_desc(err));
	json_tokener_free(tok);
	return r;
}

static int read_root(struct reader *rd, struct json_object *root)
{
	const struct json_place *twice = rd->index.twice;

	if (!json_object_is_type(root, json_type_object)) {
		log_err("%s:1:1: must be an object: { \"boot-source\": ... }", rd->file);
		return -EINVAL;
	}
	if (twice) {
		log_err("%s:%u:%u: %s: is there twice: take one away", rd->file, twice->line,
			twice->column, twice->path);
		return -EINVAL;
	}
	json_object_object_foreach(root, key, val)
	{
		int r = read_section(rd, key, val);

		if (r)
			return r;
	}
	return 0;
}

static int read_text(struct reader *rd, char *text, size_t len)
{
	const char *nul = memchr(text, 0, len); /* where the parser would stop and be content */
	struct json_object *root = NULL;
	size_t off;
	int r;

	if (len >= strlen(UTF8_BOM) && !memcmp(text, UTF8_BOM, strlen(UTF8_BOM))) {
		text += strlen(UTF8_BOM); /* columns count from after it, as in editors */
		len -= strlen(UTF8_BOM);
	}
	if (nul)
		return syntax_fault(rd, text, (size_t)(nul - text), "a NUL byte");
	if (!json_blank_comments(text, len, &off))
		return syntax_fault(rd, text, off, "a comment that does not end");
	r = parse(rd, text, len, &root);
	if (!r)
		r = json_index_build(&rd->index, text, len);
	if (!r)
		r = read_root(rd, root);
	json_object_put(root);
	json_index_free(&rd->index);
	return r;
}

/* With errno. */
static int unreadable(const char *path)
{
	const char *remedy = errno == EACCES ? "let this user read it"
					     : "name a JSON file, or use flags: --help lists them";

	log_err("%s (%s): %m", path, log_remedy(errno, remedy));
	return -errno;
}

static int read_file(const char *path, char **text, size_t *len)
{
	auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
	auto_free char *buf = NULL;
	struct stat st;
	size_t n = 0;
	ssize_t r;

	if (fd < 0 || fstat(fd, &st))
		return unreadable(path);
	if (S_ISDIR(st.st_mode)) {
		log_err("%s: is a directory: name a JSON file", path);
		return -EISDIR;
	}
	buf = malloc(FILE_MAX + 2); /* one byte that is too many, and a NUL */
	if (!buf)
		return -ENOMEM;
	while (n <= FILE_MAX && (r = read(fd, buf + n, FILE_MAX + 1 - n)) != 0) {
		if (r < 0)
			return unreadable(path);
		n += (size_t)r;
	}
	if (n > FILE_MAX) {
		log_err("%s: larger than 1 MiB: not a machine's configuration", path);
		return -EFBIG;
	}
	buf[n] = 0;
	*len = n;
	*text = take_ptr(&buf);
	return 0;
}

int config_load(struct config *c, const char *path)
{
	struct reader rd = {.config = c, .file = path};
	auto_free char *text = NULL;
	size_t len = 0;
	int r = read_file(path, &text, &len);

	if (text)
		r = read_text(&rd, text, len);
	if (r == -ENOMEM)
		log_err("%s: %s", path, strerror(ENOMEM));
	return r;
}

/* ---- printing ---- */

static void print_object(FILE *f, const struct opt_table *t, const void *obj, const char *indent)
{
	const char *sep = "";

	fprintf(f, "{");
	for (unsigned i = 0; i < t->n; i++) {
		const struct opt *o = &t->opts[i];
		char buf[TEXT_MAX], deeper[64];

		if (o->kind == OPT_LATER || o->kind == OPT_IGNORE)
			continue;
		if (o->kind == OPT_STR && !*(char *const *)((const char *)obj + o->offset))
			continue;
		fprintf(f, "%s\n%s  \"%s\": ", sep, indent, o->key);
		sep = ",";
		if (o->kind == OPT_OBJECT) {
			snprintf(deeper, sizeof(deeper), "%s  ", indent);
			print_object(f, o->sub, (const char *)obj + o->offset, deeper);
			continue;
		}
		opt_text(o, obj, buf, sizeof(buf));
		fprintf(f, "%s", buf);
	}
	fprintf(f, "\n%s}", indent);
}

static void print_section(const struct config *c, const struct device_type *type, FILE *f)
{
	const char *sep = type->many ? "[\n    " : "";
	unsigned n = 0;

	for (unsigned i = 0; i < c->ndev; i++)
		n += c->dev[i].type == type;
	if (!n)
		return;
	fprintf(f, ",\n  \"%s\": ", type->section);
	for (unsigned i = 0; i < c->ndev; i++) {
		if (c->dev[i].type != type)
			continue;
		fprintf(f, "%s", sep);
		sep = ",\n    ";
		print_object(f, &type->opts, c->dev[i].cfg, type->many ? "    " : "  ");
	}
	fprintf(f, "%s", type->many ? "\n  ]" : "");
}

void config_print(const struct config *c, FILE *f)
{
	for (unsigned i = 0; i < config_nfixed; i++) {
		fprintf(f, "%s\"%s\": ", i ? ",\n  " : "{\n  ", config_fixed[i].key);
		print_object(f, &config_fixed[i].table, config_fixed_of(c, i), "  ");
	}
	for (unsigned i = 0; device_types[i]; i++)
		print_section(c, device_types[i], f);
	fprintf(f, "\n}\n");
}
