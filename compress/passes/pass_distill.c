#include "compress/passes/passes_internal.h"
#include "compress/passes/training.h"

enum {
    TOKENS,
    BATCH,
    RATE,
    LAST,
    WARMUP,
    SCHEDULE,
    DECAY,
    CLIP,
    KL,
    CE,
    REVERSE_KL,
    JSD,
    SKEW_KL,
    SKEW_REVERSE_KL,
    TOTAL_VARIATION,
    SINKHORN,
    HIDDEN,
    RELATIONS,
    ATTENTION,
    TEMPERATURE,
    BETA,
    SCALED,
    SKEW,
    PIECES,
    TEACHER_TOP,
    LAMBDA,
    SAMPLING,
    TEACHER_SHARE,
    PRECISION,
    MOMENTS,
    SAVE,
    AWARE,
    WINDOWS,
    EMBEDDINGS
};

static const pare_word schedules[] = {{"cosine", PARE_DECAY_COSINE},
                                      {"linear", PARE_DECAY_LINEAR},
                                      {"constant", PARE_DECAY_CONSTANT},
                                      {0}};

enum { F32, BF16 };
static const pare_word precisions[] = {{"f32", F32}, {"bf16", BF16}, {0}};

static const pare_word moments[] = {{"f32", 0}, {"8bit", 1}, {0}};

