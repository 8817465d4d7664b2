/* tests/ptx/ptx_parse.h - from PTX text to records: tokens, symbols, operands. After the first
 * error the text ends for the parser, so that every loop comes to its end. */
#ifndef PARE_TESTS_PTX_PARSE_H
#define PARE_TESTS_PTX_PARSE_H

#include "tests/ptx/ptx_memory.h"

typedef enum ptx_token_kind {
    PTX_T_END,
    PTX_T_WORD,
    PTX_T_NUMBER,
    PTX_T_F32,
    PTX_T_F64,
    PTX_T_STRING,
    PTX_T_SIGN
} ptx_token_kind;

typedef struct ptx_token {
    ptx_token_kind kind;
    const char *text; /* not 0-terminated */
    size_t length;
    uint64_t value; /* of numbers; the character of a sign */
} ptx_token;

typedef enum ptx_symbol_kind {
    PTX_S_REGISTER,
    PTX_S_RANGE,
    PTX_S_SHARED,
    PTX_S_DYNAMIC,
    PTX_S_LOCAL,
    PTX_S_GLOBAL,
    PTX_S_CONST,
    PTX_S_PARAM
} ptx_symbol_kind;

typedef struct ptx_symbol {
    ptx_symbol_kind kind;
    const char *name;
    size_t length;
    char size;      /* of a register: p, 2, 4, 8 */
    uint32_t count; /* of a range */
    uint64_t value; /* the first unit, or the address or offset */
} ptx_symbol;

typedef struct ptx_label {
    const char *name;
    size_t length;
    uint32_t pc; /* where it stands, or the branch that names it */
} ptx_label;

typedef enum ptx_atom_kind {
    PTX_A_REGISTER,
    PTX_A_NUMBER,
    PTX_A_F32,
    PTX_A_F64,
    PTX_A_SYMBOL,
    PTX_A_SINK,
    PTX_A_WORD
} ptx_atom_kind;

typedef struct ptx_atom {
    ptx_atom_kind kind;
    char size;      /* of a register */
    bool negated;   /* !p */
    uint32_t unit;  /* of a register */
    uint64_t value; /* of a number or symbol */
    ptx_symbol_kind symbol;
    const char *text; /* of a word */
    size_t length;
} ptx_atom;

enum { PTX_OPERANDS = 10, PTX_ATOMS = 132, PTX_SCOPES = 32 };

typedef struct ptx_operand {
    enum { PTX_O_PLAIN, PTX_O_MEMORY, PTX_O_VECTOR } form;
    uint32_t first, count; /* in parser->atoms */
    bool paired;           /* d|p: the atom after the first */
    int64_t offset;        /* of memory */
} ptx_operand;

typedef struct ptx_scope {
    size_t symbols, labels, branches;
} ptx_scope;

typedef struct ptx_parser {
    ptx_machine *machine;
    ptx_module *module;
    const char *at, *end;
    uint32_t line;
    uint32_t instruction_line; /* of the instruction that is lowered; 0: none */
    bool failed;
    ptx_token token;
    ptx_kernel *kernel; /* whose body is read */
    ptx_symbol *symbols;
    ptx_label *labels, *branches;
    size_t symbol_count, label_count, branch_count, depth;
    ptx_scope scopes[PTX_SCOPES];
    ptx_loc loc;
    ptx_atom atoms[PTX_ATOMS], none;
    size_t atom_count;
    ptx_operand operands[PTX_OPERANDS];
    size_t operand_count;
    char opcode[160];
    uint32_t guard;
} ptx_parser;

/* ---- ptx_lex.c ---- */
void ptx_error(ptx_parser *p, const char *format, ...) PTX_PRINTF(2, 3);
void ptx_advance(ptx_parser *p);
bool ptx_is(const ptx_parser *p, const char *text); /* a word or a sign */
bool ptx_accept(ptx_parser *p, const char *text);
void ptx_expect(ptx_parser *p, const char *text);
uint64_t ptx_number(ptx_parser *p, uint64_t most);              /* a token that is one */
char *ptx_name(ptx_parser *p, const char *text, size_t length); /* a copy that the module owns */

/* ---- ptx_symbol.c ---- */
void ptx_declare(ptx_parser *p, ptx_symbol s);
bool ptx_lookup(ptx_parser *p, const char *text, size_t length, ptx_atom *a);
unsigned ptx_type_bytes(const char *type, size_t length); /* of .u32 and the like; 0: unknown */
void ptx_variable(ptx_parser *p); /* .shared .local .param .global .const, after the guard words */
void ptx_registers(ptx_parser *p);
void ptx_open(ptx_parser *p);
void ptx_close(ptx_parser *p);

/* ---- ptx_lower.c ---- */
const ptx_row *ptx_row_of(ptx_machine *m, const char *opcode); /* NULL: unknown */
void ptx_operands(ptx_parser *p);                              /* up to ; */
void ptx_lower(ptx_parser *p);

/* For what lowers: */
ptx_ins *ptx_emit(ptx_parser *p, ptx_op *run, ptx_class kind);
ptx_atom *ptx_plain(ptx_parser *p, size_t operand);            /* never NULL */
uint32_t ptx_use(ptx_parser *p, const ptx_atom *a, char size); /* a source */
uint32_t ptx_target(ptx_parser *p, const ptx_atom *a, char size);
/* n units of a vector operand, in the pool: where they begin. */
uint32_t ptx_vector(ptx_parser *p, size_t operand, uint32_t n, char size, bool target);
uint32_t ptx_pooled(ptx_parser *p, uint32_t value);
bool ptx_need_operands(ptx_parser *p, size_t least, size_t most);
/* Whether the opcode's words after the first hold this one. */
bool ptx_has(const ptx_parser *p, const char *word);

/* ---- ptx_access.c ---- */
uint32_t ptx_access_words(ptx_parser *p); /* bits of x from the opcode */
uint32_t ptx_address(ptx_parser *p, size_t operand, ptx_space space, uint32_t *x);

typedef void ptx_lowering(ptx_parser *p);
typedef struct ptx_special {
    const char *name; /* the first word of opcodes, or the first two */
    ptx_lowering *lower;
} ptx_special;
ptx_lowering ptx_lower_ld, ptx_lower_st, ptx_lower_atom, ptx_lower_cvta;
ptx_lowering ptx_lower_mov, ptx_lower_setp, ptx_lower_bra, ptx_lower_ret, ptx_lower_trap,
    ptx_lower_bar, ptx_lower_shfl, ptx_lower_vote, ptx_lower_redux, ptx_lower_activemask,
    ptx_lower_match, ptx_lower_bulk, ptx_lower_mbarrier, ptx_lower_warpsync, ptx_lower_mma,
    ptx_lower_ldmatrix, ptx_lower_copy, ptx_lower_policy, ptx_lower_fence, ptx_lower_call,
    ptx_lower_nothing;

#endif
