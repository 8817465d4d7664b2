/* tests/ptx/ptx_parse.c - modules: directives, kernels and their statements. Depth 1 is the module,
 * 2 the body of a kernel, more the blocks in it. */
#include <stdlib.h>

#include "tests/ptx/ptx_parse.h"

/* .file 1 "name" */
static void file_directive(ptx_parser *p)
{
    ptx_module *const m = p->module;
    const uint64_t index = ptx_number(p, 9999);
    if (p->token.kind != PTX_T_STRING) {
        ptx_error(p, ".file has no name");
        return;
    }
    while (m->file_count <= index) {
        m->files = ptx_grow(m->files, m->file_count, sizeof *m->files);
        m->files[m->file_count++] = NULL;
    }
    m->files[index] = ptx_name(p, p->token.text, p->token.length);
    ptx_advance(p);
    while (ptx_accept(p, ",")) /* time and size */
        (void)ptx_number(p, UINT64_MAX);
}

/* .loc file line column [, function_name label [+ n], inlined_at file line column] */
static void loc_directive(ptx_parser *p)
{
    ptx_loc l = {.file = (uint32_t)ptx_number(p, 9999),
                 .line = (uint32_t)ptx_number(p, UINT32_MAX)};
    (void)ptx_number(p, UINT32_MAX);
    while (ptx_accept(p, ",")) {
        if (ptx_accept(p, "function_name")) {
            ptx_advance(p);
            if (ptx_accept(p, "+"))
                (void)ptx_number(p, UINT32_MAX);
        } else {
            ptx_expect(p, "inlined_at");
            l.at_file = (uint32_t)ptx_number(p, 9999);
            l.at_line = (uint32_t)ptx_number(p, UINT32_MAX);
            (void)ptx_number(p, UINT32_MAX);
        }
    }
    p->loc = l;
}

static void label_here(ptx_parser *p, const ptx_token *t)
{
    const size_t from = p->scopes[p->depth - 1].labels;
    for (size_t k = from; k < p->label_count; k++)
        if (p->labels[k].length == t->length && memcmp(p->labels[k].name, t->text, t->length) == 0)
            ptx_error(p, "label '%.*s' stands twice", (int)t->length, t->text);
    p->labels = ptx_grow(p->labels, p->label_count, sizeof *p->labels);
    p->labels[p->label_count++] = (ptx_label){t->text, t->length, (uint32_t)p->kernel->code_count};
}

static void guard(ptx_parser *p)
{
    const bool negated = ptx_accept(p, "!");
    ptx_atom a = {.size = 0};
    if (!ptx_lookup(p, p->token.text, p->token.length, &a) || a.kind != PTX_A_REGISTER ||
        a.size != 'p')
        ptx_error(p, "'%.*s' is not a predicate", (int)p->token.length, p->token.text);
    p->guard = a.unit * 2 + negated;
    ptx_advance(p);
}

static void instruction(ptx_parser *p)
{
    p->guard = 0;
    if (ptx_accept(p, "@"))
        guard(p);
    const ptx_token t = p->token;
    if (t.kind != PTX_T_WORD || t.length >= sizeof p->opcode) {
        ptx_error(p, "'%.*s' is not an instruction", (int)t.length, t.text);
        return;
    }
    memcpy(p->opcode, t.text, t.length);
    p->opcode[t.length] = 0;
    p->loc.ptx_line = p->line;
    ptx_advance(p);
    if (!p->guard && ptx_accept(p, ":")) {
        label_here(p, &t);
        return;
    }
    p->instruction_line = p->loc.ptx_line;
    ptx_operands(p);
    if (!p->failed)
        ptx_lower(p);
    p->instruction_line = 0;
}

static void statement(ptx_parser *p)
{
    if (ptx_accept(p, "{")) {
        ptx_open(p);
    } else if (ptx_accept(p, ".reg")) {
        ptx_registers(p);
    } else if (ptx_is(p, ".shared") || ptx_is(p, ".local") || ptx_is(p, ".param")) {
        ptx_variable(p);
    } else if (ptx_accept(p, ".loc")) {
        loc_directive(p);
    } else if (ptx_accept(p, ".pragma")) {
        while (!p->failed && !ptx_is(p, ";") && p->token.kind != PTX_T_END)
            ptx_advance(p);
        ptx_expect(p, ";");
    } else if (!ptx_accept(p, ";")) {
        instruction(p);
    }
}