// clang-format off
static const pare_param params[] = {
    [TOKENS] = {.name = "tokens", .type = PARE_PARAM_INTEGER, .min = 1, .max = 1e12,
        .fallback = 262144,
        .help = "tokens to train on, rounded up to whole steps; each window comes once before any comes "
                "again"},
    [BATCH] = {.name = "batch", .type = PARE_PARAM_INTEGER, .min = 1, .max = 65536, .fallback = 8,
        .help = "windows in a step"},
    [RATE] = {.name = "rate", .type = PARE_PARAM_NUMBER, .min = 1e-8, .max = 1, .fallback = 1e-4,
        .help = "the largest learning rate; 2e-4 to 3e-4 suits pruned weights and codes of 2 bits, "
                "1e-4 or less codes of 3 bits"},
    [LAST] = {.name = "last", .type = PARE_PARAM_NUMBER, .min = 0, .max = 1, .fallback = 0.1,
        .help = "the learning rate at the end, as a share of rate"},
    [WARMUP] = {.name = "warmup", .type = PARE_PARAM_NUMBER, .min = 0, .max = 1, .fallback = 0.05,
        .help = "share of the steps in which the learning rate rises linearly"},
    [SCHEDULE] = {.name = "schedule", .type = PARE_PARAM_CHOICE, .fallback = PARE_DECAY_COSINE,
        .words = schedules, .help = "how the learning rate falls after the warm-up"},
    [DECAY] = {.name = "weight_decay", .type = PARE_PARAM_NUMBER, .min = 0, .max = 10,
        .fallback = 0, .help = "decoupled weight decay of AdamW"},
    [CLIP] = {.name = "clip", .type = PARE_PARAM_NUMBER, .min = 0, .max = 1e6, .fallback = 1,
        .help = "largest norm of the gradient of a step; larger ones are scaled down; 0: no limit"},
    [KL] = {.name = "kl", .type = PARE_PARAM_NUMBER, .min = 0, .max = 1000, .fallback = 1,
        .help = "weight of KL(teacher, student): the student covers all that the teacher says"},
    [CE] = {.name = "ce", .type = PARE_PARAM_NUMBER, .min = 0, .max = 1000, .fallback = 0,
        .help = "weight of the cross-entropy of the next token of the text"},
    [REVERSE_KL] = {.name = "reverse_kl", .type = PARE_PARAM_NUMBER, .min = 0, .max = 1000,
        .fallback = 0, .help = "weight of KL(student, teacher): the student avoids what the "
                               "teacher would not say"},
    [JSD] = {.name = "jsd", .type = PARE_PARAM_NUMBER, .min = 0, .max = 1000, .fallback = 0,
        .help = "weight of the generalized Jensen-Shannon divergence, which lies between these two: "
                "b KL(p, m) + (1 - b) KL(q, m), m = b p + (1 - b) q, b is beta; p is the teacher's "
                "distribution, q the student's"},
    [SKEW_KL] = {.name = "skew_kl", .type = PARE_PARAM_NUMBER, .min = 0, .max = 1000, .fallback = 0,
        .help = "weight of KL(p, a p + (1 - a) q), a is skew: kl with bounded gradients (DistiLLM)"},
    [SKEW_REVERSE_KL] = {.name = "skew_reverse_kl", .type = PARE_PARAM_NUMBER, .min = 0,
        .max = 1000, .fallback = 0,
        .help = "weight of KL(q, (1 - a) p + a q), a is skew: reverse_kl likewise"},
    [TOTAL_VARIATION] = {.name = "total_variation", .type = PARE_PARAM_NUMBER, .min = 0,
        .max = 1000, .fallback = 0,
        .help = "weight of sum |p - q| / 2: the share of a student's draft that the teacher rejects"},
    [SINKHORN] = {.name = "sinkhorn", .type = PARE_PARAM_NUMBER, .min = 0, .max = 1000, .fallback = 0,
        .help = "weight of the cost, for each row, of carrying the predictions q_i of 64 tokens that "
                "stand side by side (windows behind one another, tokens that do not count left out) "
                "over to the teacher's p_j: sum_ij P_ij sum |q_i - p_j|, P from e^(-10 sum |q_i - "
                "p_j|) by 20 times making the sums of its rows, then of its columns 1; the gradient "
                "passes through all of that (SinKD)"},
    [HIDDEN] = {.name = "hidden", .type = PARE_PARAM_NUMBER, .min = 0, .max = 1000, .fallback = 0,
        .help = "weight of the mean difference between the outputs of blocks, relative to the "
                "teacher's; where widths differ, behind a matrix that is trained with the student "
                "and thrown away (TinyBERT)"},
    [RELATIONS] = {.name = "relations", .type = PARE_PARAM_NUMBER, .min = 0, .max = 1000,
        .fallback = 0,
        .help = "weight of the mean KL(Rt, Rs) of relations between the tokens x_j, j <= i, of a window "
                "in the last block: R_ij = softmax_j(<x_i, x_j> / sqrt(width of a piece)), x being "
                "queries, keys (both before RoPE) and values, cut into pieces (MiniLMv2; there also "
                "for other blocks); widths may differ"},
    [ATTENTION] = {.name = "attention", .type = PARE_PARAM_NUMBER, .min = 0, .max = 1000,
        .fallback = 0,
        .help = "weight of the mean squared difference between scores of attention, before cap and softmax, "
                "of all heads and of tokens j <= i that both see, in block b of N of the student and "
                "block (b + 1) M / N - 1 of M of the teacher, mean over blocks; heads must be equally "
                "many (TinyBERT)"},
    [TEMPERATURE] = {.name = "temperature", .type = PARE_PARAM_NUMBER, .min = 0.1, .max = 100,
        .fallback = 1, .help = "T of the softmax of both models in the losses of their predictions; the loss "
                               "is times T^2, total_variation and sinkhorn times T"},
    [BETA] = {.name = "beta", .type = PARE_PARAM_NUMBER, .min = 0.001, .max = 0.999,
        .fallback = 0.5, .help = "for jsd: the teacher's share of the mixture"},
    [SCALED] = {.name = "scaled", .type = PARE_PARAM_BOOL, .fallback = 0,
        .help = "for jsd: divided by b (1 - b); near 0 it is then kl, near 1 reverse_kl"},
    [SKEW] = {.name = "skew", .type = PARE_PARAM_NUMBER, .min = 0.001, .max = 0.999, .fallback = 0.1,
        .help = "for skew_kl and skew_reverse_kl: a, the share that is mixed in"},
    [PIECES] = {.name = "pieces", .type = PARE_PARAM_INTEGER, .min = 0, .max = 65536, .fallback = 0,
        .help = "for relations: into how many equal pieces queries, keys and values are cut; 0: as "
                "many as the student has key heads"},
    [TEACHER_TOP] = {.name = "teacher_top", .type = PARE_PARAM_INTEGER, .min = 0, .max = 65536,
        .fallback = 0,
        .help = "for kl alone: how many of the teacher's largest probabilities of each token are kept in "
                "memory (8 bytes each, and 4 for the sum of the others, which count as one token), so "
                "that it runs once over each window; pays where tokens are more than the data has; 0: "
                "it runs each time"},
    [LAMBDA] = {.name = "lambda", .type = PARE_PARAM_NUMBER, .min = 0, .max = 1, .fallback = 0,
        .help = "chance of a step to learn from the student's own samples (GKD): the second half of each "
                "window is drawn anew before the step; its tokens are compared with the teacher, ce "
                "has no part, and no gradient passes through the drawing; such a step takes longer"},
    [SAMPLING] = {.name = "sampling", .type = PARE_PARAM_NUMBER, .min = 0.01, .max = 100,
        .fallback = 0.9, .help = "for lambda: the temperature at which the student draws"},
    [TEACHER_SHARE] = {.name = "teacher_share", .type = PARE_PARAM_NUMBER, .min = 0, .max = 1,
        .fallback = 0, .help = "for lambda: chance of each drawn token to be drawn by the teacher instead; 0.2 with "
            "reverse_kl: 1 and ce: 0 is the single-step part of MiniLLM, without its policy gradient"},
    [PRECISION] = {.name = "precision", .type = PARE_PARAM_CHOICE, .fallback = F32,
        .words = precisions,
        .help = "of the products of linears, there and back; bf16: both sides are rounded to BF16 and "
                "summed in F32, which CPUs with AMX do much faster and others do not; weights and "
                "states stay in F32, and every CPU gives the same bytes"},
    [MOMENTS] = {.name = "moments", .type = PARE_PARAM_CHOICE, .fallback = 0, .words = moments,
        .help = "how AdamW keeps its two moments: f32; 8bit: in 8 bits with a scale for each 256 (Dettmers "
                "et al., 2021), but those of embeddings and of less than 4096 weights; 6 bytes less "
                "of memory for each weight"},
    [SAVE] = {.name = "save", .type = PARE_PARAM_NUMBER, .min = 0, .max = 1e6, .fallback = 10,
        .help = "minutes from one saved state of the training to the next; a job that was killed "
                "goes on from the last one, one that was interrupted (^C) from its last step; 0: save "
                "after each step"},
    [AWARE] = {.name = "aware", .type = PARE_PARAM_BOOL, .fallback = 0,
        .help = "true: also trains what quantizers before it quantized, with the codes in place: "
                "the student computes with what will be stored"},
    [WINDOWS] = {.name = "windows", .type = PARE_PARAM_INTEGER, .min = 0, .max = 1e9, .fallback = 0,
        .help = "windows to train on: those of calibration:, and others of the same data, spread evenly; "
                "0: only those of calibration:"},
    [EMBEDDINGS] = {.name = "embeddings", .type = PARE_PARAM_BOOL, .fallback = 0,
        .help = "true: also trains the embeddings, of tokens and positions, and the head; they are "
                "stored in the type that they have, or quantized afterwards"},
    {.name = NULL},
};
// clang-format on

