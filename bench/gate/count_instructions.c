/*
 * A qemu plugin: how many instructions each function of an emulated program executed.
 *
 * Exact and the same in every run.  On exit it prints a line "function count" per function, by qemu's symbol
 * for the first instruction of each translated block, "?" where there is none.
 *
 * qemu's packages carry no plugin header, so what is used of plugin API version 1 is declared below.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t qemu_plugin_id_t;
typedef struct qemu_info_t qemu_info_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum { ADD_TO_U64 = 0 };

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
                                           void (*translated)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *tb, int operation, void *counter, uint64_t n);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, void (*finished)(qemu_plugin_id_t, void *), void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
const char *qemu_plugin_insn_symbol(const struct qemu_plugin_insn *insn);
void qemu_plugin_outs(const char *text);

#define EXPORT __attribute__((visibility("default")))
EXPORT int qemu_plugin_version = 1;
EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv);

typedef struct function {
    struct function *next;
    uint64_t count; /* qemu's code adds to it */
    char name[];
} function;

static function *functions;

static function *find(const char *name) {
    for (function *f = functions; f; f = f->next)
        if (!strcmp(f->name, name))
            return f;

    function *f = calloc(1, sizeof *f + strlen(name) + 1);
    if (!f)
        abort();
    strcpy(f->name, name);
    f->next = functions;
    return functions = f;
}

static void count_block(qemu_plugin_id_t id, struct qemu_plugin_tb *tb) {
    const char *symbol = qemu_plugin_insn_symbol(qemu_plugin_tb_get_insn(tb, 0));

    (void)id;
    qemu_plugin_register_vcpu_tb_exec_inline(tb, ADD_TO_U64, &find(symbol && *symbol ? symbol : "?")->count,
                                             qemu_plugin_tb_n_insns(tb));
}

static void print_counts(qemu_plugin_id_t id, void *data) {
    char line[512];

    (void)id;
    (void)data;
    for (const function *f = functions; f; f = f->next) {
        snprintf(line, sizeof line, "%.400s %" PRIu64 "\n", f->name, f->count);
        qemu_plugin_outs(line);
    }
}

int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv) {
    (void)info;
    (void)argc;
    (void)argv;
    qemu_plugin_register_vcpu_tb_trans_cb(id, count_block);
    qemu_plugin_register_atexit_cb(id, print_counts, NULL);
    return 0;
}