/* The parameter list: name, place and size of each. */
static void parameter(ptx_parser *p)
{
    ptx_kernel *const k = p->kernel;
    ptx_expect(p, ".param");
    uint32_t align = 1;
    if (ptx_accept(p, ".align"))
        align = (uint32_t)ptx_number(p, 256);
    const uint32_t each =
        p->token.kind == PTX_T_WORD ? ptx_type_bytes(p->token.text, p->token.length) : 0;
    ptx_advance(p);
    if (ptx_accept(p, ".ptr")) {
        if (!ptx_is(p, ".align"))
            ptx_advance(p); /* the space */
        if (ptx_accept(p, ".align"))
            (void)ptx_number(p, UINT32_MAX);
    }
    const ptx_token name = p->token;
    ptx_advance(p);
    uint64_t bytes = each;
    if (ptx_accept(p, "[")) {
        bytes *= ptx_number(p, PTX_PARAM_MOST);
        ptx_expect(p, "]");
    }
    if (each == 0 || align == 0 || (align & (align - 1)) || name.kind != PTX_T_WORD)
        ptx_error(p, "a parameter that is not understood");
    if (p->failed)
        return;
    align = align > each ? align : each;
    const size_t at = (k->bytes + align - 1) / align * align;
    if (at + bytes > PTX_PARAM_MOST)
        ptx_error(p, "more than %d bytes of parameters", PTX_PARAM_MOST);
    k->bytes = at + bytes;
    k->params = ptx_grow(k->params, k->param_count, sizeof *k->params);
    k->params[k->param_count++] =
        (ptx_param){ptx_name(p, name.text, name.length), (uint32_t)at, (uint32_t)bytes};
    ptx_declare(p, (ptx_symbol){
                       .kind = PTX_S_PARAM, .name = name.text, .length = name.length, .value = at});
}

/* .maxntid and the like, between the parameters and the body. */
static void performance(ptx_parser *p)
{
    ptx_kernel *const k = p->kernel;
    while (!p->failed && !ptx_is(p, "{")) {
        const bool required = ptx_is(p, ".reqntid");
        if (ptx_accept(p, ".maxntid") || ptx_accept(p, ".reqntid")) {
            k->required |= required;
            for (int d = 0; d < 3; d++)
                k->most[d] = d == 0 || ptx_accept(p, ",") ? (uint32_t)ptx_number(p, 1024) : 1;
        } else if (ptx_accept(p, ".minnctapersm") || ptx_accept(p, ".maxnreg") ||
                   ptx_accept(p, ".maxclusterrank")) {
            (void)ptx_number(p, 1024);
        } else {
            ptx_error(p, "directive '%.*s' is not known", (int)p->token.length, p->token.text);
        }
    }
}

static void entry(ptx_parser *p)
{
    ptx_module *const m = p->module;
    m->kernels = ptx_grow(m->kernels, m->kernel_count, sizeof *m->kernels);
    ptx_kernel *const k = p->kernel = &m->kernels[m->kernel_count];
    *k = (ptx_kernel){.module = m, .units = PTX_REG_OWN, .shared = m->shared};
    if (p->token.kind != PTX_T_WORD) {
        ptx_error(p, "a kernel has no name");
        return;
    }
    k->name = ptx_name(p, p->token.text, p->token.length);
    m->kernel_count++;
    ptx_advance(p);
    ptx_open(p);
    if (ptx_accept(p, "(") && !ptx_accept(p, ")")) {
        do
            parameter(p);
        while (ptx_accept(p, ","));
        ptx_expect(p, ")");
    }
    performance(p);
    ptx_expect(p, "{");
    while (!p->failed && p->depth > 1) {
        if (!ptx_accept(p, "}"))
            statement(p);
        else if (p->depth == 2 && (p->opcode[0] = 0, p->guard = 0, true)) {
            ptx_lower_ret(p); /* what falls off the end ends too */
            ptx_close(p);
        } else
            ptx_close(p);
        if (p->token.kind == PTX_T_END && p->depth > 1)
            ptx_error(p, "the text ends inside of kernel '%s'", k->name);
    }
    k->ran = calloc(k->code_count + 1, 1);
    k->file = ptx_file_new();
    if (!k->ran)
        abort();
    p->kernel = NULL;
}