void pare_training_params(pare_param out[PARE_PARAMS_MAX + 1])
{
    for (size_t i = 0; i < AWARE; i++)
        out[i] = params[i];
    out[CE].fallback = 1;
    out[KL].fallback = 0;
    out[AWARE] = (pare_param){.name = NULL};
}

void pare_training_opts(const double *value, size_t window, pare_train_opts *out)
{
    const double step = value[BATCH] * (double)window;
    const size_t steps = (size_t)((value[TOKENS] + step - 1) / step);
    *out = (pare_train_opts){.losses = {.ce = value[CE],
                                        .kl = value[KL],
                                        .reverse_kl = value[REVERSE_KL],
                                        .jsd = value[JSD],
                                        .skew_kl = value[SKEW_KL],
                                        .skew_reverse_kl = value[SKEW_REVERSE_KL],
                                        .total_variation = value[TOTAL_VARIATION],
                                        .sinkhorn = value[SINKHORN],
                                        .hidden = value[HIDDEN],
                                        .relations = value[RELATIONS],
                                        .attention = value[ATTENTION],
                                        .pieces = (size_t)value[PIECES],
                                        .temperature = value[TEMPERATURE],
                                        .beta = value[BETA],
                                        .skew = value[SKEW],
                                        .scaled = value[SCALED] != 0.0},
                             .adamw = {.beta1 = 0.9,
                                       .beta2 = 0.95,
                                       .eps = 1e-8,
                                       .decay = value[DECAY],
                                       .clip = value[CLIP]},
                             .schedule = {.peak = value[RATE],
                                          .last = value[RATE] * value[LAST],
                                          .warmup = (size_t)(value[WARMUP] * (double)steps),
                                          .steps = steps,
                                          .decay = (pare_decay)value[SCHEDULE]},
                             .batch = (size_t)value[BATCH],
                             .teacher_top = (size_t)value[TEACHER_TOP],
                             .lambda = value[LAMBDA],
                             .temperature = value[SAMPLING],
                             .teacher_share = value[TEACHER_SHARE],
                             .save_minutes = value[SAVE],
                             .bf16 = value[PRECISION] != F32,
                             .moments8 = value[MOMENTS] != 0.0,
                             .aware = value[AWARE] != 0.0,
                             .windows = (size_t)value[WINDOWS],
                             .embeddings = value[EMBEDDINGS] != 0.0};
}

const pare_pass pare_pass_distill = {
    .name = "distill",
    .summary = "trains what pruners or quantizers left, to bring the predictions of the model back",
    .source =
        "Hinton, Vinyals, Dean, 2015; Gu et al., MiniLLM, 2023; Agarwal et al., GKD, 2023; "
        "Ko et al., DistiLLM, 2024; Cui et al., SinKD, 2024; Jiao et al., TinyBERT, 2019; "
        "Wang et al., MiniLMv2, 2021; "
        "Loshchilov, Hutter, 2017 (AdamW); Esser et al., LSQ, 2020; Chen et al., EfficientQAT, "
        "2024; Ma et al., BitNet b1.58, 2024; Tseng et al., QuIP#, 2024 (scales of exl3)",
    .notes =
        "distill comes after pruners and runs once all blocks are pruned. It trains every linear\n"
        "that was pruned; a weight that is 0 stays 0. Without a pass in front of it, or with\n"
        "structured ones alone (flap, depth, reap, ...), it trains every linear that\n"
        "quantizers behind it take. With \"embeddings: true\" embeddings and head learn, too,\n"
        "which costs no byte of the artifact. Norms, biases and all other linears stay as they\n"
        "are. The teacher is the recipe's model as it was, in front of structured passes, too;\n"
        "\"original: PATH\" names another. The data are the windows of\n"
        "calibration:, and with \"windows\" more of the same text;\n"
        "the more new text, the better. The optimizer is AdamW with betas 0.9 and 0.95.\n"
        "\n"
        "Of a mixture of experts it trains attention, shared experts and the others, each with\n"
        "the tokens that the router of the student sends to it. Routers stay as they are, so a\n"
        "token may come to other experts as training goes on. All experts are in memory at once.\n"
        "\n"
        "Quantizers may come after it. They work on the trained weights, keep the zeros, and\n"
        "calibrate on what the trained model sees. No other pass may: a recipe with distill has\n"
        "no second distill, and of transforms none but signround and omniquant (scales: false),\n"
        "which with \"aware: true\" may stand in front of the quantizer. ebft may stand in front "
        "of\n"
        "it, behind the pruner.\n"
        "\n"
        "With \"aware: true\" quantizers come before it: rtn, gptq, hqq (uniform grids),\n"
        "sparsegpt_joint, ternary, exl3. Their codes are in place while they are trained: the "
        "student\n"
        "computes with the values that will be stored. Gradients pass through rounding to weights\n"
        "in floats, and to the scales of groups: by LSQ where codes are the nearest (rtn, hqq);\n"
        "with the codes as they are where these make up for each other's errors (gptq,\n"
        "signround), as in EfficientQAT. Zero points stay, ternary scales follow the weights.\n"
        "Trellis codes of exl3 stay; the scales of their rows and columns learn, as in QuIP#.\n"
        "What was trained is what is stored.\n"
        "\n"
        "pare always evaluates the result on windows that it holds out: of those that calibration\n"
        "and \"windows\" leave of the data, 32 at most. It reports their KL before and after: a\n"
        "warning where it grew, and with --strict exit code 3. For a short training give\n"
        "\"windows\" all but eight that the data have: fewer are held out then, and measured\n"
        "sooner. Plan and job warn of fewer than eight, which tell little.\n"
        "\n"
        "All trained weights are in memory as F32 with a gradient and two moments: 16 bytes each,\n"
        "21 with codes in place, 6 less with \"moments: 8bit\"; 13 with codes of exl3. Training\n"
        "stops with an error when it diverges. Then take a smaller rate and give the same command\n"
        "again: what is pruned stays, and training begins anew. That holds for every setting of\n"
        "distill; --restart prunes again, too.\n"
        "\n"
        "A job that was killed while it trained keeps the blocks that it pruned. It continues\n"
        "from the last state that it saved, to the same bytes. Its files take 32 bytes of disk\n"
        "(20 with 8-bit moments, 10 with codes of exl3) for each trained weight until the job is\n"
        "done.\n",
    .needs = PARE_FACT_WEIGHTS,
    .params = params,
    .training = pare_training_opts,
};