static void top_level(ptx_parser *p)
{
    if (ptx_accept(p, ".version")) {
        ptx_advance(p);
    } else if (ptx_accept(p, ".target")) {
        do
            ptx_advance(p);
        while (ptx_accept(p, ","));
    } else if (ptx_accept(p, ".address_size")) {
        if (ptx_number(p, 64) != 64)
            ptx_error(p, "only 64-bit addresses are known");
    } else if (ptx_accept(p, ".visible") || ptx_accept(p, ".extern") || ptx_accept(p, ".weak")) {
        ; /* they say something to a linker */
    } else if (ptx_accept(p, ".entry")) {
        entry(p);
    } else if (ptx_accept(p, ".file")) {
        file_directive(p);
    } else if (ptx_is(p, ".global") || ptx_is(p, ".const") || ptx_is(p, ".shared")) {
        ptx_variable(p);
    } else if (ptx_accept(p, ".func")) { /* a declaration; a call of it is a fault */
        while (!p->failed && !ptx_is(p, ";") && !ptx_is(p, "{") && p->token.kind != PTX_T_END)
            ptx_advance(p);
        if (!ptx_accept(p, ";"))
            ptx_error(p, "a function that is not inlined is not supported");
    } else if (ptx_accept(p, ".section")) { /* debug information */
        while (!p->failed && !ptx_is(p, "}") && p->token.kind != PTX_T_END)
            ptx_advance(p);
        ptx_expect(p, "}");
    } else if (!ptx_accept(p, ";")) {
        ptx_error(p, "'%.*s' is not known here", (int)p->token.length, p->token.text);
    }
}

static void release(ptx_module *m)
{
    for (size_t k = 0; k < m->kernel_count; k++) {
        free(m->kernels[k].code);
        free(m->kernels[k].ran);
        ptx_file_free(m->kernels[k].file);
        free(m->kernels[k].params);
    }
    for (size_t k = 0; k < m->name_count; k++)
        free(m->names[k]);
    free(m->kernels);
    free(m->names);
    free(m->pool);
    free(m->fixed);
    free(m->defined);
    free(m->locs);
    free(m->files);
    free(m->constants);
    free(m->text);
    free(m);
}

void ptx_modules_free(ptx_machine *machine)
{
    while (machine->modules) {
        ptx_module *const m = machine->modules;
        machine->modules = m->next;
        release(m);
    }
}

ptx_module *ptx_load(ptx_machine *machine, const char *text, size_t bytes)
{
    ptx_module *const m = calloc(1, sizeof *m);
    ptx_parser *const p = calloc(1, sizeof *p);
    if (!m || !p || !(m->text = malloc(bytes + 1)))
        abort();
    memcpy(m->text, text, bytes);
    m->text[bytes] = 0; /* symbols point into it */
    m->machine = machine;
    *p = (ptx_parser){
        .machine = machine, .module = m, .at = m->text, .end = m->text + bytes, .line = 1};
    ptx_open(p);
    ptx_advance(p);
    while (!p->failed && p->token.kind != PTX_T_END)
        top_level(p);
    if (!p->failed && m->kernel_count == 0)
        ptx_error(p, "the text holds no kernel");
    m->defined = calloc(m->fixed_count + 2, sizeof *m->defined);
    const bool failed = p->failed || !m->defined;
    free(p->symbols);
    free(p->labels);
    free(p->branches);
    free(p);
    if (failed) {
        release(m);
        return NULL;
    }
    m->next = machine->modules;
    machine->modules = m;
    return m;
}

const ptx_kernel *ptx_find(const ptx_module *module, const char *name)
{
    for (size_t k = 0; k < module->kernel_count; k++)
        if (strcmp(module->kernels[k].name, name) == 0)
            return &module->kernels[k];
    return NULL;
}

bool ptx_trace(const ptx_kernel *kernel, uint8_t *ran, size_t lines)
{
    const bool any = memchr(kernel->ran, 1, kernel->code_count) != NULL;
    for (size_t k = 0; any && k < kernel->code_count; k++) {
        const uint32_t line = kernel->module->locs[kernel->code[k].loc].ptx_line;
        if (!kernel->ran[k])
            continue;
        kernel->ran[k] = 0;
        if (line < lines)
            ran[line] = 1;
    }
    return any;
}

const ptx_kernel *ptx_kernel_at(const ptx_module *module, size_t index)
{
    return index < module->kernel_count ? &module->kernels[index] : NULL;
}

const char *ptx_kernel_name(const ptx_kernel *kernel)
{
    return kernel->name;
}

size_t ptx_kernel_bytes(const ptx_kernel *kernel)
{
    return kernel->bytes;
}

uint32_t ptx_kernel_shared(const ptx_kernel *kernel)
{
    return kernel->shared;
}

uint32_t ptx_kernel_local(const ptx_kernel *kernel)
{
    return kernel->local;
}
